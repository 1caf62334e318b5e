"""Fields of a program's own samples: their declarations, and their values as the bytes that the library reads."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from . import _core, _options
from ._core import FieldSpec
from ._labels import as_list, class_names, class_number, names_of
from .errors import ConfigError

# The layout of LabelledBox in <forebay/field.hpp>.
_BOX = [("sides", "<f4", (4,)), ("label", "<i4")]
_BOX_ORDER = "boxes are left, top, right, bottom in pixels of the image"


def spec_of(name: str, keys: Mapping[str, Any], known: Mapping[str, Any] | None = None) -> FieldSpec:
    """The field that a program declares, by the rules of a section [fields.NAME]. ``known``: keys inferred from its
    values, used where the declaration has none."""
    given = {"kind": "", **(known or {}), **keys}
    classes = class_names(given.pop("classes", None))
    for key, length in (("shape", 1), ("mean", 3), ("std", 3)):
        if key in given and not hasattr(given[key], "__len__"):
            given[key] = [given[key]] * length
    if "dtype" in given:
        given["dtype"] = type_name(given["dtype"])
    spec = _core.declared_field(_options.load(None, {"fields": {name: given}}), names_of(classes))
    if spec.kind == "multilabel" and not classes:
        raise ConfigError(f"fields[{name!r}]: name the classes, one for each number of the field: 'classes'")
    if spec.kind != "image" and spec.dtype in ("bfloat16", "float16"):
        raise ConfigError(f"fields[{name!r}]: dtype {spec.dtype!r} is for images; use float32")
    return spec


def type_name(dtype: Any) -> str:
    """The name of a type that is given as text, as a dtype of NumPy, or as the class of its scalars."""
    return dtype.__name__ if isinstance(dtype, type) else str(dtype)


def specs_of(fields: Mapping[str, Mapping[str, Any]] | None) -> list[FieldSpec]:
    return [spec_of(name, keys) for name, keys in (fields or {}).items()]


def npy_of(array: Any) -> memoryview:
    """The array as an npy file, which the library reads."""
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getbuffer()


def as_type(values: Any, dtype: str) -> Any:
    """An array of this type. Raises ValueError for numbers that it cannot represent."""
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{array.dtype} where numbers are expected")
    if array.dtype == dtype:
        return np.asarray(array, order="C")
    if array.dtype.kind == "f" and np.dtype(dtype).kind in "iu" and (np.abs(array) >= 2**53).any():
        raise ValueError(f"it has numbers that came as floating point, too large to be exact as {dtype}")
    with np.errstate(invalid="ignore", over="ignore"):
        converted = array.astype(dtype, order="C")
        is_rounded = converted.dtype.kind == "f"
        is_wrong = np.isinf(converted) & np.isfinite(array) if is_rounded else converted != array
    if is_wrong.any():
        raise ValueError(f"it has numbers that {dtype} does not hold")
    return converted


def boxes_of(value: Any, classes: Sequence[str], labels: Any = None) -> Any:
    """LabelledBoxes from [n, 4] numbers, a pair (boxes, labels), or {"boxes": ..., "labels": ...} as in torchvision.
    Raises ValueError."""
    if isinstance(value, Mapping):
        value, labels = value["boxes"], value.get("labels")
    elif isinstance(value, tuple) and len(value) == 2 and np.ndim(value[0]) == 2:
        value, labels = value
    form = getattr(getattr(value, "format", None), "name", "XYXY")  # of torchvision's BoundingBoxes
    sides = np.asarray(value, np.float64)
    if sides.size == 0:
        sides = sides.reshape(0, 4)
    if sides.ndim != 2 or sides.shape[1] != 4:
        raise ValueError(f"boxes of shape {list(sides.shape)}; {_BOX_ORDER}: [n, 4]")
    if form == "CXCYWH":
        sides = np.concatenate([sides[:, :2] - sides[:, 2:] / 2, sides[:, 2:]], 1)
    if form in ("XYWH", "CXCYWH"):
        sides = np.concatenate([sides[:, :2], sides[:, :2] + sides[:, 2:]], 1)
    elif form != "XYXY":
        raise ValueError(f"boxes in the format {form}; {_BOX_ORDER}")
    wrong = ~np.isfinite(sides).all(1) | (sides[:, 2] <= sides[:, 0]) | (sides[:, 3] <= sides[:, 1])
    if wrong.any():
        first = int(wrong.argmax())
        numbers = ", ".join(f"{side:g}" for side in sides[first])
        problem = "has no area" if np.isfinite(sides[first]).all() else "is not finite"
        raise ValueError(f"box {first} ({numbers}) {problem}; {_BOX_ORDER}")
    boxes = np.zeros(len(sides), _BOX)
    boxes["sides"] = sides
    boxes["label"] = -1
    if labels is not None:
        labels = listed(labels)
        if len(labels) != len(sides):
            raise ValueError(f"{len(sides)} boxes and {len(labels)} labels")
        for number, label in enumerate(labels):
            try:
                boxes["label"][number] = class_number(label, classes)
            except ValueError as error:
                raise ValueError(f"the label of box {number}: {error}") from None
    return boxes


def listed(some: Any) -> list[Any]:
    """The classes of one sample. A text is divided at each "|", as in the cells of tables."""
    if isinstance(some, str):
        return [name for name in map(str.strip, some.split("|")) if name]
    return as_list(some)


def bits_of(value: Any, classes: Sequence[str]) -> Any:
    """A zero or one for each class, from zeros and ones or from the names of the classes that apply. Raises ValueError;
    class numbers are refused, because they look like bits."""
    values = listed(value)
    if all(isinstance(each, str) for each in values):
        bits = np.zeros(len(classes))
        for name in values:
            bits[class_number(name, classes)] = 1
        return bits
    if len(values) == len(classes) and all(each in (0, 1) for each in values):
        return np.array(values, np.float64)
    raise ValueError(
        f"{values} is neither a zero or one for each of the {len(classes)} classes nor the names of those that apply"
    )


def part_of(spec: FieldSpec, value: Any) -> Any:
    """A field of one sample as the library reads it: the path of a file (a str), or bytes. Raises ValueError."""
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    if spec.kind == "bytes":
        return value.encode() if isinstance(value, str) else memoryview(value).cast("B")
    if spec.kind in ("image", "mask", "array") and isinstance(value, (str, bytes, bytearray, memoryview)):
        return value
    if spec.kind in ("image", "mask"):
        array = np.asarray(value)
        if spec.kind == "mask" and spec.dtype == "uint8" and array.dtype.kind in "iuf":
            try:  # libraries have class numbers as wide integers and as floats
                array = as_type(array, "uint8")
            except ValueError:
                problem = f"a mask of {array.dtype} with values other than the whole numbers from 0 to 255"
                raise ValueError(f'{problem}; dtype "int32" of its field takes others') from None
        return npy_of(array.astype(np.uint8) if array.dtype == bool else array)
    if spec.kind == "boxes":
        return boxes_of(value, spec.classes).tobytes()
    if spec.kind == "class":
        return as_type(class_number(value, spec.classes), spec.dtype).tobytes()
    array = as_type(bits_of(value, spec.classes) if spec.kind == "multilabel" else value, spec.dtype)
    if array.shape != spec.shape:
        raise ValueError(f"it has the shape {list(array.shape)}, and {list(spec.shape)} is declared")
    return array.tobytes()
