"""Batches of another loader as forebay.reuse() keeps them: copied on arrival, and not to be changed while they may be
served again."""

from __future__ import annotations

import copy
import dataclasses
import sys
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any

import numpy as np

from .errors import Error


_CONSTANT = frozenset((str, bytes, int, float, bool, type(None)))


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """The same tuples, lists, dictionaries and dataclasses with `change` applied to the arrays and objects in them."""
    if type(value) in _CONSTANT:
        return value
    if hasattr(type(value), "clone"):  # a TensorDict is a dictionary too
        return change(value)
    if isinstance(value, tuple):
        items = [mapped(each, change) for each in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, (list, MutableMapping)):
        same: Any = copy.copy(value)
        for key in range(len(value)) if isinstance(value, list) else tuple(value):
            same[key] = mapped(value[key], change)
        return same
    if isinstance(value, Mapping):
        return type(value)({name: mapped(each, change) for name, each in value.items()})  # type: ignore[call-arg]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        same = copy.copy(value)
        for field in dataclasses.fields(value):
            object.__setattr__(same, field.name, mapped(getattr(value, field.name), change))
        return same
    return change(value)


def _is_tensor(leaf: Any) -> bool:
    return "torch" in sys.modules and isinstance(leaf, sys.modules["torch"].Tensor)


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, np.ndarray) and not isinstance(leaf, np.ma.MaskedArray) and not leaf.dtype.hasobject


def copied(leaf: Any) -> Any:
    if _is_tensor(leaf):
        same = leaf.detach().clone()
        return (same.pin_memory() if leaf.is_pinned() else same).requires_grad_(leaf.requires_grad)
    if _is_array(leaf):
        return leaf.copy()
    try:
        return leaf.clone() if hasattr(type(leaf), "clone") else copy.deepcopy(leaf)
    except Exception as error:
        raise Error(
            f"a batch holds a {type(leaf).__module__}.{type(leaf).__qualname__}, which cannot be copied ({error}), so "
            'reuses could serve what has changed: leave it out, or say policy="block" and new_memory=True'
        ) from error


def _locked(leaf: Any) -> Any:
    """A read-only view of an array. A tensor stays as it is: PyTorch counts its changes."""
    if not _is_array(leaf):
        return copied(leaf) if _is_tensor(leaf) and leaf.is_inference() else leaf  # whose changes are not counted
    view = leaf.view()
    view.setflags(write=False)
    return view


def _cuda() -> Any:
    torch = sys.modules.get("torch")
    return torch.cuda if torch is not None and torch.cuda.is_initialized() else None


def current_gpu() -> int | None:
    """The GPU that is current for PyTorch on this thread; None where PyTorch uses none."""
    cuda = _cuda()
    return None if cuda is None else int(cuda.current_device())


def use_gpu(index: int | None) -> None:
    if index is not None and index != current_gpu():
        sys.modules["torch"].cuda.set_device(index)


class Held:
    """A batch of the source, with the source's state at the time. Made on the thread that runs the source.
    ``is_fixed``: it may be served again, so it must not change."""

    def __init__(self, batch: Any, state: Any, is_fixed: bool) -> None:
        self._batch = mapped(batch, _locked) if is_fixed else batch
        self._is_fixed = is_fixed
        self.state = state
        tensors: list[Any] = []
        mapped(self._batch, lambda leaf: tensors.append(leaf) if _is_tensor(leaf) else None)
        self._versions = [(tensor, tensor._version) for tensor in tensors] if is_fixed else []
        # Both threads have streams of their own. What the source has enqueued so far is awaited by the stream that uses
        # the batch, and its memory is not given away before that stream has used it.
        self._on_gpu = [tensor for tensor in tensors if tensor.is_cuda]
        cuda, gpu = _cuda(), current_gpu()
        gpus = {*([] if gpu is None else [gpu]), *(tensor.device.index for tensor in self._on_gpu)}
        self._events = {index: cuda.current_stream(index).record_event() for index in gpus}

    def serve(self, copy: bool) -> Any:
        for leaf, version in self._versions:
            if leaf._version != version:
                raise Error(
                    f"a tensor {tuple(leaf.shape)} of a batch was written to, and a reuse would serve what is left of "
                    "it: write to a clone() of it, or say copy=True for a copy at each step"
                )
        for index, event in self._events.items():
            _cuda().current_stream(index).wait_event(event)
        for tensor in self._on_gpu:
            tensor.record_stream(_cuda().current_stream(tensor.device.index))
        return mapped(self._batch, copied if copy else self._given)

    def _given(self, leaf: Any) -> Any:
        """Tensors and arrays are watched; what else may be served again is copied."""
        return copied(leaf) if self._is_fixed and not _is_tensor(leaf) and not _is_array(leaf) else leaf
