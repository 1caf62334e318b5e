"""Which run comes next: a function of the results so far, so that a study continues wherever it was stopped.

First every arm of every cell gets FIRST_SEEDS seeds. Then the arms that decide (adaptive, block, the best interval and
the best echo factor of the cell, the ceiling) get one more seed each until they have MOST_SEEDS, in the cells where the
falsifier is still undecided before all others.
"""

import dataclasses
import statistics

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
