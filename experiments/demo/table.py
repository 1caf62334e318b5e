#!/usr/bin/env python3
"""Prints one table out of several runs of train_cnn, and what happened in them: table.py RUN_DIR ..."""

import sys

from runs import closing, pairs_of, percent, read_run

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


def main(directories):
    runs = [read_run(directory) for directory in directories]
    print("\n".join(table(runs)))
    print(f"chance level of the accuracy: {percent(runs[0].chance)} ({runs[0].classes} classes)")
    if pairs := pairs_of(runs):
        print()
        print(closing(pairs))


if __name__ == "__main__":
    main(sys.argv[1:])
