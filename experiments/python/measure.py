"""What Python costs a trainer: next() of a ready batch, a step of several ranks, and images per second.

  measure.py [--data FOLDER] [--rounds N]        one process, and `forebay feed` at the same settings in turn
  mpirun -n 2 measure.py --step                  a step of two ranks, through mpi4py
  measure.py --sockets 2                         the same over TCP, as under torchrun
  measure.py --own                               a policy and an operation written in Python
  measure.py --processes                         two threads, one process and two processes call __getitem__

Needs the installed package; --step needs mpi4py.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Literal

import numpy as np

import forebay

SIDE = 224
COUNT = 512  # samples of a dataset in Python

TINY: dict[str, Any] = {
    "size": (8, 8),
    "crop": "none",
    "mirror": 0,
    "dtype": "uint8",
    "batch_size": 4,
    "workers_io": 1,
    "workers_decode": 1,
    "device": "host",
    "capacity": 16,
}


def grey_files(folder: str) -> forebay.Files:
    """Pictures that cost next to nothing, read without Python."""
    paths = [Path(folder) / f"{number}.npy" for number in range(512)]
    for number, path in enumerate(paths):
        np.save(path, np.full((8, 8), number % 256, np.uint8))
    return forebay.Files(paths)


def spread(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} [{min(values):.2f} .. {max(values):.2f}]"


def quantiles(nanoseconds: list[int]) -> tuple[float, float]:
    ordered = sorted(nanoseconds)
    return ordered[len(ordered) // 2] / 1e3, ordered[len(ordered) * 99 // 100] / 1e3


def next_of_ready_batches(files: forebay.Files, policy: Any, steps: int) -> list[int]:
    """Nanoseconds of each call, with a full queue at the first of every ten."""
    taken = []
    clock = time.perf_counter_ns
    with forebay.Feeder(dataset=files, steps=steps + 10, policy=policy, **TINY) as feeder:
        for step in range(steps):
            if step % 10 == 0:
                time.sleep(0.02)
            before = clock()
            batch = feeder.next()
            taken.append(clock() - before)
            assert batch is not None
            batch.release()
    return taken


def latency(rounds: int, files: forebay.Files) -> None:
    clocks = [(lambda a, b: b - a)(time.perf_counter_ns(), time.perf_counter_ns()) for _ in range(1000)]
    print(f"the clock itself: {quantiles(clocks)[0]:.2f} us")
    for name, policy in (("fresh", {"name": "block"}), ("reuse", {"name": "interval", "interval": 1 << 40})):
        found = [quantiles(next_of_ready_batches(files, policy, 2000)) for _ in range(rounds)]
        print(f"next(), {name}: median {spread([m for m, _ in found])} us, p99 {spread([p for _, p in found])} us")


def throughput(data: str, rounds: int) -> None:
    options: dict[str, Any] = {"dataset_path": data, "policy_name": "block", "steps": 60}
    options |= {"device": "host", "telemetry_live": "never"}
    command = ["--set=dataset.path=" + data, "--set=policy.name=block", "--set=run.steps=60", "--set=device=host"]
    python, program = [], []
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "feed.toml"
        config.write_text("")
        for number in range(rounds):
            with forebay.Feeder(**options) as feeder:
                for batch in feeder:
                    batch.images  # noqa: B018 - as a trainer does
                python.append(feeder.summary()["images_per_s"])
            out = Path(folder) / f"{number}.json"
            subprocess.run(
                [
                    sys.executable,
                    "-m",
                    "forebay",
                    "feed",
                    str(config),
                    *command,
                    "--set=trainer.step_ms=0",
                    "--set=telemetry.dir=",
                    f"--summary={out}",
                ],
                check=True,
                capture_output=True,
            )
            program.append(json.loads(out.read_text())["images_per_s"])
    ratios = [ours / theirs for ours, theirs in zip(python, program)]
    print(f"images/s: Python {spread(python)}, forebay feed {spread(program)}, ratio {spread(ratios)}")


def steps_of(files: forebay.Files, comm: object, steps: int = 5000) -> tuple[float, float]:
    """Median and p99 of next(), reusing a batch, in microseconds."""
    clock = time.perf_counter_ns
    policy = {"name": "interval", "interval": 1 << 40}
    taken = []
    with forebay.Feeder(dataset=files, comm=comm, steps=steps, policy=policy, **TINY) as feeder:
        for _ in range(steps):
            before = clock()
            batch = feeder.next()
            taken.append(clock() - before)
            assert batch is not None
            batch.release()
    return quantiles(taken[100:])


def step_of_ranks(files: forebay.Files) -> None:
    from mpi4py import MPI

    found = MPI.COMM_WORLD.gather(steps_of(files, MPI.COMM_WORLD))
    if MPI.COMM_WORLD.rank == 0:
        print(f"next() of {MPI.COMM_WORLD.size} ranks, reuse: median and p99 of each, us:", found)


def socket_rank(rank: int, pipes: list[tuple[Any, Any]], folder: str) -> None:
    from forebay import _links
    from forebay.sockets import SocketCommunicator

    def exchange(data: bytes) -> list[bytes]:
        pipes[rank][1].send(data)
        return list(pipes[rank][1].recv())

    nodes = [_links.node()] * len(pipes)
    comm = SocketCommunicator(rank, [_links.host(nodes)] * len(pipes), nodes, exchange)
    found = steps_of(forebay.Files(sorted(Path(folder).glob("*.npy"))), comm)
    print(f"next() of {len(pipes)} ranks over TCP, reuse: rank {rank}: median and p99, us: {found}", flush=True)


def step_over_sockets(count: int, folder: str) -> None:
    spawn = multiprocessing.get_context("spawn")
    pipes = [spawn.Pipe() for _ in range(count)]
    processes = [spawn.Process(target=socket_rank, args=(rank, pipes, folder)) for rank in range(count)]
    for process in processes:
        process.start()
    said = [pipe.recv() for pipe, _ in pipes]
    for pipe, _ in pipes:
        pipe.send(said)
    for process in processes:
        process.join(60)


class Greedy(forebay.Policy):
    """A policy that costs what the call costs."""

    def decide(self, signals: forebay.Signals) -> Literal["fresh", "reuse"]:
        return "reuse" if signals.uses else "fresh"


def own_code(rounds: int, files: forebay.Files) -> None:
    def median(policy: Any) -> float:
        return quantiles(next_of_ready_batches(files, policy, 2000))[0]

    ours, theirs = [], []
    for _ in range(rounds):
        ours.append(median(Greedy()))
        theirs.append(median({"name": "interval", "interval": 1 << 40}))
    print(f"next(), reuse: policy in Python {spread(ours)} us, in the library {spread(theirs)} us")

    def per_sample(operations: list[object]) -> float:
        options = {**TINY, "size": (224, 224), "batch_size": 64, "epochs": 4, "policy": "block"}
        with forebay.Feeder(dataset=files, operations=operations, **options) as feeder:
            before = time.perf_counter()
            for _ in feeder:
                pass
            return (time.perf_counter() - before) / (4 * 512) * 1e6

    def nothing(pixels: object) -> None: ...

    def draw(pixels: object, rng: np.random.Generator) -> None:
        rng.integers(256)

    def invert(pixels: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return 255 - pixels

    for operation in (nothing, draw, invert):
        extra = [per_sample([operation]) - per_sample([]) for _ in range(rounds)]
        print(f"the operation {operation.__name__}() on 224 x 224: {spread(extra)} us per sample")


class RunLengths(forebay.Dataset):
    """Pictures in a format that only Python reads: a list of (colour, length), some milliseconds each."""

    def __init__(self) -> None:
        chance = np.random.default_rng(1)
        self.runs = [(chance.integers(0, 256, (6000, 3)).tolist(), chance.integers(1, 16, 6000).tolist())] * COUNT

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> np.ndarray[Any, Any]:
        colours, lengths = self.runs[index]
        pixels = bytearray()
        for colour, length in zip(colours, lengths):
            for _ in range(length):
                pixels += bytes(colour)
        size = SIDE * SIDE * 3
        return np.frombuffer(bytes(pixels[:size]).ljust(size, b"\0"), np.uint8).reshape(SIDE, SIDE, 3)


class Ready(forebay.Dataset):
    """Arrays that need no work at all."""

    def __init__(self) -> None:
        self.picture = np.zeros((SIDE, SIDE, 3), np.uint8)

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> np.ndarray[Any, Any]:
        return self.picture


def images_per_second(dataset: forebay.Dataset, seconds: float, **options: Any) -> float:
    """From the third batch on: by then all threads and processes work."""
    with forebay.Feeder(
        dataset=dataset,
        batch_size=16,
        size=(SIDE, SIDE),
        crop="none",
        mirror=0,
        policy="block",
        epochs=1 << 30,
        workers_decode=1,
        capacity=2,
        device="host",
        **options,
    ) as feeder:
        batches_of = iter(feeder)
        for _ in range(3):
            next(batches_of)
        begin, batches = time.perf_counter(), 0
        while time.perf_counter() - begin < seconds:
            next(batches_of)
            batches += 1
        return 16 * batches / (time.perf_counter() - begin)


def processes(rounds: int) -> None:
    """What they gain where __getitem__ holds the interpreter's lock, and cost where it does nothing."""
    ways = {"2 threads": {"workers_io": 2}, "1 process": {"processes": 1}, "2 processes": {"processes": 2}}
    for dataset in (RunLengths(), Ready()):
        found: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(rounds):
            for way, options in ways.items():
                found[way].append(images_per_second(dataset, 2, **options))
        text = ", ".join(f"{way} {spread(values)}" for way, values in found.items())
        ratios = [mine / theirs for mine, theirs in zip(found["2 processes"], found["2 threads"])]
        print(f"{type(dataset).__name__}, images/s: {text}; 2 processes / 2 threads {spread(ratios)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of photographs, for images per second")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--step", action="store_true", help="a step of the ranks that mpirun started")
    parser.add_argument("--sockets", type=int, default=0, metavar="N", help="a step of so many ranks, over TCP")
    parser.add_argument("--own", action="store_true", help="a policy and operations in Python")
    parser.add_argument("--processes", action="store_true", help="threads and processes that call __getitem__")
    arguments = parser.parse_args()
    if arguments.processes:
        processes(arguments.rounds)
        return
    with tempfile.TemporaryDirectory() as folder:
        files = grey_files(folder)
        if arguments.step:
            step_of_ranks(files)
        elif arguments.sockets:
            step_over_sockets(arguments.sockets, folder)
        elif arguments.own:
            own_code(arguments.rounds, files)
        else:
            latency(arguments.rounds, files)
    if arguments.data:
        throughput(arguments.data, arguments.rounds)


if __name__ == "__main__":
    main()
