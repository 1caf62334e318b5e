"""Labels of samples as class numbers, and the names of classes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence
from typing import Any

from ._fields import as_classes, class_names, in_order
from .errors import ConfigError


def numbers_of(labels: Any, classes: Sequence[str] | None) -> tuple[list[int], list[str]]:
    """Labels as class numbers, and the names of the classes: labels may be names themselves."""
    if labels is None:
        return [], class_names(classes)
    classes = class_names(classes)
    _refuse_other_order(in_order(labels, "labels"), classes)
    labels = labels.tolist() if hasattr(labels, "tolist") else list(labels)
    if any(isinstance(label, str) for label in labels):
        strange = next((label for label in labels if not isinstance(label, str)), None)
        if strange is not None:
            raise ConfigError(f"labels are numbers or names of classes, not both; {strange!r} is no name")
        try:
            labels, names = as_classes(labels, classes)
        except ValueError as error:
            raise ConfigError(str(error)) from None
        places = {name: number for number, name in enumerate(names)}
        unknown = next((label for label in labels if isinstance(label, str) and label not in places), None)
        if unknown is not None:
            raise ConfigError(f"the label {unknown!r} is none of the classes {names}")
        return [places[label] if isinstance(label, str) else label for label in labels], names
    return [_number(label) for label in labels], classes


def _refuse_other_order(labels: Any, classes: Sequence[str] | None) -> None:
    """Names are numbered in their sorted order: a pandas Categorical of another order means other numbers."""
    categories = getattr(getattr(labels, "dtype", None), "categories", None)
    categories = [] if categories is None else list(categories)
    if classes or not categories or not all(isinstance(each, str) for each in categories):
        return
    if categories != sorted(categories, key=os.fsencode):
        raise ConfigError(
            f"the categories of the labels are in the order {categories}, and names without classes= are numbered in "
            "sorted order: give classes=list(labels.cat.categories), or labels.astype(str) for the sorted order"
        )


def _number(label: Any) -> int:
    number: int | None = None
    with contextlib.suppress(TypeError, ValueError, OverflowError):  # None, NaN, infinity
        number = int(label)
    if number is None or number != label or not -1 <= number < 2**63:
        raise ConfigError(f"the label {label!r} is no class number: a whole number from 0, or -1 for none")
    return number


def names_of(classes: Iterable[Any]) -> list[bytes]:
    """They may be names of folders, which need not be UTF-8."""
    return [os.fsencode(name) if isinstance(name, (str, bytes)) else str(name).encode() for name in classes]
