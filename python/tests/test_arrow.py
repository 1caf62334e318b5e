"""What is read of Arrow's memory: where the bytes of images are, as a file says."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import forebay
import numpy as np
import pytest
from forebay._huggingface import _bytes_at, _sound

DATA = np.arange(64, dtype=np.uint8)


class Chunk:
    """A chunk of a column of images, as pyarrow shows it."""

    def __init__(self, ends: list[int], count: int, kind: Any = np.int32) -> None:
        memory = SimpleNamespace(address=1000, size=len(DATA))
        self._ends, self._count, self._memory = np.array(ends, kind), count, memory
        self.type = "large_binary" if kind is np.int64 else "binary"
        self.offset = 0

    def field(self, name: str) -> Chunk:
        assert name == "bytes"
        return self

    def buffers(self) -> tuple[Any, Any, Any]:
        return None, self._ends, self._memory

    def validate(self, full: bool) -> None:
        assert full

    def is_null(self) -> Any:
        return np.zeros(self._count, bool)

    def __len__(self) -> int:
        return self._count


def column(*chunks: Any) -> Any:
    return SimpleNamespace(chunks=chunks)


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_places_within_the_memory(kind: Any) -> None:
    addresses, sizes = _bytes_at(column(Chunk([0, 3, 3, 64], 3, kind), Chunk([5, 6], 1, kind)))
    assert addresses.tolist() == [1000, 1003, 1003, 1005] and sizes.tolist() == [3, 0, 61, 1]


@pytest.mark.parametrize("ends", [[0, 3, 65, 64], [0, 0x60000000, 9, 12], [-1, 3, 4, 5], [0, 9, 3, 12]])
def test_damaged_places_are_refused(ends: list[int]) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    places = np.array([0, 1, 2, 3], np.int32)
    memory = [None, pyarrow.py_buffer(places), pyarrow.py_buffer(DATA)]
    images = pyarrow.Array.from_buffers(pyarrow.binary(), 3, memory)
    files = pyarrow.StructArray.from_arrays([images], ["bytes"])
    places[:] = ends  # Arrow looks at them only when asked to
    with pytest.raises(forebay.ConfigError, match="Arrow file is damaged: .*offset"):
        _bytes_at(column(files))


def test_values_that_arrow_finds_damaged_are_refused() -> None:
    def validate(full: bool) -> None:
        assert full
        raise ValueError("Length spanned by binary offsets (7) larger than values array (size 5)")

    with pytest.raises(forebay.ConfigError, match="Arrow file is damaged: Length spanned"):
        _sound(SimpleNamespace(validate=validate))
