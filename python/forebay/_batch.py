"""Copies of batches, and the part of its image that each sample shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .errors import Error


def bfloat16_of(bits: Any, is_needed: bool = True) -> Any:
    """The same memory as an array of ml_dtypes' bfloat16, a type that NumPy lacks. Without that module: the bits, or
    Error if `is_needed`."""
    try:
        import ml_dtypes
    except ImportError:
        if not is_needed:
            return bits
        raise Error(
            "NumPy has no bfloat16 without the module ml_dtypes (pip install ml_dtypes): install it, take the batch as "
            'batch.torch() or batch.jax(), or set transform.dtype to "float16" or "float32"'
        ) from None
    return bits.view(ml_dtypes.bfloat16)


class SampleView(NamedTuple):
    """The region of its image that a sample shows, in pixels, before it is possibly mirrored and resized to
    transform.size. Each side is rounded to a pixel; with padding it may reach beyond the image."""

    left: int
    top: int
    right: int
    bottom: int
    width: int  # size of the whole image
    height: int
    mirror: bool


@dataclass(eq=False)
class BatchCopy:
    """A copy of a batch in host memory. It can be kept, changed, pickled and sent to other processes."""

    fields: dict[str, Any]  # NumPy arrays by name
    ids: Any  # numbers of the samples in the dataset
    epoch: int
    number: int  # within the epoch, counted over all ranks
    step: int
    use_index: int  # how often it was served before; 0 = fresh
    job_fresh_samples: int
    rows: dict[str, Any] = field(default_factory=dict)  # ragged fields: how many entries of each row are filled
    bfloat16: tuple[str, ...] = ()  # fields of that type: arrays of ml_dtypes, or of uint16 without that module

    def __post_init__(self) -> None:
        for name in self.bfloat16:
            self.fields[name] = bfloat16_of(self.fields[name], is_needed=False)

    @property
    def images(self) -> Any:
        """[rows, channels, height, width], or as transform.layout says, with transform.views rows for each sample.

        For clips [rows, frames, channels, height, width].
        """
        return self.fields["image"]

    @property
    def labels(self) -> Any:
        """Class numbers, [rows] of int64, -1 = unlabelled."""
        return self.fields["label"]

    @property
    def is_fresh(self) -> bool:
        """Whether it was served for the first time."""
        return self.use_index == 0

    @property
    def size(self) -> int:
        """Samples in the batch."""
        return len(self.ids)

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, name: str) -> Any:
        return self.fields[name]

    def keys(self) -> list[str]:
        """The names of the fields."""
        return list(self.fields)

    def counts(self, name: str) -> Any:
        """How many entries of each row of a ragged field are filled."""
        return self.rows[name]

    def numpy(self, *names: str) -> Any:
        """The named fields, by default "image" and "label" or, for mixed batches, "image" and "label_weights": a single
        array for one name, else a tuple."""
        return self._taken(names, self.__getitem__)

    def torch(self, *names: str, copy: bool | None = None) -> Any:
        """Like numpy(), as PyTorch tensors that share the copy's memory or, with copy=True, have memory of their
        own."""
        import torch

        def tensor(name: str) -> Any:
            if name in self.bfloat16:
                shared = torch.from_numpy(self.fields[name].view("int16")).view(torch.bfloat16)
            else:
                shared = torch.from_numpy(self.fields[name])
            return shared.clone() if copy else shared

        return self._taken(names, tensor)

    def _taken(self, names: tuple[str, ...], take: Callable[[str], Any]) -> Any:
        label = "label_weights" if "label_weights" in self.fields else "label"
        wanted = [take(name) for name in names or ("image", label)]
        return wanted[0] if len(names) == 1 else tuple(wanted)

    def __repr__(self) -> str:
        return f"<forebay.BatchCopy: step {self.step}, epoch {self.epoch}, {self.size} samples>"
