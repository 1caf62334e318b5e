#!/usr/bin/env python3
"""Keeps what runs of scripts/demo came to, and prints their spread as Markdown.

    spread.py --append FILE --busy N BLOCK_RUN ADAPTIVE_RUN
    spread.py FILE
"""

import argparse
import json
import statistics
import sys

from runs import percent, points, read_run


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


def difference(line):
    return line["adaptive"]["accuracy"] - line["block"]["accuracy"]


def markdown(lines):
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
        cells.append(span([difference(line) for line in chosen], points))
        cells.append(f"{sum(difference(line) > 0 for line in chosen)} of {len(chosen)}")
        out.append("| " + " | ".join(cells) + " |")
    return out


def main(words):
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("file")
    arguments.add_argument("runs", nargs="*")
    arguments.add_argument("--append", action="store_true")
    arguments.add_argument("--busy", type=int, default=0)
    given = arguments.parse_intermixed_args(words)
    if given.append:
        block, adaptive = map(read_run, given.runs)
        with open(given.file, "a", encoding="utf-8") as file:
            file.write(json.dumps(line_of(given.busy, block, adaptive)) + "\n")
        return
    with open(given.file, encoding="utf-8") as file:
        print("\n".join(markdown([json.loads(line) for line in file])))


if __name__ == "__main__":
    main(sys.argv[1:])
