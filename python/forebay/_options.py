"""Keyword options: one for every configuration key, made from the library's own table of keys."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from . import _core
from ._fields import colours_of
from .errors import ConfigError, not_found


class Key(NamedTuple):
    """A key of the configuration (docs/configuration.md)."""

    section: str
    name: str
    expected: str
    default: str
    help: str

    @property
    def full_name(self) -> str:
        """As `forebay feed --set` and messages have it: section.name."""
        return f"{self.section}.{self.name}" if self.section else self.name


def config_keys() -> list[Key]:
    """Every key of the configuration, in the order of a written file."""
    return [Key(*key) for key in _core.config_keys()]


_KEYS = config_keys()
_SECTIONS = list(dict.fromkeys(key.section for key in _KEYS if key.section))
# The key that a section's name stands for if it is given a plain value: dataset="data/train", policy="greedy".
_MAIN_KEYS = {"dataset": "path", "policy": "name"}


def _names() -> dict[str, list[Key]]:
    """Keywords and the keys they may mean: section_key means one key, a bare name every key of that name."""
    names: dict[str, list[Key]] = {}
    for key in _KEYS:
        if key.name not in _SECTIONS:
            names.setdefault(key.name, []).append(key)
        if key.section:
            names[f"{key.section}_{key.name}"] = [key]
    for section, main in _MAIN_KEYS.items():
        names[section] = [key for key in _KEYS if (key.section, key.name) == (section, main)]
    return names


_NAMES = _names()


def _toml(value: Any, keyword: str) -> str:
    """A value as TOML."""
    if hasattr(value, "item") and not hasattr(value, "__len__"):
        value = value.item()  # a NumPy or PyTorch scalar
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value) if -(2**63) <= value < 2**63 else f'"{value}"'
    if isinstance(value, float):
        text = repr(value)
        return text if re.search(r"[.einf]", text) else text + ".0"
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, str):
        escaped = "".join(
            f"\\u{ord(c):04x}" if ord(c) < 0x20 or ord(c) == 0x7F else "\\" + c if c in '"\\' else c for c in value
        )
        return f'"{escaped}"'
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_toml(item, keyword) for item in value) + "]"
    if hasattr(value, "tolist"):
        return _toml(value.tolist(), keyword)
    raise ConfigError(
        f"{keyword}={value!r}: a configuration value is a number, a string, a path, True, False, or a list of these"
    )


def require_known(keyword: str, arguments: Collection[str]) -> None:
    """It is an option, a section or one of these arguments. The error has the nearest of all."""
    if keyword in _NAMES or keyword in _SECTIONS or keyword in arguments:
        return
    close = difflib.get_close_matches(keyword, [*arguments, *_NAMES], 1)
    hint = f"; did you mean {close[0]}?" if close else ""
    raise ConfigError(f"there is no option {keyword!r}{hint} (forebay.config_keys() lists all, as key or section_key)")


def key_of(keyword: str) -> str:
    """The key that a keyword sets, by its full name; a whole section by its own."""
    if keyword in _SECTIONS and keyword not in _MAIN_KEYS:
        return keyword
    require_known(keyword, ())
    keys = _NAMES[keyword]
    if len(keys) > 1:
        choices = " or ".join(f"{key.section}_{key.name}" for key in keys)
        raise ConfigError(f"the option {keyword!r} may mean several keys: write {choices}")
    return keys[0].full_name


def _lines(options: Mapping[str, Any]) -> list[tuple[str, str]]:
    """A line of TOML for each value, and the keyword that it came from."""
    lines = []
    for keyword, value in options.items():
        if keyword == "fields" or (keyword in _SECTIONS and isinstance(value, Mapping)):
            if not isinstance(value, Mapping):
                raise ConfigError("fields is a dictionary of fields: fields={'mask': {'kind': 'mask'}}")
            for name, inner in value.items():
                if keyword == "fields":
                    if not isinstance(inner, Mapping):
                        raise ConfigError(f"fields[{name!r}] is a dictionary of its keys, such as {{'kind': 'mask'}}")
                    for key, item in inner.items():
                        where = f"fields[{name!r}][{key!r}]"
                        if key == "colours":
                            item = colours_of(name, item)
                        lines.append((f"fields.{_toml(name, where)}.{key} = {_toml(item, where)}", where))
                else:
                    where = f"{keyword}[{name!r}]"
                    lines.append((f"{keyword}.{name} = {_toml(inner, where)}", where))
        else:
            lines.append((f"{key_of(keyword)} = {_toml(value, keyword)}", f"{keyword}={value!r}"))
    return lines


def overridden(options: Mapping[str, Any], by: Mapping[str, Any]) -> dict[str, Any]:
    """`options`, and instead of those for a key that `by` sets, under whatever name, the ones of `by`."""
    given = _by_key(options)
    replacing = _by_key(by)
    taken = {key for key, _, _ in replacing}
    merged: dict[str, Any] = {name: value for key, name, value in given if key not in taken}
    return {**merged, **{name: value for _, name, value in replacing}}


def sets(keyword: str, keys: Collection[str]) -> bool:
    """It is, under whatever name, one of these keys; or their whole section."""
    return _full(keyword) in keys or any(key.startswith(f"{keyword}.") for key in keys)


def _by_key(options: Mapping[str, Any]) -> list[tuple[Any, str, Any]]:
    """What each keyword sets: its key, or itself where it is none, a name that means that key alone, and the value."""
    all_of: list[tuple[Any, str, Any]] = []
    for keyword, value in options.items():
        if keyword != "fields" and keyword in _SECTIONS and isinstance(value, Mapping):
            all_of += [(_full(f"{keyword}_{name}"), f"{keyword}_{name}", inner) for name, inner in value.items()]
        else:
            all_of.append((_full(keyword), keyword, value))
    return all_of


def _full(keyword: str) -> Any:
    keys = _NAMES.get(keyword)
    return keys[0].full_name if keys is not None and len(keys) == 1 else keyword


def load(config: str | None, options: Mapping[str, Any]) -> _core.Options:
    """The checked configuration from a file and the keywords that override it."""
    try:
        base = _core.load_options(os.fsencode(config)) if config is not None else _core.default_options()
    except ConfigError as error:
        if config is not None and not os.path.exists(config):
            raise not_found(str(error), config) from None
        raise
    lines = _lines(options)
    if not lines:
        return base
    for line, keyword in lines:
        if not line.isascii() and any("\ud800" <= c <= "\udfff" for c in line):
            raise ConfigError(
                f"{ascii(keyword)}: a configuration is text in UTF-8, which this is not; rename the file, or give a "
                "list of files as dataset=forebay.Files(paths)"
            )
    try:
        return _core.parse_options("\n".join(line for line, _ in lines), "options", base)
    except ConfigError as error:
        text = str(error)
        place = re.match(r"options:(\d+):\d+: ", text)
        if place:
            text = f"{lines[int(place[1]) - 1][1]}: {text[place.end() :]}"
        raise ConfigError(text) from None


def settings(toml: str) -> dict[str, str]:
    """The values of a written configuration, as TOML, by the full names of their keys."""
    helps = {key.full_name: key.help for key in _KEYS}
    section, found = "", {}
    for line in toml.splitlines():
        if head := re.match(r"\[([^\]]+)\]", line):
            section = f"{head[1]}."
        elif key := re.match(r"(\w+) = (.*)", line):
            name = section + key[1]
            found[name] = key[2].removesuffix(f"# {helps.get(name)}").strip()
    return found


# What holds for batches whoever makes them.
_ANY_SECTION = re.compile(r"(policy|queue|telemetry|mpi)\.|dataset\.batch_size")
_ANY_ARGUMENT = ("logger", "trace", "trace_s")


def only_native(options: Mapping[str, Any]) -> list[str]:
    """The options that only the library's own decoders can honour."""
    is_key = {keyword: keyword in _NAMES or keyword in _SECTIONS for keyword in options}  # else a feeder's argument
    return [
        keyword
        for keyword in options
        if keyword not in _ANY_ARGUMENT and not (is_key[keyword] and _ANY_SECTION.match(key_of(keyword) + "."))
    ]
