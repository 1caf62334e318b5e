#!/usr/bin/env python3
"""What runs of train_cnn left behind, and what can be said of a pair of them.

    runs.py RUN_DIR ...               prints it
    runs.py --spread FILE             prints the spread of many runs of scripts/demo as Markdown
    runs.py --spread FILE --build DIR     first runs it, each time with a seed of its own, and appends to FILE; DIR is
        where command and trainer are built (build/demo/build)
        --runs N        how many (1)
        --first-seed N  of the first one; the others count on from there (17)
        --busy N        beside so many processes that do nothing but take a core (0)

A run directory holds summary.json (--summary) and the ranks' steps.*.jsonl (telemetry.dir).
"""

import argparse
import dataclasses
import json
import math
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


@dataclasses.dataclass
class Run:
    policy: str
    seed: int
    wall_s: float
    steps: int
    new_images: float
    fresh: float  # share of the steps
    stall: float  # share of the time
    accuracy: float
    held_out: int  # samples that the accuracy is of
    curve: list  # of (seconds, accuracy)
    chance: float
    classes: int


def waits(file):
    with open(file, encoding="utf-8") as lines:
        # The wait for the first batch is start-up, not stall.
        return {step["step"]: step["wait_s"] for step in map(json.loads, lines) if step["step"] > 0}


def job_stall(directory):
    """Seconds in which the job stood still for want of a batch.

    The ranks start a step together, because the all-reduce of the step before held them together, so a step is late
    by the longest wait of any rank. The summary's stall_s cannot know that: the other ranks spend the rest of that
    wait in the all-reduce, which a feeder sees as compute.
    """
    ranks = [waits(file) for file in sorted(directory.glob("steps.*.jsonl"))]
    return sum(max(rank.get(step, 0) for rank in ranks) for step in ranks[0])


def read_run(directory):
    directory = pathlib.Path(directory)
    summary = json.loads((directory / "summary.json").read_text(encoding="utf-8"))
    job = summary["job"]
    # Evaluations between two steps are no training, though the feeder's clock has them as compute.
    wall_s = job["wall_s"] - summary["eval_s"]
    return Run(
        policy=summary["policy"],
        seed=summary["seed"],
        wall_s=wall_s,
        steps=job["ranks"][0]["steps"],
        new_images=job["images_per_s"] * job["wall_s"],
        fresh=job["fresh_fraction"],
        stall=job_stall(directory) / wall_s,
        accuracy=summary["final_accuracy"],
        held_out=summary["held_out"],
        curve=[(point["trained_s"], point["accuracy"]) for point in summary["curve"]],
        chance=summary["chance"],
        classes=summary["classes"],
    )


def percent(value):
    return f"{100 * value:.1f} %"


def points(value):
    return f"{100 * value:.1f} points"


def difference(block, adaptive):
    """In held-out accuracy: above 0 where adaptive is ahead."""
    return adaptive.accuracy - block.accuracy


def noise(block, adaptive):
    """Two standard errors of the difference, as far as the number of held-out samples sets it."""
    return 2 * math.sqrt(sum(run.accuracy * (1 - run.accuracy) / run.held_out for run in (block, adaptive)))


def passed_at(curve, accuracy):
    """Seconds after which a curve had reached an accuracy, or None."""
    return next((seconds for seconds, reached in curve if reached >= accuracy), None)


def closing(pairs):
    """One sentence on what happened in runs of (block, adaptive), whichever it is."""
    if len(pairs) > 1:
        ahead = sum(difference(*pair) > 0 for pair in pairs)
        all_differences = [difference(*pair) for pair in pairs]
        return (
            f"In {ahead} of {len(pairs)} pairs of runs adaptive ended with the higher held-out accuracy; the difference "
            f"was {points(statistics.mean(all_differences))} on average, from {points(min(all_differences))} to "
            f"{points(max(all_differences))}."
        )
    block, adaptive = pairs[0]
    gain = difference(block, adaptive)
    work = (
        f"{adaptive.steps / block.steps:.1f} times as many steps on {adaptive.new_images / block.new_images:.2f} times as "
        "many new images"
    )
    ends = f"adaptive ended with {percent(adaptive.accuracy)} held-out accuracy and block with {percent(block.accuracy)}"
    if abs(gain) <= noise(block, adaptive):
        return (
            f"In this run {ends}, after {work}: no more apart than {block.held_out} held-out samples can tell "
            f"({points(noise(block, adaptive))})."
        )
    if gain < 0:
        return f"In this run {ends}, {points(-gain)} less, after {work}."
    sentence = f"In this run {ends}, {points(gain)} more, after {work}"
    passed = passed_at(adaptive.curve, block.accuracy)
    if passed is not None:
        sentence += f"; it was as good as block in the end after {passed:.0f} s"
    return sentence + "."


def pairs_of(runs):
    """(block, adaptive) of each seed that has both, in the order of the runs."""
    by_seed = {}
    for run in runs:
        by_seed.setdefault(run.seed, {})[run.policy] = run
    return [(of["block"], of["adaptive"]) for of in by_seed.values() if {"block", "adaptive"} <= of.keys()]


COLUMNS = ("policy", "seed", "wall s", "steps", "new images", "AU", "fresh AU", "fresh", "stall", "held-out accuracy")


def row(run):
    return (
        run.policy,
        str(run.seed),
        f"{run.wall_s:.1f}",
        str(run.steps),
        f"{run.new_images:.0f}",
        percent(1 - run.stall),
        percent((1 - run.stall) * run.fresh),
        percent(run.fresh),
        percent(run.stall),
        percent(run.accuracy),
    )


def table(runs):
    rows = [COLUMNS, *map(row, runs)]
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = ["  ".join([of[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(of[1:], widths[1:]))])
             for of in rows]
    return [lines[0], "  ".join("-" * width for width in widths), *lines[1:]]


def line_of(busy, block, adaptive):
    return {
        "busy": busy,
        "seed": block.seed,
        "block": {"steps": block.steps, "new_images": round(block.new_images), "accuracy": block.accuracy},
        "adaptive": {"steps": adaptive.steps, "new_images": round(adaptive.new_images), "accuracy": adaptive.accuracy},
    }


def kind_of(busy):
    return "nothing else" if busy == 0 else f"{busy} busy processes beside"


def span(values, form):
    return f"{form(statistics.mean(values))} ({form(min(values))} to {form(max(values))})"


def gain_of(line):
    return line["adaptive"]["accuracy"] - line["block"]["accuracy"]


def spread(lines):
    out = [
        "| machine | runs | block: steps | accuracy | adaptive: steps | accuracy | difference | adaptive ahead |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for busy in sorted({line["busy"] for line in lines}):
        chosen = [line for line in lines if line["busy"] == busy]
        cells = [kind_of(busy), str(len(chosen))]
        for policy in ("block", "adaptive"):
            cells.append(span([line[policy]["steps"] for line in chosen], lambda value: f"{value:.0f}"))
            cells.append(span([line[policy]["accuracy"] for line in chosen], percent))
        cells.append(span([gain_of(line) for line in chosen], points))
        cells.append(f"{sum(gain_of(line) > 0 for line in chosen)} of {len(chosen)}")
        out.append("| " + " | ".join(cells) + " |")
    return out


def run_demo(file, build, runs, first_seed, busy):
    out = ROOT / "build/demo/spread"
    others = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(busy)]
    try:
        for seed in range(first_seed, first_seed + runs):
            subprocess.run([ROOT / "scripts/demo", "--build", build, "--out", out, "--seed", str(seed)], check=True)
            of = (read_run(out / "run" / f"{policy}.{seed}") for policy in ("block", "adaptive"))
            with open(file, "a", encoding="utf-8") as lines:
                lines.write(json.dumps(line_of(busy, *of)) + "\n")
    finally:
        for other in others:
            other.kill()


def print_runs(directories):
    runs = [read_run(directory) for directory in directories]
    print("\n".join(table(runs)))
    print(f"chance level of the accuracy: {percent(runs[0].chance)} ({runs[0].classes} classes)")
    if pairs := pairs_of(runs):
        print()
        print(closing(pairs))


def main(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directories", nargs="*", metavar="RUN_DIR")
    parser.add_argument("--spread", metavar="FILE")
    parser.add_argument("--build")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=17)
    parser.add_argument("--busy", type=int, default=0)
    given = parser.parse_args(words)
    if not given.spread:
        return print_runs(given.directories)
    if given.build:
        run_demo(given.spread, given.build, given.runs, given.first_seed, given.busy)
    with open(given.spread, encoding="utf-8") as file:
        print("\n".join(spread([json.loads(line) for line in file])))


if __name__ == "__main__":
    main(sys.argv[1:])
