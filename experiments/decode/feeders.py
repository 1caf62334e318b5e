#!/usr/bin/env python3
"""Whole feeders in turn: workers.jpeg = "turbo", "own", "own" with a decode index, and the dataset packed, as
coefficients and as pixels of at most 256 on a side. Prints images per second, and their ratio to "turbo" within each
round.

    experiments/decode/feeders.py [--forebay FILE] [--rounds N] [--steps N] [--save FILE] DATASET:SIDE...
    experiments/decode/feeders.py --plot FIGURES.json OUT.png

DATASET is a folder that dataset.path takes, SIDE the side of the square crops. Each is fed with one and two decoders.
Where other work runs on the machine, the processor time of a run is
the better measure: its ratio stands beside the other. --save writes the figures as JSON, for --plot.
"""

import argparse
import datetime
import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import tempfile
from pathlib import Path

BATCH = 64
NAMES = {
    "turbo": "the files, decoded by libjpeg-turbo",
    "own": "the files",
    "decode index": "the files and a decode index",
    "packed": "packed",
    "pixels": "packed with --pixels 256, of smaller images",
}


def feed(forebay: Path, config: Path, settings: list[str], decoders: int) -> tuple[float, float]:
    """Images per second, and the run's seconds of processor time."""
    command = [forebay, "feed", config, "--set", f"workers.decode={decoders}"]
    for setting in settings:
        command += ["--set", setting]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    text = subprocess.run(command, check=True, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = re.search(r"([0-9]+) fresh images/s", text.stdout + text.stderr)
    if found is None:
        raise SystemExit(f"{forebay} feed printed no images/s")
    return float(found[1]), after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def bytes_of(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def prepare(forebay: Path, data: Path, folder: Path) -> tuple[dict[str, list[str]], dict[str, int]]:
    """By variant, its settings, and the bytes of what it reads."""
    index, packed, pixels = folder / "feed.index", folder / "packed", folder / "pixels"
    subprocess.run(
        [forebay, "index", data, "--save", index, "--decode-index"], check=True, stdout=subprocess.DEVNULL
    )
    files = bytes_of(data)
    settings = {
        "turbo": ["workers.jpeg=turbo"],
        "own": ["workers.jpeg=own"],
        "decode index": ["workers.jpeg=own", f'dataset.index="{index}"'],
    }
    sizes = {"turbo": files, "own": files, "decode index": files + index.with_suffix(".index.points").stat().st_size}
    for name, target, more in (("packed", packed, []), ("pixels", pixels, ["--pixels", "256"])):
        shutil.rmtree(target, ignore_errors=True)
        done = subprocess.run([forebay, "pack", data, target, *more], stdout=subprocess.DEVNULL, check=False)
        # Not as pixels where samples are regions of images: forebay pack says so.
        if done.returncode == 0:
            settings[name] = [f'dataset.path="{target}"']
            sizes[name] = bytes_of(target)
    return settings, sizes


def spread(values: list[float], digits: int) -> str:
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{middle:.{digits}f} [{low:.{digits}f} .. {high:.{digits}f}]"


def cpu() -> str:
    found = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    return found[1] if found else "unknown"


def plot(saved: Path, out: Path) -> None:
    """Speed over bytes, for the first dataset of what --save has written, with one decoder."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figures = json.loads(saved.read_text(encoding="utf-8"))
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
    figure.savefig(out, dpi=110)


def main() -> None:
    root = Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--forebay", type=Path, default=root / "build/release/bin/forebay")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=0, help="batches of a run (default: 100; 1500 if SIDE < 64)")
    parser.add_argument("--save", type=Path)
    parser.add_argument("--plot", nargs=2, type=Path, metavar=("FIGURES", "OUT"))
    parser.add_argument("datasets", nargs="*", metavar="DATASET:SIDE")
    arguments = parser.parse_args()
    if arguments.plot:
        return plot(*arguments.plot)
    rows = []
    for given in arguments.datasets:
        path, _, side = given.rpartition(":")
        with tempfile.TemporaryDirectory() as folder:
            config = Path(folder) / "feed.toml"
            steps = arguments.steps or (1500 if int(side) < 64 else 100)
            config.write_text(
                f'seed = 1\n[dataset]\npath = "{Path(path).resolve()}"\nbatch_size = {BATCH}\n'
                f'[transform]\nsize = [{side}, {side}]\n[policy]\nname = "block"\n'
                f'[run]\nepochs = 1000000\nsteps = {steps}\n[trainer]\nstep_ms = 0\n[telemetry]\ndir = ""\n',
                encoding="utf-8",
            )
            variants, sizes = prepare(arguments.forebay, Path(path).resolve(), Path(folder))
            for decoders in (1, 2):
                rates: dict[str, list[float]] = {}
                seconds: dict[str, list[float]] = {}
                for _ in range(arguments.rounds):
                    for name, settings in variants.items():
                        rate, used = feed(arguments.forebay, config, settings, decoders)
                        rates.setdefault(name, []).append(rate)
                        seconds.setdefault(name, []).append(used)
                print(f"{path}, {decoders} decoder{'s' if decoders > 1 else ''}")
                for name in variants:
                    ratios = [a / b for a, b in zip(rates[name], rates["turbo"])]
                    work = [a / b for a, b in zip(seconds["turbo"], seconds[name])]
                    size = sizes[name] / sizes["turbo"]
                    print(f"  {name:13} {spread(rates[name], 0)} images/s, {spread(ratios, 2)} x turbo, "
                          f"by processor time {spread(work, 2)}, {size:.3f} of the bytes", flush=True)
                    rows.append({"dataset": Path(path).name, "side": int(side), "decoders": decoders, "variant": name,
                                 "bytes": round(size, 4), "images_per_s": rates[name],
                                 "to_turbo": [round(ratio, 3) for ratio in ratios],
                                 "by_processor_time": [round(ratio, 3) for ratio in work]})
    if arguments.save:
        about = {"date": datetime.date.today().isoformat(), "cpu": cpu(), "cores": os.cpu_count(),
                 "rounds": arguments.rounds, "rows": rows}
        text = json.dumps(about).replace(', "rows": [', ', "rows": [\n').replace("}, {", "},\n{")  # a line for each row
        arguments.save.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
