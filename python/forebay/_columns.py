"""Fields of forebay.Files: the values of all samples, converted once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ._core import FieldSpec
from ._fields import as_type, boxes_of, listed, part_of, spec_of, type_name
from ._labels import as_classes, class_names, in_order
from .errors import ConfigError


class Column(NamedTuple):
    """A field of all samples: their values in memory, concatenated, or the path of a file for each."""

    field: FieldSpec
    values: Any  # bytes
    ends: Any  # where the values of each sample end, uint64; empty = all have the same size
    paths: list[bytes]


def absolute(paths: Iterable[bytes]) -> list[bytes]:
    """The paths from the root, which mean the same files wherever the program goes later, as URLs do."""
    return [
        path if not path or path.startswith(b"/") or b"://" in path else os.path.join(os.getcwdb(), path)
        for path in paths
    ]


def columns_of(fields: Mapping[str, Any], paths: Sequence[bytes], classes: Sequence[str]) -> list[Column]:
    """``fields``: values by name, or a dictionary of a field's keys with its "values". ``paths``: those of the images,
    for errors. ``classes``: those of fields of boxes that give none."""
    columns = []
    for name, given in fields.items():
        keys = dict(given) if isinstance(given, Mapping) else {"kind": "numbers", "values": given}
        if "values" not in keys:
            raise ConfigError(f"fields[{name!r}]: give its 'values', one for each path")
        values, labels = _indexed(in_order(keys.pop("values"), f"fields[{name!r}]: values")), keys.pop("labels", None)
        if labels is not None and keys.get("kind") != "boxes":
            raise ConfigError(f"fields[{name!r}]: 'labels' are those of boxes; a class goes into 'values'")
        if len(values) != len(paths):
            raise ConfigError(f"fields[{name!r}]: there are {len(paths)} samples and {len(values)} values")
        if keys.get("kind") == "boxes":
            columns.append(_boxes(name, keys, values, labels, paths, classes))
        else:
            columns.append(_column(name, keys, values, paths))
    return columns


def _indexed(values: Any) -> Any:
    """The values as a sequence indexed from 0, which a pandas column need not be."""
    if hasattr(values, "to_numpy"):
        return values.to_numpy()
    return values if hasattr(values, "__getitem__") and hasattr(values, "__len__") else list(values)


def _error_at(name: str, paths: Sequence[bytes], sample: int, problem: object) -> ConfigError:
    return ConfigError(f"fields[{name!r}], sample {sample} ({os.fsdecode(paths[sample])}): {problem}")


def _classes(name: str, parts: Sequence[Any], classes: Sequence[str]) -> tuple[list[list[Any]], list[str]]:
    """The classes of each sample, with texts interpreted as in lists (as_classes()), and the names of all classes."""
    sets = [[] if some is None else listed(some) for some in parts]
    texts = [each for some in sets for each in some if isinstance(each, str)]
    try:
        known, names = as_classes(texts, list(classes))
    except ValueError as error:
        raise ConfigError(f"fields[{name!r}]: {error}") from None
    rest = iter(known)
    return [[next(rest) if isinstance(each, str) else each for each in some] for some in sets], names


def _converted(name: str, values: Iterable[Any], paths: Sequence[bytes], convert: Callable[[Any], Any]) -> list[Any]:
    parts = []
    for sample, value in enumerate(values):
        try:
            parts.append(convert(value))
        except (TypeError, ValueError, KeyError) as error:
            raise _error_at(name, paths, sample, error) from None
    return parts


def _joined(field: FieldSpec, parts: list[Any]) -> Column:
    ends = np.cumsum([len(part) for part in parts], dtype=np.uint64)
    return Column(field, b"".join(parts), ends, [])


def _boxes(
    name: str, keys: dict[str, Any], values: Any, labels: Any, paths: Sequence[bytes], classes: Sequence[str]
) -> Column:
    if labels is None:
        labels = [value.get("labels") if isinstance(value, Mapping) else None for value in values]
        values = [value.get("boxes") if isinstance(value, Mapping) else value for value in values]
    labels = _indexed(labels)
    if len(labels) != len(paths):
        raise ConfigError(f"fields[{name!r}]: there are {len(paths)} samples and labels of boxes for {len(labels)}")
    known, names = _classes(name, labels, class_names(keys.get("classes")) or classes)
    labels = [None if some is None else each for some, each in zip(labels, known)]
    boxes = _converted(name, zip(values, labels), paths, lambda value: boxes_of(value[0], names, value[1]))
    most = max([1, *map(len, boxes)])
    if 0 < max([0, *(float(some["sides"].max()) for some in boxes if len(some))]) <= 1:
        raise ConfigError(
            f"fields[{name!r}]: no box reaches beyond 1, so these look like shares of the image; multiply them by its "
            "width and height: boxes are left, top, right, bottom in pixels"
        )
    given = int(keys.get("most") or most)
    if given < most:
        crowded = max(range(len(boxes)), key=lambda sample: len(boxes[sample]))
        raise _error_at(name, paths, crowded, f"it has {most} boxes, and 'most' is {given}")
    return _joined(spec_of(name, {**keys, "most": given, "classes": names}), [some.tobytes() for some in boxes])


def _column(name: str, keys: dict[str, Any], values: Any, paths: Sequence[bytes]) -> Column:
    kind = keys.get("kind")
    if kind in ("numbers", "array") and len(values) and not isinstance(values[0], (str, bytes, os.PathLike)):
        try:
            keys = {**keys, "dtype": type_name(keys.get("dtype") or _usual_type(values))}
            whole = as_type(values, keys["dtype"])
        except (TypeError, ValueError) as error:
            raise ConfigError(f"fields[{name!r}]: {error}; every sample has numbers of the same shape") from None
        shape = whole.shape[1:]
        field = spec_of(name, keys, {"shape": shape or ((1,) if kind == "array" else ())})
        if (shape or (1,)) != (field.shape or (1,)):
            raise ConfigError(f"fields[{name!r}]: each sample has the shape {list(shape)}, not {list(field.shape)}")
        if kind == "numbers" and not np.isfinite(whole).all():
            sample = int((~np.isfinite(whole.reshape(len(whole), -1)).all(1)).argmax())
            raise _error_at(name, paths, sample, "it has a number that is not finite")
        return Column(field, whole.tobytes(), b"", [])
    if kind == "class":
        known, names = _classes(name, [[value] for value in values], class_names(keys.get("classes")))
        values, keys = [each[0] for each in known], {**keys, "classes": names}
    if kind == "multilabel" and getattr(values, "ndim", 1) < 2:
        values, keys = _named_sets(name, keys, values)
    field = spec_of(name, keys, _inferred(kind, values))
    parts = _converted(name, values, paths, lambda value: part_of(field, value))
    are_paths = [isinstance(part, str) for part in parts]
    if not any(are_paths):
        return _joined(field, parts)
    if not all(are_paths):
        problem = "it is a path, and others are values; give either for all samples"
        raise _error_at(name, paths, are_paths.index(True), problem)
    return Column(field, b"", b"", absolute(map(os.fsencode, parts)))


def _named_sets(name: str, keys: dict[str, Any], values: Any) -> tuple[list[Any], dict[str, Any]]:
    """Turns sets of classes given as texts into sets of names; leaves zeros and ones as they are."""
    sets = [[] if some is None else listed(some) for some in values]
    named = [sample for sample, some in enumerate(sets) if some and all(isinstance(each, str) for each in some)]
    if not named:
        return values, keys
    known, names = _classes(name, [sets[sample] for sample in named], class_names(keys.get("classes")))
    numbers = [each for some in known for each in some if isinstance(each, int)]
    names = names or [str(number) for number in range(max(numbers) + 1)]
    if max(numbers, default=-1) >= len(names):
        raise ConfigError(f"fields[{name!r}]: class {max(numbers)} of {len(names)}")
    for sample, some in zip(named, known):
        sets[sample] = [names[each] if isinstance(each, int) else each for each in some if each != -1]
    return sets, {**keys, "classes": names}


def _usual_type(values: Any) -> str:
    """The default type: integer arrays keep theirs or get one that holds it; other numbers are float32. Raises
    ValueError for integers in a list that float32 would round."""
    array = np.asarray(values)
    if array.dtype.kind not in "iu":
        return "float32"
    if hasattr(values, "dtype"):
        return "uint8" if array.dtype == "uint8" else "int32" if np.can_cast(array.dtype, "int32") else "int64"
    large = (array > 2**53) | (array < -(2**53))  # beyond this, adjacent integers are equal as float64
    if large.any() or (array.astype("float32").astype("float64") != array).any():
        raise ValueError('it has whole numbers that float32 does not hold: give "dtype": "int64"')
    return "float32"


def _inferred(kind: Any, values: Any) -> dict[str, Any]:
    """The keys that can be inferred from the values if a field's declaration lacks them."""
    if kind == "multilabel" and getattr(values, "ndim", 1) == 2:
        return {"classes": [str(number) for number in range(values.shape[1])]}
    if kind == "bytes":
        texts = (value.encode() if isinstance(value, str) else value for value in values)
        sizes = [memoryview(text).nbytes for text in texts if not isinstance(text, os.PathLike)]
        return {"most": max(1, *sizes)} if sizes else {}
    return {}
