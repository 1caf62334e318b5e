"""Images/s and CPU time of forebay.torch.DataLoader and PyTorch's, and how far pixels are from torchvision's.

  loaders.py --data FOLDER [--rounds N] [--workers N] [--other FOLDER]
  loaders.py --data cifar              the same for a CIFAR10 of random pixels, with RandomCrop(32, padding=4)
  loaders.py --reuse [--rounds N]      what forebay.reuse() changes for a loader that is too slow

FOLDER has folders of photographs by class. In turn, A B A B: PyTorch's loader alone, Forebay's the general way
(native="off", with the queue behind the workers, and without), and natively. Ratios are of neighbouring rounds.
--other: also the native way of another build of the package, in processes of its own: the folder that holds it.
Then the mean difference in grey levels of Resize(256), CenterCrop(224). Needs the package, PyTorch and torchvision.
"""

from __future__ import annotations

import argparse
import itertools
import json
import logging
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torchvision import datasets, transforms

import forebay
import forebay.torch

EPOCHS = 3
BATCH_S = 0.18  # of a batch of --reuse, with all workers
STEP_S = BATCH_S / 3


class Rate(NamedTuple):
    """Behind the first epoch, which warms caches. images_per_s: of the last one, from its first batch on. cpu_ms: of
    this process and its workers for an image, which other programs on the machine change little."""

    images_per_s: float
    cpu_ms: float


def cpu_s() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def rate_of(loader: Any) -> Rate:
    used, images, images_per_s = 0.0, 0, 0.0
    for epoch in range(EPOCHS):
        first, began, served = 0, 0.0, 0
        for batch, _ in loader:
            served += len(batch)
            first, began = (first, began) if began else (served, time.perf_counter())
        images_per_s = (served - first) / (time.perf_counter() - began)
        used, images = (used, images + served) if epoch > 0 else (cpu_s(), 0)
    used = cpu_s() - used
    if hasattr(loader, "close"):
        loader.close()
    return Rate(images_per_s, 1000 * used / images)


def training(root: str) -> Any:
    chain = [transforms.RandomHorizontalFlip(), transforms.ToTensor(), transforms.Normalize([0.5] * 3, [0.25] * 3)]
    if root != "cifar":
        return datasets.ImageFolder(root, transforms.Compose([transforms.RandomResizedCrop(224), *chain]))
    made = datasets.CIFAR10.__new__(datasets.CIFAR10)
    made.transform = transforms.Compose([transforms.RandomCrop(32, padding=4), *chain])
    made.data = torch.randint(256, (20000, 32, 32, 3), dtype=torch.uint8).numpy()
    made.targets, made.classes, made.target_transform = [0] * 20000, ["any"], None
    return made


def ratios(some: list[Rate], others: list[Rate]) -> str:
    faster = spread([one.images_per_s / other.images_per_s for one, other in zip(some, others)])
    return f"images/s {faster}, CPU time {spread([one.cpu_ms / other.cpu_ms for one, other in zip(some, others)])}"


def spread(values: list[float]) -> str:
    return f"{statistics.median(values):.3f} [{min(values):.3f} .. {max(values):.3f}]"


def print_pixels(root: str) -> None:
    chain = transforms.Compose([transforms.Resize(256), transforms.CenterCrop(224), transforms.PILToTensor()])
    dataset = datasets.ImageFolder(root, chain)
    ours: Any = forebay.torch.DataLoader(dataset, 16, native="require")
    means, most = [], 0
    for (images, _), (theirs, _) in zip(ours, torch.utils.data.DataLoader(dataset, 16)):
        apart = (images.int() - theirs.int()).abs()
        means += apart.float().mean((1, 2, 3)).tolist()
        most = max(most, int(apart.max()))
    print(
        f"grey levels between torchvision's Resize(256), CenterCrop(224) and Forebay's, {len(means)} photographs: mean "
        f"{statistics.mean(means):.3f}, of the worst photograph {max(means):.3f}, at most {most}"
    )
    ours.close()


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


def reuse(rounds: int) -> None:
    """Stall and steps of a loader that is three times too slow, alone and behind forebay.reuse(), in turn; next() of a
    ready batch. The dataset sleeps, so that nothing depends on how fast the machine is; batches are 64 images of
    3 x 224 x 224. The trainer sleeps too, for a third of the time that a batch takes (R = 3)."""
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


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data")
    parser.add_argument("--reuse", action="store_true")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--other")
    parser.add_argument("--native-alone", action="store_true", help=argparse.SUPPRESS)
    of = parser.parse_args()
    if of.reuse:
        reuse(of.rounds)
        return
    if not of.data:
        parser.error("--data is missing")
    logging.getLogger("forebay").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    shared: dict[str, Any] = {"batch_size": 128 if of.data == "cifar" else 32, "shuffle": True, "drop_last": True}

    def native() -> Rate:
        return rate_of(
            forebay.torch.DataLoader(training(of.data), native="require", workers_decode=of.workers, **shared)
        )

    def by_process(folder: str) -> Rate:
        words = [sys.executable, __file__, "--data", of.data, "--workers", str(of.workers), "--native-alone"]
        done = subprocess.run(
            words, env={**os.environ, "PYTHONPATH": folder}, capture_output=True, text=True, check=True
        )
        return Rate(*json.loads(done.stdout))

    if of.native_alone:
        print(json.dumps(native()))
        return
    ways: dict[str, Callable[[], Rate]] = {
        "PyTorch": lambda: rate_of(torch.utils.data.DataLoader(training(of.data), num_workers=of.workers, **shared)),
        "general": lambda: rate_of(
            forebay.torch.DataLoader(training(of.data), num_workers=of.workers, native="off", **shared)
        ),
        "general, with the queue": lambda: rate_of(
            forebay.torch.DataLoader(training(of.data), num_workers=of.workers, native="off", policy="block", **shared)
        ),
        "native": native,
    }
    if of.other:
        ways["native, by itself"] = lambda: by_process(str(Path(forebay.__file__).parent.parent))
        ways["native of the other build"] = lambda: by_process(of.other)
    found: dict[str, list[Rate]] = {name: [] for name in ways}
    for _ in range(of.rounds):
        for name, measure in ways.items():
            found[name].append(measure())
    for name, rates in found.items():
        print(f"{name}: {ratios(rates, found['PyTorch'])} of PyTorch's")
    if of.other:
        print(f"native: {ratios(found['native, by itself'], found['native of the other build'])} of the other build's")
    if of.data != "cifar":
        print_pixels(of.data)


if __name__ == "__main__":
    main()
