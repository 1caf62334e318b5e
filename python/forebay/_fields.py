"""Fields of a program's own samples: what their declarations mean, and the bytes that the library reads."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import index
from typing import Any

from .errors import ConfigError

_TYPES = {
    "image": "float32",
    "mask": "uint8",
    "class": "int64",
    "multilabel": "float32",
    "numbers": "float32",
    "boxes": "float32",
    "array": "float32",
    "bytes": "uint8",
}
_KEYS = {
    "image": {"dtype", "channels", "mean", "std"},
    "mask": {"dtype", "classes", "colours"},
    "class": {"dtype", "classes"},
    "multilabel": {"dtype", "classes"},
    "numbers": {"dtype", "shape"},
    "boxes": {"classes", "most", "min_visible"},
    "array": {"dtype", "shape"},
    "bytes": {"most"},
}
# LabelledBox of <forebay/field.hpp>.
_BOX = [("sides", "<f4", (4,)), ("label", "<i4")]
_BOX_ORDER = "boxes are left, top, right, bottom in pixels of the image"


@dataclass(frozen=True)
class Spec:
    """A field as the library has it (docs/data.md), its numbers as those of a section [fields.NAME]."""

    name: str
    kind: str
    dtype: str
    shape: tuple[int, ...]
    classes: tuple[str, ...] = ()
    min_visible: float = 0.0
    mean: tuple[float, ...] = (0.0, 0.0, 0.0)
    std: tuple[float, ...] = (1.0, 1.0, 1.0)
    colours: tuple[str, ...] = ()


def spec_of(name: str, keys: Mapping[str, Any], known: Mapping[str, Any] | None = None) -> Spec:
    """The field that a program declares. ``known``: what its values say where the declaration does not."""
    kind = keys.get("kind")
    if kind not in _TYPES:
        raise ConfigError(f"fields[{name!r}]: kind is {kind!r}; it is one of {', '.join(_TYPES)}")
    strange = sorted(set(keys) - _KEYS[kind] - {"kind"})
    if strange:
        raise ConfigError(
            f"fields[{name!r}]: a field of kind {kind!r} has no {strange[0]!r}; it has {', '.join(sorted(_KEYS[kind]))}"
        )
    given = {**(known or {}), **keys}
    spec = Spec(
        name=name,
        kind=kind,
        dtype=str(given.get("dtype") or _TYPES[kind]),
        shape=_shape(name, kind, given),
        classes=tuple(str(each) for each in class_names(given.get("classes"))),
        min_visible=float(given.get("min_visible", 0.25)) if kind == "boxes" else 0.0,
        colours=tuple(colours_of(name, given.get("colours", ()))),
    )
    if kind != "image":
        if spec.dtype in ("bfloat16", "float16"):
            raise ConfigError(f"fields[{name!r}]: dtype {spec.dtype!r} is for images; use float32")
        return spec
    mean, std = (_of_channels(name, key, given.get(key, default)) for key, default in (("mean", 0.0), ("std", 1.0)))
    return replace(spec, mean=mean, std=std)


def colours_of(name: str, value: Any) -> list[str]:
    """The entries of a field's key "colours": of a list of colours, whose places are their classes, or of a dictionary
    of their classes. A colour is a text, "R,G,B", or three numbers; "other" stands for all that are not listed."""

    def text(colour: Any) -> str:
        return colour if isinstance(colour, str) else ",".join(str(index(each)) for each in colour)

    try:
        if isinstance(value, Mapping):
            return [f"{text(colour)}={index(number)}" for colour, number in value.items()]
        return [text(colour) for colour in ([value] if isinstance(value, str) else value)]
    except TypeError:
        raise ConfigError(
            f"fields[{name!r}]: colours is a list of colours, (R, G, B) or 'R,G,B', or a dictionary of their classes"
        ) from None


def _of_channels(name: str, key: str, value: Any) -> tuple[float, ...]:
    numbers = tuple(float(each) for each in value) if hasattr(value, "__len__") else (float(value),) * 3
    if len(numbers) != 3:
        raise ConfigError(f"fields[{name!r}]: {key} is a number for each of three channels, or one for all")
    return numbers


def _shape(name: str, kind: str, given: Mapping[str, Any]) -> tuple[int, ...]:
    if kind == "image":
        return (int(given.get("channels", 3)),)
    if kind in ("boxes", "bytes"):
        if not given.get("most"):
            raise ConfigError(f"fields[{name!r}]: say how many a sample has at most: 'most'")
        return (int(given["most"]), 4) if kind == "boxes" else (int(given["most"]),)
    if kind == "multilabel":
        if not given.get("classes"):
            raise ConfigError(f"fields[{name!r}]: name the classes, one for each number of the field: 'classes'")
        return (len(given["classes"]),)
    if kind == "array" and not given.get("shape"):
        raise ConfigError(f"fields[{name!r}]: say the extents of one sample: 'shape'")
    shape: Any = given.get("shape") or ()
    return tuple(int(extent) for extent in (shape if hasattr(shape, "__len__") else (shape,)))


def npy_of(array: Any) -> memoryview:
    """An array as the npy file that the library reads."""
    import numpy

    file = io.BytesIO()
    numpy.save(file, array, allow_pickle=False)
    return file.getbuffer()


def as_type(values: Any, dtype: str) -> Any:
    """An array of that type. Raises ValueError for numbers that it does not hold."""
    import numpy

    array = numpy.asarray(values)
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{array.dtype} where numbers are expected")
    if array.dtype == dtype:
        return numpy.asarray(array, order="C")
    if array.dtype.kind == "f" and numpy.dtype(dtype).kind in "iu" and (numpy.abs(array) >= 2**53).any():
        raise ValueError(f"it has numbers that came as floating point, too large to be exact as {dtype}")
    with numpy.errstate(invalid="ignore", over="ignore"):
        converted = array.astype(dtype)
        if converted.dtype.kind in "iu" and not (converted == array).all():
            raise ValueError(f"it has numbers that {dtype} does not hold")
        if converted.dtype.kind == "f" and (numpy.isinf(converted) & numpy.isfinite(array)).any():
            raise ValueError(f"it has numbers that {dtype} does not hold")
    return numpy.asarray(converted, order="C")


_WHOLE = re.compile(r"(?:\+|(-))?([0-9]+)(?:\.0+)?")


def whole_number(text: str) -> int | None:
    """Of a class that is written as text, as in lists: "3", "+3" and "3.0" are 3."""
    found = _WHOLE.fullmatch(text.strip())
    return None if found is None else int(found[2]) * (-1 if found[1] else 1)


def class_names(classes: Any) -> list[Any]:
    """Names in the order of their numbers, also of {name: number} and {number: name}. Raises ConfigError."""
    if classes is None:
        return []
    if isinstance(classes, (str, bytes, set, frozenset)):
        raise ConfigError(f"classes={classes!r}: give a list of names, the first for class 0")
    if not isinstance(classes, Mapping):
        return list(classes)
    numbers = list(range(len(classes)))
    for names in ({number: name for name, number in classes.items()}, dict(classes)):
        if set(names) == set(numbers):
            return [names[number] for number in numbers]
    raise ConfigError(f"classes={classes!r}: the numbers of {len(classes)} classes are 0 to {len(classes) - 1}")


def in_order(values: Any, what: str) -> Any:
    """Values with one for each sample, in their order. Raises ConfigError for what has no such order."""
    if not isinstance(values, (str, bytes, Mapping, set, frozenset)):
        return values
    advice = "[by_path[path] for path in paths]" if isinstance(values, Mapping) else "a list in their order"
    raise ConfigError(f"{what} are a {type(values).__name__}, not one for each path in turn: give {advice}")


def as_classes(texts: Sequence[str], classes: Sequence[str]) -> tuple[list[Any], list[str]]:
    """Texts as class numbers or stripped names, "" as -1, and the names of the classes: by the rule of lists. Raises
    ValueError where the texts are neither numbers nor names."""
    known = set(classes)
    texts = [text if text in known else text.strip() for text in texts]
    given = [(sample, text) for sample, text in enumerate(texts) if text]
    numbers = {sample: whole_number(text) for sample, text in given if text not in known}
    odd = [(sample, text) for sample, text in given if numbers.get(sample) is None]
    if given and not odd:
        wrong = next((sample for sample, number in numbers.items() if not -1 <= (number or 0) < 1_000_000), None)
        if wrong is not None:
            raise ValueError(f"the label {texts[wrong]!r} of sample {wrong} is not between -1 and 999999")
        return [numbers.get(sample, -1) for sample in range(len(texts))], list(classes)
    if 2 * len(odd) < len(given) and not any(text in known for _, text in odd):
        sample, text = odd[0]
        raise ValueError(
            f"the label {text!r} of sample {sample} is no class number, as most others are: correct it, or name all "
            "classes in classes="
        )
    names = list(classes) or sorted({text for _, text in given}, key=os.fsencode)
    return [text or -1 for text in texts], names


def class_number(value: Any, classes: Sequence[str]) -> int:
    """Of a number or a name. Raises ValueError."""
    if isinstance(value, str):
        if value not in classes:
            raise ValueError(f"{value!r} is none of the classes {list(classes)}")
        return list(classes).index(value)
    number = int(value)
    if number != value or not -1 <= number < 2**31 or (classes and number >= len(classes)):
        raise ValueError(f"{value!r} is no class number: a whole number from 0, or -1 for none")
    return number


def boxes_of(value: Any, classes: Sequence[str], labels: Any = None) -> Any:
    """LabelledBoxes from [n, 4] numbers, a pair (boxes, labels), or {"boxes": ..., "labels": ...} as torchvision has
    it. Raises ValueError."""
    import numpy

    if isinstance(value, Mapping):
        value, labels = value["boxes"], value.get("labels")
    elif isinstance(value, tuple) and len(value) == 2 and numpy.ndim(value[0]) == 2:
        value, labels = value
    sides = numpy.asarray(value, numpy.float64)
    if sides.size == 0:
        sides = sides.reshape(0, 4)
    if sides.ndim != 2 or sides.shape[1] != 4:
        raise ValueError(f"boxes of shape {list(sides.shape)}; {_BOX_ORDER}: [n, 4]")
    wrong = ~numpy.isfinite(sides).all(1) | (sides[:, 2] <= sides[:, 0]) | (sides[:, 3] <= sides[:, 1])
    if wrong.any():
        first = int(wrong.argmax())
        numbers = ", ".join(f"{side:g}" for side in sides[first])
        problem = "has no area" if numpy.isfinite(sides[first]).all() else "is not finite"
        raise ValueError(f"box {first} ({numbers}) {problem}; {_BOX_ORDER}")
    boxes = numpy.zeros(len(sides), _BOX)
    boxes["sides"] = sides
    boxes["label"] = -1
    if labels is not None:
        labels = labels.tolist() if hasattr(labels, "tolist") else list(labels)
        if len(labels) != len(sides):
            raise ValueError(f"{len(sides)} boxes and {len(labels)} labels")
        for number, label in enumerate(labels):
            try:
                boxes["label"][number] = class_number(label, classes)
            except (TypeError, ValueError, OverflowError) as error:
                raise ValueError(f"the label of box {number}: {error}") from None
    return boxes


def bits_of(value: Any, classes: Sequence[str]) -> Any:
    """A zero or one for each class: from just that, or from the names of the classes that apply. Raises ValueError;
    numbers of classes are refused, because they look like bits."""
    import numpy

    values = value.tolist() if hasattr(value, "tolist") else list(value)
    if all(isinstance(each, str) for each in values):
        bits = numpy.zeros(len(classes))
        for name in values:
            bits[class_number(name, classes)] = 1
        return bits
    if len(values) == len(classes) and all(each in (0, 1) for each in values):
        return numpy.array(values, numpy.float64)
    raise ValueError(
        f"{values} is neither a zero or one for each of the {len(classes)} classes nor a list of the names of those "
        "that apply"
    )


def part_of(spec: Spec, value: Any, labels: Any = None) -> Any:
    """A field of one sample as the library reads it: the path of a file (a str), or bytes. Raises ValueError."""
    import numpy

    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    if spec.kind == "bytes":
        return value.encode() if isinstance(value, str) else memoryview(value).cast("B")
    if spec.kind in ("image", "mask", "array") and isinstance(value, (str, bytes, bytearray, memoryview)):
        return value
    if spec.kind in ("image", "mask"):
        array = numpy.asarray(value)
        return npy_of(array.astype(numpy.uint8) if array.dtype == bool else array)
    if spec.kind == "boxes":
        return boxes_of(value, spec.classes, labels).tobytes()
    if spec.kind == "class":
        return as_type(class_number(value, spec.classes), spec.dtype).tobytes()
    array = as_type(bits_of(value, spec.classes) if spec.kind == "multilabel" else value, spec.dtype)
    if array.shape != spec.shape:
        raise ValueError(f"it has the shape {list(array.shape)}, and {list(spec.shape)} is declared")
    return array.tobytes()
