#!/usr/bin/env python3
"""How long `forebay feed` takes to end after a signal: stop_latency.py FOREBAY [REPEATS]

For 1, 2 and 4 ranks: SIGTERM to one rank, to all ranks at once, and SIGINT and SIGTERM to mpirun. Where the ranks are
signalled directly, the time from the signal to the end of the last rank is judged (limit 0.5 s). mpirun passes a
signal on about 1 s late, so its cases print the whole time. Each case must leave a summary and no process."""

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

LIMIT_S = 0.5
CONFIG = """
[dataset]
path = "{data}"
batch_size = 16
drop_last = false
[transform]
size = [64, 64]
[telemetry]
dir = "{run}"
interval_s = 0
[trainer]
step_ms = 20
"""


def ended(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
            return ") Z " in stat.read()
    except OSError:
        return True


def wait_until(condition, limit_s=60):
    end = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(0.001)


def ranks_of(process, ranks):
    if ranks == 1:
        return [process.pid]
    with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="utf-8") as children:
        return [int(pid) for pid in children.read().split()]


def size(path):
    return os.path.getsize(path) if os.path.exists(path) else 0


def run_once(forebay, folder, ranks, send):
    """Seconds from the signal to the end of the last rank, and to the end of the whole command."""
    ids, summary = os.path.join(folder, "ids"), os.path.join(folder, "summary.json")
    for rank in range(ranks):
        if os.path.exists(os.path.join(ids, f"ids.{rank}.jsonl")):
            os.remove(os.path.join(ids, f"ids.{rank}.jsonl"))
    if os.path.exists(summary):
        os.remove(summary)
    command = [forebay, "feed", os.path.join(folder, "feed.toml"), "--steps", "1000000", "--quiet", "--log-ids", ids,
               "--summary", summary]
    if ranks > 1:
        command = ["mpirun", "-n", str(ranks), "--oversubscribe", "--bind-to", "none", *command]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        wait_until(lambda: all(size(os.path.join(ids, f"ids.{r}.jsonl")) > 500 for r in range(ranks)))
        pids = ranks_of(process, ranks)
        begin = time.monotonic()
        send(process.pid, pids)
        wait_until(lambda: all(ended(pid) for pid in pids))
        ranks_s = time.monotonic() - begin
        process.wait(60)
        whole_s = time.monotonic() - begin
    with open(summary, encoding="utf-8") as text:
        if len(json.load(text)["ranks"]) != ranks:
            raise RuntimeError("the summary does not have all ranks")
    return ranks_s, whole_s


CASES = {
    "SIGTERM to one rank": lambda mpirun, pids: os.kill(pids[-1], signal.SIGTERM),
    "SIGTERM to all ranks": lambda mpirun, pids: [os.kill(pid, signal.SIGTERM) for pid in pids],
    "SIGINT to mpirun": lambda mpirun, pids: os.kill(mpirun, signal.SIGINT),
    "SIGTERM to mpirun": lambda mpirun, pids: os.kill(mpirun, signal.SIGTERM),
}


def main(forebay, repeats=5):
    forebay = os.path.abspath(forebay)
    if os.geteuid() == 0:
        os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    slow = False
    with tempfile.TemporaryDirectory() as folder:
        data = os.path.join(folder, "data")
        subprocess.run([forebay, "make-dataset", data, "--images", "200", "--classes", "4", "--seed", "1", "--size",
                        "160x120"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with open(os.path.join(folder, "feed.toml"), "w", encoding="utf-8") as config:
            config.write(CONFIG.format(data=data, run=os.path.join(folder, "run")))
        print(f"{'ranks':>5}  {'signal':<22} {'last rank ended, s: median [range]':<36} whole command, s")
        for ranks in (1, 2, 4):
            for name, send in CASES.items():
                if ranks == 1 and "rank" in name:
                    continue
                times = [run_once(forebay, folder, ranks, send) for _ in range(repeats)]
                rank_times = [t[0] for t in times]
                print(f"{ranks:>5}  {name if ranks > 1 else name.replace(' to mpirun', ''):<22} "
                      f"{statistics.median(rank_times):.3f} [{min(rank_times):.3f} .. {max(rank_times):.3f}]"
                      f"{'':<14} {statistics.median(t[1] for t in times):.3f}", flush=True)
                slow = slow or ("rank" in name or ranks == 1) and max(rank_times) > LIMIT_S
    print(f"limit {LIMIT_S} s after the ranks' own signal: {'exceeded' if slow else 'kept'}; no process left over")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *(int(argument) for argument in sys.argv[2:3])))
