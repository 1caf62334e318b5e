#!/usr/bin/env python3
"""What grows with samples and ranks: measure.py BIN [--quick] [--large] [--json FILE]

BIN is the folder of a release build's programs (build/release/bin). Prints tables of
  order     ns per sample id and memory, for 10^6 to 10^10 samples
  build     making an index of 10^6 files: time, bytes, memory; a folder tree, a file list, Pascal VOC
  open      opening a saved index and looking samples up, as a run does and read whole, for up to 10^7 samples (--large: 10^8)
  start     how 1, 2 and 4 ranks get an index of 10^6 samples: sent by rank 0, and opened by each
  steps     next() and the census of 1, 2 and 4 ranks, a feeder's memory, at a fixed small workload
The variants of a table run in turn, again and again; figures are medians of the rounds, with the range. Files are made
below $TMPDIR and removed. --quick: a tenth of the samples, one round; --only: some of the tables. The exit code is 1 when an id takes more than
100 ns or opening an index takes longer in proportion to its samples."""

import argparse
import datetime
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

LIMIT_S = 900
RANKS = [1, 2, 4]
MOST_ID_NS = 100
MOST_GROWTH = 10
TABLES = ["order", "build", "open", "start", "steps"]
XML = ("<annotation><object><name>class{}</name><bndbox><xmin>1</xmin><ymin>2</ymin><xmax>30</xmax><ymax>40</ymax>"
       "</bndbox></object></annotation>")


def spread(values, digits=1):
    low, middle, high = (f"{f(values):,.{digits}f}" for f in (min, statistics.median, max))
    return f"{middle} [{low} .. {high}]"


def program(command, ranks=0):
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    if ranks:
        command = ["mpirun", "-n", str(ranks), "--oversubscribe", "--bind-to", "none"] + command
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=LIMIT_S, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith(("{", "["))]


def table(title, head, rows):
    widths = [max(len(str(row[i])) for row in [head] + rows) for i in range(len(head))]
    print(f"\n{title}")
    for row in [head] + rows:
        cells = [str(cell).ljust(width) if i == 0 else str(cell).rjust(width)
                 for i, (cell, width) in enumerate(zip(row, widths))]
        print("  ".join(cells).rstrip(), flush=True)


class Bench:
    def __init__(self, arguments, folder):
        self.bin = os.path.abspath(arguments.bin)
        self.folder = folder
        self.rounds = 1 if arguments.quick else 3
        self.samples = 10**5 if arguments.quick else 10**6
        self.large = arguments.large
        self.quick = arguments.quick
        self.results = {}

    def path(self, name):
        return os.path.join(self.folder, name)

    def run(self, name, *arguments, ranks=0):
        return program([os.path.join(self.bin, f"bench_{name}"), *map(str, arguments)], ranks)

    def in_turn(self, variants):
        """{name: call} -> {name: [result of each round]}, every second round backwards."""
        found = {name: [] for name in variants}
        for i in range(self.rounds):
            for name in list(variants) if i % 2 == 0 else reversed(list(variants)):
                found[name].append(variants[name]())
        return found

    # Order

    def order(self):
        sizes = [10**6, 10**7, 10**8, 10**9, 10**10]
        rounds = [self.run("index", "order", *sizes) for _ in range(self.rounds + 2)]
        self.results["order"] = rounds
        rows = []
        worst = 0
        for i, size in enumerate(sizes):
            ids = [r[i]["id_ns"] for r in rounds]
            worst = max(worst, statistics.median(ids))
            rows.append([f"{size:,}", spread([r[i]["setup_ns"] for r in rounds]), spread(ids), rounds[0][i]["bytes"],
                         f"{max(r[i]['grown_mb'] for r in rounds):.1f}"])
        table("order of an epoch", ["samples", "set-up, ns", "per id, ns", "object, bytes", "memory grown, MB"], rows)
        return worst

    # Building

    def make_list(self, name, samples):
        with open(self.path(name), "w", encoding="utf-8") as out:
            for i in range(samples):
                out.write(f"train/class{i % 1000:03d}/image_{i:08d}.jpg,{i % 1000}\n")
        return self.path(name)

    def make_tree(self, name, samples, annotated):
        folders = [("Annotations", ".xml"), ("JPEGImages", ".jpg")] if annotated else [("", ".jpg")]
        for top, ending in folders:
            for c in range(min(1000, samples)):
                folder = os.path.join(self.path(name), top, f"class{c:03d}")
                os.makedirs(folder)
                text = XML.format(c).encode() if ending == ".xml" else b""
                for i in range(c, samples, 1000):
                    with open(os.path.join(folder, f"image_{i:08d}{ending}"), "wb", buffering=0) as out:
                        out.write(text)
        return self.path(name)

    def build(self):
        print(f"\nmaking {self.samples:,} files for each format ...", flush=True)
        data = {"folder": self.make_tree("folder", self.samples, False),
                "filelist": self.make_list("list.txt", self.samples),
                "voc": self.make_tree("voc", self.samples, True)}
        variants = {form: (lambda form=form: self.run("index", "build", form, data[form], self.path(form + ".index"))[0])
                    for form in data}
        found = self.in_turn(variants)
        self.results["build"] = found
        rows = []
        for form, runs in found.items():
            size = runs[0]["bytes"]
            rows.append([form, f"{runs[0]['samples']:,}", spread([r["build_s"] for r in runs], 2),
                         spread([r["save_s"] for r in runs], 2), f"{size / 1e6:.1f}",
                         f"{size / runs[0]['samples']:.1f}", spread([r["peak_mb"] for r in runs], 0)])
        table("building an index (files in the page cache)",
              ["format", "samples", "build, s", "save, s", "index, MB", "bytes per sample", "peak memory, MB"], rows)
        shutil.rmtree(data["folder"])
        shutil.rmtree(data["voc"])

    # Opening

    def open(self):
        sizes = [self.samples // 10, self.samples, self.samples * 10] + ([10**8] if self.large else [])
        look_ups = 10**5
        rows = []
        opened = {}
        for size in sizes:
            file = self.path("synthetic.index")
            peak = self.run("index", "synthesize", size, file)[0]["peak_mb"]
            found = self.in_turn({way: (lambda way=way: self.run("index", way, file, look_ups)[0])
                                  for way in ("open", "read")})
            self.results[f"open {size}"] = dict(found, synthesize_peak_mb=peak)
            opened[size] = statistics.median(r["open_s"] for r in found["open"])
            for way, runs in found.items():
                rows.append([f"{size:,}", "load_index" if way == "open" else "read whole, checked", f"{runs[0]['bytes'] / 1e6:,.0f}",
                             spread([1e3 * r["open_s"] for r in runs], 2),
                             spread([r["open_own_mb"] for r in runs]), spread([r["used_own_mb"] for r in runs]),
                             spread([r["first_ns"] for r in runs], 0), spread([r["again_ns"] for r in runs], 0)])
            os.remove(file)
        table(f"opening a saved index, then {look_ups:,} look-ups at random, twice (file in the page cache)",
              ["samples", "way", "file, MB", "open, ms", "own memory, MB", "own after use", "first look-up, ns",
               "again, ns"], rows)
        return opened[sizes[-1]] / max(opened[sizes[0]], 1e-3)

    # Ranks

    def start(self):
        data = self.make_list("start.txt", self.samples)
        index = self.path("start.index")
        self.run("index", "build", "filelist", data, index)
        variants = {(ranks, way): (lambda ranks=ranks, way=way: self.run(
            "ranks", "start", data, index if way == "opened" else "", ranks=ranks)[0])
            for ranks in RANKS for way in ("sent", "opened")}
        found = self.in_turn(variants)
        self.results["start"] = {f"{ranks} {way}": runs for (ranks, way), runs in found.items()}
        rows = []
        for (ranks, way), runs in found.items():
            everybody = [rank for run in runs for rank in run]
            rows.append([ranks, "built by rank 0, sent" if way == "sent" else "dataset.index",
                         spread([max(rank["start_s"] for rank in run) for run in runs], 2),
                         spread([rank["own_mb"] for rank in everybody]),
                         spread([sum(rank["portion_mb"] for rank in run) for run in runs])])
        table(f"ranks get an index of {self.samples:,} samples (file list)",
              ["ranks", "way", "start, s", "own memory per rank, MB", "all ranks together, MB"], rows)

    def steps(self):
        count = 300 if self.quick else 2000
        found = self.in_turn({ranks: (lambda ranks=ranks: self.run("ranks", "steps", count, ranks=ranks)[0])
                              for ranks in RANKS})
        self.results["steps"] = found
        rows = []
        for ranks, runs in found.items():
            def cell(key, digits=1, scale=1.0, runs=runs):
                return spread([scale * statistics.median(rank[key] for rank in run) for run in runs], digits)
            rows.append([ranks, cell("construct_s", 1, 1e3), cell("next_p50_ns", 1, 1e-3), cell("next_p99_ns", 1, 1e-3),
                         cell("census_waits", 0), cell("census_wait_ns", 0), cell("own_mb")])
        table(f"a feeder of 4 tiny samples per batch, {count} steps of 1 ms and an all-reduce, median rank",
              ["ranks", "constructor, ms", "next() p50, us", "p99, us", "census waits", "wait per step, ns",
               "own memory, MB"], rows)


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")
    return (f"{len(os.sched_getaffinity(0))} cores of {model}, {datetime.date.today()}, "
            f"load average {os.getloadavg()[0]:.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", help="folder of bench_index and bench_ranks")
    parser.add_argument("--quick", action="store_true", help="a tenth of the samples, one round")
    parser.add_argument("--large", action="store_true", help="10^8 samples too: 8 GB of memory, 4 GB of disk")
    parser.add_argument("--only", choices=TABLES, nargs="+", default=TABLES, help="some of the tables")
    parser.add_argument("--json", metavar="FILE", help="write every figure of every round")
    arguments = parser.parse_args()
    begin = time.monotonic()
    about = machine()
    print(about, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(arguments, folder)
        found = {name: getattr(bench, name)() for name in TABLES if name in arguments.only}
    print(f"\n{(time.monotonic() - begin) / 60:.1f} minutes, load average at the end {os.getloadavg()[0]:.2f}")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as out:
            json.dump({"machine": about, "results": bench.results}, out, indent=1)
    failed = False
    if "order" in found:
        print(f"an id took {found['order']:.0f} ns at most (limit {MOST_ID_NS})")
        failed = found["order"] > MOST_ID_NS
    if "open" in found:
        print(f"opening an index of the most samples took {found['open']:.1f} times what one of the fewest, or 1 ms, "
              f"takes (limit {MOST_GROWTH})")
        failed = failed or found["open"] > MOST_GROWTH
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
