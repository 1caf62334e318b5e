"""Datasets from Python: lists of files, and classes that return bytes or arrays."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

from . import _core
from .errors import ConfigError


def _numbers(labels: Any, classes: Sequence[str] | None) -> tuple[list[int], list[str]]:
    """Labels as class numbers, and the names of the classes: labels may be names themselves."""
    if labels is None:
        return [], list(classes or [])
    labels = labels.tolist() if hasattr(labels, "tolist") else list(labels)
    if any(isinstance(label, str) for label in labels):
        strange = next((label for label in labels if not isinstance(label, str)), None)
        if strange is not None:
            raise ConfigError(f"labels are numbers or names of classes, not both; {strange!r} is no name")
        names = list(classes) if classes else sorted(set(labels))
        places = {name: number for number, name in enumerate(names)}
        unknown = next((label for label in labels if label not in places), None)
        if unknown is not None:
            raise ConfigError(f"the label {unknown!r} is none of the classes {names}")
        return [places[label] for label in labels], names
    return [_number(label) for label in labels], list(classes or [])


def _number(label: Any) -> int:
    number: int | None = None
    with contextlib.suppress(TypeError, ValueError, OverflowError):  # None, NaN, infinity
        number = int(label)
    if number is None or number != label or not -1 <= number < 2**63:
        raise ConfigError(f"the label {label!r} is no class number: a whole number from 0, or -1 for none")
    return number


def _names(classes: Iterable[Any]) -> list[bytes]:
    """They may be names of folders, which need not be UTF-8."""
    return [os.fsencode(name) if isinstance(name, (str, bytes)) else str(name).encode() for name in classes]


class Files:
    """Image files by path, each with a label: a number from 0, -1 for none, or the name of a class.

    Accepts lists, tuples, NumPy arrays and pandas columns. The library's own threads read the files.
    """

    def __init__(
        self,
        paths: Iterable[str | os.PathLike[str]],
        labels: Iterable[int] | Iterable[str] | None = None,
        *,
        classes: Sequence[str] | None = None,
    ) -> None:
        if isinstance(paths, (str, bytes)):
            raise ConfigError(
                f"forebay.Files takes a list of paths; for a folder or a list in a file give "
                f"dataset={paths!r} to the feeder"
            )
        names = [os.fsencode(path) for path in paths]
        numbers, self.classes = _numbers(labels, classes)
        self._core = _core.files_dataset(names, numbers, _names(self.classes))

    @classmethod
    def of(cls, folder: Any) -> Files:
        """The files of a data set that lists them: torchvision's ImageFolder (`samples`, or `imgs`)."""
        listed = getattr(folder, "samples", None) or getattr(folder, "imgs", None)
        if not listed:
            raise ConfigError(f"{folder!r} does not list its files: it has neither `samples` nor `imgs`")
        if getattr(folder, "target_transform", None) is not None:
            raise ConfigError(
                "the feeder reads the folder's files and calls none of its functions, so target_transform would have "
                "no effect: give forebay.Files(paths, labels) the labels that it makes"
            )
        loader = getattr(folder, "loader", None)
        if loader is not None and not getattr(loader, "__module__", "").startswith("torchvision."):
            warnings.warn(
                f"the feeder decodes the folder's files itself; its loader, {loader!r}, is not called", stacklevel=4
            )
        return cls([path for path, _ in listed], [label for _, label in listed], classes=folder.classes)

    def __len__(self) -> int:
        return len(self._core)

    def __reduce__(self) -> Any:
        raise TypeError("forebay.Files cannot be pickled: pickle the lists that it was made of, and make it again")


def _encoded(item: Any) -> Any:
    """Bytes of an image file, or its path: what the library reads. An array becomes an npy file."""
    if isinstance(item, (str, bytes, bytearray, memoryview)):
        return item
    if isinstance(item, os.PathLike):
        return os.fsdecode(item)
    import numpy

    array = numpy.asarray(item)
    if array.dtype != numpy.uint8:
        raise TypeError(
            f"__getitem__ returns the bytes of an image file, its path, or an array of uint8, not {array.dtype} "
            f"({type(item).__name__})"
        )
    file = io.BytesIO()
    numpy.save(file, array, allow_pickle=False)
    return file.getbuffer()


class Dataset:
    """A program's own samples. A subclass has ``__len__`` and ``__getitem__``.

    ``__getitem__(i)`` returns the bytes of an image file, the path of one, or an array of uint8: [H, W], [H, W, 3] or
    [3, H, W]. Several threads call it and take turns at the interpreter: it must not change the object, and its time
    in Python limits the rate of all of them. An exception makes a bad sample.

    ``labels``: a number for each sample, or a name of ``classes``; None: unlabelled.
    ``identity()``: a text that differs if the data differ, for saved states.
    """

    labels: Any = None
    classes: Sequence[str] | None = None

    def __len__(self) -> int:
        raise NotImplementedError("a subclass of forebay.Dataset has __len__")

    def __getitem__(self, index: int) -> Any:
        raise NotImplementedError("a subclass of forebay.Dataset has __getitem__")

    def identity(self) -> str:
        """Must be equal on all ranks, and in every run over the same data."""
        return f"{type(self).__qualname__} {len(self)}"


def _made_of(dataset: Any) -> _core.DatasetBase:
    labels, classes = _numbers(getattr(dataset, "labels", None), getattr(dataset, "classes", None))
    identity = dataset.identity() if hasattr(dataset, "identity") else f"{type(dataset).__qualname__} {len(dataset)}"
    digest = hashlib.sha256(os.fsencode(identity)).hexdigest()
    return _core.object_dataset(lambda i: _encoded(dataset[i]), len(dataset), labels, _names(classes), digest)


def dataset_of(dataset: Any) -> _core.DatasetBase:
    """The library's dataset for what a program passed."""
    if isinstance(dataset, _core.DatasetBase):
        return dataset
    if isinstance(dataset, Files):
        return dataset._core
    if isinstance(dataset, Dataset):
        return _made_of(dataset)
    if hasattr(dataset, "samples") or hasattr(dataset, "imgs"):
        return Files.of(dataset)._core
    raise ConfigError(
        f"dataset={type(dataset).__name__}: give a path, forebay.Files, a subclass of forebay.Dataset, or a folder of "
        "images as torchvision has it"
    )
