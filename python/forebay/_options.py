"""Keyword options: one for every configuration key, made from the library's own table of keys."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Collection, Mapping
from operator import index
from typing import Any, NamedTuple

from . import _core
from .errors import ConfigError, NotFoundError


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
_MAIN_KEYS = {"dataset": "path", "policy": "name", "cache": "dir"}


def _names() -> dict[str, list[Key]]:
    """Keywords and the keys they may mean: section_key means one key, a bare name every key of that name."""
    names: dict[str, list[Key]] = {}
    for key in _KEYS:
        # Of the cache, "dir" and "bytes" have been those of other sections for longer.
        if key.name not in _SECTIONS and key.section != "cache":
            names.setdefault(key.name, []).append(key)
        if key.section:
            names[f"{key.section}_{key.name}"] = [key]
    for section, main in _MAIN_KEYS.items():
        names[section] = [key for key in _KEYS if (key.section, key.name) == (section, main)]
    return names


_NAMES = _names()


def _toml(value: Any, where: str) -> str:
    """A value as TOML."""
    if hasattr(value, "tolist"):  # of NumPy or PyTorch
        value = value.tolist()
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_toml(item, where) for item in value) + "]"
    if isinstance(value, float):
        return float.__repr__(value)
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        value = str(value)
    if not isinstance(value, (str, int)):
        raise ConfigError(
            f"{where}: a configuration value is a number, a string, a path, True, False, or a list of these"
        )
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # as in TOML, which escapes that too


def require_known(keyword: str, arguments: Collection[str]) -> None:
    """It is an option, a section or one of these arguments. The error has the nearest of all."""
    if keyword in _NAMES or keyword in _SECTIONS or keyword == "fields" or keyword in arguments:
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

    def add(key: str, value: Any, where: str) -> None:
        lines.append((f"{key} = {_toml(value, where)}", where))

    for keyword, value in flat(options).items():
        if keyword == "fields":
            if not isinstance(value, Mapping) or not all(isinstance(keys, Mapping) for keys in value.values()):
                raise ConfigError("fields is a dictionary of dictionaries: fields={'mask': {'kind': 'mask'}}")
            for name, keys in value.items():
                for key, item in keys.items():
                    item = colours_of(name, item) if key == "colours" else item
                    add(f"fields.{_toml(name, 'fields')}.{key}", item, f"fields[{name!r}][{key!r}]")
        else:
            add(key_of(keyword), value, f"{keyword}={value!r}")
    return lines


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


def overridden(options: Mapping[str, Any], by: Mapping[str, Any]) -> dict[str, Any]:
    """`options`, and instead of those for a key that `by` sets, under whatever name, the ones of `by`."""
    replacing = flat(by)
    taken = {full_name_of(name) for name in replacing}
    return {**{name: value for name, value in flat(options).items() if full_name_of(name) not in taken}, **replacing}


def flat(options: Mapping[str, Any]) -> dict[str, Any]:
    """Keys of a section that is given as a dictionary under keywords of their own."""
    flat: dict[str, Any] = {}
    for keyword, value in options.items():
        is_section = keyword in _SECTIONS and isinstance(value, Mapping)
        flat.update({f"{keyword}_{name}": inner for name, inner in value.items()} if is_section else {keyword: value})
    return flat


def full_name_of(keyword: str) -> str:
    """Of the one key that a keyword may mean; else the keyword."""
    keys = _NAMES.get(keyword)
    return keys[0].full_name if keys is not None and len(keys) == 1 else keyword


def load(config: str | None, options: Mapping[str, Any]) -> _core.Options:
    """The checked configuration from a file and the keywords that override it."""
    base = _core.default_options()
    if config is not None:
        if not os.path.exists(config):
            raise NotFoundError(f"{config}: there is no such configuration file", config)
        if os.path.isdir(config):
            raise ConfigError(f"{config} is a folder, and the first argument a configuration file: dataset={config!r}")
        base = _core.load_options(os.fsencode(config))
    lines = _lines(options)
    for line, keyword in lines:
        if any("\ud800" <= c <= "\udfff" for c in line):
            raise ConfigError(
                f"{ascii(keyword)}: a configuration is text in UTF-8, which this is not; rename the file, or give a "
                "list of files as dataset=forebay.Files(paths)"
            )
    try:
        return _core.parse_options("\n".join(line for line, _ in lines), "options", base) if lines else base
    except ConfigError as error:
        _, _, place = str(error).partition("options:")  # and line:column: message, where a line is wrong
        number, _, rest = place.partition(":")
        if not number.isdigit():
            raise
        raise ConfigError(f"{lines[int(number) - 1][1]}:{rest.partition(':')[2]}") from None


# What holds for batches whoever makes them.
_ANY_SECTION = ("policy", "queue", "telemetry", "mpi")
_ANY = ("logger", "trace", "trace_s", "dataset.batch_size")


def only_native(options: Mapping[str, Any]) -> list[str]:
    """The options that only the library's own decoders can honour."""
    is_key = {keyword: keyword in _NAMES or keyword in _SECTIONS for keyword in options}  # else a feeder's argument
    keys = {keyword: key_of(keyword) if is_key[keyword] else keyword for keyword in options}
    return [keyword for keyword, key in keys.items() if key not in _ANY and key.partition(".")[0] not in _ANY_SECTION]
