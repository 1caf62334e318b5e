"""Images per second of a training on a GPU, by what feeds it.

  train.py --data FOLDER [--model NAME] [--batch N] [--rounds N] [--seconds S] [FEED]...

FOLDER has folders of JPEG files by class (forebay make-dataset --layout folder). The feeds take turns:
  resident   one batch that is on the GPU already: the most that the GPU can do
  block      Forebay, every batch fresh
  adaptive   Forebay, its default policy
  dequeue    the same with transform.when = "dequeue"
  pytorch    torch.utils.data.DataLoader over torchvision's ImageFolder, a worker for each processor
with random-resized crops of 224, mirrored and normalised, in bfloat16 and channels last. Needs the package with CUDA,
PyTorch, torchvision and a GPU.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torchvision
from torchvision import transforms

import forebay

SIDE = 224
WARM_UP_S = 1.5  # from the first batch on
Batches = Iterator[tuple[Any, Any, bool]]  # images, labels, whether they are fresh


def resident(arguments: argparse.Namespace) -> Batches:
    images = torch.randn(arguments.batch, 3, SIDE, SIDE, device="cuda", dtype=torch.bfloat16)
    labels = torch.zeros(arguments.batch, dtype=torch.int64, device="cuda")
    return itertools.repeat((images.to(memory_format=torch.channels_last), labels, False))


def pytorch(arguments: argparse.Namespace) -> Batches:
    normalize = transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    views = [transforms.RandomResizedCrop(SIDE), transforms.RandomHorizontalFlip(), transforms.ToTensor(), normalize]
    loader = torch.utils.data.DataLoader(
        torchvision.datasets.ImageFolder(arguments.data, transforms.Compose(views)),
        arguments.batch,
        shuffle=True,
        num_workers=os.cpu_count() or 1,
        pin_memory=True,
        drop_last=True,
        persistent_workers=True,
    )
    if len(loader) == 0:
        raise SystemExit(f"{arguments.data} has fewer than {arguments.batch} images: give --batch")
    for images, labels in itertools.chain.from_iterable(itertools.repeat(loader)):
        images = images.to("cuda", non_blocking=True).to(torch.bfloat16)
        yield images.to(memory_format=torch.channels_last), labels.to("cuda", non_blocking=True), True


def by_forebay(policy: str, **options: Any) -> Callable[[argparse.Namespace], Batches]:
    def batches(arguments: argparse.Namespace) -> Batches:
        made = {"batch_size": arguments.batch, "size": (SIDE, SIDE), "dtype": "bfloat16", "layout": "NHWC"}
        with forebay.Feeder(
            dataset=arguments.data, device="cuda", policy=policy, epochs=10**6, **made, **options
        ) as feeder:
            for batch in feeder:
                images, labels = batch.torch(copy=False)
                yield images.permute(0, 3, 1, 2), labels, batch.is_fresh

    return batches


FEEDS: dict[str, Callable[[argparse.Namespace], Batches]] = {
    "resident": resident,
    "block": by_forebay("block"),
    "adaptive": by_forebay("adaptive"),
    "dequeue": by_forebay("adaptive", when="dequeue"),
    "pytorch": pytorch,
}


def trainer(name: str) -> Callable[[Any, Any], None]:
    torch.backends.cudnn.benchmark = True
    model = getattr(torchvision.models, name)().to("cuda", torch.bfloat16, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)

    def step(images: Any, labels: Any) -> None:
        optimizer.zero_grad(set_to_none=True)
        torch.nn.functional.cross_entropy(model(images).float(), labels).backward()
        optimizer.step()

    return step


def rate_of(batches: Batches, step: Callable[[Any, Any], None], seconds: float) -> tuple[float, float]:
    """Images per second, and the share of them that were fresh."""
    first = began = 0.0
    images_seen = fresh = 0
    for images, labels, is_fresh in batches:
        step(images, labels)
        now = time.perf_counter()
        first = first or now
        if not began and now - first > WARM_UP_S:
            torch.cuda.synchronize()
            began = time.perf_counter()
        elif began:
            images_seen += len(images)
            fresh += len(images) * is_fresh
            if now - began > seconds:
                break
        del images, labels
    torch.cuda.synchronize()
    return images_seen / (time.perf_counter() - began), fresh / images_seen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("feeds", nargs="*", metavar="FEED", default=list(FEEDS))
    arguments = parser.parse_args()
    step = trainer(arguments.model)
    found: dict[str, list[tuple[float, float]]] = {feed: [] for feed in arguments.feeds}
    for _, feed in itertools.product(range(arguments.rounds), found):
        found[feed].append(rate_of(FEEDS[feed](arguments), step, arguments.seconds))
    print(f"{arguments.model} on {torch.cuda.get_device_name()}, {os.cpu_count()} processors")
    print("| feed | images/s | of resident | fresh |\n|---|---|---|---|")
    most = statistics.median(rate for rate, _ in found["resident"]) if "resident" in found else float("nan")
    for feed, rounds in found.items():
        rates = sorted(rate for rate, _ in rounds)
        rate, fresh = statistics.median(rates), statistics.median(share for _, share in rounds)
        spread = f"[{rates[0]:.0f} .. {rates[-1]:.0f}]"
        print(f"| {feed} | {rate:.0f} {spread} | {100 * rate / most:.0f} % | {100 * fresh:.0f} % |")


main()
