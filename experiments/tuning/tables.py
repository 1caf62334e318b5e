#!/usr/bin/env python3
"""Simulates the figures of README.md and fills in the tables of results/tables.md, between <!-- table: NAME --> and
<!-- end -->:

    tables.py build/release/bin/forebay [--steps 40000] [--seeds 9] [--jobs 2]

Takes about a minute on two cores."""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLES = ROOT / "experiments/tuning/results/tables.md"

BURSTY = ["exponential", "lognormal", "outages of 25", "outages of 100", "outages of 400"]
OUTAGES = BURSTY[2:]
CAPACITIES = [2, 4, 8, 16, 32, 64, 128]
POOLS = [1, 2, 4, 8, 16]
POLICIES = ["adaptive", "proportional", "greedy", "watermark"]
CAPS = [4, 8, 16, 32, 64, 128]
WAITS_MS = [0, 100, 500, 1000]  # a step is 1000 ms
# Batches per step. Not 1 or 1/2: production in phase with the steps behaves like no other.
ON_RATES = [0.45, 0.9, 1.05, 1.2, 1.5, 3]


# Time is counted in steps. Outages: the lengths of both phases are exponentially distributed, these are their means.
SOURCES = {
    "exponential": ["--source", "exponential"],
    "lognormal": ["--source", "lognormal"],
    "outages of 25": ["--source", "outages", "--on", "50", "--off", "25"],
    "outages of 100": ["--source", "outages", "--on", "200", "--off", "100"],
    "outages of 400": ["--source", "outages", "--on", "800", "--off", "400"],
    "constant": ["--source", "constant"],
}


def outages(on, off):
    return ["--source", "outages", "--on", str(on), "--off", str(off)]


class Cell:
    """The runs of one setting, which differ in their seed only."""

    def __init__(self, runs):
        self.runs = runs

    def over_seeds(self, value):
        return [value(run) for run in self.runs]

    def median(self, value):
        return statistics.median(self.over_seeds(value))

    @property
    def evenness(self):
        return self.median(lambda run: run["evenness"])

    @property
    def ratio(self):
        return self.median(ratio)

    @property
    def most(self):
        return self.median(lambda run: run["uses_max"])

    @property
    def row(self):
        return self.median(lambda run: run["longest_run"])

    @property
    def delivered(self):
        """What was served fresh or is ready at the end, in batches."""
        return self.median(lambda run: run["fresh"] + run["left"])

    @property
    def share(self):
        """The same as a share of what the source could have delivered at one batch per step at most."""
        return self.median(lambda run: min(1, (run["fresh"] + run["left"]) / run["possible_fresh_fraction"] / run["steps"]))

    @property
    def fresh(self):
        return self.median(lambda run: run["fresh_fraction"])

    @property
    def stall(self):
        return self.median(lambda run: run["stall_s"] / run["wall_s"])

    @property
    def rate(self):
        """Fresh batches per unit of time."""
        return self.median(lambda run: run["fresh"] / run["wall_s"])


def ratio(run):
    return run["evenness"] / run["optimum"]


class Simulator:
    def __init__(self, command, steps, seeds, jobs):
        self.command = command
        self.steps = steps
        self.seeds = seeds
        self.pool = concurrent.futures.ThreadPoolExecutor(jobs)

    def run(self, source, ratios, policies=("adaptive",), optimum=True, seeds=None, ranks=1, **settings):
        """Cells by (R, policy). Settings are section__key=value, on top of 16 and 4 batches without a cap on uses."""
        settings = {"queue__capacity": 16, "queue__pool": 4, "policy__max_uses": 0, **settings}
        arguments = [self.command, "simulate", "--json", "-", *source, "--policy", ",".join(policies)]
        arguments += ["--steps", str(self.steps), "--seeds", str(seeds or self.seeds), "--ranks", str(ranks)]
        for given in ratios:
            arguments += ["-R", str(given)]
        for key, value in settings.items():
            arguments += ["--set", f"{key.replace('__', '.')}={value}"]
        if not optimum:
            arguments.append("--no-optimum")
        runs = json.loads(subprocess.run(arguments, check=True, capture_output=True, text=True, env=os.environ).stdout)
        cells = {}
        for run in runs:
            cells.setdefault((run["R"], run["policy"]), []).append(run)
        return {key: Cell(of_key) for key, of_key in cells.items()}

    def grid(self, requests):
        """{key: arguments of run()} to {key: cells}, several at a time."""
        futures = {key: self.pool.submit(self.run, *positional, **named)
                   for key, (positional, named) in requests.items()}
        return {key: future.result() for key, future in futures.items()}


def markdown(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)


def percent(share, digits=1):
    return f"{100 * share:.{digits}f}"


def number(value):
    return f"{value:.2f}" if value < 20 else f"{value:.0f}"


def steps(value):
    return f"{value:.0f}"


def capacity(simulator):
    cells = simulator.grid({(source, size): ((SOURCES[source], [3]), {"queue__capacity": size})
                            for source in BURSTY for size in CAPACITIES})

    def text(cell):
        return f"{number(cell.evenness)} ({cell.ratio:.2f}) / {steps(cell.most)} / {percent(cell.share)}"

    rows = [[str(size)] + [text(cells[source, size][3, "adaptive"]) for source in BURSTY] for size in CAPACITIES]
    return {"capacity": markdown(["capacity", *BURSTY], rows)}


def pool(simulator):
    sources = BURSTY[1:]
    cells = simulator.grid({(source, size): ((SOURCES[source], [3]), {"optimum": False, "queue__pool": size})
                            for source in sources for size in POOLS})

    def text(cell):
        return f"{steps(cell.most)} / {steps(cell.row)}"

    rows = [[str(size)] + [text(cells[source, size][3, "adaptive"]) for source in sources] for size in POOLS]
    return {"pool": markdown(["pool", *sources], rows)}


def split(simulator):
    """The same memory for the queue and the pool in different shares."""
    sources = ["lognormal", "outages of 25", "outages of 100", "outages of 400"]
    splits = [(19, 1), (16, 4), (12, 8), (35, 1), (32, 4), (28, 8), (20, 16), (67, 1), (64, 4), (52, 16), (36, 32)]
    cells = simulator.grid({(source, *of): ((SOURCES[source], [3]),
                                            {"optimum": False, "queue__capacity": of[0], "queue__pool": of[1]})
                            for source in sources for of in splits})
    rows = []
    for queue, resident in splits:
        of = [cells[source, queue, resident][3, "adaptive"] for source in sources]
        rows.append([str(queue + resident + 1), str(queue), str(resident)] +
                    [f"{number(cell.evenness)} / {steps(cell.most)}" for cell in of])
    return {"split": markdown(["slots", "capacity", "pool", *sources], rows)}


def policies(simulator):
    sources = ["exponential", "lognormal", "outages of 25", "outages of 100"]
    ratios = [0.8, 1.5, 3, 6]
    cells = simulator.grid({source: ((SOURCES[source], ratios, POLICIES), {}) for source in sources})

    def text(cell):
        return f"{cell.ratio:.2f} / {percent(cell.share)} / {steps(cell.most)}"

    rows = [[source, f"{given:g}"] + [text(cells[source][given, policy]) for policy in POLICIES]
            for source in sources for given in ratios]
    return {"policies": markdown(["source", "R", *POLICIES], rows)}


def reserve(simulator):
    """What adaptive's reserve costs and what it buys, against greedy."""
    requests = {}
    for on, off in ((400, 100), (100, 100), (100, 400)):
        ratios = [round((on + off) / on / rate, 4) for rate in ON_RATES]
        for size in (8, 16, 64):
            requests[on, off, size] = ((outages(on, off), ratios, ["adaptive", "greedy"]),
                                       {"optimum": False, "queue__capacity": size})
    curves = {}
    for key, cells in simulator.grid(requests).items():
        pairs = [(cells[given, "adaptive"], cells[given, "greedy"])
                 for given in sorted({ratio for ratio, _ in cells}, reverse=True)]
        kept = [adaptive.delivered / greedy.delivered for adaptive, greedy in pairs]
        gain = [greedy.evenness / adaptive.evenness for adaptive, greedy in pairs]
        curves[key] = list(zip(kept, gain))
    rows = [[f"{on} / {off}", str(size)] +
            [f"{percent(kept)} / {gain:.1f}" for kept, gain in curve]
            for (on, off, size), curve in curves.items()]
    return {"reserve": markdown(["on / off", "capacity"] + [f"{rate:g}" for rate in ON_RATES], rows)}


def max_uses(simulator):
    sources, ratios = ["lognormal", *OUTAGES], [1.5, 3]
    requests = {}
    for source in sources:
        for cap in CAPS:
            for ranks, seeds in ((1, None), (8, 3)):
                requests[source, cap, ranks] = ((SOURCES[source], ratios), {
                    "optimum": False, "ranks": ranks, "seeds": seeds, "policy__max_uses": cap})
    cells = simulator.grid(requests)

    def text(source, given, cap):
        return " / ".join(percent(cells[source, cap, ranks][given, "adaptive"].stall) for ranks in (1, 8))

    rows = [[source, f"{given:g}"] + [text(source, given, cap) for cap in CAPS]
            for source in sources for given in ratios]
    return {"max-uses": markdown(["source", "R", *map(str, CAPS)], rows)}


def max_wait(simulator):
    sources, ratios = ["constant", "exponential", "lognormal"], [1, 1.1, 1.5]
    cells = simulator.grid({(source, wait): ((SOURCES[source], ratios), {"optimum": False, "policy__max_wait_ms": wait})
                            for source in sources for wait in WAITS_MS})

    def text(source, given, wait):
        cell, without = (cells[source, of][given, "adaptive"] for of in (wait, 0))
        if wait == 0:
            return percent(cell.fresh)
        return f"{percent(cell.fresh)} / {percent(cell.stall)} / {100 * (cell.rate / without.rate - 1):+.1f}"

    rows = [[source, f"{given:g}"] + [text(source, given, wait) for wait in WAITS_MS]
            for source in sources for given in ratios]
    return {"max-wait": markdown(["source", "R", "no wait"] + [f"{wait / 1000:g} steps" for wait in WAITS_MS[1:]], rows)}


def measured(simulator):
    """Ratios to the optimum as the table of forebay simulate has them: mean and worst over 12 seeds, pool 1."""
    compared = POLICIES[:3]
    cells = simulator.grid({source: ((SOURCES[source], [1.5, 3, 6], compared), {"seeds": 12, "queue__pool": 1})
                            for source in BURSTY[:2]})

    def text(cell):
        ratios = cell.over_seeds(lambda run: run["ratio_to_optimum"])
        return f"{sum(ratios) / len(ratios):.2f} / {max(ratios):.2f}"

    rows = [[source, f"{given:g}"] + [text(of[given, policy]) for policy in compared] +
            [percent(of[given, "adaptive"].share)]
            for source, of in cells.items() for given in (1.5, 3, 6)]
    return {"measured": markdown(["source", "R", *compared, "fresh of arrived, adaptive, %"], rows)}


def fill_in(tables):
    text = TABLES.read_text(encoding="utf-8")
    for table, rows in tables.items():
        marked = re.compile(rf"(<!-- table: {table} -->\n).*?(<!-- end -->)", re.DOTALL)
        text, found = marked.subn(lambda mark, rows=rows: f"{mark[1]}\n{rows}\n\n{mark[2]}", text)
        if not found:
            print(f"no place for table {table}:\n{rows}\n")
    TABLES.write_text(text, encoding="utf-8")


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("command", help="the forebay command")
    arguments.add_argument("--steps", type=int, default=40000)
    arguments.add_argument("--seeds", type=int, default=9)
    arguments.add_argument("--jobs", type=int, default=os.cpu_count())
    arguments.add_argument("--only", help="one part, by the name of its function")
    given = arguments.parse_args()
    simulator = Simulator(given.command, given.steps, given.seeds, given.jobs)
    parts = [capacity, pool, split, policies, reserve, max_uses, max_wait, measured]
    tables = {}
    for part in parts:
        if given.only in (None, part.__name__):
            tables.update(part(simulator))
    fill_in(tables)


if __name__ == "__main__":
    main()
