#!/usr/bin/env python3
"""Prints one table out of several runs of train_cnn: table.py RUN_DIR ...

A run directory holds summary.json (--summary) and the ranks' steps.*.jsonl (telemetry.dir).
"""

import json
import pathlib
import sys

COLUMNS = ("policy", "wall s", "steps", "new images", "AU", "fresh AU", "fresh", "stall", "held-out accuracy")


def waits(file):
    with open(file, encoding="utf-8") as lines:
        # The wait for the first batch is start-up, not stall.
        return {step["step"]: step["wait_s"] for step in map(json.loads, lines) if step["step"] > 0}


def job_stall(run):
    """Seconds in which the job stood still for want of a batch.

    The ranks start a step together, because the all-reduce of the step before held them together, so a step is late
    by the longest wait of any rank. The summary's stall_s cannot know that: the other ranks spend the rest of that
    wait in the all-reduce, which a feeder sees as compute.
    """
    ranks = [waits(file) for file in sorted(run.glob("steps.*.jsonl"))]
    return sum(max(rank.get(step, 0) for rank in ranks) for step in ranks[0])


def percent(value):
    return f"{100 * value:.1f} %"


def row(run, summary):
    job = summary["job"]
    # Evaluations happen between two steps, so the feeder's clock has them as compute. They are no training.
    wall = job["wall_s"] - summary["eval_s"]
    stall = job_stall(run) / wall
    return (
        summary["policy"],
        f"{wall:.1f}",
        str(job["ranks"][0]["steps"]),
        f"{job['images_per_s'] * job['wall_s']:.0f}",
        percent(1 - stall),
        percent((1 - stall) * job["fresh_fraction"]),
        percent(job["fresh_fraction"]),
        percent(stall),
        percent(summary["final_accuracy"]),
    )


def main(directories):
    runs = [pathlib.Path(directory) for directory in directories]
    summaries = [json.loads((run / "summary.json").read_text(encoding="utf-8")) for run in runs]
    rows = [COLUMNS, *map(row, runs, summaries)]
    widths = [max(map(len, column)) for column in zip(*rows)]
    for number, (first, *others) in enumerate(rows):
        print("  ".join([first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(others, widths[1:]))]))
        if number == 0:
            print("  ".join("-" * width for width in widths))
    print(f"chance level of the accuracy: {percent(summaries[0]['chance'])} ({summaries[0]['classes']} classes)")


if __name__ == "__main__":
    main(sys.argv[1:])
