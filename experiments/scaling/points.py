#!/usr/bin/env python3
"""What model.py is fitted to and checked against: points.py BIN [--only TABLE...] [--ranks N] [--first COMMAND]

BIN is the folder of a release build's programs (build/release/bin). Measures with 1 to 64 ranks on this machine and
writes experiments/scaling/points.json:
  traffic       MPI calls, bytes and messages of a feeder's start, steps, state and stop, its heap and processor time
  structures    without MPI: memory, processor time and message sizes of one rank of 64 to 100,000
  files         system calls on files of a job's start and of its steps (strace), with a saved index and without
  coordination  the census beside an all-reduce of 1 MB and of 100 MB, in turn on the same ranks
Counts, bytes and memory are exact on a busy machine too; times are not, and ranks that share two cores mostly wait for
each other. --first: what to put before mpirun."""

import argparse
import collections
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
RANKS = [1, 2, 4, 8, 16, 32, 64]
STEPS = 600
LIMIT_S = 900
TABLES = ["traffic", "structures", "files", "coordination"]
SIZES = [(64, 10**9), (1_000, 10**9), (10_000, 10**9), (100_000, 10**9), (100_000, 10**6), (1_000, 10**6)]
BATCH = 64
# Floats, steps of a round, rounds.
GRADIENTS = [(262_144, 20, 7), (26_214_400, 1, 5)]


def run(command: list[str]) -> str:
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout


class Points:
    def __init__(self, arguments: argparse.Namespace) -> None:
        self.bin = arguments.bin.resolve()
        self.first = arguments.first.split()
        self.ranks = [ranks for ranks in RANKS if ranks <= arguments.ranks]

    def bench(self, name: str, *arguments: object, ranks: int = 0) -> dict:
        command = [str(self.bin / f"bench_{name}"), *map(str, arguments)]
        return json.loads(run(self.mpirun(ranks) + command if ranks else command))

    def mpirun(self, ranks: int) -> list[str]:
        return [*self.first, "mpirun", "-n", str(ranks), "--oversubscribe", "--bind-to", "none"]

    def traffic(self) -> list[dict]:
        return [dict(self.bench("traffic", STEPS, who, ranks=ranks), stops=who)
                for ranks in self.ranks for who in ("one", "all")]

    def structures(self) -> list[dict]:
        return [dict(self.bench("structures", ranks, samples // BATCH), samples=samples) for ranks, samples in SIZES]

    def coordination(self) -> list[dict]:
        return [self.bench("ranks", "coordination", *case, ranks=ranks) for case in GRADIENTS for ranks in self.ranks
                if ranks * case[0] * 8 < available_bytes()]

    def files(self) -> list[dict]:
        with tempfile.TemporaryDirectory() as name:
            place = pathlib.Path(name)
            command = str(self.bin / "forebay")
            run([command, "make-dataset", str(place / "data"), "--images", "640", "--layout", "folder", "--size", "64x48"])
            config = place / "feed.toml"
            config.write_text(FEED.format(data=place / "data", logs=place / "run"), encoding="utf-8")
            index = f'dataset.index="{place / "train.index"}"'
            run([command, "index", str(config), "--set", index])
            return [dict(self.count_calls(place, config, ["--set", index] if saved else [], ranks), index=saved)
                    for saved in (True, False) for ranks in (1, 2, 4, 8) if ranks <= self.ranks[-1]]

    def count_calls(self, place: pathlib.Path, config: pathlib.Path, more: list[str], ranks: int) -> dict:
        """Calls of each kind of file, of all ranks; one step and then nine: what nine steps take more is the steps'."""
        counts = {}
        for steps in (1, 9):
            for old in place.glob("trace.*"):
                old.unlink()
            traced = ["strace", "-ff", "-y", "-qq", "-e", "trace=%file,read,pread64,readv,preadv,getdents64,fstat",
                      "-o", str(place / "trace")]
            feed = [str(self.bin / "forebay"), "feed", str(config), "--steps", str(steps), "--quiet", *more]
            run(self.mpirun(ranks) + traced + feed)
            counts[steps] = sorted_calls(place)
        return {"ranks": ranks, "steps": 8, "start": counts[1], "more_in_steps": {
            kind: {call: number - counts[1].get(kind, {}).get(call, 0) for call, number in calls.items()}
            for kind, calls in counts[9].items()}}


FEED = """seed = 17
[dataset]
format = "folder"
path = "{data}"
batch_size = 4
[queue]
capacity = 3
[transform]
size = [32, 32]
[workers]
io = 1
decode = 1
[trainer]
step_ms = 1
[policy]
name = "block"
[telemetry]
dir = "{logs}"
"""


def sorted_calls(place: pathlib.Path) -> dict[str, dict[str, int]]:
    """By kind of file and system call."""
    kinds = [("samples", re.compile(re.escape(str(place / "data")) + r"/.*\.jpg")),
             ("folders of the dataset", re.compile(re.escape(str(place / "data")))),
             ("index", re.compile(re.escape(str(place / "train.index")))),
             ("configuration", re.compile(re.escape(str(place / "feed.toml")))),
             ("telemetry", re.compile(re.escape(str(place / "run")))),
             ("libraries", re.compile(r"\.so\b")),
             ("proc and sys", re.compile(r"[\"<]/(proc|sys)/"))]
    counts: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
    for trace in place.glob("trace.*"):
        for line in trace.read_text(encoding="utf-8", errors="replace").splitlines():
            call = line.split("(", 1)[0]
            if not call.isidentifier():
                continue
            kind = next((name for name, pattern in kinds if pattern.search(line)), "other")
            counts[kind][call] += 1
    return {kind: dict(calls) for kind, calls in sorted(counts.items())}


def available_bytes() -> int:
    with open("/proc/meminfo", encoding="utf-8") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))


def machine() -> str:
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")
    return f"{len(os.sched_getaffinity(0))} cores of {model}, {datetime.date.today()}, load {os.getloadavg()[0]:.1f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--only", nargs="+", choices=TABLES, default=TABLES)
    parser.add_argument("--ranks", type=int, default=RANKS[-1], help="no more ranks than this")
    parser.add_argument("--first", default="", help="what to put before mpirun")
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "points.json")
    arguments = parser.parse_args()
    found = json.loads(arguments.out.read_text(encoding="utf-8")) if arguments.out.exists() else {}
    points = Points(arguments)
    for table in arguments.only:
        print(f"{table} ...", flush=True)
        found[table] = {"machine": machine(), "rows": getattr(points, table)()}
        text = ",\n".join(f'"{name}": {{"machine": {json.dumps(of["machine"])}, "rows": [\n'
                          + ",\n".join(json.dumps(row) for row in of["rows"]) + "]}" for name, of in found.items())
        arguments.out.write_text("{" + text + "}\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
