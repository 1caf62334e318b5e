#!/usr/bin/env python3
"""queue.capacity = "auto" beside 16 in the cases of measure.py: queues.py FOREBAY [--quick] [--json FILE]

The same stores, trainer and figures, but batches of 6 MB, so that "auto" begins with two of them. A policy's two runs
are side by side, over the same arrivals, with the `block` that says what lambda is. `became` is
the capacity at the end. Medians of the repeats, with the range. The exit code is 1 when a policy with "auto" stalls for
half a percent of the time more than with 16, or serves less than 0.98 of its fresh batches. What arrived in a window would
not do for that: a queue that stays full takes several at once, and one of 16 more than one of 2."""

import argparse
import json
import statistics
import sys
import tempfile
import time

import measure
from feeder_runs import STEPS_PER_S, Bench, Store, machine, minutes_since, print_machine

POLICIES = ("adaptive", "greedy", "proportional", "block", "interval 2", "interval 4")
AT_ONCE = 1
SIZE = 360  # pixels: four of these as float32 are 6.2 MB
QUEUES = (16, "auto")
MOST_STALL_MORE = 0.005
ENOUGH_FRESH = 0.98


def capacity_of(run):
    with open(run.summary, encoding="utf-8") as file:
        return json.load(file)["queue_capacity"]


def one_repeat(bench, store, window_s, seed):
    """(policy, queue) -> figures."""
    seconds = measure.WARM_S + window_s
    batches = int(1.1 * min(STEPS_PER_S, store.batches_per_s) * seconds) + 2 * measure.TAIL
    results = {}
    for begin in range(0, len(POLICIES), AT_ONCE):
        delivers = bench.start_lambda(store, batches, seed)
        runs = {(policy, queue): bench.start(store, policy, measure.steps_of(policy, store, seconds), seed,
                                             capacity=queue, size=SIZE)
                for policy in POLICIES[begin:begin + AT_ONCE] for queue in QUEUES}
        arrivals = delivers.steps()
        for key, run in runs.items():
            results[key] = {**measure.figures(run.steps(), arrivals), "became": capacity_of(run)}
    return results


def print_table(store, repeats):
    print(f"\n{store.kind}, R = {store.ratio}; load average {machine()['load']:.1f}")
    print(f"{'policy':<13} {'queue':>5} {'became':>7} {'fresh':>6}  {'stall, %':<22} {'uses p99':>8} "
          f"{'sum u^2/steps':>13} {'depth':>6}")
    for policy in POLICIES:
        for queue in QUEUES:
            def median(key, of=(policy, queue)):
                return statistics.median(repeat[of][key] for repeat in repeats)
            stalls = [repeat[policy, queue]["stall"] for repeat in repeats]
            print(f"{policy:<13} {queue:>5} {median('became'):7.0f} {median('served_fresh'):6.3f}  "
                  f"{measure.spread(stalls, 100, 2):<22} {median('uses_p99'):8.0f} {median('squares'):13.2f} "
                  f"{median('mean_depth'):6.1f}", flush=True)


def misses(store, repeats):
    for policy in POLICIES:
        fixed, grown = ({key: statistics.median(repeat[policy, queue][key] for repeat in repeats)
                         for key in ("stall", "served_fresh")} for queue in QUEUES)
        where = f"{policy}, {store.kind}, R = {store.ratio}"
        if grown["stall"] > fixed["stall"] + MOST_STALL_MORE:
            yield f"{where}: {100 * grown['stall']:.2f} % stall with auto, {100 * fixed['stall']:.2f} % with 16"
        if grown["served_fresh"] < ENOUGH_FRESH * fixed["served_fresh"]:
            yield f"{where}: {grown['served_fresh']:.3f} fresh with auto, {fixed['served_fresh']:.3f} with 16"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("forebay", help="the command")
    parser.add_argument("--quick", action="store_true", help="one repeat of 8 s windows instead of three of 20 s")
    parser.add_argument("--stores", default=",".join(measure.ENOUGH), help="of: %(default)s")
    parser.add_argument("--json", metavar="FILE", help="write every figure of every repeat")
    arguments = parser.parse_args()
    begin = time.monotonic()
    about = machine()
    print_machine(about)
    rows, missed = [], []
    with tempfile.TemporaryDirectory() as folder, Bench(arguments.forebay, folder) as bench:
        stores = [Store(kind, ratio) for kind in arguments.stores.split(",") for ratio in measure.RATIOS]
        bench.calibrate(stores, 1 if arguments.quick else 2)
        for store in stores:
            repeats = [one_repeat(bench, store, 8 if arguments.quick else 20, 17 + i)
                       for i in range(1 if arguments.quick else 3)]
            print_table(store, repeats)
            missed += misses(store, repeats)
            rows += [{"store": store.kind, "ratio": store.ratio, "repeat": i, "policy": policy, "queue": queue, **of}
                     for i, repeat in enumerate(repeats) for (policy, queue), of in repeat.items()]
    print(f"\n{minutes_since(begin):.1f} minutes, load average at the end {machine()['load']:.2f}")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as out:
            json.dump({"machine": about, "rows": rows, "missed": missed}, out, indent=1)
    print("\n".join(missed) or 'with "auto" no policy stalls more than with 16, nor gets less')
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
