#!/usr/bin/env python3
"""Whether SIGKILL at any moment leaves a state that the job can go on from: kill_during_save.py FOREBAY [KILLS]

A job that saves after every step is killed KILLS times (100), at a random moment after it has saved something new, on
one rank, then on two ranks under mpirun, where rank 0 (which writes) and rank 1 are killed in turn. Each part of the
job begins from what the killed part before left: a state that cannot be read would end it with exit code 2 and without
a step. In the end the job is let finish its epoch."""

import glob
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

LIMIT_S = 20
CONFIG = """
[dataset]
path = "{data}"
batch_size = 4
[transform]
size = [24, 32]
[queue]
capacity = 4
[telemetry]
dir = "{run}"
interval_s = 0
[trainer]
step_ms = 0
"""


def wait_until(condition, process):
    end = time.monotonic() + LIMIT_S
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("nothing new was saved")
        if process.poll() is not None:
            raise RuntimeError(f"the job ended by itself with {process.returncode}: its state was not taken")
        time.sleep(0.0005)


def ended(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
            return ") Z " in stat.read()
    except OSError:
        return True


def ranks_of(process, ranks):
    if ranks == 1:
        return [process.pid]
    with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="utf-8") as children:
        return [int(pid) for pid in children.read().split()]


def read_state(path):
    """The state, or nothing when it is no whole line of JSON. Forebay itself checks the checksum when it resumes."""
    try:
        with open(path, encoding="utf-8") as text:
            line = text.read()
        state = json.loads(line)
        return state if line.endswith("\n") and line.count("\n") == 1 and "checksum" in state else None
    except (OSError, ValueError):
        return None


def torn_lines(pattern):
    """Lines of the logs that are no JSON: what a kill cut off. And all lines."""
    torn = lines = 0
    for path in glob.glob(pattern):
        with open(path, encoding="utf-8") as log:
            for line in log:
                lines += 1
                try:
                    json.loads(line)
                except ValueError:
                    torn += 1
    return torn, lines


def command(forebay, folder, ranks, state, more):
    base = [forebay, "feed", os.path.join(folder, "feed.toml"), "--quiet", "--state", state, "--save-every", "1", *more]
    if ranks > 1:
        base = ["mpirun", "-n", str(ranks), "--oversubscribe", "--bind-to", "none", *base]
    return base


def kill_once(forebay, folder, ranks, state, victim, steps_before):
    """The time from the kill to the end of the whole job, in seconds."""
    with subprocess.Popen(command(forebay, folder, ranks, state, ["--epochs", "1000000"]), stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as process:
        try:
            wait_until(lambda: ((read_state(state) or {}).get("steps", 0)) > steps_before, process)
            time.sleep(random.random() * 0.01)
            pids = ranks_of(process, ranks)
            begin = time.monotonic()
            os.kill(pids[victim], signal.SIGKILL)
            process.wait(LIMIT_S)
            while not all(ended(pid) for pid in pids):
                if time.monotonic() > begin + LIMIT_S:
                    raise TimeoutError("a rank is left")
                time.sleep(0.001)
            return time.monotonic() - begin
        finally:
            if process.poll() is None:
                process.kill()


def run_case(forebay, folder, ranks, kills):
    run = os.path.join(folder, f"run{ranks}")
    state = os.path.join(run, "feed.state")
    with open(os.path.join(folder, "feed.toml"), "w", encoding="utf-8") as config:
        config.write(CONFIG.format(data=os.path.join(folder, "data"), run=run))
    steps = readable = unfinished = 0
    longest_s = 0.0
    for kill in range(kills):
        longest_s = max(longest_s, kill_once(forebay, folder, ranks, state, kill % ranks, steps))
        saved = read_state(state)
        if saved is None or saved["steps"] <= steps:
            continue
        readable += 1
        steps = saved["steps"]
        unfinished += len(glob.glob(state + ".saving-*"))
    epochs = str(read_state(state)["epochs"] + 1)
    done = subprocess.run(command(forebay, folder, ranks, state, ["--epochs", epochs]), stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, timeout=120, check=False).returncode
    left = len(glob.glob(state + ".saving-*"))
    torn, lines = torn_lines(os.path.join(run, "steps.*.jsonl"))
    print(f"{ranks:>5}  {kills:>5}  {readable:>8}  {unfinished:>9}  {steps:>7}  {longest_s:>9.2f}  {done:>8}  {left:>4}"
          f"  {torn} of {lines}", flush=True)
    return readable == kills and done == 0 and left == 0


def main(forebay, kills=100):
    forebay = os.path.abspath(forebay)
    random.seed(29)
    if os.geteuid() == 0:
        os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([forebay, "make-dataset", os.path.join(folder, "data"), "--images", "40", "--classes", "4",
                        "--seed", "3", "--size", "96x72"], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        print("ranks  kills  readable  in a save  steps    ended, s  finished  left  torn log lines")
        sound = [run_case(forebay, folder, ranks, kills) for ranks in (1, 2)]
    print("every kill left a whole state" if all(sound) else "a kill left no whole state, or more")
    return 0 if all(sound) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *(int(argument) for argument in sys.argv[2:3])))
