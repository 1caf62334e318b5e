#!/usr/bin/env python3
"""Whether what experiments/endurance/run left is sound: slopes, bounds, counts. Prints them; exit code 1: it is not."""

import json
import math
import random
import re
import sys
from pathlib import Path

# Above these, growth per step is no longer flat; below, it is at most 1 MB in 10^7 steps. Pages that are divided among
# processes say more of what else runs on the machine with the same libraries: they are printed, not judged.
MOST_PER_STEP = {"resident": 0.1, "proportional": math.inf, "allocated": 0.01, "descriptors": 1e-6, "threads": 1e-6}
# What resident memory is made of: printed, not judged.
PARTS = ("heap", "anonymous", "shared", "files")
# Steps of a part after which buffers have met what makes them grow; slopes of shorter ones are printed only.
LONG_ENOUGH = 1_000_000


def slope_of(points):
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    below = sum((x - mean_x) ** 2 for x, _ in points)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / below
    return slope, [y - mean_y - slope * (x - mean_x) for x, y in points]


def interval_of(points, rounds=400):
    """The least-squares slope and its 95 % interval by a moving-block bootstrap of the residuals, which depend on
    their neighbours."""
    slope, residuals = slope_of(points)
    block = max(1, len(points) // 10)
    draw = random.Random(17)
    slopes = []
    for _ in range(rounds):
        drawn = []
        while len(drawn) < len(points):
            begin = draw.randrange(len(points) - block + 1)
            drawn += residuals[begin : begin + block]
        slopes.append(slope_of([(x, slope * x + r) for (x, _), r in zip(points, drawn)])[0])
    slopes.sort()
    return slope, slopes[rounds // 40], slopes[-1 - rounds // 40]


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


class Check:
    def __init__(self, folder, bound):
        self.folder = folder
        self.bound = bound
        self.problems = []

    def same(self, what, one, other):
        if one != other:
            self.problems.append(f"{what}: {one} and {other}")

    def memory(self, rank):
        for number, part in enumerate(self.parts_of(rank)):
            half = part[len(part) // 2 :]
            for kind, most in MOST_PER_STEP.items():
                slope, low, high = interval_of([(r["step"], r[kind]) for r in half])
                print(
                    f"rank {rank} part {number + 1}  {kind:13} {half[-1][kind]:>12}"
                    f"  {slope:+.2e} per step [{low:+.2e}, {high:+.2e}]"
                )
                if low > most and len(part) > 1 and part[-1]["step"] - part[0]["step"] >= LONG_ENOUGH:
                    self.problems.append(f"rank {rank}: {kind} grows by {slope:.3g} per step, more than {most:g}")
            grown = ", ".join(f"{kind} {half[-1][kind] - half[0][kind]:+}" for kind in PARTS)
            print(f"rank {rank} part {number + 1}  resident bytes over these steps: {grown}")
            largest = max(r["bounded"] for r in part)
            if largest > self.bound:
                self.problems.append(f"rank {rank}: telemetry took {largest} bytes")
        print(f"rank {rank}  folder {part[-1]['folder']} bytes, largest steps or intervals {largest} of {self.bound}")

    def parts_of(self, rank):
        """The readings of each process; the killed one took none after the step that the next begins with."""
        tallies = lines(self.folder / f"tally.{rank}")
        readings = lines(self.folder / f"readings.{rank}")
        kill = tallies[0]["steps"] if len(tallies) > 1 else 0
        first = [r for r in readings if r["step"] <= kill]
        return [part for part in (first, [r for r in readings if r["step"] > kill]) if len(part) >= 20]

    def counts(self, rank):
        tallies = lines(self.folder / f"tally.{rank}")
        last = tallies[-1]
        summary = last["summary"]
        self.same(f"rank {rank}: steps served and reached", sum(t["served"] for t in tallies), last["steps"])
        self.same(f"rank {rank}: steps of the summary", summary["steps"], last["served"])
        self.same(f"rank {rank}: fresh steps of the summary", summary["fresh"], last["fresh"])
        self.same(f"rank {rank}: fresh and reused", summary["fresh"] + summary["reused"], summary["steps"])
        figures = (self.folder / f"figures.{rank}.prom").read_text()
        total = re.search(r"^forebay_steps_total\{.*\} (\S+)$", figures, re.MULTILINE).group(1)
        self.same(f"rank {rank}: steps for Prometheus", int(float(total)), last["served"])
        self.step_lines(rank, tallies, summary["dropped_records"])
        self.recordings(rank, tallies)
        return tallies

    def step_lines(self, rank, tallies, dropped):
        """After the last renaming the lines go on without a gap, to the last step."""
        run = self.folder / "run"
        earlier = run / f"steps.{rank}.earlier.jsonl"
        steps = [line["step"] for path in (earlier, run / f"steps.{rank}.jsonl") if path.exists() for line in lines(path)]
        self.same(f"rank {rank}: the last step and its line", steps[-1], tallies[-1]["steps"] - 1)
        missing = sum(max(0, after - before - 1) for before, after in zip(steps, steps[1:]))
        if missing > dropped:
            self.problems.append(f"rank {rank}: {missing} lines of steps are missing, {dropped} are counted")
        print(f"rank {rank}  lines of steps: {len(steps)} there, {steps[0]} before them made way, {dropped} lost")

    def recordings(self, rank, tallies):
        """The recording of the last part has each of its steps; that of a killed part may lack its last second."""
        run = self.folder / "run"
        paths = [run / f"decisions.{rank}.jsonl"]
        paths += [run / f"decisions.{rank}.from-{t['steps']}.jsonl" for t in tallies[:-1]]
        size = 0
        for path, tally in zip(paths, tallies):
            runs = [length for line in lines(path)[1:] for length in line["runs"]]
            size += path.stat().st_size
            if tally is tallies[-1]:
                self.same(f"rank {rank}: steps recorded", sum(runs), tally["served"])
        print(f"rank {rank}  recordings {size} bytes, {size / tallies[-1]['steps']:.2f} per step")

    def epochs(self, ranks):
        """Each sample of each epoch that is over was served fresh exactly once, by whichever rank and part."""
        sums = {}
        for tally in (tally for rank in ranks for tally in rank):
            for epoch, (count, total) in enumerate(tally["tallies"]):
                before = sums.get(epoch, (0, 0))
                sums[epoch] = (before[0] + count, (before[1] + total) % 2**64)
        last = ranks[0][-1]
        for epoch in range(last["epochs"]):
            self.same(f"epoch {epoch}: samples", sums[epoch], (last["samples"], last["sum_of_each_once"]))
        # Half of an epoch is each rank's own; batches of the slow rank are handed over to the other.
        fresh_on_0 = [0] * last["epochs"]
        for tally in ranks[0]:
            for epoch, (count, _) in enumerate(tally["tallies"][: last["epochs"]]):
                fresh_on_0[epoch] += count
        handed_over = sum(1 for count in fresh_on_0 if count != last["samples"] // 2)
        print(f"job  batches were handed over in at least {handed_over} epochs")
        if handed_over == 0:
            self.problems.append("no batch was handed over from rank to rank")
        for part in range(len(ranks[0])):
            held_out = sum(rank[part]["evaluated"] for rank in ranks)
            self.same("evaluated", held_out, ranks[0][part]["evaluations"] * last["held_out"])
        print(
            f"job  {sum(r[-1]['steps'] for r in ranks)} steps, {last['epochs']} epochs, "
            f"{sum(t['fresh'] for r in ranks for t in r)} fresh, {sum(t['saves'] for t in ranks[0])} saves, "
            f"{sum(t['evaluations'] for t in ranks[0])} evaluations, {len(ranks[0])} parts"
        )


def main():
    check = Check(Path(sys.argv[1]), int(sys.argv[2]))
    ranks = [check.counts(rank) for rank in range(2)]
    check.epochs(ranks)
    for rank in range(2):
        check.memory(rank)
    for problem in check.problems[:20]:
        print("PROBLEM", problem)
    print(f"problems: {len(check.problems)}")
    return 1 if check.problems else 0


if __name__ == "__main__":
    sys.exit(main())
