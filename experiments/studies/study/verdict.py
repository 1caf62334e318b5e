"""The falsifier: what would prove the claim wrong, decided for each cell.

Stated before the runs: adaptive is at least as good at equal time as the best fixed interval chosen in hindsight, and
never significantly below block. "At least as good" is tested with a margin of one point of accuracy.
"""

import statistics

from study.design import DEFAULT, INTERVALS
from study.intervals import bootstrap, paired

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
