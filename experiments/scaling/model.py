#!/usr/bin/env python3
"""What a job of any size costs: model.py [--points FILE]

Fits lines to what points.py measured with few ranks, checks them against more, up to 64, and computes jobs of up to 100,000
ranks and 10^9 samples from them, from message sizes, and from one rank's structures as measured at that size.
Bytes, messages, system calls and memory are exact and are modelled; times of ranks that share two cores are not. The exit
code is 1 when a held-out point is further off than its limit."""

import argparse
import json
import math
import pathlib
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
FITTED = (2, 16)  # ranks; larger numbers are held out
HEAP_FITTED = (8, 32)  # Open MPI takes more memory at once from 8 ranks on
BATCH = 64
STEP_S = 0.25
# Assumed, since no machine here can tell: a level of a reduction tree, a link, a large metadata server.
HOP_S = 5e-6
LINK_BYTES_S = 10e9
METADATA_PER_S = 50_000
# Look-ups of one sample in a saved index of a folder: its source, its label, where its path ends and the path.
LOOK_UPS = 4
INDEX_BYTES = 37
CHUNK = 65_536
READ_WHOLE = 64 * 2**20  # an index of at most so many bytes, by each rank
BUILD_BYTES = 43  # of an index being built, per sample: columns of 4 + 4 + 8 bytes and 27 of path

Line = tuple[float, float]


def fit(points: list[tuple[float, float]]) -> Line:
    """Least squares of a + b x."""
    mean_x, mean_y = (statistics.mean(values) for values in zip(*points, strict=True))
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)
    return mean_y - slope * mean_x, slope


def at(line: Line, x: float) -> float:
    return line[0] + line[1] * x


def table(title: str, head: list[str], rows: list[list[str]]) -> None:
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    print(f"\n{title}")
    for row in [head, *rows]:
        cells = [cell.ljust(width) if i == 0 else cell.rjust(width) for i, (cell, width) in
                 enumerate(zip(row, widths, strict=True))]
        print("  ".join(cells).rstrip())


def amount(value: float) -> str:
    """Three digits and a prefix."""
    for size, unit in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g}"


def shards_of(ranks: int) -> int:
    return max(1024, 2 ** math.ceil(math.log2(ranks)))


class Model:
    def __init__(self, points: dict) -> None:
        self.points = points
        self.lines: dict[str, Line] = {}

    def rows(self, name: str) -> list[dict]:
        return self.points[name]["rows"]

    # What is measured of each number of ranks, per rank, and how far off a held-out point may be.

    def measures(self) -> dict[str, tuple[list[tuple[float, float]], float, tuple[int, int]]]:
        traffic = [row for row in self.rows("traffic") if row["stops"] == "one" and row["ranks"] > 1]

        def per_rank(phase: str, key: str) -> list[tuple[float, float]]:
            return [(row["ranks"], row[phase][key] / row["ranks"]) for row in traffic]

        return {
            "start: collective calls": (per_rank("start", "collectives"), 0, FITTED),
            "start: bytes": (per_rank("start", "bytes"), 0.05, FITTED),
            "600 steps: collective calls": (per_rank("steps", "collectives"), 0, FITTED),
            "600 steps: bytes": (per_rank("steps", "bytes"), 0.02, FITTED),
            "state: bytes": (per_rank("state", "bytes"), 0.05, FITTED),
            "stop of one rank: messages of the job": ([(row["ranks"], row["stop"]["words"]) for row in traffic], 0, FITTED),
            "heap after 600 steps: bytes": (per_rank("steps", "heap_bytes"), 0.05, HEAP_FITTED),
        }

    def check(self) -> bool:
        rows = []
        sound = True
        for name, (points, limit, (first, last)) in self.measures().items():
            line = self.lines[name] = fit([point for point in points if first <= point[0] <= last])
            row = [name, f"{first} to {last}", amount(line[0]), amount(line[1])]
            for ranks, value in points:
                if ranks <= FITTED[1]:
                    continue
                if ranks <= last:
                    row += [amount(value), "fitted"]
                    continue
                error = at(line, ranks) / value - 1
                sound = sound and abs(error) <= limit + 1e-9
                row += [amount(value), f"{100 * error:+.1f} %"]
            rows.append(row)
        table("per rank: a + b × ranks, fitted to few ranks and checked against more", [
            "", "fitted to", "a", "b", "32 ranks", "error", "64 ranks", "error"], rows)
        return sound

    def coordination(self) -> None:
        rows = []
        waits = {row["ranks"]: statistics.median(row["census_us"]) for row in self.rows("coordination")
                 if row["floats"] < 10**6}
        for row in self.rows("coordination"):
            if row["ranks"] == 1:
                continue
            gradients, agreed, both = (row[f"{kind}_us"] for kind in ("gradients", "census", "both"))
            cost = [waits[row["ranks"]]] if row["floats"] > 10**6 else agreed
            share = [100 * statistics.median(cost) / one for one in gradients]
            added = [100 * (two / one - 1) for one, two in zip(gradients, both, strict=True)]
            rows.append([f"{row['floats'] * 4 / 1e6:.0f} MB", str(row["ranks"]), spread(gradients, 0), spread(cost, 0),
                         spread(share, 3), spread(added, 0)])
        table("a census beside the trainer's all-reduce, of the slowest rank, µs a step: median [range] of the rounds",
              ["gradients", "ranks", "all-reduce", "census alone", "census / all-reduce, %", "both / all-reduce - 1, %"],
              rows)

    def files(self) -> None:
        rows = []
        for row in self.rows("files"):
            def calls(kinds: list[str], part: str, row: dict = row) -> str:
                of = [sum(row[part].get(kind, {}).values()) for kind in kinds]
                return f"{sum(of) / row['ranks']:.1f}"
            samples = row["steps"] * 4
            opened = sum(row["more_in_steps"].get("samples", {}).values()) / row["ranks"]
            rows.append(["saved" if row["index"] else "sent by rank 0", str(row["ranks"]),
                         *(calls([kind], "start") for kind in ("configuration", "index", "folders of the dataset",
                                                               "telemetry", "libraries")), f"{opened / samples:.2f}"])
        table("system calls on files, per rank: at the start, and per sample in steps", [
            "index", "ranks", "configuration", "index", "folders", "telemetry", "libraries", "per sample"], rows)

    def structures(self) -> None:
        rows = []
        for row in self.rows("structures"):
            predicted = 8 * (2 * min(row["shards"], row["batches"]) + 4 * row["ranks"])
            rows.append([f"{row['ranks']:,}", amount(row["samples"]), f"{row['shards']:,}", amount(row["own_bytes"]),
                         amount(row["exchange_bytes"]), f"{100 * (predicted / row['exchange_bytes'] - 1):+.0f} %",
                         f"{1e3 * row['exchange_s']:.1f}", amount(row["state_bytes"]),
                         f"{1e3 * row['state_write_s']:.0f}", f"{1e3 * row['state_read_s']:.0f}"])
        table("one rank's structures at their size, without MPI; a quarter of the ranks slow; processor time", [
            "ranks", "samples", "shards", "memory, B", "exchange, B", "two ranges a shard", "exchange, ms", "state, B",
            "write, ms", "read, ms"], rows)

    def paper(self) -> None:
        start = next(row for row in self.rows("files") if row["index"] and row["ranks"] == 4)
        own = sum(sum(start["start"].get(kind, {}).values())
                  for kind in ("configuration", "index", "folders of the dataset", "telemetry", "samples")) / 4
        libraries = sum(start["start"]["libraries"].values()) / 4
        rows = []
        for ranks in (1_000, 10_000, 100_000):
            for samples in (10**6, 10**9):
                shards = min(shards_of(ranks), samples // BATCH)
                levels = math.ceil(math.log2(ranks))
                exchange = 8 * (2 * shards + 4 * ranks)
                pull = 2 * levels * (HOP_S + exchange / LINK_BYTES_S)
                per_s = ranks * BATCH / STEP_S
                index = samples * INDEX_BYTES
                if index > READ_WHOLE:
                    index = min(index, samples / ranks * LOOK_UPS * CHUNK)
                rows.append([
                    f"{ranks:,}", amount(samples), f"{samples / BATCH / ranks:,.1f}",
                    amount(at(self.lines["heap after 600 steps: bytes"], ranks)),
                    f"{1e6 * 2 * levels * HOP_S:.0f}", f"{1e3 * pull:.1f}",
                    amount(at(self.lines["start: bytes"], ranks)), amount(ranks * own),
                    f"{ranks * own / METADATA_PER_S:.0f}", f"{ranks * libraries / METADATA_PER_S:.0f}",
                    amount(3 * per_s), amount(ranks * index), amount(samples * BUILD_BYTES)])
        table(f"computed: batches of {BATCH}, a step of {STEP_S} s, {1e6 * HOP_S:.0f} µs per level, {LINK_BYTES_S / 1e9:.0f} GB/s, "
              f"{METADATA_PER_S:,} metadata calls/s", [
                  "ranks", "samples", "steps an epoch", "heap, B", "census, µs", "exchange, ms", "start, B a rank",
                  "calls at start", "take, s", "libraries, s", "file calls/s", "index read, first epoch, B",
                  "index built in, B"], rows)

    def stop(self) -> None:
        rows = []
        for row in self.rows("traffic"):
            if row["stops"] == "all" and row["ranks"] > 1:
                ranks = row["ranks"]
                rows.append([f"{ranks:,}", f"{ranks * (ranks - 1):,}", f"{row['stop']['words']:,}"])
        table("messages of a job whose ranks are all asked to stop", ["ranks", "each to each", "measured"], rows)


def spread(values: list[float], digits: int) -> str:
    low, middle, high = (f"{of(values):,.{digits}f}" for of in (min, statistics.median, max))
    return f"{middle} [{low} .. {high}]"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=pathlib.Path, default=HERE / "points.json")
    points = json.loads(parser.parse_args().points.read_text(encoding="utf-8"))
    for name, of in points.items():
        print(f"{name}: {of['machine']}")
    model = Model(points)
    sound = model.check()
    model.stop()
    model.structures()
    model.files()
    model.coordination()
    model.paper()
    if not sound:
        print("\na held-out point is further off than it may be")
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main())
