"""What forebay.reuse() changes for a loader of PyTorch that is three times too slow, and what a step of it costs.

  reuse.py [--rounds N]    stall and steps with the loader alone and behind Forebay, in turn; next() of a ready batch

The dataset sleeps, so that nothing depends on how fast the machine is; batches are 64 images of 3 x 224 x 224. The
trainer sleeps too, for a third of the time that a batch takes (R = 3). Needs the installed package and PyTorch.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections.abc import Iterable
from typing import Any

import torch

import forebay

BATCH_S = 0.18  # of a batch, with all workers
STEP_S = BATCH_S / 3


class Slow(torch.utils.data.Dataset[Any]):
    def __init__(self, batches: int, workers: int) -> None:
        self.batches, self.workers = batches, workers

    def __len__(self) -> int:
        return self.batches

    def __getitem__(self, index: int) -> Any:
        time.sleep(BATCH_S * self.workers)
        return torch.full((64, 3, 224, 224), index, dtype=torch.uint8), index


def stalls(batches: Iterable[Any]) -> tuple[float, int, float]:
    """Seconds that steps waited in, steps, and seconds, from the first batch on."""
    waited, steps = 0.0, 0
    iterator = iter(batches)
    next(iterator)
    began = before = time.perf_counter()
    for _ in iterator:
        waited += time.perf_counter() - before
        time.sleep(STEP_S)
        steps += 1
        before = time.perf_counter()
    return waited, steps, time.perf_counter() - began


def spread(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} [{min(values):.2f} .. {max(values):.2f}]"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    found: dict[str, list[tuple[float, int, float]]] = {"PyTorch alone": [], "behind forebay.reuse": []}
    for _ in range(rounds):
        loader = torch.utils.data.DataLoader(Slow(40, 2), batch_size=None, num_workers=2)
        found["PyTorch alone"].append(stalls(loader))
        behind = forebay.reuse(loader, new_memory=True)
        found["behind forebay.reuse"].append(stalls(behind))
        behind.close()
    for name, results in found.items():
        shares = spread([100 * waited / total for waited, _, total in results])
        print(f"{name}: stall {shares} %, {spread([steps / total for _, steps, total in results])} steps/s")
    for tensors in (2, 20):
        batch = {str(number): torch.zeros(8) for number in range(tensors)}
        ready = forebay.reuse(itertools.repeat(batch), policy="greedy", new_memory=True, on_max_uses="warn")
        iterator, times = iter(ready), []
        for _ in range(20000):
            began = time.perf_counter()
            next(iterator)
            times.append(1e6 * (time.perf_counter() - began))
        ready.close()
        print(f"next() of {tensors} tensors: median {statistics.median(times):.1f} us")


if __name__ == "__main__":
    main()
