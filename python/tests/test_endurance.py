"""What many batches leave behind."""

from __future__ import annotations

import gc
import logging
import os
import time
import tracemalloc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import forebay
import numpy as np
import pytest
from conftest import Made

BATCHES = 6000
NOISE = 48 << 10  # bytes: eight for each batch would be a leak


def growth(feeder: Any, use: Callable[[Any], object]) -> int:
    """Bytes that Python holds more after BATCHES batches, of which a quarter came before the first look."""
    held = []
    tracemalloc.start()
    try:
        for step, batch in enumerate(feeder):
            use(batch)
            if step in (BATCHES // 4, BATCHES):
                del batch
                gc.collect()
                held.append(tracemalloc.get_traced_memory()[0])
            if step == BATCHES:
                break
    finally:
        # First: older CPythons may crash when tracing stops while other threads allocate (issue gh-128679).
        feeder.close()
        tracemalloc.stop()
    return held[1] - held[0]


def looked_at(batch: forebay.Batch) -> object:
    seen = [batch.images, batch.labels, batch.ids, batch["image"], batch.image, batch.numpy(), np.from_dlpack(batch)]
    capsule = batch.tensor().__dlpack__()  # that nobody takes
    return seen, capsule, batch.keys(), batch.views(), repr(batch), batch.copy()


def refused(batch: forebay.Batch) -> object:
    for wrong in ("mask", "_x"):
        with pytest.raises(KeyError):
            batch[wrong]
        with pytest.raises(AttributeError):
            getattr(batch, wrong)
    with pytest.raises(TypeError):
        batch.__reduce__()
    batch.release()
    with pytest.raises(forebay.Error):
        return batch.images


@pytest.mark.parametrize("use", [looked_at, refused])
def test_batches_leave_nothing_behind(make: Any, use: Callable[[Any], object]) -> None:
    assert growth(make(epochs=1 << 30, max_leases=8), use) < NOISE


def test_tensors_leave_nothing_behind(make: Any) -> None:
    torch = pytest.importorskip("torch")
    weight = torch.ones(1, requires_grad=True)

    def use(batch: forebay.Batch) -> None:
        (batch.torch("image") * weight).sum().backward()

    assert growth(make(epochs=1 << 30, dtype="float32", max_leases=4), use) < NOISE


def test_figures_and_states_leave_nothing_behind(make: Any) -> None:
    feeder = make(epochs=1 << 30)

    def use(batch: forebay.Batch) -> None:
        if batch.step % 20 == 0:
            assert feeder.summary() and feeder.profile() and feeder.state_dict() and feeder._repr_html_()

    assert growth(feeder, use) < NOISE


def test_code_of_pythons_own_leaves_nothing_behind(make: Any) -> None:
    data = Made(40, lambda i: np.full((8, 8, 3), i, np.uint8))

    class Always(forebay.Policy):
        def decide(self, signals: forebay.Signals) -> Any:
            return "fresh" if signals.depth > 0 else "wait"

    def draw(pixels: Any, rng: np.random.Generator) -> Any:
        return pixels + np.uint8(rng.integers(2))

    feeder = make(dataset=data, policy=Always(), operations=[draw], epochs=1 << 30, batch_size=1)
    assert growth(feeder, lambda batch: batch.ids) < NOISE


def test_feeders_leave_nothing_behind() -> None:
    def one() -> None:
        pictures = [np.full((8, 8, 3), i, np.uint8) for i in range(8)]
        data = Made(len(pictures), pictures.__getitem__)
        with forebay.Feeder(dataset=data, batch_size=2, size=(8, 8), policy="block", device="host") as feeder:
            for epoch in feeder.epochs(progress=True):
                for batch in epoch:
                    batch.copy()

    held = []
    tracemalloc.start()
    try:
        for _ in range(5):
            for _ in range(8):
                one()
            gc.collect()
            held.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    # In every round: what other threads keep for themselves comes once.
    assert min(after - before for before, after in zip(held[1:], held[2:])) < 24 << 10


class Trainer(forebay.Policy):
    """Has a feeder that refers to it in one way."""

    def __init__(self, way: str) -> None:
        self.losses = np.zeros(8, np.uint8)
        parts: dict[str, Any] = {
            "policy": {"policy": self},
            "operation": {"operations": [self.change]},
            "collecting operation": {"operations": [self.collect]},
            "logger": {"logger": logging.Logger("trainer")},
        }
        if way == "logger":
            parts[way]["logger"].addFilter(lambda record: self.losses is None)
        data = Made(8, self.read if way == "dataset" else lambda i: np.full((8, 8, 3), i, np.uint8))
        options: dict[str, Any] = {"dataset": data, "policy": "block", **parts.get(way, {})}
        self.feeder = forebay.Feeder(batch_size=2, size=(8, 8), device="host", epochs=9999, capacity=2, **options)
        self.batches = iter(self.feeder)

    def decide(self, signals: forebay.Signals) -> Any:
        return "fresh" if signals.depth > self.losses[0] else "wait"

    def read(self, index: int) -> Any:
        return np.full((8, 8, 3), self.losses[index], np.uint8)

    def change(self, pixels: Any) -> Any:
        return pixels + self.losses[0]

    def collect(self, pixels: Any) -> Any:
        gc.collect()
        return pixels + self.losses[0]


class Broken:
    def __iter__(self) -> Iterator[Any]:
        yield np.zeros(4)
        raise OSError("gone")


def threads() -> int:
    return len(os.listdir("/proc/self/task"))


def is_gone(alive: weakref.ref[Any], before: int) -> bool:
    for _ in range(1000):
        gc.collect()
        if alive() is None and threads() <= before:
            return True
        time.sleep(0.01)
    return False


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="threads are counted in /proc")
@pytest.mark.parametrize("way", ["none", "policy", "operation", "collecting operation", "logger", "dataset"])
@pytest.mark.parametrize("is_closed", [False, True])
def test_a_feeder_that_refers_to_its_owner_is_collected(way: str, is_closed: bool) -> None:
    before = threads()
    trainer = Trainer(way)
    assert next(trainer.batches) is not None
    if is_closed:
        trainer.feeder.close()
    alive = weakref.ref(trainer.feeder)
    del trainer
    assert is_gone(alive, before)


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="threads are counted in /proc")
def test_a_source_that_failed_leaves_nothing_behind() -> None:
    before = threads()
    source = Broken()
    with pytest.raises(OSError, match="gone"):
        for _ in forebay.reuse(source, policy="block"):
            pass
    alive = weakref.ref(source)
    del source
    assert is_gone(alive, before)
