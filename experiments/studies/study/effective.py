"""What a use is worth: U fresh samples, used r times more each, count as U(1 + R*(1 - e^(-r/R*))) (Muennighoff et al.,
"Scaling Data-Constrained Language Models", 2023). Fits R*, and predicts cells that were held out."""

import collections
import dataclasses
import math
import statistics

from study.design import ARMS, DEQUEUE, RATIOS, SOURCES
from study.report import markdown

FEWEST_ARMS = 5  # of a task, to fit its curve
WORTHS = tuple(2 ** (k / 2) for k in range(-2, 11))  # R* that are tried: 0.5 to 32
# R* of the same views and of new ones; none: fitted. Infinite: a use is worth as much as a fresh batch.
MODELS = {"effective": None, "fresh": (0, 0), "steps": (math.inf, math.inf)}


@dataclasses.dataclass(frozen=True)
class Point:
    """An arm in a cell: means over its seeds."""

    task: str
    ratio: float
    source: str
    is_new: bool  # views at each use
    fresh: float  # U, in batches; those of later epochs count as others do
    extra: float  # r
    accuracy: float


def points_of(results):
    found = collections.defaultdict(list)
    for result in results:
        arm = ARMS[result.run.arm]
        is_plain = not arm.weight and not arm.echo and arm.share == 1 and arm.views == 1
        if result.run.stage == "study" and is_plain:
            found[result.run.cell, arm.name].append(result)
    points = []
    for (cell, name), of in sorted(found.items(), key=lambda item: str(item[0])):
        if len(of) < 2:
            continue
        fresh = statistics.fmean(result.fresh * result.steps for result in of)
        extra = statistics.fmean(result.steps for result in of) / fresh - 1
        accuracy = statistics.fmean(result.accuracy for result in of)
        is_new = DEQUEUE[0] in ARMS[name].keys
        points.append(Point(cell.task, cell.ratio, cell.source, is_new, fresh, extra, accuracy))
    return points


def effective(point, worths):
    """In batches."""
    worth = worths[point.is_new]
    if worth == 0 or math.isinf(worth):
        return point.fresh * (1 + point.extra if worth else 1)
    return point.fresh * (1 + worth * (1 - math.exp(-point.extra / worth)))


def solved(rows):
    """The solution of linear equations, by elimination; each row ends with its right-hand side."""
    rows = [list(row) for row in rows]
    for at in range(len(rows)):
        best = max(range(at, len(rows)), key=lambda row: abs(rows[row][at]))
        rows[at], rows[best] = rows[best], rows[at]
        for other in range(len(rows)):
            if other != at:
                factor = rows[other][at] / rows[at][at]
                rows[other] = [left - factor * right for left, right in zip(rows[other], rows[at])]
    return [row[-1] / row[at] for at, row in enumerate(rows)]


def terms(point, worths):
    x = math.log(effective(point, worths) / 300)
    return (1, x, x * x)


def curves(points, worths):
    """{task: (a, b, c)} by least squares."""
    made = {}
    for task in {point.task for point in points}:
        rows = [(*terms(point, worths), point.accuracy) for point in points if point.task == task]
        if len(rows) >= FEWEST_ARMS:
            made[task] = solved([[sum(row[i] * row[j] for row in rows) for j in range(4)] for i in range(3)])
    return made


def errors(points, made, worths):
    return [
        point.accuracy - sum(factor * term for factor, term in zip(made[point.task], terms(point, worths)))
        for point in points
        if point.task in made
    ]


def squares(points, worths):
    return sum(error * error for error in errors(points, curves(points, worths), worths))


def fitted(points):
    """The R* of the same views and of new ones that leave the least error."""
    worths = [4.0, 4.0]
    for _ in range(3):
        for kind in (False, True):
            tried = [[worth, worths[1]] if not kind else [worths[0], worth] for worth in WORTHS]
            worths = min(tried, key=lambda of: squares(points, of))
    return worths


def held_out(points, member, values):
    """{model: errors of the same views, of new ones}, the points of each value in turn predicted from the others."""
    made = {model: ([], []) for model in MODELS}
    for value in values:
        known = [point for point in points if getattr(point, member) != value]
        asked = [point for point in points if getattr(point, member) == value]
        for model, worths in MODELS.items() if asked else ():
            worths = worths or fitted(known)
            of = curves(known, worths)
            for is_new in (False, True):
                made[model][is_new].extend(errors([point for point in asked if point.is_new == is_new], of, worths))
    return made


def root_mean_square(values):
    return math.sqrt(statistics.fmean(value * value for value in values)) if values else math.nan


def table(results):
    points = points_of(results)
    found = fitted(points)
    rows = []
    for name, of in (("ratio", RATIOS), ("source", SOURCES)):
        made = held_out(points, name, of)
        for is_new, views in ((False, "the same"), (True, "new")):
            left = [f"{100 * root_mean_square(made[model][is_new]):.1f}" for model in MODELS]
            rows.append(
                [{"ratio": "R"}.get(name, name), views, str(len(made["fresh"][is_new])), f"{found[is_new]:.1f}", *left]
            )
    head = ["held out", "views", "arms in cells", "R\\* of all", "effective samples", "fresh alone", "steps alone"]
    return markdown(head, rows)
