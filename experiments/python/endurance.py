"""Whether the memory of a long run stays flat: over many fresh batches, with every way to use one.

  endurance.py [--batches N] [--samples N]       what is allocated and resident: slopes, and their 95 % intervals
  endurance.py --cached                          the same with malloc's caches of free memory for each thread
  endurance.py --traced [--batches N]            what Python allocated and did not free (tracemalloc)

glibc keeps freed memory for each thread and counts it as allocated. What is allocated by one thread and freed by
another wanders between these caches, which touches pages now and then until all of them are full. So they are switched
off, and allocated bytes are exactly those that somebody holds.

Needs the installed package; uses PyTorch where it is installed.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import os
import random
import resource
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np

import forebay

try:
    import torch
except ImportError:
    torch = None  # type: ignore[assignment, unused-ignore]

_WARM = 0.2  # of the batches come before the first look


def files_in(folder: str) -> forebay.Files:
    """Pictures that cost next to nothing."""
    paths = [Path(folder) / f"{number}.npy" for number in range(64)]
    for number, path in enumerate(paths):
        np.save(path, np.full((8, 8), number, np.uint8))
    return forebay.Files(paths, [number % 4 for number in range(64)])


def feeder_of(files: forebay.Files) -> forebay.Feeder:
    return forebay.Feeder(
        dataset=files,
        size=(8, 8),
        crop="none",
        dtype="float32",
        batch_size=1,
        policy="block",
        epochs=1 << 40,
        device="host",
        workers_io=1,
        workers_decode=1,
        max_leases=4,
    )


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


_FIELDS = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"


class _Account(ctypes.Structure):
    """struct mallinfo2 of glibc 2.33 and later."""

    _fields_ = [(name, ctypes.c_size_t) for name in _FIELDS.split()]


_mallinfo2 = ctypes.CDLL(None).mallinfo2
_mallinfo2.restype = _Account


def allocated_bytes() -> int:
    """What malloc has given out and not got back, all threads together."""
    account = _mallinfo2()
    return int(account.uordblks + account.hblkhd)


def without_caches() -> None:
    """Starts this program anew, unless malloc has been set up so."""
    wanted = "glibc.malloc.tcache_count=0"
    if os.environ.get("GLIBC_TUNABLES") != wanted:
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "GLIBC_TUNABLES": wanted})


class Uses:
    """All that a program may do with a batch, one after the other."""

    def __init__(self, feeder: forebay.Feeder) -> None:
        self._feeder = feeder
        self._kept: object = None
        self._ways: list[Callable[[forebay.Batch], object]] = [
            lambda batch: batch.images.sum(),
            lambda batch: batch.labels,
            lambda batch: batch.ids,
            lambda batch: np.from_dlpack(batch).sum(),  # type: ignore[arg-type, unused-ignore]
            lambda batch: batch.tensor().__dlpack__(),  # a capsule that nobody takes
            lambda batch: batch.copy(),
            lambda batch: batch.views(),
            lambda batch: (batch.keys(), batch["image"].shape, repr(batch)),
            self._keep,
        ]
        if torch is not None:
            self._ways += [lambda batch: batch.torch(), self._learn]
        self._rare: list[Callable[[], object]] = [
            feeder.summary,
            feeder.profile,
            feeder.state_dict,
            feeder._repr_html_,
            self._refused,
        ]

    def __call__(self, step: int, batch: forebay.Batch) -> None:
        self._ways[step % len(self._ways)](batch)
        if step % 997 == 0:
            self._rare[step // 997 % len(self._rare)]()

    def _keep(self, batch: forebay.Batch) -> None:
        self._kept = batch.images  # beyond its batch

    def _learn(self, batch: forebay.Batch) -> None:
        weight = torch.ones(1, requires_grad=True)
        (batch.torch("image") * weight).sum().backward()

    def _refused(self) -> None:
        for wrong in (lambda: self._feeder.load_state_dict({}), lambda: self._feeder.epochs(progress="x")):
            with contextlib.suppress(forebay.Error):
                wrong()


def line_through(x: list[float], y: list[float]) -> tuple[float, float]:
    slope, intercept = np.polyfit(x, y, 1)
    return float(slope), float(intercept)


def interval(x: list[float], y: list[float], block: int = 10, rounds: int = 2000) -> tuple[float, float]:
    """95 % of the slope: a bootstrap over blocks of the line's residuals, which are not independent."""
    slope, intercept = line_through(x, y)
    fit = [slope * at + intercept for at in x]
    residuals = [value - on for value, on in zip(y, fit)]
    chance = random.Random(1)
    starts = range(len(x) - block + 1)
    slopes = []
    for _ in range(rounds):
        drawn: list[float] = []
        while len(drawn) < len(x):
            start = chance.choice(starts)
            drawn += residuals[start : start + block]
        slopes.append(line_through(x, [on + error for on, error in zip(fit, drawn)])[0])
    slopes.sort()
    return slopes[len(slopes) // 40], slopes[-len(slopes) // 40]


def slope_of(at: list[float], size: list[float]) -> str:
    slope, _ = line_through(at, size)
    low, high = interval(at, size)
    sizes = f"{size[0]:.0f} to {size[-1]:.0f}, most {max(size):.0f}"
    return f"{sizes}; slope {slope:.5f} [{low:.5f} .. {high:.5f}] per batch"


def followed(files: forebay.Files, batches: int, samples: int) -> None:
    every = max(1, batches // samples)
    # Room for all looks at once: what is measured must not grow by being measured.
    at, allocated, blocks, resident = np.zeros((4, batches // every + 1))
    looks = 0
    began = time.monotonic()
    with feeder_of(files) as feeder:
        use = Uses(feeder)
        for batch in feeder:
            use(batch.step, batch)
            if batch.step % every == 0 and batch.step >= _WARM * batches:
                gc.collect()  # what nobody holds any more is not to be counted
                at[looks], allocated[looks], resident[looks] = batch.step, allocated_bytes(), resident_bytes()
                blocks[looks] = sys.getallocatedblocks()
                looks += 1
            if batch.step >= batches:
                break
    print(f"{batches} fresh batches in {time.monotonic() - began:.0f} s, {looks} looks")
    kinds = {"malloc, bytes": allocated, "Python, blocks": blocks, "resident, bytes": resident}
    for name, sizes in kinds.items():
        print(f"{name:15}  {slope_of(at[:looks].tolist(), sizes[:looks].tolist())}")


def traced(files: forebay.Files, batches: int) -> None:
    before: tracemalloc.Snapshot | None = None
    held = 0
    tracemalloc.start(5)
    with feeder_of(files) as feeder:
        use = Uses(feeder)
        for batch in feeder:
            use(batch.step, batch)
            if batch.step == int(_WARM * batches):
                gc.collect()
                before, held = tracemalloc.take_snapshot(), tracemalloc.get_traced_memory()[0]
            if batch.step >= batches:
                break
        gc.collect()
        growth = tracemalloc.get_traced_memory()[0] - held
        after = tracemalloc.take_snapshot()
    assert before is not None
    print(f"{batches} fresh batches: Python holds {growth} bytes more after the last than after {int(_WARM * batches)}")
    own = (tracemalloc.Filter(False, tracemalloc.__file__), tracemalloc.Filter(False, __file__))
    for line in after.filter_traces(own).compare_to(before.filter_traces(own), "lineno")[:5]:
        print("  ", line)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=1_000_000)
    parser.add_argument("--samples", type=int, default=50, help="looks at the memory; each may leave a block behind")
    parser.add_argument("--traced", action="store_true")
    parser.add_argument("--cached", action="store_true")
    arguments = parser.parse_args()
    if not arguments.cached and not arguments.traced:
        without_caches()
    with tempfile.TemporaryDirectory() as folder:
        files = files_in(folder)
        if arguments.traced:
            traced(files, arguments.batches)
        else:
            followed(files, arguments.batches, arguments.samples)


if __name__ == "__main__":
    main()
