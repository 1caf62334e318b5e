"""Bootstrap intervals, the same every time."""

import functools
import random
import statistics

DRAWS = 4000
FEWEST = 4  # values of which an interval says anything


def bootstrap(values, statistic=statistics.fmean, share=0.95):
    """(low, high) of the statistic, by the percentiles of resampled values; None if there are too few."""
    return _bootstrap(tuple(values), statistic, share)


@functools.cache
def _bootstrap(values, statistic, share):
    if len(values) < FEWEST:
        return None
    chance = random.Random(17)
    drawn = sorted(statistic(chance.choices(values, k=len(values))) for _ in range(DRAWS))
    tail = (1 - share) / 2
    return drawn[int(tail * DRAWS)], drawn[int((1 - tail) * DRAWS) - 1]


def paired(first, second):
    """Differences of {seed: value} where both have the seed, in the order of seeds."""
    return [first[seed] - second[seed] for seed in sorted(first.keys() & second.keys())]
