#!/usr/bin/env python3
"""What was measured as text, a table for each case. As a program it writes the table of photographs into the repository's
README.md and that of the trainer's case into results/tables.md, between the comments that name them, and copies the chart
to docs/.

    experiments/throughput/run --case photos,trainer
    experiments/throughput/tables.py [build/throughput/results.json]
    experiments/throughput/tables.py RESULTS.json --chart OUT.png       # only draws it, with matplotlib
"""

import json
import os
import re
import shutil
import statistics
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
OURS = "forebay-python"
LABELS = {OURS: "**Forebay**, through Python", "thread-pool": "no loader, a Python thread pool",
          "pytorch": "PyTorch DataLoader", "torchvision": "PyTorch DataLoader + torchvision's transforms on Pillow",
          "webdataset": "WebDataset", "streaming": "MosaicML Streaming", "grain": "Grain", "spdl": "SPDL",
          "dali": "DALI on the CPU", "tfdata": "tf.data", "ffcv": "FFCV, the files' own bytes"}
DECODERS = {"cv2": "OpenCV", "simplejpeg": "simplejpeg + OpenCV", "torchvision": "torchvision.io + OpenCV",
            "pil": "Pillow", "fast": ""}


NOTHING = "-"


def ratios_of(case, row):
    """Of the reference row to a row, by rounds."""
    if not case.reference or row is case.reference or not case.reference.rates:
        return []
    return [ours / theirs for ours, theirs in zip(case.reference.rates, row.rates, strict=False)]


def text_of(figure, form):
    return NOTHING if figure is None else f"{figure:{form}}"


def columns_of(case):
    """(heading, width, text of a row) for each column of a case's table."""
    rows = [row for row in case.rows if row.rates]
    columns = [("images/s", 8, lambda row: f"{row.median:.0f}"),
               ("range", 16, lambda row: f"[{min(row.rates):.0f} .. {max(row.rates):.0f}]"),
               ("CPU us/image", 12, lambda row: f"{row.cpu_us:.1f}")]
    if any(row.steps_ms for row in rows):
        columns += [("step p50, ms", 12, lambda row: text_of(row.step_ms(0.5), ".1f")),
                    ("step p99, ms", 12, lambda row: text_of(row.step_ms(0.99), ".1f")),
                    ("waiting", 8, lambda row: text_of(row.median_of("waiting"), ".1%"))]
    if any(row.median_of("pss_mb") for row in rows):
        columns.append(("memory, MB", 10, lambda row: text_of(row.median_of("pss_mb"), ".0f")))
    if any(row.median_of("first_batch_s") for row in rows):
        columns.append(("first batch, s", 14, lambda row: text_of(row.median_of("first_batch_s"), ".2f")))
    if case.base:
        columns.append(("of the bare loop", 16, lambda row: text_of(row.ratio_to(case.base), ".2f")))
    if case.reference:
        columns.append((f"{case.reference.name.split(',')[0]} relative to it", 28, lambda row: spread_of(
            ratios_of(case, row))))
    return columns


def spread_of(ratios):
    return f"{statistics.median(ratios):.2f} [{min(ratios):.2f} .. {max(ratios):.2f}]" if ratios else ""


def table_of(case):
    return "\n".join([*rows(case), *gaps(case)])


def rows(case):
    columns = columns_of(case)
    width = max(len(row.name) for row in case.rows)
    yield case.title
    yield f"{'':<{width}}  " + "  ".join(f"{heading:>{space}}" for heading, space, _ in columns)
    for row in case.rows:
        cells = [f"{text(row):>{space}}" for _, space, text in columns] if row.rates else [f"missing: {row.failure}"]
        yield f"{row.name:<{width}}  {'  '.join(cells)}".rstrip()


def gaps(case):
    """Bursts do not show in a rate, but they empty a queue."""
    found = {row.name: max(result["longest_gap"] for result in row.results) for row in case.rows
             if row.rates and "longest_gap" in row.results[0]}
    if found:
        name = max(found, key=found.get)
        yield f"Longest time without a batch: {found[name]:.1f} of the mean ({name})"


def versions_of(cases):
    return sorted({result["version"] for case in cases for row in case.rows for result in row.results
                   if "version" in result})


# Of a run that was saved


def rates(row):
    return [result["images_per_s"] for result in row["results"]]


def spread(row):
    return f"{row['median']:.0f} [{min(rates(row)):.0f} .. {max(rates(row)):.0f}]"


def ratio(row, other):
    return statistics.median(a / b for a, b in zip(rates(row), rates(other), strict=False))


def middle(row, figure):
    return statistics.median(result[figure] for result in row["results"])


def measured(case):
    """{loader: its fastest row}."""
    best = {}
    for row in case["rows"]:
        name = row["name"].split(",")[0]
        if row["median"] and (name not in best or row["median"] > best[name]["median"]):
            best[name] = row
    return best


def label_of(name, row):
    variant = row["name"].partition(", ")[2].split()[1:]
    decoder = DECODERS.get(variant[0], variant[0]) if variant else ""
    return LABELS[name] + (f" + {decoder}" if decoder else "")


def others(found):
    """The fastest first."""
    return sorted((name for name in found if name in LABELS and name != OURS), key=lambda name: -found[name]["median"])


def photographs(results, case):
    """The image and the table of the repository's README."""
    found = measured(case)
    ours, bare = found[OURS], found["bare loop"]
    shares = sorted(ratio(found[name], bare) for name in others(found))
    lines = [f"![Images per second: Forebay at {ratio(ours, bare):.2f} of the bare loop, the other loaders at "
             f"{shares[0]:.2f} to {shares[-1]:.2f}](docs/throughput.png)", "",
             f"`experiments/throughput/run --case photos --rounds {results['rounds']} --seconds {results['seconds']:g}`:",
             "400 ImageNet photographs of 110 kB from the page cache, random-resized crops to 3 × 224 × 224 floats,",
             f"each loader in turn on the same two cores, medians with the range; {where(results)}.",
             "Each loader has a decoder chosen for speed.",
             "The *bare loop* does the same work with Forebay's own decoder and transform and no queue.", "",
             "| | images/s | Forebay's speedup | CPU, µs/image | memory, MB | first batch, s |",
             "|---|---|---|---|---|---|"]
    for name in (OURS, *others(found)):
        row = found[name]
        lines.append(f"| {label_of(name, row)} | {spread(row)} | "
                     f"{'' if row is ours else f'{ratio(ours, row):.2f} ×'} | {row['cpu_us']:.0f} | "
                     f"{middle(row, 'pss_mb'):.0f} | {middle(row, 'first_batch_s'):.1f} |")
    lines.append(f"| bare loop | {spread(bare)} | {ratio(ours, bare):.2f} × | {bare['cpu_us']:.0f} | | |")
    return lines


def where(results):
    about = results["machine"]
    return f"{about['cpu']}, {len(results['cores'])} cores, {about['date'][:10]}"


def as_measured(results, case):
    """A table as the run printed it."""
    return [f"{where(results)}; {results['rounds']} rounds of {results['seconds']:g} s.", "",
            f"{'; '.join(results['versions'])}.", "", "```", *case["table"].splitlines(), "```"]


COLOURS = {"bare": "#7f7f7f", "forebay": "#1f6fb4", "forebay-python": "#1f6fb4"}
OTHERS_COLOUR = "#c9a227"
LEFT_OUT = {"trainer"}  # a table


def colour_of(name):
    return COLOURS.get(name.split()[0].rstrip(","), OTHERS_COLOUR)


def draw_case(axes, case):
    rows = case["rows"][::-1]
    for place, row in enumerate(rows):
        rates = [] if row["failure"] else [result["images_per_s"] for result in row["results"]]
        if not rates:
            axes.text(0, place, " missing", va="center", fontsize=8, color="#a00000")
            continue
        spread = [[row["median"] - min(rates)], [max(rates) - row["median"]]]
        axes.barh(place, row["median"], xerr=spread, color=colour_of(row["name"]), height=0.7, capsize=2,
                  error_kw={"elinewidth": 0.8})
        axes.text(max(rates), place, f"  {row['median']:.0f}", va="center", fontsize=8)
    axes.set_yticks(range(len(rows)), [row["name"] for row in rows], fontsize=8)
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.margins(x=0.12)
    axes.set_xlim(left=0)
    axes.set_xlabel("images/s, median and range", fontsize=8)
    axes.set_title(case["title"], fontsize=9)
    axes.tick_params(axis="x", labelsize=8)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def draw(results, out):
    """A panel of bars for each case: images per second with the range of the rounds."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    cases = [case for case in results["cases"]
             if case["name"] not in LEFT_OUT and any(row["median"] for row in case["rows"])]
    if not cases:
        return
    heights = [0.8 + 0.22 * len(case["rows"]) for case in cases]
    figure, all_axes = plt.subplots(len(cases), 1, figsize=(8, sum(heights) + 0.4), squeeze=False,
                                    gridspec_kw={"height_ratios": heights})
    for axes, case in zip(all_axes[:, 0], cases, strict=False):
        draw_case(axes, case)
    about = results["machine"]
    figure.suptitle(f"{about['cpu']}, {len(results['cores'])} cores, rounds: {results['rounds']}, {about['date'][:10]}",
                    fontsize=8)
    figure.tight_layout(rect=(0, 0, 1, 0.99))
    figure.savefig(out, dpi=110)


def put(path, name, lines):
    """Between <!-- name --> and <!-- /name -->."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    if begin not in text or end not in text:
        raise SystemExit(f"{path} has no {begin} ... {end}")
    changed = re.sub(re.escape(begin) + ".*?" + re.escape(end), lambda _: "\n".join([begin, *lines, end]), text,
                     flags=re.DOTALL)
    with open(path, "w", encoding="utf-8") as file:
        file.write(changed)


def main():
    path = sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "build", "throughput", "results.json")
    with open(path, encoding="utf-8") as file:
        results = json.load(file)
    if sys.argv[2:3] == ["--chart"]:
        return draw(results, sys.argv[3])
    cases = {case["name"]: case for case in results["cases"]}
    front, here = os.path.join(ROOT, "README.md"), os.path.join(HERE, "results", "tables.md")
    if "photos" in cases:
        put(front, "loaders", photographs(results, cases["photos"]))
    if "trainer" in cases:
        put(here, "trainer", as_measured(results, cases["trainer"]))
    chart = os.path.join(os.path.dirname(path), "throughput.png")
    if set(cases) <= {"photos", "trainer"} and "photos" in cases and os.path.exists(chart):
        shutil.copy(chart, os.path.join(ROOT, "docs", "throughput.png"))


if __name__ == "__main__":
    main()
