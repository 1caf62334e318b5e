#!/usr/bin/env python3
"""Speed over bytes, for the first dataset of what feeders.py saved, with one decoder: plot.py FIGURES.json OUT.png"""

import json
import statistics
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402  (the backend comes first)

NAMES = {
    "turbo": "the files, decoded by libjpeg-turbo",
    "own": "the files",
    "decode index": "the files and a decode index",
    "packed": "packed",
    "pixels": "packed with --pixels 256, of smaller images",
}


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as file:
        figures = json.load(file)
    rows = [row for row in figures["rows"] if row["dataset"] == figures["rows"][0]["dataset"] and row["decoders"] == 1]
    figure, axes = plt.subplots(figsize=(7.5, 4.2))
    middles = [statistics.median(row["to_turbo"]) for row in rows]
    spread = [
        [middle - min(row["to_turbo"]) for middle, row in zip(middles, rows, strict=True)],
        [max(row["to_turbo"]) - middle for middle, row in zip(middles, rows, strict=True)],
    ]
    axes.errorbar([row["bytes"] for row in rows], middles, yerr=spread, fmt="o", capsize=3, color="#1f6fb4", markersize=7)
    for row, middle in zip(rows, middles, strict=True):
        on_left = row["bytes"] > 1.2
        axes.annotate(f"{NAMES[row['variant']]}: {middle:.3g} x",
                      (row["bytes"], middle), xytext=(-10 if on_left else 10, 0), textcoords="offset points",
                      ha="right" if on_left else "left", va="center", fontsize=9)
    axes.set_yscale("log")
    axes.set_xlim(0.92, 1.34)
    axes.set_xticks([1.0, 1.1, 1.2, 1.3])
    axes.set_yticks([1, 2, 3, 5, 10, 20], ["1", "2", "3", "5", "10", "20"])
    axes.minorticks_off()
    axes.grid(True, color="#e0e0e0", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_xlabel("bytes on disk (1 = the JPEG files)")
    axes.set_ylabel("images/s (1 = libjpeg-turbo)")
    axes.set_ylim(0.8, 24)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.suptitle(f"Random-resized crops of photographs, one decoder: {figures['cpu']}, {figures['date']}", fontsize=9)
    figure.tight_layout()
    figure.savefig(sys.argv[2], dpi=110)


if __name__ == "__main__":
    main()
