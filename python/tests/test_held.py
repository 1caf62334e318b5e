"""What forebay.reuse() keeps of a batch, and serves again."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import threading
from collections.abc import Iterator
from typing import Any

import forebay
import numpy as np
import pytest
from test_reuse import Numbers, numbers, reuse

__all__ = ["reuse"]  # a fixture


@dataclasses.dataclass(frozen=True)
class Pair:
    values: Any
    names: list[str]


class Graph:
    """As a batch of PyTorch Geometric: it has a clone(), and tensors that nobody else sees."""

    def __init__(self, nodes: Any) -> None:
        self.nodes = nodes

    def clone(self) -> Graph:
        return Graph(self.nodes.copy())


HOLDERS: dict[str, Any] = {
    "dataclass": (lambda a: Pair(a, ["x"]), lambda batch: batch.values),
    "defaultdict": (lambda a: collections.defaultdict(list, {"a": a}), lambda batch: batch["a"]),
    "list of its own": (lambda a: collections.UserList([a]), lambda batch: batch[0]),
    "clone": (Graph, lambda batch: batch.nodes),
    "masked": (lambda a: np.ma.masked_array(a, [False, True]), lambda batch: batch),
    "objects": (lambda a: np.array([a, None], dtype=object), lambda batch: batch[0]),
    "bytearray": (lambda a: bytearray(a.astype(np.uint8)), lambda batch: batch),
}


@pytest.mark.parametrize("kind", HOLDERS)
def test_whatever_holds_a_batch_is_neither_overwritten_nor_changed(reuse: Any, kind: str) -> None:
    hold, values_of = HOLDERS[kind]
    gate = threading.Event()

    def source() -> Iterator[Any]:
        memory = np.ones(2)
        batch = hold(memory)
        yield batch
        memory[:], values_of(batch)[0] = 9, 9
        gate.wait(60)
        yield batch

    seen = []
    for batch in reuse(source(), policy="greedy"):
        assert type(batch) is type(hold(np.ones(2)))
        values = values_of(batch)
        seen.append(int(values[0]))
        with contextlib.suppress(ValueError):  # an array is read-only
            values[0] = 5
        if len(seen) == 10:
            gate.set()
    assert set(seen) == {1, 9}


def test_the_source_works_on_the_trainers_gpu_and_a_step_waits_for_its_work(reuse: Any, monkeypatch: Any) -> None:
    torch = pytest.importorskip("torch")
    gpus, recorded, awaited = threading.local(), [], []

    class Stream:
        def __init__(self, gpu: int) -> None:
            self.of = (threading.get_ident(), gpu)

        def record_event(self) -> Any:
            recorded.append(self.of)
            return self.of, len(recorded)

        def wait_event(self, event: Any) -> None:
            awaited.append((self.of, event))

    def set_device(gpu: int) -> None:
        gpus.current = gpu

    set_device(2)
    for name, fake in {
        "is_initialized": lambda: True,
        "current_device": lambda: getattr(gpus, "current", 0),
        "current_stream": Stream,
        "set_device": set_device,
    }.items():
        monkeypatch.setattr(torch.cuda, name, fake)
    assert numbers(reuse(Numbers(3))) == [0, 1, 2]
    source, trainer = recorded[0], (threading.get_ident(), 2)
    assert source != trainer and source[1] == 2
    assert awaited == [(trainer, (source, count)) for count in (1, 2, 3)]


def test_what_cannot_be_copied_is_refused(reuse: Any) -> None:
    with pytest.raises(forebay.Error, match=r"holds a _thread.lock, which cannot be copied .*new_memory"):
        list(reuse([(np.ones(2), threading.Lock())] * 3, policy="greedy"))
    assert len(list(reuse([(np.ones(2), threading.Lock())] * 3, new_memory=True))) == 3


def test_a_tensor_made_in_inference_mode_is_watched_too(reuse: Any) -> None:
    torch = pytest.importorskip("torch")
    with torch.inference_mode():
        made = [torch.ones(3) for _ in range(3)]
    assert [each.tolist() for each in reuse(made, policy="greedy", new_memory=True)][-1] == [1, 1, 1]
