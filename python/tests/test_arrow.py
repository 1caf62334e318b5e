"""What is read of Arrow's memory: where the bytes of images are, as a file says."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import forebay
import numpy as np
import pytest
from forebay._huggingface import _bytes_at, _sound

pyarrow = pytest.importorskip("pyarrow")
DATA = np.arange(64, dtype=np.uint8)


def column(*chunks: list[int], kind: Any = np.int32) -> Any:
    """A column of images at these places of DATA, which Arrow checks only when asked to."""
    made = []
    for ends in chunks:
        places = np.zeros(len(ends), kind)
        memory = [None, pyarrow.py_buffer(places), pyarrow.py_buffer(DATA)]
        binary = pyarrow.binary() if kind is np.int32 else pyarrow.large_binary()
        images = pyarrow.Array.from_buffers(binary, len(ends) - 1, memory)
        made.append(pyarrow.StructArray.from_arrays([images], ["bytes"]))
        places[:] = ends
    return pyarrow.chunked_array(made)


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_places_within_the_memory(kind: Any) -> None:
    addresses, sizes = _bytes_at(column([0, 3, 3, 64], [5, 6], kind=kind))
    assert (addresses - DATA.ctypes.data).tolist() == [0, 3, 3, 5] and sizes.tolist() == [3, 0, 61, 1]


@pytest.mark.parametrize("ends", [[0, 3, 65, 64], [0, 0x60000000, 9, 12], [-1, 3, 4, 5], [0, 9, 3, 12]])
def test_damaged_places_are_refused(ends: list[int]) -> None:
    with pytest.raises(forebay.ConfigError, match="Arrow file is damaged: .*offset"):
        _bytes_at(column([0, 1, 2], ends))


def test_values_that_arrow_finds_damaged_are_refused() -> None:
    def validate(full: bool) -> None:
        assert full
        raise ValueError("Length spanned by binary offsets (7) larger than values array (size 5)")

    with pytest.raises(forebay.ConfigError, match="Arrow file is damaged: Length spanned"):
        _sound(SimpleNamespace(validate=validate))
