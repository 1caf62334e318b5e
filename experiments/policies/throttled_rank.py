#!/usr/bin/env python3
"""One rank of four behind a store 25 times slower than the others': throttled_rank.py FOREBAY [--quick] [--json FILE]

Four ranks of `forebay feed` under one mpirun, a trainer that sleeps 20 ms a step and ends every step with an all-reduce
of 4 kB. Each rank has an emulated store of its own: R = 0.8, but R = 20 for the last rank of a throttled run. Each of
  adaptive        the default: policy.name = "adaptive", mpi.mode = "local"
  lockstep        the same with mpi.mode = "lockstep"
  block           every step waits for a fresh batch
runs unthrottled and throttled in turn, again and again, every second time backwards; a change is one within a round.
Figures are medians of the rounds, with the range. `forebay simulate` says the same of 4 ranks, to be compared, and of
512. The exit code is 1 when throttling costs `adaptive` more than 3 % of its step time or the other ranks more than
one fresh step in a hundred."""

import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

RANKS = 4
MANY_RANKS = 512
MANY_STEPS = 10_000  # long enough that the start does not count
R, SLOW_R = 0.8, 20
STEP_MS = 20
BATCH = 4
IMAGES = 2048
LIMIT_S = 300
MOST_COST = 0.03
MOST_HURT = 0.01
RUNS = {"adaptive": ("adaptive", "local"), "lockstep": ("adaptive", "lockstep"), "block": ("block", "local")}

CONFIG = """
[dataset]
format = "folder"
path = "{data}"
batch_size = {batch}
[transform]
crop = "none"
size = [32, 32]
[workers]
io = 4
decode = 1
[policy]
name = "{policy}"
[mpi]
mode = "{mode}"
[telemetry]
dir = ""
interval_s = 0
[trainer]
step_ms = {step_ms}
allreduce_bytes = 4096
"""


class Bench:
    def __init__(self, arguments, folder):
        self.forebay = os.path.abspath(arguments.forebay)
        self.mpiexec = arguments.mpiexec
        self.folder = folder
        self.data = os.path.join(folder, "data")
        subprocess.run([self.forebay, "make-dataset", self.data, "--layout", "folder", "--images", str(IMAGES),
                        "--classes", "2", "--seed", "1", "--size", "64x48"], check=True, stdout=subprocess.DEVNULL,
                       timeout=LIMIT_S)
        images = [os.path.getsize(os.path.join(path, file))
                  for path, _, files in os.walk(self.data) for file in files if file.endswith(".jpg")]
        self.batch_bytes = BATCH * statistics.mean(images)

    def bandwidth(self, ratio):
        """MB/s of a store that delivers a batch in the time of `ratio` steps, in the long run."""
        return f"--set=storage.bandwidth_mb_s={self.batch_bytes / 1e6 / (ratio * STEP_MS / 1000):.9f}"

    def run(self, name, throttled, steps):
        """The summary of the job."""
        policy, mode = RUNS[name]
        config, summary = os.path.join(self.folder, "feed.toml"), os.path.join(self.folder, "summary.json")
        with open(config, "w", encoding="utf-8") as out:
            out.write(CONFIG.format(data=self.data, batch=BATCH, policy=policy, mode=mode, step_ms=STEP_MS))
        feed = [self.forebay, "feed", config, "--quiet", "--steps", str(steps), "--summary", summary]
        command = [self.mpiexec, "--oversubscribe", "--bind-to", "none", "-n", str(RANKS - 1)] + feed
        command += [self.bandwidth(R), ":", "-n", "1"] + feed + [self.bandwidth(SLOW_R if throttled else R)]
        environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        done = subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                              timeout=LIMIT_S, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{name} ended with {done.returncode}: {done.stderr}")
        with open(summary, encoding="utf-8") as file:
            return json.load(file)

    def simulate(self, name, ranks, throttled, steps, source):
        policy, mode = RUNS[name]
        command = [self.forebay, "simulate", "--policy", policy, "--mode", mode, "--source", source, "-R", str(R),
                   "--ranks", str(ranks), "--steps", str(steps), "--no-optimum", "--json", "-"]
        if throttled:
            command += ["--slow-ranks", "1", "--slow-ratio", str(SLOW_R)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=LIMIT_S)
        return json.loads(done.stdout)[0]


def figures(summary):
    ranks = summary["ranks"]
    return {"step_ms": 1000 * statistics.mean(rank["wall_s"] / rank["steps"] for rank in ranks),
            "others": statistics.mean(rank["fresh_fraction"] for rank in ranks[:-1]),
            "least": min(rank["fresh_fraction"] for rank in ranks[:-1]), "last": ranks[-1]["fresh_fraction"],
            "epochs": summary["epochs"], "stall": max(rank["stall_s"] / rank["wall_s"] for rank in ranks),
            "R": [1000 / STEP_MS / rank["produce_rate"] for rank in ranks]}


def predicted(run):
    """The same words for what the simulator says; its steps take a second."""
    return {"step_ms": STEP_MS * run["wall_s"] / run["steps"],
            "others": run.get("other_fresh_fraction", run["fresh_fraction"]),
            "last": run.get("slow_fresh_fraction", run["fresh_fraction"]), "stall": run["stall_s"] / run["wall_s"]}


def one_round(bench, steps, backwards):
    plan = [(name, throttled) for name in RUNS for throttled in (False, True)]
    return {(name, throttled): figures(bench.run(name, throttled, steps[name]))
            for name, throttled in (reversed(plan) if backwards else plan)}


def spread(values, scale=1.0, digits=2):
    low, middle, high = (f"{scale * f(values):.{digits}f}" for f in (min, statistics.median, max))
    return f"{middle} [{low} .. {high}]"


def print_measured(rounds):
    ratios = [statistics.median(r["adaptive", True]["R"][rank] for r in rounds) for rank in range(RANKS)]
    print(f"\nmeasured, {RANKS} ranks; R of the ranks as delivered: {', '.join(f'{ratio:.2f}' for ratio in ratios)}")
    print(f"{'':<9} {'':<11} {'step, ms':<28} {'fresh %, others':<26} {'fresh %, last':<26} {'worst stall, %':<22} "
          f"{'epochs':<7} change of step time, %")
    for name in RUNS:
        for throttled in (False, True):
            of = [r[name, throttled] for r in rounds]
            change = [100 * (r[name, True]["step_ms"] / r[name, False]["step_ms"] - 1) for r in rounds]
            print(f"{name:<9} {'throttled' if throttled else '':<11} {spread([f['step_ms'] for f in of]):<28} "
                  f"{spread([f['others'] for f in of], 100):<26} {spread([f['last'] for f in of], 100):<26} "
                  f"{spread([f['stall'] for f in of], 100):<22} {statistics.median(f['epochs'] for f in of):<7} "
                  f"{spread(change) if throttled else ''}".rstrip())


def print_predicted(bench, steps, ranks, source, rows):
    print(f"\nsimulated, {ranks} ranks, {source} times of batches")
    print(f"{'':<9} {'':<11} {'step, ms':>9} {'fresh %, others':>16} {'fresh %, last':>14} {'stall, %':>9} "
          f"{'change of step time, %':>23}")
    for name in RUNS:
        unthrottled = 0.0
        for throttled in (False, True):
            of = predicted(bench.simulate(name, ranks, throttled, steps[name], source))
            rows.append({"simulated": ranks, "source": source, "run": name, "throttled": throttled, **of})
            change = f"{100 * (of['step_ms'] / unthrottled - 1):.2f}" if throttled else ""
            unthrottled = of["step_ms"]
            print(f"{name:<9} {'throttled' if throttled else '':<11} {of['step_ms']:9.2f} {100 * of['others']:16.2f} "
                  f"{100 * of['last']:14.2f} {100 * of['stall']:9.2f} {change:>23}".rstrip())


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")
    return (f"{len(os.sched_getaffinity(0))} cores of {model}, {datetime.date.today()}, "
            f"load average {os.getloadavg()[0]:.2f}")


def misses(rounds):
    cost = statistics.median(r["adaptive", True]["step_ms"] / r["adaptive", False]["step_ms"] - 1 for r in rounds)
    hurt = statistics.median(r["adaptive", False]["others"] - r["adaptive", True]["others"] for r in rounds)
    if cost > MOST_COST:
        yield f"adaptive: a throttled rank costs {100 * cost:.2f} % of step time, {100 * MOST_COST:.0f} % allowed"
    if hurt > MOST_HURT:
        yield f"adaptive: it costs the others {100 * hurt:.2f} % of fresh steps, {100 * MOST_HURT:.0f} % allowed"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("forebay", help="the command")
    parser.add_argument("--mpiexec", default="mpirun")
    parser.add_argument("--quick", action="store_true", help="two minutes: one round")
    parser.add_argument("--repeats", type=int, help="default: 3; with --quick 1")
    parser.add_argument("--json", metavar="FILE", help="write every figure of every round")
    arguments = parser.parse_args()
    begin = time.monotonic()
    about = machine()
    print(about, flush=True)
    # A throttled `block` takes 0.4 s a step. Epochs of `adaptive` first wait for what the throttled rank had planned.
    steps = {"adaptive": 1200, "lockstep": 400, "block": 60}
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(arguments, folder)
        rounds = [one_round(bench, steps, i % 2 == 1)
                  for i in range(arguments.repeats or (1 if arguments.quick else 3))]
        print_measured(rounds)
        print_predicted(bench, steps, RANKS, "constant", rows)
        for source in ("constant", "exponential"):
            print_predicted(bench, dict.fromkeys(RUNS, MANY_STEPS), MANY_RANKS, source, rows)
    print(f"\n{len(rounds)} rounds, {(time.monotonic() - begin) / 60:.1f} minutes, load average at the end "
          f"{os.getloadavg()[0]:.2f}")
    rows += [{"round": i, "run": name, "throttled": throttled, **of}
             for i, results in enumerate(rounds) for (name, throttled), of in results.items()]
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as out:
            json.dump({"machine": about, "rows": rows}, out, indent=1)
    missed = list(misses(rounds))
    print("\n".join(missed) or f"adaptive: one throttled rank costs no more than {100 * MOST_COST:.0f} % of step time "
          "and takes nothing from the others")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
