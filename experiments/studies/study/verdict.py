"""The falsifier: what would prove the claim wrong, decided for each cell.

Stated before the runs: adaptive is at least as good at equal time as the best fixed interval chosen in hindsight, and
never significantly below block. "At least as good" is tested with a margin of one point of accuracy.
Intervals are bootstrapped, the same every time.
"""

import functools
import random
import statistics

from study.design import DEFAULT, INTERVALS

DRAWS = 4000
FEWEST_VALUES = 4  # of which an interval says anything


def bootstrap(values, statistic=statistics.fmean, share=0.95):
    """(low, high) of the statistic, by the percentiles of resampled values; None if there are too few."""
    return _bootstrap(tuple(values), statistic, share)


@functools.cache
def _bootstrap(values, statistic, share):
    if len(values) < FEWEST_VALUES:
        return None
    chance = random.Random(17)
    drawn = sorted(statistic(chance.choices(values, k=len(values))) for _ in range(DRAWS))
    tail = (1 - share) / 2
    return drawn[int(tail * DRAWS)], drawn[int((1 - tail) * DRAWS) - 1]


def paired(first, second):
    """Differences of {seed: value} where both have the seed, in the order of seeds."""
    return [first[seed] - second[seed] for seed in sorted(first.keys() & second.keys())]


MARGIN = 0.01  # of accuracy
FEWEST = 6  # seeds: an interval of fewer values is too narrow to decide by
HOLDS, FAILS, UNDECIDED = "holds", "fails", "undecided"


def accuracies(results, cell, arm):
    return {seed: result.accuracy for seed, result in results.study(cell, arm).items()}


def best_interval(results, cell):
    """The fixed interval with the highest mean accuracy, known only afterwards; None before there is one."""
    known = [arm for arm in INTERVALS if results.study(cell, arm)]
    return max(known, key=lambda arm: statistics.fmean(accuracies(results, cell, arm).values())) if known else None


def difference(results, cell, arm, adaptive=DEFAULT):
    """(mean, interval or None, pairs) of adaptive's accuracy less that of an arm, or None."""
    pairs = paired(accuracies(results, cell, adaptive), accuracies(results, cell, arm))
    return (statistics.fmean(pairs), bootstrap(pairs), len(pairs)) if pairs else None


def judge(compared):
    if compared is None or compared[2] < FEWEST:
        return UNDECIDED
    low, high = compared[1]
    if high < 0:
        return FAILS
    return HOLDS if low > -MARGIN else UNDECIDED


def of(results, cell, adaptive=DEFAULT):
    """Of both comparisons together."""
    best = best_interval(results, cell)
    if best is None:
        return UNDECIDED
    said = {judge(difference(results, cell, arm, adaptive)) for arm in (best, "block")}
    return next(word for word in (FAILS, UNDECIDED, HOLDS) if word in said)
