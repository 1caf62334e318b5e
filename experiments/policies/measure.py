#!/usr/bin/env python3
"""Every policy in the real feeder, against what its store makes possible: measure.py FOREBAY [--quick] [--json FILE]

Threads, files behind an emulated store, a trainer that sleeps 20 ms a step; R = 0.8, 1.5, 3 and 6, a constant and a
bursty store (feeder_runs.py says what they do), a queue of 16 and everything else at its default. Beside each round of
policies, at the same time, runs one `block` with step_ms = 0: what it delivers is lambda. The same seed makes the same
store, batch by batch, so lambda is that of the very batches that arrived in a policy's window.

A window begins and ends with an arrival, after WARM_S seconds; in it
  fresh        fresh steps plus the change of depth, per step
  of possible  fresh / min(1, lambda / mu); above 1 only if the trainer was made to wait
  stall        time inside next() / time
  uses         how often batches that were first served in it were served; sum u^2 / steps is 1 if nothing is reused
Figures are medians of the repeats, with the range. The exit code is 1 when `adaptive` stalls more than 1 % or is below
0.98 (constant) or 0.95 (bursty) of what was possible."""

import argparse
import collections
import json
import statistics
import sys
import tempfile
import time

from feeder_runs import STEP_MS, STEPS_PER_S, Bench, Store, machine, minutes_since, print_machine

RATIOS = (0.8, 1.5, 3, 6)
POLICIES = ("adaptive", "proportional", "greedy", "block", "interval 2", "interval 4", "interval 8", "interval 16")
ENOUGH = {"constant": 0.98, "bursty": 0.95}  # of what is possible
MOST_STALL = 0.01
WARM_S = 3
TAIL = 50  # steps after the window, in which its last batches are used up


def window_of(lines):
    """The arrivals before each step, and the steps between which the window lies."""
    fresh = 0
    arrived = []
    for line in lines:
        arrived.append(fresh + line["depth"])
        fresh += line["use_index"] == 0
    inside = [k for k in range(1, len(lines) - TAIL) if lines[k]["t_s"] >= WARM_S and arrived[k] > arrived[k - 1]]
    return arrived, inside[0], inside[-1]


def percentile(counts, share):
    """Nearest rank, as in the summary of a run."""
    return sorted(counts)[max(0, -int(-share * len(counts) // 1) - 1)]


def figures(lines, batches):
    """What one run did, its lambda from the `batches` of a block run."""
    arrived, first, last = window_of(lines)
    steps = last - first
    took = sum(line["step_s"] for line in lines[first + 1:last + 1])
    waited = sum(line["wait_s"] for line in lines[first:last])
    mu = steps / took
    since, until = arrived[first], arrived[last]  # the n-th batch came when block served its n-th step
    lam = (until - since) / (batches[until - 1]["t_s"] - batches[since - 1]["t_s"])
    fresh = (until - since) / steps
    uses = collections.Counter((line["epoch"], line["batch"]) for line in lines)
    counted = [uses[line["epoch"], line["batch"]] for line in lines[first:last] if line["use_index"] == 0]
    return {"fresh": fresh, "served_fresh": len(counted) / steps, "lambda": lam, "mu": mu, "R": mu / lam,
            "of_possible": fresh / min(1, lam / mu), "stall": waited / (waited + took),
            "uses_p99": percentile(counted, 0.99), "uses_max": max(counted), "squares": sum(u * u for u in counted) / sum(counted),
            "steps": steps, "mean_depth": statistics.mean(line["depth"] for line in lines[first:last])}


def steps_of(policy, store, seconds):
    """How many steps a policy makes in that time: one that waits for the store makes fewer."""
    fixed = 1 if policy == "block" else int((policy.split() + ["0"])[1])
    slowed = max(1, store.ratio / fixed) if fixed else 1
    return int(seconds * 1000 / STEP_MS / slowed) + TAIL


def measure(bench, store, window_s, seed, at_once):
    """One repeat: policy -> figures. With fewer at once than there are policies, each group has a lambda of its own."""
    seconds = WARM_S + window_s
    batches = int(1.1 * min(STEPS_PER_S, store.batches_per_s) * seconds) + 2 * TAIL
    results = {}
    for begin in range(0, len(POLICIES), at_once - 1):
        group = POLICIES[begin:begin + at_once - 1]
        delivers = bench.start_lambda(store, batches, seed)
        runs = {policy: bench.start(store, policy, steps_of(policy, store, seconds), seed) for policy in group}
        arrivals = delivers.steps()
        results.update((policy, figures(run.steps(), arrivals)) for policy, run in runs.items())
    return results


def spread(values, scale=1, digits=3):
    low, middle, high = (f"{scale * f(values):.{digits}f}" for f in (min, statistics.median, max))
    return f"{middle} [{low} .. {high}]"


def print_table(store, repeats):
    def median(key, policies=POLICIES):
        return statistics.median(repeat[policy][key] for policy in policies for repeat in repeats)

    print(f"\n{store.kind}, R = {store.ratio}: mu {median('mu'):.2f} steps/s, lambda {median('lambda'):.2f} batches/s, "
          f"R as measured {median('R'):.2f}, possible {min(1, 1 / median('R')):.3f}; "
          f"load average {machine()['load']:.1f}")
    print(f"{'policy':<13} {'fresh':>5}  {'of possible':<22} {'stall, %':<22} {'uses p99':>8} {'max':>4} "
          f"{'sum u^2/steps':>13} {'depth':>6}")
    for policy in POLICIES:
        of = {key: [repeat[policy][key] for repeat in repeats] for key in ("of_possible", "stall")}
        print(f"{policy:<13} {median('fresh', [policy]):5.3f}  {spread(of['of_possible']):<22} "
              f"{spread(of['stall'], 100, 2):<22} {median('uses_p99', [policy]):8.0f} "
              f"{median('uses_max', [policy]):4.0f} {median('squares', [policy]):13.2f} "
              f"{median('mean_depth', [policy]):6.1f}", flush=True)


def misses(store, repeats):
    fresh = statistics.median(repeat["adaptive"]["of_possible"] for repeat in repeats)
    stall = statistics.median(repeat["adaptive"]["stall"] for repeat in repeats)
    if fresh < ENOUGH[store.kind]:
        yield f"adaptive, {store.kind}, R = {store.ratio}: {fresh:.3f} of possible, {ENOUGH[store.kind]} wanted"
    if stall > MOST_STALL:
        yield f"adaptive, {store.kind}, R = {store.ratio}: {100 * stall:.2f} % stall, {100 * MOST_STALL:.0f} % allowed"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("forebay", help="the command")
    parser.add_argument("--quick", action="store_true", help="3 minutes instead of 12: one repeat of 8 s windows")
    parser.add_argument("--repeats", type=int, help="default: 3; with --quick 1")
    parser.add_argument("--at-once", type=int, default=1 + len(POLICIES), metavar="N",
                        help="runs at the same time, at least 2 (default: all policies of a repeat and their lambda)")
    parser.add_argument("--json", metavar="FILE", help="write every figure of every repeat")
    arguments = parser.parse_args()
    count = arguments.repeats or (1 if arguments.quick else 3)
    begin = time.monotonic()
    about = machine()
    print_machine(about)
    rows, missed = [], []
    with tempfile.TemporaryDirectory() as folder, Bench(arguments.forebay, folder) as bench:
        stores = [Store(kind, ratio) for kind in ENOUGH for ratio in RATIOS]
        bench.calibrate(stores, 1 if arguments.quick else 2)
        for store in stores:
            repeats = [measure(bench, store, 8 if arguments.quick else 20, 17 + i, max(2, arguments.at_once))
                       for i in range(count)]
            print_table(store, repeats)
            missed += misses(store, repeats)
            rows += [{"store": store.kind, "R": store.ratio, "repeat": i, "policy": policy, **of}
                     for i, repeat in enumerate(repeats) for policy, of in repeat.items()]
    print(f"\n{minutes_since(begin):.1f} minutes, load average at the end {machine()['load']:.2f}")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as out:
            json.dump({"machine": about, "rows": rows, "missed": missed}, out, indent=1)
    print("\n".join(missed) or f"adaptive kept {MOST_STALL:.0%} stall and {ENOUGH['constant']} / {ENOUGH['bursty']} of "
          "what was possible")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
