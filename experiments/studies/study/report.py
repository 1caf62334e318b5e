"""Tables and pictures of the results."""

import statistics

from study import plan, svg, verdict
from study.design import ADAPTIVE, ARMS, DEFAULT, INTERVALS, ORDER, POINTS, RATIOS, SOURCES, TASKS, Cell
from study.intervals import bootstrap

NONE = "–"
FAMILIES = (
    "block",
    *INTERVALS[1:],
    "greedy",
    DEFAULT,
    "adaptive.pool1",
    ADAPTIVE,
    "adaptive.pool8",
    "adaptive.cap4",
    "adaptive.cap8",
    "adaptive.cap16",
    "echo2",
    "echo4",
    "echo8",
    "echo16",
    *[arm for arm in ORDER if arm.endswith(".dequeue")],
    "ceiling",
)


def markdown(head, rows):
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [head, ["---"] * len(head), *rows])


def cells_with_results(results, task, source=None):
    """In ascending order of R."""
    return [
        Cell(task, ratio, of)
        for of in ([source] if source else SOURCES)
        for ratio in sorted(RATIOS)
        if any(results.study(Cell(task, ratio, of), arm) for arm in ORDER if ARMS[arm].throttled)
    ]


def said(values, scale=100, digits=1, statistic=statistics.median):
    """Median, interval and number of values."""
    values = [scale * value for value in values]
    if not values:
        return NONE
    form = f"{{:.{digits}f}}"
    interval = bootstrap(values, statistic)
    spread = f" [{form.format(interval[0])} .. {form.format(interval[1])}]" if interval else ""
    return f"{form.format(statistic(values))}{spread} ({len(values)})"


def table(results, task):
    """Held-out accuracy at the end, for each source and R."""
    parts = []
    for source in SOURCES:
        cells = cells_with_results(results, task, source)
        if not cells:
            continue
        rows = [
            [arm, *[said(verdict.accuracies(results, cell, arm).values()) for cell in cells]]
            for arm in FAMILIES
            if any(results.study(cell, arm) for cell in cells)
        ]
        parts.append(
            f"{TASKS[task].title}, {source}: held-out accuracy in %\n\n"
            + markdown(["arm", *[f"R = {cell.ratio:g}" for cell in cells]], rows)
        )
    return "\n\n".join(parts) or "No runs yet."


def compared(results, cell, arm, sign=1, adaptive=DEFAULT):
    """Adaptive less an arm, or with sign = -1 the arm less adaptive: mean, interval and number of pairs, in points."""
    found = verdict.difference(results, cell, arm, adaptive)
    if found is None:
        return NONE
    mean, interval, pairs = found
    low, high = sorted(sign * 100 * end for end in interval) if interval else (0, 0)
    spread = f" [{low:+.1f} .. {high:+.1f}]" if interval else ""
    return f"{sign * 100 * mean:+.1f}{spread} ({pairs})"


def against_adaptive(results, task):
    """What other arms gain or lose against adaptive, seed by seed."""
    cells = cells_with_results(results, task)
    rows = [[arm, *[compared(results, cell, arm, -1) for cell in cells]] for arm in FAMILIES if arm != DEFAULT]
    rows = [row for row in rows if set(row[1:]) != {NONE}]
    head = ["arm − adaptive", *[f"{cell.source}, R = {cell.ratio:g}" for cell in cells]]
    return f"{TASKS[task].title}\n\n" + markdown(head, rows)


def verdict_table(results, adaptive=DEFAULT):
    """The falsifier, cell by cell."""

    rows = []
    for task in TASKS:
        for cell in cells_with_results(results, task):
            best = verdict.best_interval(results, cell)
            if best is None or not results.study(cell, adaptive):
                continue
            rows.append(
                [
                    TASKS[task].title,
                    cell.source,
                    f"{cell.ratio:g}",
                    compared(results, cell, "block", adaptive=adaptive),
                    best,
                    compared(results, cell, best, adaptive=adaptive),
                    f"**{verdict.of(results, cell, adaptive)}**",
                ]
            )
    return markdown(
        ["data", "source", "R", "adaptive − block", "best interval", "adaptive − best interval", "falsifier"], rows
    )


def deciding_table(results):
    """The cells in which the defaults of today do not hold, or those of before fail."""
    rows = []
    for task in TASKS:
        for cell in cells_with_results(results, task):
            best = verdict.best_interval(results, cell)
            if best is None:
                continue
            arms = [arm for arm in (DEFAULT, ADAPTIVE) if results.study(cell, arm)]
            verdicts = {arm: verdict.of(results, cell, arm) for arm in arms}
            if verdicts.get(DEFAULT) == "holds" and verdicts.get(ADAPTIVE) != "fails":
                continue
            row = [TASKS[task].title, cell.source, f"{cell.ratio:g}"]
            for arm in (DEFAULT, ADAPTIVE):
                is_known = arm in verdicts
                row.append(compared(results, cell, "block", adaptive=arm) if is_known else NONE)
                if arm == DEFAULT:
                    row.append(compared(results, cell, best, adaptive=arm) if is_known else NONE)
                row.append(f"**{verdicts[arm]}**" if is_known else NONE)
            rows.append(row)
    head = ["data", "source", "R", "today − block", "− best interval", "", "before − block", ""]
    return markdown(head, rows)


def reached_at(result, target):
    """The share of the time after which a run was as good as `target`, between points of its curve; None: never."""
    before = 0.0
    for place, right in enumerate(result.right):
        now = right / result.of
        if now >= target:
            part = (target - before) / (now - before) if place > 0 else 1.0
            return (place + part) / POINTS
        before = now
    return None


def speed_table(results, task):
    """How many times sooner an arm was as good as block was in the end, with the same seed."""

    def times(cell, arm):
        block = results.study(cell, "block")
        found = []
        for seed, result in results.study(cell, arm).items():
            if seed in block:
                reached = reached_at(result, block[seed].accuracy)
                found.append(1 / reached if reached else 0.0)
        return said(found, scale=1, digits=2, statistic=statistics.median_low)  # no mean of "never" and a number

    parts = []
    for source in SOURCES:
        cells = cells_with_results(results, task, source)
        rows = [
            [arm, *[times(cell, arm) for cell in cells]]
            for arm in FAMILIES
            if any(results.study(cell, arm) for cell in cells)
        ]
        if rows:
            parts.append(
                f"{TASKS[task].title}, {source}: times sooner\n\n"
                + markdown(["arm", *[f"R = {cell.ratio:g}" for cell in cells]], rows)
            )
    return "\n\n".join(parts) or "No runs yet."


def compute_table(results, task):
    """Steps and processor time that each arm spends, over all sources."""
    ratios = [
        ratio
        for ratio in sorted(RATIOS)
        if any(results.study(Cell(task, ratio, source), ADAPTIVE) for source in SOURCES)
    ]

    def spent(ratio, arm):
        of = [result for source in SOURCES for result in results.study(Cell(task, ratio, source), arm).values()]
        if not of:
            return NONE
        return (
            f"{statistics.median(result.steps for result in of):.0f} steps, "
            f"{statistics.median(result.cpu_s for result in of):.1f} s"
        )

    rows = [
        [arm, *[spent(ratio, arm) for ratio in ratios]]
        for arm in FAMILIES
        if any(spent(ratio, arm) != NONE for ratio in ratios)
    ]
    return f"{TASKS[task].title}\n\n" + markdown(["arm", *[f"R = {ratio:g}" for ratio in ratios]], rows)


def rates_table(results, task):
    """The learning rates that tuning chose."""
    cells = cells_with_results(results, task, plan.TUNING_SOURCE)

    def chosen(cell, arm):
        tried = results.tuned(cell.of(arm), arm)
        return f"{plan.best_rate(tried):g}" if tried else NONE

    rows = [
        [arm, *[chosen(cell, arm) for cell in cells]]
        for arm in FAMILIES
        if any(chosen(cell, arm) != NONE for cell in cells)
    ]
    return f"{TASKS[task].title}\n\n" + markdown(["arm", *[f"R = {cell.ratio:g}" for cell in cells]], rows)


def shown_arms(results, cell):
    """(arm, colour, dashed) of the lines of a panel."""
    best = verdict.best_interval(results, cell)
    echoes = [arm for arm in ORDER if ARMS[arm].echo and results.study(cell, arm)]
    shown = [
        ("block", "block", 0, False),
        (DEFAULT, "adaptive", 1, False),
        (ADAPTIVE, "adaptive, the defaults before", 4, False),
        ("adaptive.pool4.dequeue", "those with new views", 4, True),
    ]
    if best not in (None, "block"):
        shown.append((best, "best interval in hindsight", 2, False))
    if echoes:
        best_echo = max(echoes, key=lambda arm: statistics.fmean(verdict.accuracies(results, cell, arm).values()))
        shown.append((best_echo, "best echo factor in hindsight", 3, False))
    shown.append(("ceiling", "no throttle", 6, True))
    return [(arm, name, svg.COLOURS[colour], dashed) for arm, name, colour, dashed in shown if results.study(cell, arm)]


def curves(results, task):
    """Accuracy over time: a panel for each source and R."""
    panels = []
    for cell in cells_with_results(results, task):
        lines = []
        for arm, name, colour, dashed in shown_arms(results, cell):
            runs = list(results.study(cell, arm).values())
            points = [
                (
                    (place + 1) / POINTS * TASKS[task].steps,
                    100 * statistics.median(run.right[place] / run.of for run in runs),
                )
                for place in range(POINTS)
            ]
            lines.append(svg.Line(name, points, colour, dashed=dashed))
        panels.append(svg.Panel(f"R = {cell.ratio:g}, {cell.source}", "time in steps", "held-out accuracy, %", lines))
    return svg.chart(f"{TASKS[task].title}: accuracy over time, medians", panels, 3)
