"""A panel of bars per case, images per second with the range of the rounds: chart.py RESULTS.json OUT.png"""

import json
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402  (the backend comes first)

COLOURS = {"bare": "#7f7f7f", "forebay": "#1f6fb4", "forebay-python": "#1f6fb4"}
OTHER = "#c9a227"
LEFT_OUT = {"alcf", "trainer"}  # tables


def colour_of(name):
    return COLOURS.get(name.split()[0].rstrip(","), OTHER)


def draw(axes, case):
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


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        results = json.load(file)
    cases = [case for case in results["cases"]
             if case["name"] not in LEFT_OUT and any(row["median"] for row in case["rows"])]
    if not cases:
        return
    heights = [0.8 + 0.22 * len(case["rows"]) for case in cases]
    figure, all_axes = plt.subplots(len(cases), 1, figsize=(8, sum(heights) + 0.4), squeeze=False,
                                    gridspec_kw={"height_ratios": heights})
    for axes, case in zip(all_axes[:, 0], cases, strict=False):
        draw(axes, case)
    about = results["machine"]
    figure.suptitle(f"{about['cpu']}, {len(results['cores'])} cores, rounds: {results['rounds']}, {about['date'][:10]}",
                    fontsize=8)
    figure.tight_layout(rect=(0, 0, 1, 0.99))
    figure.savefig(sys.argv[2], dpi=110)


if __name__ == "__main__":
    main()
