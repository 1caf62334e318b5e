#!/usr/bin/env python3
"""queue.capacity = "auto" beside 16 in the cases of measure.py: queues.py FOREBAY [--quick] [--json FILE]

    queues.py FOREBAY --queues 16,8 --policies adaptive,block    # other capacities, beside the first

The same stores, trainer and figures, but batches of 6 MB, so that "auto" begins with two of them. A policy's runs
are side by side, over the same arrivals, with the `block` that says what lambda is. `became` is
the capacity at the end. Medians of the repeats, with the range. The exit code is 1 when a policy stalls for
half a percent of the time more than with the first capacity, or gets less than 0.98 of its fresh batches: of those that were
served in the window, and of those that arrived in it. Neither alone would do. A queue that still fills its reserve serves fewer
than arrive, and a queue that stays full takes several at once, one of 16 more than one of 2."""

import argparse
import json
import statistics
import sys
import tempfile
import time

import measure
from feeder_runs import STEPS_PER_S, Bench, Store, machine, minutes_since, print_machine

POLICIES = "adaptive,greedy,proportional,block,interval 2,interval 4"
SIZE = 360  # pixels: four of these as float32 are 6.2 MB
QUEUES = "16,auto"
MOST_STALL_MORE = 0.005
ENOUGH_FRESH = 0.98


def capacity_of(run):
    with open(run.summary, encoding="utf-8") as file:
        return json.load(file)["queue_capacity"]


def one_repeat(bench, store, window_s, seed, policies, queues):
    """(policy, queue) -> figures."""
    seconds = measure.WARM_S + window_s
    batches = int(1.1 * min(STEPS_PER_S, store.batches_per_s) * seconds) + 2 * measure.TAIL
    results = {}
    for policy in policies:
        delivers = bench.start_lambda(store, batches, seed)
        runs = {(policy, queue): bench.start(store, policy, measure.steps_of(policy, store, seconds), seed,
                                             capacity=queue, size=SIZE) for queue in queues}
        arrivals = delivers.steps()
        for key, run in runs.items():
            results[key] = {**measure.figures(run.steps(), arrivals), "became": capacity_of(run)}
    return results


def median(repeats, key, figure):
    return statistics.median(repeat[key][figure] for repeat in repeats)


def print_table(store, repeats):
    print(f"\n{store.kind}, R = {store.ratio}; load average {machine()['load']:.1f}")
    print(f"{'policy':<13} {'queue':>5} {'became':>7} {'fresh':>6}  {'stall, %':<22} {'uses p99':>8} "
          f"{'sum u^2/steps':>13} {'depth':>6}")
    for key in repeats[0]:
        policy, queue = key
        stalls = [repeat[key]["stall"] for repeat in repeats]
        print(f"{policy:<13} {queue:>5} {median(repeats, key, 'became'):7.0f} {median(repeats, key, 'served_fresh'):6.3f}  "
              f"{measure.spread(stalls, 100, 2):<22} {median(repeats, key, 'uses_p99'):8.0f} "
              f"{median(repeats, key, 'squares'):13.2f} {median(repeats, key, 'mean_depth'):6.1f}", flush=True)


def misses(store, repeats, first):
    for policy, queue in repeats[0]:
        def both(figure, of=(policy, queue)):
            return median(repeats, of, figure), median(repeats, (of[0], first), figure)
        where = f"{policy}, {store.kind}, R = {store.ratio}"
        stall, first_stall = both("stall")
        (served, first_served), (arrived, first_arrived) = both("served_fresh"), both("fresh")
        if stall > first_stall + MOST_STALL_MORE:
            yield f"{where}: {100 * stall:.2f} % stall with {queue}, {100 * first_stall:.2f} % with {first}"
        if served < ENOUGH_FRESH * first_served and arrived < ENOUGH_FRESH * first_arrived:
            yield (f"{where}: {served:.3f} served fresh and {arrived:.3f} arrived with {queue}, {first_served:.3f} and "
                   f"{first_arrived:.3f} with {first}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("forebay", help="the command")
    parser.add_argument("--quick", action="store_true", help="one repeat of 8 s windows instead of three of 20 s")
    parser.add_argument("--stores", default=",".join(measure.ENOUGH), help="of: %(default)s")
    parser.add_argument("--queues", default=QUEUES, help="capacities, compared with the first of them: %(default)s")
    parser.add_argument("--policies", default=POLICIES, help="of: %(default)s")
    parser.add_argument("--json", metavar="FILE", help="write every figure of every repeat")
    arguments = parser.parse_args()
    queues, policies = arguments.queues.split(","), arguments.policies.split(",")
    begin = time.monotonic()
    about = machine()
    print_machine(about)
    rows, missed = [], []
    with tempfile.TemporaryDirectory() as folder, Bench(arguments.forebay, folder) as bench:
        stores = [Store(kind, ratio) for kind in arguments.stores.split(",") for ratio in measure.RATIOS]
        bench.calibrate(stores, 1 if arguments.quick else 2)
        for store in stores:
            repeats = [one_repeat(bench, store, 8 if arguments.quick else 20, 17 + i, policies, queues)
                       for i in range(1 if arguments.quick else 3)]
            print_table(store, repeats)
            missed += misses(store, repeats, queues[0])
            rows += [{"store": store.kind, "ratio": store.ratio, "repeat": i, "policy": policy, "queue": queue, **of}
                     for i, repeat in enumerate(repeats) for (policy, queue), of in repeat.items()]
    print(f"\n{minutes_since(begin):.1f} minutes, load average at the end {machine()['load']:.2f}")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as out:
            json.dump({"machine": about, "rows": rows, "missed": missed}, out, indent=1)
    print("\n".join(missed) or f"no policy stalls more than with {queues[0]}, nor gets less")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
