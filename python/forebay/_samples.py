"""Converts the samples of a program's own dataset to what the library reads, in this process or another."""

from __future__ import annotations

import os
import traceback
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

import numpy as np

from ._core import FieldSpec
from ._fields import npy_of, part_of

_HERE = os.path.dirname(os.path.abspath(__file__))


def image_of(item: Any) -> Any:
    """The bytes of an image file, or its path. An array becomes an npy file."""
    if isinstance(item, (str, bytes, bytearray, memoryview)):
        return item
    if isinstance(item, os.PathLike):
        return os.fsdecode(item)
    if isinstance(item, Mapping):
        raise TypeError(
            "__getitem__ returned a dictionary, and the dataset declares no fields: give the class an attribute "
            '`fields`, such as fields = {"mask": {"kind": "mask"}}. Labels are its attribute `labels`'
        )
    if isinstance(item, (tuple, list)):
        raise TypeError(
            f"__getitem__ returned a {type(item).__name__}: it returns the image alone; the labels of all samples are "
            "the dataset's attribute `labels`, and other targets are fields"
        )
    array = np.asarray(item)
    if array.dtype not in (np.uint8, np.uint16):
        raise TypeError(
            f"__getitem__ returns the bytes of an image file, its path, or an array of uint8 or uint16, not "
            f"{array.dtype} ({type(item).__name__}). Other numbers belong into a field: declare "
            'fields = {"depth": {"kind": "array", "shape": [...]}} and return {"image": ..., "depth": ...}'
        )
    return npy_of(array)


def answer_of(item: Any, fields: Sequence[FieldSpec]) -> Any:
    """The result of __getitem__, converted: the image, or if there are fields, a list of the image and each field."""
    if not fields:
        return image_of(item)
    if not isinstance(item, Mapping):
        raise TypeError(
            f"__getitem__ returned {type(item).__name__}; a dataset with fields returns a dictionary of "
            f"{', '.join(repr(name) for name in ('image', *(field.name for field in fields)))}"
        )
    if "image" not in item:
        raise KeyError(f"__getitem__ returned no 'image', but {', '.join(map(repr, item)) or 'nothing'}")
    label = next((name for name in ("label", "labels") if name in item), None)
    if label is not None and all(field.name != label for field in fields):
        raise KeyError(f"__getitem__ returned {label!r}, which nothing reads: labels are the dataset's `labels`")
    parts = [image_of(item["image"])]
    for field in fields:
        if field.name not in item:
            raise KeyError(f"__getitem__ returned no {field.name!r}, which the dataset declares as a field")
        try:
            parts.append(part_of(field, item[field.name]))
        except (TypeError, ValueError, KeyError) as error:
            raise ValueError(f'field "{field.name}": {error}') from error
    return parts


class RemoteTraceback(Exception):
    """The traceback from another process, as the cause of the exception that it raised."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}" if self.args else ""


def told_of(kind: type[BaseException], error: Any, where: TracebackType | None) -> str:
    """told() for an exception given as type, value and traceback; the value may be an exception or its arguments."""
    if not isinstance(error, BaseException):
        error = kind(*error) if isinstance(error, tuple) else kind() if error is None else kind(error)
    if error.__traceback__ is None:
        error.__traceback__ = where
    return told(error)


def told(error: BaseException) -> str:
    """An exception in one line: type, message, and the line of the program that was executing."""
    text = getattr(error, "_forebay_told", None)
    if isinstance(text, str):
        return text
    message = str(error.args[0]) if isinstance(error, KeyError) and len(error.args) == 1 else str(error)
    text = f"{type(error).__name__}: {message}" if message else type(error).__name__
    for frame, line in traceback.walk_tb(error.__traceback__):
        file = frame.f_code.co_filename
        if os.path.dirname(os.path.abspath(file)) != _HERE:
            return f"{text} ({os.path.basename(file)}:{line}, in {frame.f_code.co_name})"
    return text
