"""Labels of samples as class numbers, and the names of classes."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from . import _core
from .errors import ConfigError


def numbers_of(labels: Any, classes: Sequence[str] | None, count: int) -> tuple[list[int], list[str]]:
    """Labels of so many samples as class numbers, and the names of the classes. Labels may themselves be names."""
    classes = class_names(classes)
    if labels is None:
        return [], classes
    _refuse_other_order(one_column(labels, "labels"), classes)
    labels = as_list(labels)
    if count and not labels:
        raise ConfigError("labels are empty: give one for each sample, or None; an iterator can be read only once")
    if any(isinstance(label, str) for label in labels):
        labels, names = as_classes(labels, classes)
        places = {name: number for number, name in enumerate(names)}
        try:
            return [places[label] if isinstance(label, str) else label for label in labels], names
        except KeyError as unknown:
            raise ConfigError(f"the label {unknown} is none of the classes {names}") from None
    if all(type(label) is int and -1 <= label < 2**63 for label in labels):  # a million of them are common
        return labels, classes
    try:
        return [class_number(label, (), 2**63) for label in labels], classes
    except ValueError as error:
        raise ConfigError(f"the label {error}") from None


def as_list(values: Any) -> list[Any]:
    """Python's own numbers and texts, also from NumPy, pandas and PyTorch."""
    return values.tolist() if hasattr(values, "tolist") else list(values)


def _refuse_other_order(labels: Any, classes: Sequence[str] | None) -> None:
    """Raises ConfigError for a pandas Categorical that is not in sorted order: names are numbered in sorted order, and
    it would mean other numbers."""
    categories = getattr(getattr(labels, "dtype", None), "categories", None)
    categories = [] if categories is None else list(categories)
    if classes or not categories or not all(isinstance(each, str) for each in categories):
        return
    if categories != sorted(categories, key=os.fsencode):
        raise ConfigError(
            f"the categories of the labels are in the order {categories}, and names without classes= are numbered in "
            "sorted order: give classes=list(labels.cat.categories), or labels.astype(str) for the sorted order"
        )


def names_of(classes: Iterable[Any]) -> list[bytes]:
    """Class names as bytes: they may be names of folders, which need not be UTF-8."""
    return [os.fsencode(name) if isinstance(name, (str, bytes)) else str(name).encode() for name in classes]


_BLANKS = " \t\r\n\v\f"  # as the library's: others belong to a name
_WHOLE = re.compile(r"(?:\+|(-))?([0-9]+)(?:\.0+)?")


def whole_number(text: str) -> int | None:
    """A class number written as text, as in lists: "3", "+3" and "3.0" are 3."""
    found = _WHOLE.fullmatch(text.strip(_BLANKS))
    return None if found is None else int(found[2]) * (-1 if found[1] else 1)


def class_names(classes: Any) -> list[Any]:
    """Class names in the order of their numbers, from a list, {name: number} or {number: name}. Raises ConfigError."""
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
    """The values, if they have an order that matches them to samples; otherwise raises ConfigError."""
    if not isinstance(values, (str, bytes, Mapping, set, frozenset)):
        return values
    advice = "[by_path[path] for path in paths]" if isinstance(values, Mapping) else "a list in their order"
    raise ConfigError(f"{what} are a {type(values).__name__}, not one for each path in turn: give {advice}")


def one_column(values: Any, what: str) -> Any:
    """The same, but a table is refused, too: to loop over one gives the names of its columns."""
    if hasattr(values, "columns"):
        raise ConfigError(f"{what} are a {type(values).__name__}: give one of its columns, such as table['path']")
    return in_order(values, what)


def as_classes(texts: Sequence[str], classes: Sequence[str]) -> tuple[list[Any], list[str]]:
    """Texts as class numbers or stripped names, "" as -1, and the names of the classes, as in list files. Raises
    ConfigError if they are neither all numbers nor all names, or what lists refuse: sets, numbers with a fraction."""
    known = set(classes)
    for sample, text in enumerate(texts):
        if not isinstance(text, str):
            raise ConfigError(
                f"the label {text!r} of sample {sample} is no text, as others are: labels are numbers or names of "
                'classes, not both, and "" says that a sample has none'
            )
    texts = [text if text in known else text.strip(_BLANKS) for text in texts]
    numbers = [None if text in known else whole_number(text) for text in texts]
    odd = [sample for sample, number in enumerate(numbers) if texts[sample] and number is None]
    given = sum(map(bool, texts))
    if given and not odd:
        for sample, number in enumerate(numbers):
            if number is not None and not -1 <= number < 1_000_000:
                raise ConfigError(f"the label {texts[sample]!r} of sample {sample} is not between -1 and 999999")
        return [-1 if number is None else number for number in numbers], list(classes)
    are_most_numbers = 2 * len(odd) < given and not any(texts[sample] in known for sample in odd)
    if are_most_numbers or (odd and not known and _core.are_class_numbers(names_of(texts))):
        raise ConfigError(
            f"the label {texts[odd[0]]!r} of sample {odd[0]} is no class number, as most others are: correct it, or "
            "name all classes in classes="
        )
    return [text or -1 for text in texts], list(classes) or sorted({*texts} - {""}, key=os.fsencode)


def class_number(value: Any, classes: Sequence[str], limit: int = 2**31) -> int:
    """The class number for a number or a name. Raises ValueError."""
    if isinstance(value, str):
        if value not in classes:
            raise ValueError(f"{value!r} is none of the classes {list(classes)}")
        return list(classes).index(value)
    number: int | None = None
    with contextlib.suppress(TypeError, ValueError, OverflowError):  # None, NaN, infinity
        number = int(value)
    if number is None or number != value or not -1 <= number < (len(classes) or limit):
        raise ValueError(f"{value!r} is no class number: a whole number from 0, or -1 for none")
    return number
