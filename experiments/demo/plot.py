#!/usr/bin/env python3
"""Draws runs of scripts/demo: above what the trainer did during some seconds of the first run of each policy, on the rank
that waited most (the others wait for it in the all-reduce, which a feeder cannot tell from compute); below the held-out
accuracy of all runs over the time that they trained.

    plot.py OUT.png RUN_DIR ... [--from SECONDS] [--for SECONDS]

Needs matplotlib (Debian: python3-matplotlib)."""

import argparse
import glob
import json
import os

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

from runs import read_run

FRESH, REUSE, STALL, DEPTH = "#1f77b4", "#9ecae1", "#d62728", "#444444"
CURVES = {"block": "#d62728", "adaptive": "#1f77b4"}


def read_steps(folder):
    ranks = []
    for file in glob.glob(os.path.join(folder, "steps.*.jsonl")):
        with open(file, encoding="utf-8") as lines:
            ranks.append([json.loads(line) for line in lines])
    return max(ranks, key=lambda steps: sum(step["wait_s"] for step in steps[1:]))


def bars(steps, begin, end):
    """(start, length) of computing on fresh batches, on reused ones, and of waiting."""
    kinds = {"fresh": [], "reuse": [], "stall": []}
    for step, following in zip(steps, steps[1:]):
        if begin <= step["t_s"] <= end:
            kinds["stall"].append((step["t_s"] - step["wait_s"], step["wait_s"]))
            kinds["fresh" if step["use_index"] == 0 else "reuse"].append((step["t_s"], following["step_s"]))
    return kinds


def draw_steps(axes, name, steps, begin, end):
    kinds = bars(steps, begin, end)
    axes.broken_barh(kinds["fresh"], (0, 1), color=FRESH, linewidth=0, label="computing on a fresh batch")
    axes.broken_barh(kinds["reuse"], (0, 1), color=REUSE, linewidth=0, label="computing on a reused batch")
    axes.broken_barh(kinds["stall"], (0, 1), color=STALL, linewidth=0, label="waiting for storage")
    axes.set_yticks([0.5], [name])
    axes.set_xlim(begin, end)
    depth = axes.twinx()
    inside = [step for step in steps if begin <= step["t_s"] <= end]
    depth.step([step["t_s"] for step in inside], [step["depth"] for step in inside], color=DEPTH, where="post",
               linewidth=1.2, label="batches ready")
    depth.set_ylim(0, max(4, max((step["depth"] for step in inside), default=0) * 1.3))
    depth.set_ylabel("batches ready", fontsize=8)
    return axes.get_legend_handles_labels(), depth.get_legend_handles_labels()


def draw_curves(axes, runs):
    named = set()
    for run in runs:
        if not run.curve:
            continue
        seconds, accuracies = zip(*run.curve)
        axes.plot(seconds, [100 * accuracy for accuracy in accuracies], color=CURVES.get(run.policy, DEPTH), marker="o",
                  markersize=3, linewidth=1.2, label=None if run.policy in named else run.policy)
        named.add(run.policy)
    axes.axhline(100 * runs[0].chance, color=DEPTH, linewidth=0.8, linestyle=":")
    axes.set_xlim(left=0)
    axes.set_ylim(0, 100)
    axes.set_ylabel("held-out accuracy, %", fontsize=8)
    axes.set_xlabel("seconds trained")
    axes.legend(loc="lower right", frameon=False, fontsize=9)
    axes.grid(alpha=0.3)


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("out")
    arguments.add_argument("runs", nargs="+")
    arguments.add_argument("--from", dest="begin", type=float, default=5.0)
    arguments.add_argument("--for", dest="length", type=float, default=3.0)
    given = arguments.parse_args()
    runs = [read_run(folder) for folder in given.runs]
    first = {run.policy: folder for run, folder in reversed(list(zip(runs, given.runs)))}
    shown = [policy for policy in dict.fromkeys(run.policy for run in runs)]
    figure, all_axes = pyplot.subplots(len(shown) + 1, 1, figsize=(10, 1.3 * len(shown) + 3.3),
                                       gridspec_kw={"height_ratios": [1] * len(shown) + [2]})
    for axes, policy in zip(all_axes, shown):
        (bar_handles, bar_labels), (line_handles, line_labels) = draw_steps(axes, policy, read_steps(first[policy]),
                                                                            given.begin, given.begin + given.length)
    all_axes[len(shown) - 1].set_xlabel("seconds since the first step")
    draw_curves(all_axes[-1], runs)
    figure.legend(bar_handles + line_handles, bar_labels + line_labels, loc="upper center", ncol=4, frameon=False,
                  fontsize=9)
    figure.tight_layout(rect=(0, 0, 1, 0.95))
    figure.savefig(given.out, dpi=110)


if __name__ == "__main__":
    main()
