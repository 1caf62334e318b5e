"""Tables and pictures of the results. And of the proof of the method: real runs beside virtual ones, in pairs of the same store, policy and seed."""

import json
import statistics

from study import svg, verdict
from study.design import ADAPTIVE, ARMS, DEFAULT, INTERVALS, ORDER, POINTS, RATIOS, SOURCES, TASKS, Cell
from study.results import kept_lines
from study.verdict import bootstrap

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


# The proof


def key(line):
    return (line["kind"], line["store"], line["policy"], line["seed"])


def read_lines(path):
    return [json.loads(line) for line in kept_lines(path)]


def append_line(path, line):
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(line, separators=(",", ":")) + "\n")


def pairs(lines):
    """[(real, virtual)] in the order of store, policy and seed."""
    virtual = {key(line)[1:]: line for line in lines if line["kind"] == "virtual"}
    real = sorted((line for line in lines if line["kind"] == "real"), key=key)
    return [(line, virtual[key(line)[1:]]) for line in real if key(line)[1:] in virtual]


def accuracy(line):
    return 100 * line["right"][-1] / line["of"]


def with_interval(values, digits=2):
    interval = bootstrap(values)
    said = f"{statistics.fmean(values):+.{digits}f}"
    return said if interval is None else f"{said} [{interval[0]:+.{digits}f} .. {interval[1]:+.{digits}f}]"


def proof_row(name, chosen):
    def both(value, form):
        return " / ".join(form.format(statistics.fmean(value(line) for line in side)) for side in zip(*chosen))

    differences = [accuracy(virtual) - accuracy(real) for real, virtual in chosen]
    fresh = [100 * (virtual["fresh"] / virtual["steps"] - real["fresh"] / real["steps"]) for real, virtual in chosen]
    return [
        name,
        str(len(chosen)),
        both(lambda line: line["steps"], "{:.0f}"),
        both(lambda line: 100 * line["fresh"] / line["steps"], "{:.1f}"),
        with_interval(fresh),
        both(lambda line: line["uses"][1], "{:.1f}"),
        both(lambda line: line["uses"][2], "{:.1f}"),
        both(lambda line: 100 * line["stall"], "{:.1f}"),
        both(accuracy, "{:.2f}"),
        with_interval(differences),
    ]


def proof_table(lines):
    chosen = pairs(lines)
    if not chosen:
        return "There are no pairs of real and virtual runs yet."
    rows = [
        [
            "store, R, policy",
            "pairs",
            "steps",
            "fresh, %",
            "difference, points",
            "uses p99",
            "most",
            "stall, %",
            "accuracy, %",
            "difference, points",
        ],
        ["---"] * 10,
    ]
    kinds = dict.fromkeys((real["store"], real["R"], real["policy"]) for real, _ in chosen)
    for store, ratio, policy in kinds:
        of = [pair for pair in chosen if (pair[0]["store"], pair[0]["policy"]) == (store, policy)]
        rows.append(proof_row(f"{store}, {ratio:g}, {policy}", of))
    rows.append(proof_row("**all**", chosen))
    return "\n".join("| " + " | ".join(cells) + " |" for cells in rows)
