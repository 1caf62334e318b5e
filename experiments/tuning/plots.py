"""The plots of README.md."""

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot, ticker

FOLDER = None
# Told apart by everyone, in print too (Okabe and Ito 2008), with a marker each.
COLOURS = ["#0072b2", "#e69f00", "#009e73", "#d55e00", "#6a3d9a", "#56b4e9"]
MARKERS = ["o", "s", "^", "D", "v", "P"]
EVENNESS = "Σ uses² / steps / R"

pyplot.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
                        "grid.color": "#dddddd", "lines.markersize": 4, "lines.linewidth": 1.4,
                        "figure.facecolor": "white"})


def line(axes, index, xs, ys, label, **more):
    axes.plot(xs, ys, color=COLOURS[index], marker=MARKERS[index], label=label, **more)


def powers_of_two(axis, values):
    axis.set_xscale("log", base=2)
    axis.set_xticks(values, [str(value) for value in values])
    axis.xaxis.set_minor_locator(ticker.NullLocator())


def plain_log(axis, ticks):
    axis.set_yscale("log")
    axis.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.yaxis.set_minor_locator(ticker.NullLocator())


def save(figure, name, legend_from, columns, top):
    """With one legend above all panels, filled row by row."""
    entries = list(zip(*legend_from.get_legend_handles_labels()))
    by_column = [entry for column in range(columns) for entry in entries[column::columns]]
    figure.legend(*zip(*by_column), loc="upper center", ncol=columns, frameon=False)
    figure.tight_layout(rect=(0, 0, 1, top))
    figure.savefig(FOLDER / f"{name}.png", dpi=100, metadata={"Software": None})
    pyplot.close(figure)


def capacity(cells, sources, sizes):
    figure, panels = pyplot.subplots(2, 3, figsize=(10, 5.8), sharex=True, sharey="col")
    for (fresh, even, most), ratio in zip(panels, (1.5, 3)):
        for index, source in enumerate(sources):
            of = [cells[source, size][ratio, "adaptive"] for size in sizes]
            line(fresh, index, sizes, [100 * cell.share for cell in of], source)
            line(even, index, sizes, [cell.evenness / ratio for cell in of], source)
            line(most, index, sizes, [cell.most for cell in of], source)
        fresh.set_ylabel(f"R = {ratio}\nfresh batches, % of arrivals")
        even.set_ylabel(EVENNESS)
        most.set_ylabel("most uses of a batch")
        plain_log(even, [1, 2, 5, 10, 20, 50])
        plain_log(most, [5, 10, 20, 50, 100, 200, 500])
        powers_of_two(fresh, sizes)
    for axes in panels[1]:
        axes.set_xlabel("queue.capacity, batches")
    save(figure, "capacity", panels[0][0], len(sources), 0.95)


def pool(cells, sources, sizes):
    figure, (even, most, row) = pyplot.subplots(1, 3, figsize=(10, 3.4))
    for index, source in enumerate(sources, 1):
        of = [cells[source, size][3, "adaptive"] for size in sizes]
        line(even, index, sizes, [cell.evenness / 3 for cell in of], source)
        line(most, index, sizes, [cell.most for cell in of], source)
        line(row, index, sizes, [cell.row for cell in of], source)
    even.set_ylabel(EVENNESS)
    most.set_ylabel("most uses of a batch")
    row.set_ylabel("longest row, steps")
    plain_log(even, [1, 2, 5, 10, 20, 50, 100])
    for axes in (most, row):
        plain_log(axes, [5, 10, 20, 50, 100, 200, 500, 1000, 2000])
        axes.set_ylim(5, 2500)
    for axes in (even, most, row):
        powers_of_two(axes, sizes)
        axes.set_xlabel("queue.pool, batches")
    save(figure, "pool", even, len(sources), 0.91)


def policies(cells, sources, ratios, names):
    figure, panels = pyplot.subplots(1, len(sources), figsize=(10, 3.2), sharey=True)
    for axes, source in zip(panels, sources):
        for index, name in enumerate(names):
            line(axes, index, range(len(ratios)), [cells[source][given, name].ratio for given in ratios], name)
        axes.set_title(source, fontsize=9)
        axes.set_xticks(range(len(ratios)), [f"{given:g}" for given in ratios])
        axes.set_xlabel("R, steps per batch")
    for axes in panels[1:]:
        axes.tick_params(left=False)
    panels[0].set_ylabel("Σ uses² / that of the optimum")
    panels[0].set_ylim(bottom=0.9)
    save(figure, "policies", panels[0], len(names), 0.91)


def reserve(curves, rates):
    figure, (fresh, gain) = pyplot.subplots(1, 2, figsize=(10, 3.7))
    phases = list(dict.fromkeys((on, off) for on, off, _ in curves))
    for (on, off, size), curve in sorted(curves.items(), key=lambda entry: entry[0][2]):
        index, style = phases.index((on, off)), "-" if size == 16 else "--"
        label = f"on {on} / off {off}, capacity {size}"
        line(fresh, index, rates, [100 * kept for kept, _ in curve], label, linestyle=style)
        line(gain, index, rates, [evener for _, evener in curve], label, linestyle=style)
    for axes in (fresh, gain):
        axes.set_xscale("log")
        axes.set_xticks(rates, [f"{rate:g}" if rate not in (0.8, 1.05) else "" for rate in rates])
        axes.xaxis.set_minor_locator(ticker.NullLocator())
        axes.set_xlabel("batches per step while storage delivers")
    fresh.set_ylabel("adaptive's fresh batches,\n% of greedy's")
    gain.set_ylabel("Σ uses² of greedy / of adaptive")
    gain.set_ylim(bottom=1)
    save(figure, "reserve", fresh, 3, 0.85)
