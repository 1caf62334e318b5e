#!/usr/bin/env python3
"""Runs scripts/demo many times, each with a seed of its own, keeps what came out, and prints its spread as Markdown.

    spread.py FILE                    prints it
    spread.py FILE --build DIR        first runs the demo; DIR is where command and trainer are built (build/demo/build)
        --runs N        how many (1)
        --first-seed N  of the first one; the others count on from there (17)
        --busy N        beside so many processes that do nothing but take a core (0)
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys

from runs import percent, points, read_run

ROOT = pathlib.Path(__file__).resolve().parents[2]


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


def main(words):
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("file")
    arguments.add_argument("--build")
    arguments.add_argument("--runs", type=int, default=1)
    arguments.add_argument("--first-seed", type=int, default=17)
    arguments.add_argument("--busy", type=int, default=0)
    given = arguments.parse_args(words)
    if given.build:
        run_demo(given.file, given.build, given.runs, given.first_seed, given.busy)
    with open(given.file, encoding="utf-8") as file:
        print("\n".join(markdown([json.loads(line) for line in file])))


if __name__ == "__main__":
    main(sys.argv[1:])
