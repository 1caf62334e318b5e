"""Datasets defined in Python: lists of files, and classes that return bytes or arrays."""

from __future__ import annotations

import hashlib
import logging
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from . import _core, _huggingface
from ._columns import absolute, columns_of
from ._fields import specs_of
from ._labels import names_of, numbers_of, one_column
from ._samples import answer_of
from .errors import ConfigError


class Files:
    """Image files by path, each with a label: a number from 0, -1 for none, or the name of a class.

    ``boxes``: each image's boxes, [n, 4]: left, top, right, bottom in pixels of the whole image, right and bottom just
    past the box; or, as in torchvision, a dictionary {"boxes": ..., "labels": ...} of boxes and their classes (numbers
    or names). They become the fields "boxes" and "boxes.class" of every batch. If the images have no labels,
    ``classes`` names those of the boxes.
    ``fields``: further fields by name: numbers for each image, or a dictionary with "kind", "values" and the keys of a
    section [fields.NAME] (docs/python.md).

    Accepts lists, tuples, NumPy arrays and pandas columns. The library's own threads read the files. Raises
    ConfigError, which names the file, for unusable values.
    """

    def __init__(
        self,
        paths: Iterable[str | os.PathLike[str]],
        labels: Iterable[int] | Iterable[str] | None = None,
        *,
        classes: Sequence[str] | None = None,
        boxes: Iterable[Any] | None = None,
        fields: Mapping[str, Any] | None = None,
    ) -> None:
        if isinstance(paths, (str, bytes)):
            raise ConfigError(
                f"forebay.Files takes a list of paths; for a folder or a file with a list, Feeder(dataset={paths!r})"
            )
        names = absolute(map(os.fsencode, one_column(paths, "paths")))
        numbers, self.classes = numbers_of(labels, classes, len(names))
        declared = dict(fields or {})
        if boxes is not None:
            if "boxes" in declared:
                raise ConfigError("boxes= and fields['boxes'] are the same field: give one of them")
            declared = {"boxes": {"kind": "boxes", "values": boxes}, **declared}
        columns = columns_of(declared, names, self.classes if labels is None else [])
        self._core = _core.files_dataset(names, numbers, names_of(self.classes), columns)

    @classmethod
    def of(cls, folder: Any) -> Files:
        """The files of a dataset that lists them, such as torchvision's ImageFolder (`samples` or `imgs`)."""
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


class Dataset:
    """A program's own samples. Subclasses define ``__len__`` and ``__getitem__``.

    ``__getitem__(i)`` returns the bytes of an image file, the path of one, or an array of uint8 or uint16: [H, W],
    [H, W, 3] or [3, H, W]. Several threads call it and share the interpreter's lock: it must not change the object, and
    the time it spends in Python limits their joint rate; ``Feeder(processes=4)`` calls it in other processes. A sample
    for which it raises is a bad sample.

    ``labels``: a number or a name in ``classes`` for each sample; None: unlabelled.
    ``fields``: the fields besides image and label, by name: ``{"mask": {"kind": "mask"}}``, with the keys of a section
    [fields.NAME]. ``__getitem__`` then returns a dictionary of "image" and every field.
    ``identity()``: a string that differs if the data differ, for saved states.
    """

    labels: Any = None
    classes: Sequence[str] | None = None
    fields: Mapping[str, Mapping[str, Any]] | None = None

    def __len__(self) -> int:
        raise NotImplementedError("a subclass of forebay.Dataset has __len__")

    def __getitem__(self, index: int) -> Any:
        raise NotImplementedError("a subclass of forebay.Dataset has __getitem__")

    def identity(self) -> str:
        """Must be equal on all ranks and in every run over the same data."""
        return f"{type(self).__qualname__} {len(self)}"


def _made_of(dataset: Dataset, processes: int, logger: logging.Logger) -> _core.DatasetBase:
    labels, classes = numbers_of(dataset.labels, dataset.classes, len(dataset))
    fields = specs_of(dataset.fields)
    identity = dataset.identity()
    if not isinstance(identity, (str, bytes, os.PathLike)):
        raise ConfigError(f"identity() returned {identity!r}: it returns a text, such as str(version)")
    digest = hashlib.sha256(os.fsencode(identity)).hexdigest()
    listed = (len(dataset), labels, names_of(classes), fields, digest)
    if processes == 0:
        return _core.object_dataset(lambda i: answer_of(dataset[i], fields), *listed)
    from ._processes import Pool

    pool = Pool(dataset, processes, logger)
    try:
        return _core.process_dataset(pool, *listed)
    except BaseException:
        pool.close()
        raise


def is_configured(dataset: Any) -> bool:
    """Whether it is the path of a dataset or the keys of the section [dataset]."""
    is_keys = isinstance(dataset, Mapping) and not _huggingface.is_dataset(dataset)  # a DatasetDict is a mapping
    return is_keys or isinstance(dataset, (str, os.PathLike))


def given_dataset(dataset: Any, processes: int, logger: logging.Logger) -> _core.DatasetBase | None:
    """The library's dataset for the program's argument; None for None. ``processes`` of them read a forebay.Dataset; 0:
    threads."""
    if not hasattr(processes, "__index__") or processes < 0:
        raise ConfigError(f"processes={processes!r}: a number of processes, 0 for none")
    if isinstance(dataset, Dataset):
        return _made_of(dataset, processes, logger)
    if processes:
        raise ConfigError("processes= is for a subclass of forebay.Dataset; files are read without Python")
    if dataset is None or isinstance(dataset, _core.DatasetBase):
        return dataset
    if isinstance(dataset, Files):
        return dataset._core
    if _huggingface.is_dataset(dataset):
        return _huggingface.dataset_of(dataset)
    if hasattr(dataset, "samples") or hasattr(dataset, "imgs"):
        return Files.of(dataset)._core
    raise ConfigError(
        f"dataset={type(dataset).__name__}: give a path, forebay.Files, a subclass of forebay.Dataset, a folder of "
        "images as torchvision has it, or a dataset of Hugging Face with an Image column"
    )
