"""Decides which of PyTorch's DataLoaders the library serves itself: those of which it knows every part exactly.

A part is recognised by its exact type: a subclass that overrides a method called for a sample may do anything.
Everything else is Unlike, with the reason.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np
from torch.utils import data

from . import _core, _huggingface, _options, _transforms
from ._ranks import group_size
from ._transforms import Unlike
from .dataset import Dataset, Files, is_configured
from .errors import ConfigError


Part = tuple[str, Any, Any]  # its name, and itself, and what else is compared with ==


class Source(NamedTuple):
    """The feeder's dataset, its number of samples if known, and the options equivalent to its transforms."""

    dataset: Any
    length: int | None = None
    options: Mapping[str, Any] = {}


def is_of_library(dataset: Any, is_configured_for: bool = False) -> bool:
    """Whether it is a dataset that Forebay reads itself, and not one of PyTorch's: a path, or a class of Forebay's or
    Hugging Face's."""
    if isinstance(dataset, Mapping) and not all(isinstance(key, str) for key in dataset):
        return False  # samples keyed by number
    if is_configured(dataset) or isinstance(dataset, (Dataset, Files)):
        return True
    if isinstance(dataset, data.Dataset) or not hasattr(dataset, "format") or not _huggingface.is_dataset(dataset):
        return False
    # With a format its own code makes the samples, unless the program has options for the images.
    return is_configured_for or (dataset.format or {}).get("type") is None


def require_plain(given: Any, methods: Sequence[str]) -> None:
    """Refuses a class of the program that overrides one of these methods: the method would not be called, and the
    samples or their order would differ."""
    for method in methods:
        owner = next((each for each in type(given).__mro__ if method in vars(each)), object)
        if method in getattr(given, "__dict__", ()) or owner.__module__.partition(".")[0] not in _KNOWN:
            raise Unlike(f"{type(given).__name__} has a {method}() of its own")


_KNOWN = ("torch", "torchvision", "builtins", "typing")


def source_of(dataset: Any, is_library: bool) -> Source:
    """The files of an ImageFolder or the like, or of a subset of one."""
    if is_library:
        return Source(dataset)
    in_memory = _in_memory(dataset)
    if in_memory is not None:
        return in_memory
    samples, classes, transform = _files_of(dataset)
    options = {} if transform is None else _transforms.options_of(transform)
    try:
        if {type(label) for _, label in samples} & {bool, float}:  # PyTorch's batches keep that type
            raise TypeError("their labels are no whole numbers")
        files = Files([path for path, _ in samples], [label for _, label in samples], classes=classes)
    except (TypeError, ValueError) as error:
        raise Unlike(f"the samples of {type(dataset).__name__} are no files with class numbers ({error})") from None
    # torchvision's loaders ignore the EXIF orientation.
    return Source(files, len(samples), {"exif": False, **options})


def whole(dataset: Any) -> tuple[Any, Sequence[int] | None]:
    """The dataset below any subsets, and which of its samples they select; None: all."""
    chosen: Sequence[int] | None = None
    while type(dataset) is data.Subset:
        picked = [int(i) for i in dataset.indices]
        chosen = picked if chosen is None else [picked[i] for i in chosen]
        dataset = dataset.dataset
    return dataset, chosen


def _folders(*names: str) -> Any:
    """The attribute of torchvision.datasets with these names if the program has imported it; else an object that equals
    nothing."""
    found: Any = getattr(sys.modules.get("torchvision"), "datasets", None)
    for name in names:
        found = getattr(found, name, object())
    return found


def _files_of(dataset: Any) -> tuple[list[Any], Any, Any]:
    """The dataset's files with their labels, its classes, and its transform."""
    name = type(dataset).__name__
    if type(dataset) is data.Subset:
        samples, classes, transform = _files_of(dataset.dataset)
        return [samples[int(i)] for i in dataset.indices], classes, transform
    if type(dataset) is data.ConcatDataset:
        parts = [_files_of(part) for part in dataset.datasets]
        _, classes, transform = parts[0]
        if any((part[1], part[2]) != (classes, transform) for part in parts):
            raise Unlike("the parts of the ConcatDataset have different classes or transforms")
        return [sample for part in parts for sample in part[0]], classes, transform
    require_plain(dataset, ("__getitem__", "__getitems__"))
    if not hasattr(dataset, "samples"):
        raise Unlike(f"{name} does not list its files, as ImageFolder does")
    method = getattr(type(dataset), "__getitem__", None)
    if method not in (None, data.Dataset.__getitem__, _folders("DatasetFolder", "__getitem__")):
        raise Unlike(f"{name} has a __getitem__() of its own")
    loader = getattr(dataset, "loader", None)
    if loader not in (None, _folders("folder", "default_loader"), _folders("folder", "pil_loader")):
        raise Unlike(f"{name} reads files by a function of its own, {getattr(loader, '__name__', loader)!r}")
    if getattr(dataset, "target_transform", None) is not None:
        raise Unlike("target_transform is yours")
    samples = dataset.samples
    if len(dataset) != len(samples):
        raise Unlike(f"{name} lists {len(samples)} files and has a length of {len(dataset)}")
    return samples, getattr(dataset, "classes", None), getattr(dataset, "transform", None)


def _in_memory(dataset: Any) -> Source | None:
    """A source for torchvision's MNIST, CIFAR and the like, which hold their pixels in memory; None for others."""
    dataset, chosen = whole(dataset)
    method = getattr(type(dataset), "__getitem__", None)
    if method not in (_folders("MNIST", "__getitem__"), _folders("CIFAR10", "__getitem__")):
        return None
    if dataset.target_transform is not None or dataset.transform is None:
        return None
    pixels = np.asarray(dataset.data)
    if pixels.dtype != np.uint8 or pixels.shape[3:] not in ((), (3,)) or len(pixels) != len(dataset):
        return None
    sides, channels = (int(pixels.shape[1]), int(pixels.shape[2])), 1 if pixels.ndim == 3 else 3
    options = _transforms.options_of(dataset.transform, sides, channels)
    head = np.frombuffer(b"P%d %d %d 255\n" % (5 if channels == 1 else 6, sides[1], sides[0]), np.uint8)
    files = np.empty((len(pixels), len(head) + pixels[0].size), np.uint8)
    files[:, : len(head)], files[:, len(head) :] = head, pixels.reshape(len(pixels), -1)
    rows = np.arange(len(files)) if chosen is None else np.asarray(chosen) % len(files)
    addresses = (files.ctypes.data + rows * files.shape[1]).astype(np.uint64)
    targets = np.asarray(dataset.targets)
    if targets.dtype != np.int64 or targets.min(initial=0) < -1 or targets.max(initial=0) >= len(dataset.classes):
        raise Unlike(f"the targets of {type(dataset).__name__} are no class numbers")
    labels = targets[rows].tolist()
    identity = f"{sides} {hashlib.sha256(files[rows].tobytes()).hexdigest()}"
    sizes = np.full(len(rows), files.shape[1], np.uint64)
    names = [str(name).encode() for name in dataset.classes]
    made = _core.memory_dataset([files], addresses, sizes, labels, names, [], identity)
    return Source(made, len(rows), {"channels": channels, **options})


def parts_of_loader(loader: Any) -> list[Part]:
    """What the program can replace although the loader has been made. With the rest PyTorch refuses that."""
    own: list[Part] = [("collate_fn", loader.collate_fn, None)]
    by = loader.batch_sampler
    if by is not None:
        own.append(("the batch_sampler", by.sampler, (by.batch_size, by.drop_last)))
    return own + parts_of(loader.dataset)


def require_same(parts: list[Part], parts_now: list[Part]) -> None:
    """Refuses a loader of which a part was changed, which would be without effect."""
    for then, now in zip_longest(parts, parts_now, fillvalue=("the dataset", None, None)):
        if then[1] is not now[1] or then[2] != now[2]:
            raise ConfigError(
                f"{then[0]} was changed after this loader was made, and Forebay's threads use what it was then: make a "
                'new loader, or say native="off"'
            )


def parts_of(dataset: Any) -> list[Part]:
    """What source_of() has read of a dataset and does not read again."""
    if type(dataset) is data.ConcatDataset:
        return [part for each in dataset.datasets for part in parts_of(each)]
    held = getattr(dataset, "__dict__", {})
    names = ["indices", "samples", "data", "loader", "transform", "target_transform"]
    found: list[Part] = []
    for name in names + ["targets"] * ("data" in held):  # an ImageFolder has targets too, but does not read them
        part: Any = held.get(name)
        found.append((f"the dataset's {name}", part, len(part) if hasattr(part, "__len__") else 0))
    found += [("the dataset's transform", step, repr(step)) for step in _transforms.steps_of(held.get("transform"))]
    return found + (parts_of(dataset.dataset) if type(dataset) is data.Subset else [])


def refuse_shared_files(options: Mapping[str, Any]) -> None:
    """Refuses options that name files if each rank of torch.distributed serves by itself: all would write the same
    files."""
    files = ("trace", "telemetry.dir", "telemetry.prometheus")
    named = [each for each in options if _options.full_name_of(each) in files]
    if named and group_size() > 1:
        raise ConfigError(
            f"{', '.join(named)}: here each rank serves for itself, as PyTorch's loader does, and all would write the "
            'same files: give each rank its own and say comm=forebay.SOLO, or comm="torch" for one job of all'
        )
