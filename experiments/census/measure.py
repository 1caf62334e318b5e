#!/usr/bin/env python3
"""What the census of ranks adds to next(), and how often it is complete when it is needed:
measure.py BENCH_NEXT_CENSUS [--quick] [--repeats N] [--json FILE]

A real feeder over a dataset in memory, steps that sleep 1 to 2 ms (or spin for 20 us), 1, 2 and 4 ranks. Each number of
ranks runs with the census and, as many processes at the same time, without (the feeder knows of no other rank); with
and without an all-reduce of 4 kB that ends every step of the trainer. All of them in turn, again and again, every
second time backwards. What the census adds is a difference within one round. Figures are medians of the rounds, with
the range."""

import argparse
import datetime
import glob
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

WARM_STEPS = 100
LIMIT_S = 120
LAG = 2
SOON_NS = 10_000  # nobody was behind: MPI only needed to be called once more
# ranks, all-reduce, mpi.lag, what a step does
JOBS = [(ranks, allreduce, LAG, "sleep") for allreduce in (True, False) for ranks in (1, 2, 4)]
JOBS += [(4, False, 8, "sleep"), (2, True, LAG, "spin")]


class Run:
    """All ranks of one run, their steps pooled."""

    def __init__(self, folder):
        self.next_ns, self.waits_ns, self.step_s = [], [], []
        for rank in sorted(glob.glob(os.path.join(folder, "*"))):
            with open(os.path.join(rank, "next_ns.json"), encoding="utf-8") as file:
                self.next_ns += json.load(file)[WARM_STEPS:]
            with open(glob.glob(os.path.join(rank, "steps.*.jsonl"))[0], encoding="utf-8") as file:
                steps = [json.loads(line) for line in file][WARM_STEPS:]
            self.waits_ns += [1e9 * step["census_wait_s"] for step in steps]
            self.step_s.append((steps[-1]["t_s"] - steps[0]["t_s"]) / (len(steps) - 1))


def percentile(values, share):
    return sorted(values)[int(share * (len(values) - 1))] if values else 0.0


def figures(run):
    waited = [wait for wait in run.waits_ns if wait > 0]
    return {"p50": percentile(run.next_ns, 0.5), "p99": percentile(run.next_ns, 0.99),
            "p999": percentile(run.next_ns, 0.999),
            "complete": 1 - len(waited) / len(run.waits_ns),
            "soon": sum(wait <= SOON_NS for wait in run.waits_ns) / len(run.waits_ns),
            "waited_p50": percentile(waited, 0.5), "waited_p99": percentile(waited, 0.99),
            "waited_max": max(waited, default=0.0), "wait_mean": statistics.mean(run.waits_ns),
            "step_ms": 1000 * statistics.mean(run.step_s)}


def start(bench, mpiexec, job, mode, steps):
    ranks, allreduce, lag, step = job
    with tempfile.TemporaryDirectory() as folder:
        command = [bench, folder, str(steps), str(lag), mode, "allreduce" if allreduce else "none", step]
        if ranks > 1 or mode == "census" or allreduce:
            command = [mpiexec, "-n", str(ranks), "--oversubscribe", "--bind-to", "none"] + command
        environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        done = subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                              timeout=LIMIT_S, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr}")
        return figures(Run(folder))


def one_round(arguments, backwards, steps):
    """(job, mode) -> figures."""
    plan = [(job, "census") for job in JOBS] + [(job, "solo") for job in JOBS if job[2] == LAG]
    plan.sort(key=lambda entry: (entry[0][3], entry[0][1], entry[0][0], entry[0][2]))  # beside what it is compared with
    return {(job, mode): start(arguments.bench, arguments.mpiexec, job, mode, steps)
            for job, mode in (reversed(plan) if backwards else plan)}


def both(rounds, job):
    """Without the census and with it."""
    ranks, allreduce, _, step = job
    return [r[(ranks, allreduce, LAG, step), "solo"] for r in rounds], [r[job, "census"] for r in rounds]


HEAD = f"{'ranks':>5} {'all-reduce':>10} {'lag':>3} {'step':>5} "


def label(job):
    ranks, allreduce, lag, step = job
    return f"{ranks:>5} {'yes' if allreduce else 'no':>10} {lag:>3} {step:>5} "


def spread(values, digits=0):
    low, middle, high = (f"{f(values):.{digits}f}" for f in (min, statistics.median, max))
    return f"{middle} [{low} .. {high}]"


def print_tables(rounds):
    print("\nnext(), us: without the census, and what the census adds (within each round)")
    print(f"{HEAD} {'without: p50':<22} {'p99':<24} {'added to p50':<22} "
          f"{'added to p99':<28} added to p99.9")
    for job in JOBS:
        solo, census = both(rounds, job)
        cells = [spread([s[key] / 1000 for s in solo], 1) for key in ("p50", "p99")]
        cells += [spread([(c[key] - s[key]) / 1000 for c, s in zip(census, solo)], 1) for key in ("p50", "p99", "p999")]
        print(f"{label(job)} {cells[0]:<22} {cells[1]:<24} {cells[2]:<22} "
              f"{cells[3]:<28} {cells[4]}")
    print("\nwas the census complete when it was needed? waits, us, of the steps at which it was not")
    print(f"{HEAD} {'complete, %':<22} {'within 10 us, %':<22} {'wait p50':<22} "
          f"{'wait p99':<26} {'mean, all steps':<22} {'step, ms: without':>17} {'with':>5}")
    for job in JOBS:
        solo, census = both(rounds, job)
        cells = [spread([100 * c[key] for c in census], 1) for key in ("complete", "soon")]
        waits = [[c[key] / 1000 for c in census] for key in ("waited_p50", "waited_p99", "wait_mean")]
        cells += [spread(wait, 1) if any(wait) else "-" for wait in waits]
        steps_ms = [statistics.median(r["step_ms"] for r in runs) for runs in (solo, census)]
        print(f"{label(job)} {cells[0]:<22} {cells[1]:<22} {cells[2]:<22} "
              f"{cells[3]:<26} {cells[4]:<22} {steps_ms[0]:17.3f} {steps_ms[1]:5.3f}")


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")
    return (f"{len(os.sched_getaffinity(0))} cores of {model}, {datetime.date.today()}, "
            f"load average {os.getloadavg()[0]:.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bench", help="bench_next_census")
    parser.add_argument("--mpiexec", default="mpirun")
    parser.add_argument("--quick", action="store_true", help="one minute: one round of 500 steps")
    parser.add_argument("--repeats", type=int, help="default: 5; with --quick 1")
    parser.add_argument("--json", metavar="FILE", help="write every figure of every round")
    arguments = parser.parse_args()
    arguments.bench = os.path.abspath(arguments.bench)
    begin = time.monotonic()
    about = machine()
    print(about, flush=True)
    steps = WARM_STEPS + (500 if arguments.quick else 2000)
    count = arguments.repeats or (1 if arguments.quick else 5)
    rounds = [one_round(arguments, i % 2 == 1, steps) for i in range(count)]
    print_tables(rounds)
    print(f"\n{count} rounds of {steps} steps, {(time.monotonic() - begin) / 60:.1f} minutes, load average at the end "
          f"{os.getloadavg()[0]:.2f}")
    if arguments.json:
        rows = [{"round": i, "ranks": ranks, "allreduce": allreduce, "lag": lag, "step": step, "mode": mode, **of}
                for i, results in enumerate(rounds) for ((ranks, allreduce, lag, step), mode), of in results.items()]
        with open(arguments.json, "w", encoding="utf-8") as out:
            json.dump({"machine": about, "rows": rows}, out, indent=1)
    worst = min(of["complete"] for results in rounds for (job, _), of in results.items() if job[1])
    print(f"with an all-reduce in every step the census was complete at {100 * worst:.2f} % of the steps or more")
    return 0 if worst == 1 else 1


if __name__ == "__main__":
    sys.exit(main())
