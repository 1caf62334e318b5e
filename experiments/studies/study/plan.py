"""Which run comes next: a function of the results so far, so that a study continues wherever it was stopped.

First every arm of every cell gets FIRST_SEEDS seeds. Then the arms that decide (adaptive, block, the best interval and
the best echo factor of the cell, the ceiling) get one more seed each until they have MOST_SEEDS, in the cells where the
falsifier is still undecided before all others.
"""

import collections
import dataclasses
import statistics
import sys
import time

from study import verdict
from study.design import (
    ADAPTIVE,
    ARMS,
    DEFAULT,
    FIRST_SEEDS,
    INTERVALS,
    MOST_SEEDS,
    ORDER,
    RATIOS,
    SOURCES,
    TASKS,
    TUNING_SEED,
    TUNING_SOURCE,
    Cell,
    Run,
)

STEP = 2.5  # between learning rates that are tried
FARTHEST = 2  # steps from the first one
FIRST_ARMS = 8  # of ORDER, which are run in all cells before the others


@dataclasses.dataclass(frozen=True)
class Scope:
    """The part of the study that is to be made."""

    tasks: tuple = tuple(TASKS)
    ratios: tuple = RATIOS
    sources: tuple = SOURCES
    arms: tuple = ORDER
    first_seeds: int = FIRST_SEEDS
    most_seeds: int = MOST_SEEDS
    from_seed: int = 1

    def cells(self):
        return [Cell(task, ratio, source) for task in self.tasks for source in self.sources for ratio in self.ratios]


def tuning_cell(cell):
    return cell if cell.source == "none" else Cell(cell.task, cell.ratio, TUNING_SOURCE)


def rates_missing(tried, first):
    """Learning rates to try next: three side by side, then further in the direction of the best."""

    def rate(place):
        return float(f"{first * STEP**place:.3g}")

    missing = [rate(place) for place in (0, -1, 1) if rate(place) not in tried]
    if missing:
        return missing
    for direction in (-1, 1):
        for place in range(1, FARTHEST + 1):
            if max(tried, key=tried.get) != rate(direction * place):
                continue
            if place < FARTHEST and rate(direction * (place + 1)) not in tried:
                return [rate(direction * (place + 1))]
    return []


def best_rate(tried):
    """The rate with the best accuracy; the smaller one of equals."""
    return max(sorted(tried), key=tried.get)


def needed(results, cell, arm, seeds, first=1):
    """The runs that are missing until an arm has so many seeds, from the first on, in a cell; those that tune it come
    first."""
    cell = cell.of(arm)
    missing = [seed for seed in range(first, first + seeds) if Run("study", cell, arm, seed, 0.0) not in results]
    if not missing:
        return []
    tuned = ARMS[arm].tuned_as or arm
    tried = results.tuned(tuning_cell(cell), tuned)
    rates = rates_missing(tried, TASKS[cell.task].rate)
    if rates:
        return [Run("tune", tuning_cell(cell), tuned, TUNING_SEED, rate) for rate in rates]
    return [Run("study", cell, arm, seed, best_rate(tried)) for seed in missing]


def deciding(results, cell, arms):
    """The arms that get more seeds."""

    def mean(arm):
        return statistics.fmean(result.accuracy for result in results.study(cell, arm).values())

    chosen = {DEFAULT, ADAPTIVE, "block", "ceiling", "adaptive.pool4.dequeue", "adaptive.cap8"}
    for group in (INTERVALS, [arm for arm in arms if ARMS[arm].echo]):
        known = [arm for arm in group if results.study(cell, arm)]
        if known:
            chosen.add(max(known, key=mean))
    return [arm for arm in arms if arm in chosen]


def pending(results, scope):
    """The runs that can be made now, most important first; more may follow from their results."""
    runs = []

    def want(cell, arm, seeds):
        for run in needed(results, cell, arm, seeds, scope.from_seed):
            if run not in runs:
                runs.append(run)

    for tier in (scope.arms[:FIRST_ARMS], scope.arms[FIRST_ARMS:]):
        for cell in scope.cells():
            for arm in tier:
                want(cell, arm, scope.first_seeds)
    if runs:
        return runs
    for seeds in range(scope.first_seeds + 1, scope.most_seeds + 1):
        for undecided in (True, False):
            for cell in scope.cells():
                if (verdict.of(results, cell) == verdict.UNDECIDED) != undecided:
                    continue
                for arm in deciding(results, cell, scope.arms):
                    want(cell, arm, seeds)
            if runs:
                return runs
    return runs


FIRST_GUESS = 0.004  # seconds per step, before there is a result
EVERY = 30  # seconds between lines where there is no terminal


class Progress:
    """A bar with an estimate on a terminal, else a line now and then."""

    def __init__(self, results, scope):
        self._scope = scope
        self._started = time.monotonic()
        self._last = -EVERY
        self._made = 0
        self._per_step = collections.defaultdict(list)  # {task: seconds of processor per step}
        for result in results:
            self._count(result)

    def _count(self, result):
        self._per_step[result.run.cell.task].append(result.cpu_s / max(1, result.steps))

    def seconds(self, run):
        """How long a run will take, about."""
        known = self._per_step.get(run.cell.task)
        interval = ARMS[run.arm].interval if ARMS[run.arm].policy in ("interval", "block") else float("inf")
        share = min(1.0, interval / max(run.cell.ratio, 1e-9)) if ARMS[run.arm].throttled else 1.0
        steps = ARMS[run.arm].steps(TASKS[run.cell.task], run.cell.ratio)
        return steps * share * (statistics.median(known) if known else FIRST_GUESS) + 2

    def show(self, result, waiting):
        """After a run, with as many others that can be made now; those that follow from them are not known yet."""
        self._count(result)
        self._made += 1
        now = time.monotonic()
        run = result.run
        whole = self._made + max(0, waiting - 1)
        left = (now - self._started) / self._made * (whole - self._made)
        width = 20 * self._made // max(1, whole)
        line = (
            f"{'█' * width}{'░' * (20 - width)} {self._made}/{whole}  {left / 60:.0f} min left  "
            f"{run.stage} {run.cell.task} R={run.cell.ratio:g} {run.cell.source} {run.arm} seed {run.seed}: "
            f"{100 * result.accuracy:.1f} %"
        )
        if sys.stderr.isatty():
            print(f"\r{line}\033[K", end="", file=sys.stderr, flush=True)
        elif now - self._last >= EVERY:
            self._last = now
            print(line, file=sys.stderr, flush=True)

    def end(self, waiting):
        minutes = (time.monotonic() - self._started) / 60
        more = f"; {waiting} more are known, the same command continues" if waiting else "; nothing is left to run"
        print(f"\n{self._made} runs in {minutes:.1f} min{more}", file=sys.stderr)
