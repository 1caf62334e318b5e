"""What processes gain where __getitem__ holds the interpreter's lock, and what they cost where it does nothing.

  processes.py [--rounds N] [--seconds S]

Needs the installed package. The cases take turns.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import numpy as np

import forebay

SIDE = 224
COUNT = 512


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


def spread(values: list[float]) -> str:
    return f"{statistics.median(values):.3g} [{min(values):.3g} .. {max(values):.3g}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2)
    arguments = parser.parse_args()
    ways = {"2 threads": {"workers_io": 2}, "1 process": {"processes": 1}, "2 processes": {"processes": 2}}
    for dataset in (RunLengths(), Ready()):
        found: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(arguments.rounds):
            for way, options in ways.items():
                found[way].append(images_per_second(dataset, arguments.seconds, **options))
        text = ", ".join(f"{way} {spread(values)}" for way, values in found.items())
        ratios = [mine / theirs for mine, theirs in zip(found["2 processes"], found["2 threads"])]
        print(f"{type(dataset).__name__}, images/s: {text}; 2 processes / 2 threads {spread(ratios)}")


if __name__ == "__main__":
    main()
