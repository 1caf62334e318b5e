"""Takes batches that somebody else makes, on a thread of the library, and keeps them."""

from __future__ import annotations

import collections
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from . import _core
from .dataset import Dataset
from .errors import Error
from .feeder import Feeder

_TOKEN = b"P5 1 1 255\n\0"  # a picture of one pixel
_ENDLESS = 1 << 40
_QUICK_S = 0.0002
END = object()  # behind the last batch of an epoch


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """The same tuples, lists and dictionaries with other leaves."""
    if isinstance(value, tuple):
        items = [_mapped(each, change) for each in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, list):
        return [_mapped(each, change) for each in value]
    if isinstance(value, Mapping):
        named = {name: _mapped(each, change) for name, each in value.items()}
        return named if type(value) is dict else type(value)(named)  # type: ignore[call-arg]
    return change(value)


def _is_tensor(leaf: Any) -> bool:
    return hasattr(leaf, "clone") and hasattr(leaf, "_version")


def _is_array(leaf: Any) -> bool:
    return type(leaf).__module__ == "numpy" and hasattr(leaf, "setflags")


def _copied(leaf: Any) -> Any:
    if hasattr(leaf, "clone"):
        return leaf.detach().clone().requires_grad_(leaf.requires_grad)
    return leaf.copy() if _is_array(leaf) else leaf


def _locked(leaf: Any) -> Any:
    """An array that a reuse may serve again is read-only; of a tensor PyTorch counts the changes."""
    if not _is_array(leaf):
        return leaf
    view = leaf.view()
    view.setflags(write=False)
    return view


class Held:
    """A batch of the source, with what was known of the source when it came. ``is_fixed``: it must not change."""

    def __init__(self, batch: Any, state: Any, is_fixed: bool) -> None:
        self._batch = _mapped(batch, _locked) if is_fixed else batch
        self.state = state
        tensors: list[Any] = []
        _mapped(self._batch, lambda leaf: tensors.append(leaf) if is_fixed and _is_tensor(leaf) else None)
        self._versions = [(tensor, tensor._version) for tensor in tensors]

    def serve(self, copy: bool) -> Any:
        for leaf, version in self._versions:
            if leaf._version != version:
                raise Error(
                    f"a tensor {tuple(leaf.shape)} of a batch was written to, and a reuse would serve what is left of "
                    "it: write to a clone() of it, or say copy=True for a copy at each step"
                )
        return _mapped(self._batch, _copied if copy else lambda leaf: leaf)


class Intake(Dataset):
    """Takes batches from the source, on a thread of the library: each "sample" that it reads is one."""

    def __init__(self, source: Any, new_memory: bool, watches: bool) -> None:
        self._source, self._new_memory, self._watches = source, new_memory, watches
        self.state = _core.SourceState()
        self._changed = threading.Condition()
        self._taking = threading.Lock()
        self._batches: Iterator[Any] | None = None
        self._is_closed = False
        self._came: collections.deque[Any] = collections.deque()
        self._ended_at = time.monotonic()

    def __len__(self) -> int:
        return _ENDLESS

    def identity(self) -> str:
        return "a source of batches"

    def __getitem__(self, index: int) -> bytes:
        began = time.monotonic()
        with self._taking:  # in the order of the source
            self._came.append(self._next())
        # Reads that take less than this are handed on several at a time, and these must not wait for the next batch.
        time.sleep(max(0.0, _QUICK_S - (time.monotonic() - began)))
        return _TOKEN

    def begin(self, batches: Iterator[Any], passed_over: int) -> None:
        """An epoch of the source. On the trainer's thread, so that what it draws at random is drawn there."""
        self.state.paused_s += time.monotonic() - self._ended_at
        self.state.is_at_end = self.state.is_waiting = False
        with self._changed:
            self._batches, self._passed_over = batches, passed_over
            self._changed.notify_all()

    def taken(self) -> Any:
        """The oldest batch that is not served yet. REQUIRES: the library has read it."""
        item = self._came.popleft()
        if item is END:
            self._ended_at = time.monotonic()
        return item

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _next(self) -> Any:
        with self._changed:
            self._changed.wait_for(lambda: self._batches is not None or self._is_closed)
            batches = self._batches
        try:
            if self._is_closed or batches is None:
                return END
            while self._passed_over > 0:
                self._passed_over -= 1
                next(batches)
            batch = next(batches)
            state = self._source.state_dict() if hasattr(self._source, "state_dict") else None
            return Held(batch if self._new_memory else _mapped(batch, _copied), state, self._watches)
        except StopIteration:
            self._batches = None
            self.state.is_at_end = True  # before its token is there
            return END
        except BaseException as error:  # for the step whose batch it is
            return error


class Ring(Feeder):
    """A feeder whose reader can be told that nothing comes any more."""

    def __init__(self, intake: Intake, **options: Any) -> None:
        self.intake = intake
        super().__init__(dataset=intake, _source=intake.state, **options)

    def close(self) -> None:
        self.intake.close()
        super().close()
