"""Hugging Face datasets with a column of images: their files, or their bytes if Arrow's tables hold them."""

from __future__ import annotations

import hashlib
import os
import sys
from typing import Any

import numpy as np

from . import _core
from ._labels import names_of, numbers_of
from .errors import ConfigError

_ADVICE = "or write a subclass of forebay.Dataset whose __getitem__ returns the bytes of an image"


def is_dataset(dataset: Any) -> bool:
    """Whether it is a Hugging Face dataset. Raises ConfigError for one without a list of samples."""
    package = sys.modules.get("datasets")  # if the program has imported it
    names = ("Dataset", "DatasetDict", "IterableDataset", "IterableDatasetDict")
    kinds: Any = tuple(getattr(package, name, None) for name in names)
    if not all(isinstance(kind, type) for kind in kinds):
        return False
    if isinstance(dataset, kinds[1]):
        raise ConfigError(f"a DatasetDict has several datasets: give one of them, {' or '.join(map(repr, dataset))}")
    if isinstance(dataset, kinds[2:]):
        raise ConfigError("an IterableDataset cannot be shuffled or resumed: load it without streaming=True")
    return isinstance(dataset, kinds[0])


def _columns(dataset: Any) -> tuple[str, str | None]:
    """The columns of images and of classes; the latter is a ClassLabel, or a column with such a name."""
    kinds = {name: type(feature).__name__ for name, feature in dataset.features.items()}
    images = [name for name, kind in kinds.items() if kind == "Image"]
    if len(images) != 1:
        raise ConfigError(
            f"the dataset has {len(images)} columns of images ({', '.join(kinds)}): give one that has one, by "
            f"select_columns() or cast_column(name, datasets.Image()), {_ADVICE}"
        )
    labels = [name for name, kind in kinds.items() if kind == "ClassLabel"]
    if len(labels) > 1:
        several = " and ".join(labels)
        raise ConfigError(f"several columns are class labels, {several}: leave one of them, by select_columns()")
    named = [name for name in ("label", "labels", "class", "target") if name in kinds]
    plain = [name for name in named if kinds[name] == "Value"]
    if named and not labels and not plain:
        raise ConfigError(
            f"column {named[0]!r} holds {dataset.features[named[0]]}, and a feeder reads one class "
            f"for each row: leave it out, by remove_columns({named[0]!r}), {_ADVICE} and that has a field of "
            "kind multilabel"
        )
    return images[0], (labels or plain or [None])[0]


def _chosen(dataset: Any, values: Any) -> Any:
    """Maps values of the table's rows to the dataset's rows: select(), shuffle() and the like only list row numbers."""
    rows = getattr(dataset, "_indices", None)
    return values if rows is None else values[rows.column(0).to_numpy()]


def _bytes_at(column: Any) -> tuple[Any, Any]:
    """The address and number of bytes of each image; 0 bytes for one that has none."""
    addresses, sizes = [np.zeros(0, np.uint64)], [np.zeros(0, np.uint64)]
    for chunk in column.chunks:
        binary = _sound(chunk.field("bytes"))
        _, ends, data = binary.buffers()
        width = np.int64 if "large" in str(binary.type) else np.int32
        places = np.zeros(len(binary) + 1, width)
        if ends is not None and len(binary):
            places = np.frombuffer(ends, width)[binary.offset : binary.offset + len(binary) + 1]
        there = ~np.asarray(binary.is_null()) & ~np.asarray(chunk.is_null())
        addresses.append(places[:-1].astype(np.uint64) + np.uint64(data.address if data is not None else 0))
        sizes.append(np.where(there, np.diff(places), 0).astype(np.uint64))
    return np.concatenate(addresses), np.concatenate(sizes)


def _sound(column: Any) -> Any:
    """The column, once its values are known to lie within its memory: their places come from a file. Raises ConfigError
    if that is damaged."""
    try:
        column.validate(full=True)
    except ValueError as error:
        raise ConfigError(f"the dataset's Arrow file is damaged: {error}. Load the dataset anew") from None
    return column


def _without_image(column: Any) -> Any:
    """For each row, whether it has neither an image's bytes nor a file."""
    return np.logical_and.reduce([part.is_null().to_numpy() for part in column.flatten()])


def _identity(dataset: Any, sizes: Any, addresses: Any) -> str:
    """A text made from the sizes of all images and the bytes of some."""
    import ctypes

    digest = hashlib.sha256(sizes.tobytes())
    for row in range(0, len(sizes), max(1, len(sizes) // 16)):
        digest.update(ctypes.string_at(int(addresses[row]), int(sizes[row])))
    return f"{len(dataset)} images {digest.hexdigest()}"


def dataset_of(dataset: Any) -> _core.DatasetBase:
    """The library's dataset. Its threads read the files, or the bytes in Arrow's memory, without Python."""
    if (dataset.format or {}).get("type") == "custom":
        raise ConfigError(
            "the feeder reads the images themselves and calls no function of the dataset, so its transform would have "
            f"no effect: give dataset.with_format(None), {_ADVICE}"
        )
    image, label = _columns(dataset)
    column = dataset.data.column(image)
    empty = _chosen(dataset, _without_image(column))
    if empty.any():
        raise ConfigError(
            f"row {int(empty.argmax())} of the dataset has no image: leave out such rows, by filter(), {_ADVICE}"
        )
    labels: list[int] = []
    classes: list[str] = []
    if label is not None:
        values = np.array(_sound(dataset.data.column(label)).to_pylist(), object)
        none = "" if any(isinstance(value, str) for value in values) else -1
        listed = [none if value is None else value for value in _chosen(dataset, values)]
        labels, classes = numbers_of(listed, getattr(dataset.features[label], "names", None), len(listed))
    addresses, sizes = (_chosen(dataset, values) for values in _bytes_at(column))
    if sizes.all():
        places = np.ascontiguousarray(addresses), np.ascontiguousarray(sizes)
        identity = _identity(dataset, places[1], places[0])
        return _core.memory_dataset([column], *places, labels, names_of(classes), [], identity)
    if sizes.any():
        raise ConfigError(f"some images of the dataset are files and others bytes: give one kind of them, {_ADVICE}")
    paths = np.array([row["path"] if row else None for row in _sound(column).to_pylist()], object)
    chosen = [path or "" for path in _chosen(dataset, paths)]
    missing = next((path for path in chosen if not os.path.exists(path)), None)
    if missing is not None:
        raise ConfigError(f"the dataset's images are files, and {missing!r} is not there: load them first, {_ADVICE}")
    return _core.files_dataset([os.fsencode(path) for path in chosen], labels, names_of(classes), [])
