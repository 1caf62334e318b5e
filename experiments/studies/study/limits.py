"""What limits reuse: what a use is worth, which limits were tried, and what held on seeds that chose nothing."""

import statistics

from study import svg, verdict
from study.design import ADAPTIVE, ARMS, PROOF_SEEDS, RATIOS, REUSE, SOURCES, TASKS, Cell
from study.report import NONE, markdown, said
from study.verdict import bootstrap, paired

USES = (1, 2, 4, 8, 16)
KINDS = (  # of `usesN`: name, what follows in the arm's name
    ("the same views", ""),
    ("new views", ".dequeue"),
)


def accuracies(results, cell, arm, is_proof):
    of = verdict.accuracies(results, cell, arm)
    return {seed: value for seed, value in of.items() if (seed >= PROOF_SEEDS) == is_proof}


def difference(results, cell, arm, other, is_proof, scale=100):
    """Of an arm less another one in points: mean, interval and number of pairs."""
    return of_pairs(paired(accuracies(results, cell, arm, is_proof), accuracies(results, cell, other, is_proof)), scale)


def of_pairs(pairs, scale=100):
    if not pairs:
        return NONE
    interval = bootstrap(pairs)
    spread = f" [{scale * interval[0]:+.1f} .. {scale * interval[1]:+.1f}]" if interval else ""
    return f"{scale * statistics.fmean(pairs):+.1f}{spread} ({len(pairs)})"


# What a use is worth


def mean(results, cell, arm):
    values = verdict.accuracies(results, cell, arm).values()
    return statistics.fmean(values) if values else None


def batches(cell):
    return round(TASKS[cell.task].steps / cell.ratio)


def fresh_curve(results, task):
    """[(batches, accuracy)] of runs in which every step is fresh, ascending."""
    known = {
        batches(result.run.cell): mean(results, result.run.cell, "uses1")
        for result in results
        if result.run.stage == "study" and result.run.arm == "uses1" and result.run.cell.task == task
    }
    return sorted(known.items())


def worth(curve, accuracy):
    """How many fresh batches give that accuracy, between points of the curve on a logarithmic scale; None outside."""
    for (fewer, low), (more, high) in zip(curve, curve[1:]):
        if low <= accuracy <= high:
            return fewer * (more / fewer) ** ((accuracy - low) / (high - low))
    return None


def worth_cells(results, task):
    return [
        cell
        for ratio in sorted(RATIOS)
        if any(results.study(cell := Cell(task, ratio, "none"), f"uses{uses}") for uses in USES[1:])
    ]


def worth_table(results, task):
    """Accuracy and worth by number of uses."""
    curve = fresh_curve(results, task)
    parts = []
    for cell in worth_cells(results, task):
        kinds = [kind for kind in KINDS if any(results.study(cell, f"uses{uses}{kind[1]}") for uses in USES[1:])]
        rows = []
        for uses in USES:
            row = [str(uses)]
            for _, ending in kinds:
                found = mean(results, cell, "uses1" if uses == 1 else f"uses{uses}{ending}")
                if found is None:
                    row.append(NONE)
                    continue
                gives = worth(curve, found)
                row.append(f"{100 * found:.1f}" + (f" = {gives / batches(cell):.1f} ×" if gives and uses > 1 else ""))
            all_fresh = mean(results, Cell(task, cell.ratio / uses, "none"), "uses1")
            rows.append([*row, f"{100 * all_fresh:.1f}" if all_fresh else NONE])
        seeds = len(results.study(cell, "uses4"))
        head = ["uses", *[name for name, _ in kinds], "as many steps, all fresh"]
        parts.append(
            f"{TASKS[task].title}, {batches(cell)} batches (of a source of R = {cell.ratio:g}), {seeds} seeds\n\n"
            + markdown(head, rows)
        )
    return "\n\n".join(parts)


def worth_chart(results, task):
    panels = []
    for cell in worth_cells(results, task):
        lines = []
        for place, (name, ending) in enumerate(KINDS):
            points = []
            for at, uses in enumerate(USES):
                found = mean(results, cell, "uses1" if uses == 1 else f"uses{uses}{ending}")
                if found is not None:
                    points.append((at, 100 * found))
            if len(points) > 1:
                lines.append(svg.Line(name, points, svg.COLOURS[place + 1]))
        fresh = [(at, mean(results, Cell(task, cell.ratio / uses, "none"), "uses1")) for at, uses in enumerate(USES)]
        fresh = [(at, 100 * value) for at, value in fresh if value is not None]
        lines.append(svg.Line("as many steps, all fresh", fresh, svg.COLOURS[6], dashed=True))
        panels.append(
            svg.Panel(
                f"{batches(cell)} batches (R = {cell.ratio:g})",
                "uses of each batch",
                "held-out accuracy, %",
                lines,
                xs=[(at, str(uses)) for at, uses in enumerate(USES)],
            )
        )
    return svg.chart(f"{TASKS[task].title}: what further uses of a batch are worth, means", panels, 2)


# Which limits were tried, and what held


def limit_arms(results, cells, is_proof):
    return [
        arm
        for arm in ARMS
        if arm.startswith("adaptive.")
        and ARMS[arm].share == 1
        and ARMS[arm].views == 1
        and arm != ADAPTIVE
        and any(accuracies(results, cell, arm, is_proof) for cell in cells)
    ]


def cells_of(results, task, is_proof):
    return [cell for cell in all_cells(task) if accuracies(results, cell, ADAPTIVE, is_proof)]


def all_cells(task):
    return [Cell(task, ratio, source) for source in SOURCES for ratio in sorted(RATIOS)]


def compared_table(results, task, is_proof):
    """Limits against `adaptive` without any."""
    cells = cells_of(results, task, is_proof)
    if not cells:
        return ""
    arms = limit_arms(results, cells, is_proof)
    if is_proof:
        arms = ["block", *arms, "ceiling"]
    rows = [[arm, *[difference(results, cell, arm, ADAPTIVE, is_proof) for cell in cells]] for arm in arms]
    head = ["arm − adaptive", *[f"{cell.source}, R = {cell.ratio:g}" for cell in cells]]
    return f"{TASKS[task].title}\n\n" + markdown(head, rows)


def long_table(results, task):
    """Long runs against `block`."""
    cells = cells_of(results, task, True) if task.endswith("-long") else []
    if not cells:
        return ""
    arms = (ADAPTIVE, *limit_arms(results, cells, True), "ceiling")
    rows = [[arm, *[difference(results, cell, arm, "block", True) for cell in cells]] for arm in arms]
    head = ["arm − block", *[f"{cell.source}, R = {cell.ratio:g}" for cell in cells]]
    return f"{TASKS[task].title}\n\n" + markdown(head, rows)


def accuracy_table(results, task):
    """Medians over the seeds of the proof."""
    cells = cells_of(results, task, True)
    if not cells:
        return ""
    rows = [
        [arm, *[said(accuracies(results, cell, arm, True).values()) for cell in cells]]
        for arm in ("block", ADAPTIVE, *limit_arms(results, cells, True), "ceiling")
    ]
    head = ["held-out accuracy in %", *[f"{cell.source}, R = {cell.ratio:g}" for cell in cells]]
    return f"{TASKS[task].title}\n\n" + markdown(head, rows)


# Several views of a sample in a batch


def views_table(results, task, other_rate):
    """Against reuse with new views, of the seeds of the proof. `other_rate`: runs of it with another learning rate."""
    cells = [cell for cell in all_cells(task) if accuracies(results, cell, "block.views2", True)]
    if not cells:
        return ""
    arms = [arm for arm in ARMS if ARMS[arm].views > 1]
    rows = [[REUSE, *[said(accuracies(results, cell, REUSE, True).values()) for cell in cells]]]
    for arm in ("block", *arms, "ceiling"):
        row = [difference(results, cell, arm, REUSE, True) for cell in cells]
        rows += [[f"{arm.replace(REUSE, '….dequeue')} − that", *row]] if set(row) != {NONE} else []
    others = [accuracies(other_rate, cell, REUSE, True) for cell in cells]
    if any(others):
        (rate,) = {result.run.rate for result in other_rate}
        here = [accuracies(results, cell, REUSE, True) for cell in cells]
        both = [accuracies(results, cell, f"{REUSE}.views2", True) for cell in cells]
        rows.append([f"with the rate {rate:g} − that", *map(of_pairs, map(paired, others, here))])
        rows.append([f"….dequeue.views2 − with the rate {rate:g}", *map(of_pairs, map(paired, both, others))])
    head = ["held-out accuracy in %", *[f"{cell.source}, R = {cell.ratio:g}" for cell in cells]]
    return f"{TASKS[task].title}\n\n" + markdown(head, rows)


# Each node its own samples


def nodes_table(results, task):
    """Parts of the data at nodes, of the seeds of the proof, against a full shuffle."""
    cell = Cell(task, 0.0, "none")
    arms = [arm for arm in ARMS if ARMS[arm].nodes and accuracies(results, cell, arm, True)]
    rows = [
        [arm, said(accuracies(results, cell, arm, True).values()), difference(results, cell, arm, "nodes8", True)]
        for arm in arms
    ]
    return markdown(["arm", "held-out accuracy in %", "− nodes8"], rows) if rows else ""


# The goals


def goals_table(results):
    """Runs of a part of the time, with the whole schedule in it, against `block` with all of it, at R = 6."""
    rows = []
    for task in TASKS:
        for cell in all_cells(task):
            arms = [arm for arm in ARMS if ARMS[arm].share <= 0.5 and accuracies(results, cell, arm, True)]
            if cell.ratio != 6 or not any(ARMS[arm].throttled for arm in arms):
                continue
            for arm in arms:
                rows.append(
                    [
                        TASKS[task].title,
                        f"{cell.source}, R = {cell.ratio:g}",
                        arm.rsplit(".in", 1)[0],
                        f"{1 / ARMS[arm].share:.2f} × sooner",
                        "of the whole time" if ARMS[arm].tuned_as else "its own",
                        difference(results, cell, arm, "block", True),
                    ]
                )
    return (
        markdown(["data", "source", "arm", "time", "learning rate", "arm − block with all of the time"], rows)
        if rows
        else "No runs yet."
    )


def ceiling_table(results):
    """R = 3: accuracy in a unit of time against the ceiling's."""
    rows = []
    for task in TASKS:
        for cell in all_cells(task):
            if cell.ratio != 3 or not accuracies(results, cell, "ceiling.in90", True):
                continue
            for arm in ("block", ADAPTIVE, *limit_arms(results, [cell], True)):
                ceiling = accuracies(results, cell, "ceiling", True)
                of = accuracies(results, cell, arm, True)
                shares = [of[seed] / ceiling[seed] for seed in sorted(of.keys() & ceiling.keys())]
                if shares:
                    rows.append(
                        [
                            TASKS[task].title,
                            cell.source,
                            arm,
                            said(shares, scale=1, digits=3),
                            difference(results, cell, arm, "ceiling.in90", True),
                        ]
                    )
    head = ["data", "source, R = 3", "arm", "accuracy ÷ the ceiling's", "arm − ceiling in 0.9 of the time"]
    return markdown(head, rows) if rows else "No runs yet."
