"""Runs `forebay simulate` over a grid and takes medians over seeds."""

import concurrent.futures
import json
import os
import statistics
import subprocess

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
