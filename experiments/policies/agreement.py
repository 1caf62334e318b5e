#!/usr/bin/env python3
"""Does the simulator foretell the real feeder? agreement.py FOREBAY [--quick] [--json FILE]

Runs the feeder (threads, files behind an emulated store, a trainer that sleeps 20 ms a step) with `adaptive`,
`proportional` and `greedy` at R = 1.5, 3 and 6 behind a constant, a jittery and a bursty store (feeder_runs.py says
what they do), and replays each run's telemetry with `forebay simulate CONFIG --trace RUN`, same policy, same
configuration. The exit code is 1 when a fresh fraction differs by more than 2 points or a p99 of uses by more than 2.
A last line, which is not judged, says how far off the simulator is when it foretells a policy from the trace of another
one's run behind the same store."""

import argparse
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time

from feeder_runs import LIMIT_S, STEPS_PER_S, Bench, Store, machine, minutes_since, print_machine

STORES = ("constant", "jittery", "bursty")
RATIOS = (1.5, 3, 6)
POLICIES = ("adaptive", "proportional", "greedy")
MOST_POINTS = 2  # of 100 of the fresh fraction
MOST_USES = 2
COMPARED = ("fresh_fraction", "uses_p50", "uses_p99", "uses_max")


def simulated(bench, run, policy):
    done = subprocess.run([bench.forebay, "simulate", run.config, "--trace", run.folder, "--policy", policy,
                           "--no-optimum", "--json", "-"], check=True, capture_output=True, text=True, timeout=LIMIT_S)
    return json.loads(done.stdout)[0]


def compare(bench, store, policy, seed, runs, trace):
    """What the run of `policy` was, and what the simulator makes of the trace of the run of policy `trace`."""
    steps = runs[policy].steps()
    with open(runs[policy].summary, encoding="utf-8") as text:
        real = json.load(text)
    virtual = simulated(bench, runs[trace], policy)
    return {"store": store.kind, "R": store.ratio, "policy": policy, "trace": trace, "seed": seed, "steps": len(steps),
            "real": {**{key: real[key] for key in COMPARED}, "stall_s": real["stall_s"],
                     "mean_depth": statistics.mean(line["depth"] for line in steps)},
            "simulated": {key: virtual[key] for key in (*COMPARED, "stall_s", "mean_depth")}}


def points(row):
    return 100 * (row["simulated"]["fresh_fraction"] - row["real"]["fresh_fraction"])


def uses(row):
    return row["simulated"]["uses_p99"] - row["real"]["uses_p99"]


def is_missed(row):
    return abs(points(row)) > MOST_POINTS or abs(uses(row)) > MOST_USES


def largest(rows):
    return f"{max(abs(points(row)) for row in rows):.2f} points, p99 of uses {max(abs(uses(row)) for row in rows)}"


def print_row(row):
    def pair(key, form):
        return f"{row['real'][key]:{form}} {row['simulated'][key]:{form}}"

    print(f"{row['store']:<9} {row['R']:>4} {row['policy']:<13} {row['seed']:>4}   {pair('fresh_fraction', '6.4f')} "
          f"{points(row):+6.2f}   {pair('uses_p50', '4d')}   {pair('uses_p99', '4d')}   {pair('uses_max', '4d')}   "
          f"{pair('mean_depth', '5.1f')}{'   missed' if is_missed(row) else ''}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("forebay", help="the command")
    parser.add_argument("--quick", action="store_true", help="1 minute instead of 3: one seed, 10 s a run")
    parser.add_argument("--json", metavar="FILE", help="write all figures")
    arguments = parser.parse_args()
    seeds, seconds = ((17,), 10) if arguments.quick else ((17, 18), 20)
    begin = time.monotonic()
    about = machine()
    print_machine(about)
    print(f"{'':33}   {'fresh fraction':<20}   {'p50':<9}   {'p99 uses':<9}   {'max':<9}   mean depth\n"
          f"{'store':<9} {'R':>4} {'policy':<13} seed   {'real':>6} {'simul.':>6} points"
          + "   real sim." * 3 + "    real  sim.")
    own, others = [], []
    with tempfile.TemporaryDirectory() as folder, Bench(arguments.forebay, folder) as bench:
        for seed, kind in itertools.product(seeds, STORES):
            stores = [Store(kind, ratio) for ratio in RATIOS]
            started = [{policy: bench.start(store, policy, int(seconds * STEPS_PER_S), seed) for policy in POLICIES}
                       for store in stores]
            for run in (run for runs in started for run in runs.values()):
                run.steps()  # a simulation would disturb what still runs
            for (store, runs), policy, trace in itertools.product(zip(stores, started), POLICIES, POLICIES):
                row = compare(bench, store, policy, seed, runs, trace)
                (own if policy == trace else others).append(row)
                if policy == trace:
                    print_row(row)
    missed = sum(map(is_missed, own))
    print(f"\n{minutes_since(begin):.1f} minutes, load average at the end {machine()['load']:.2f}\n"
          f"largest difference: {largest(own)}; {missed} of {len(own)} differ by more than {MOST_POINTS} points or "
          f"{MOST_USES} uses\n"
          f"from another policy's trace: {largest(others)}; {sum(map(is_missed, others))} of {len(others)} differ by "
          "more")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as out:
            json.dump({"machine": about, "rows": own + others, "missed": missed}, out, indent=1)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
