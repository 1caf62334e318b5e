"""One thing to measure: rows that are run in turn, and what must hold of them."""

import os

from bench import BATCH, interleave

COMMON = """\
[dataset]
format = "{format}"
path = "{path}"
batch_size = {batch}
[transform]
crop = "random_resized"
size = [{size}, {size}]
mirror = 0.5
[queue]
capacity = 16
pool = 1
[policy]
name = "block"
[telemetry]
dir = ""
per_step = true
decisions = false
interval_s = 0
live = "never"
[trainer]
step_ms = 0
[run]
steps = 1000000000
"""


class Check:
    """A figure against what was wanted of it; without a figure it is open, not passed."""

    def __init__(self, name, value, wanted, at_most=False):
        self.name, self.value, self.wanted, self.at_most = name, value, wanted, at_most

    @property
    def passed(self):
        if self.value is None:
            return None
        return self.value <= self.wanted if self.at_most else self.value >= self.wanted

    def __str__(self):
        figure = "not measured" if self.value is None else f"{self.value:.3f}"
        says = {True: "pass", False: "FAIL", None: "open"}[self.passed]
        return f"{says}  {self.name:<58} {figure:>12}  wanted {'<=' if self.at_most else '>='} {self.wanted}"

    def to_json(self):
        return {"name": self.name, "value": self.value, "wanted": self.wanted, "passed": self.passed}


class Case:
    reference = None  # a row that the others are compared with

    def __init__(self, name, title, rows, checks, base=None):
        self.name, self.title, self.rows, self._checks, self.base = name, title, rows, checks, base

    def run(self, rounds, say):
        interleave(self.rows, rounds, say)

    def checks(self):
        return self._checks()


def config_file(bench, name, form, path, size):
    file = os.path.join(bench.folder, f"{name}.toml")
    with open(file, "w", encoding="utf-8") as out:
        out.write(COMMON.format(format=form, path=path, batch=BATCH, size=size))
    return file


def ratio(rows, key, other):
    return rows[key].ratio_to(rows[other]) if key in rows and other in rows else None


def read_once(path):
    """Brings a container into the page cache."""
    for name in os.listdir(path):
        with open(os.path.join(path, name), "rb", buffering=0) as file:
            while file.read(1 << 22):
                pass
