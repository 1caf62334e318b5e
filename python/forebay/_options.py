"""Keyword options, one for every configuration key, generated from the library's own table of keys."""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Collection, Mapping
from operator import index
from typing import Any, NamedTuple

from . import _core
from .errors import ConfigError, NotFoundError


class Key(NamedTuple):
    """A configuration key (docs/configuration.md)."""

    section: str
    name: str
    expected: str
    default: str
    help: str

    @property
    def full_name(self) -> str:
        """section.name, as in `forebay feed --set` and in messages."""
        return f"{self.section}.{self.name}" if self.section else self.name


def config_keys() -> list[Key]:
    """All configuration keys, in the order of a written file."""
    return [Key(*key) for key in _core.config_keys()]


_KEYS = config_keys()
_SECTIONS = list(dict.fromkeys(key.section for key in _KEYS if key.section))
# The key that a section's name sets if given a plain value: dataset="data/train", policy="greedy".
_MAIN_KEYS = {"dataset": "path", "policy": "name", "cache": "dir"}


# Keywords and the keys they may mean: section_key means one key, a bare name every key of that name.
_NAMES: dict[str, list[Key]] = {}
for _key in _KEYS:
    if _key.name not in _SECTIONS:
        _NAMES.setdefault(_key.name, []).append(_key)
    if _key.section:
        _NAMES[f"{_key.section}_{_key.name}"] = [_key]
_NAMES.update((section, _NAMES[f"{section}_{main}"]) for section, main in _MAIN_KEYS.items())


def _toml(value: Any, where: str) -> str:
    """A value as TOML."""
    if hasattr(value, "tolist") and not isinstance(value, type):  # from NumPy or PyTorch
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
        raise ConfigError(f"{where}: a value is a number, a string, a path, True, False, or a list of these")
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # TOML requires this escape, too


def require_known(keyword: str, arguments: Collection[str]) -> None:
    """Raises ConfigError, which suggests the closest name, unless the keyword is an option, a section or one of these
    arguments."""
    if keyword in _NAMES or keyword in _SECTIONS or keyword == "fields" or keyword in arguments:
        return
    close = difflib.get_close_matches(keyword, [*arguments, *_NAMES], 1)
    hint = f"; did you mean {close[0]}?" if close else ""
    raise ConfigError(f"there is no option {keyword!r}{hint} (forebay.config_keys() lists all, as key or section_key)")


def key_of(keyword: str) -> str:
    """The full name of the key that a keyword sets, or the name of a whole section."""
    if keyword in _SECTIONS and keyword not in _MAIN_KEYS:
        return keyword
    require_known(keyword, ())
    keys = _NAMES[keyword]
    if len(keys) > 1:
        choices = " or ".join(f"{key.section}_{key.name}" for key in keys)
        raise ConfigError(f"the option {keyword!r} may mean several keys: write {choices}")
    return keys[0].full_name


def _lines(options: Mapping[str, Any]) -> list[tuple[str, str]]:
    """A line of TOML for each value, with the keyword that it came from."""
    given = [(key_of(name), value, f"{name}={value!r}") for name, value in flat(options).items() if name != "fields"]
    earlier: dict[str, str] = {}
    for key, value, where in given:
        if key in _SECTIONS:
            first = next(each.name for each in _KEYS if each.section == key)
            keys = "".join(f" or {each.section}_{key}={value!r}" for each in _KEYS if each.name == key)
            raise ConfigError(f"{where}: {key} is a section: give its keys, {key}={{{first!r}: {value!r}}}{keys}")
        if key in earlier:
            raise ConfigError(f"{earlier[key]} and {where} are the same key, {key}: give one of them")
        earlier[key] = where
    fields = options.get("fields", {})
    if not isinstance(fields, Mapping) or not all(isinstance(keys, Mapping) for keys in fields.values()):
        raise ConfigError("fields is a dictionary of dictionaries: fields={'mask': {'kind': 'mask'}}")
    for name, keys in fields.items():
        for key, value in keys.items():
            value = colours_of(name, value) if key == "colours" else value
            given.append((f"fields.{_toml(name, 'fields')}.{key}", value, f"fields[{name!r}][{key!r}]"))
    return [(f"{key} = {_toml(value, where)}", where) for key, value, where in given]


def colours_of(name: str, value: Any) -> list[str]:
    """The entries of a field's key "colours", from a list of colours in the order of their classes, or a dictionary of
    colours and classes. A colour is a string, "R,G,B", or three numbers; "other" stands for all that are not listed."""

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
    """`options` overridden by those in `by`, also where the two set the same key by different keywords."""
    replacing = flat(by)
    taken = {full_name_of(name) for name in replacing}
    return {**{name: value for name, value in flat(options).items() if full_name_of(name) not in taken}, **replacing}


def flat(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options with sections given as dictionaries expanded into one keyword per key."""
    flat: dict[str, Any] = {}
    for keyword, value in options.items():
        is_section = keyword in _SECTIONS and isinstance(value, Mapping)
        flat.update({f"{keyword}_{name}": inner for name, inner in value.items()} if is_section else {keyword: value})
    return flat


def full_name_of(keyword: str) -> str:
    """The full name of the key that a keyword means, if it means only one; else the keyword."""
    keys = _NAMES.get(keyword)
    return keys[0].full_name if keys is not None and len(keys) == 1 else keyword


# How a dataset at a path is read; a dataset of the program itself says all of this.
_OF_PATHS = ("path", "format", "labels", "classes", "samples", "difficult", "index")


def of_paths(options: Mapping[str, Any]) -> list[str]:
    """The options that would have no effect on a dataset of the program. One that is set to its default has none on
    any dataset."""
    defaults = {key.full_name: key.default for key in _KEYS if key.section == "dataset" and key.name in _OF_PATHS}
    names = {name: full_name_of(name) for name in options}
    return [name for name, key in names.items() if key in defaults and _toml(options[name], name) != defaults[key]]


def refuse_of_paths(options: Mapping[str, Any]) -> None:
    """Raises ConfigError for options that a dataset of the program would leave without effect."""
    for name in of_paths(options):
        raise ConfigError(
            f"{name}={options[name]!r} is for a dataset at a path, and this one is the program's own: give its files, "
            "labels and classes to forebay.Files, or make them attributes of the forebay.Dataset"
        )


def load(config: str | os.PathLike[str] | None, options: Mapping[str, Any]) -> _core.Options:
    """The checked configuration from a file and the keywords that override it."""
    base = _core.default_options()
    if config is not None:
        if isinstance(config, Mapping):
            raise ConfigError("the first argument is a configuration file; give options as keywords: Feeder(**options)")
        config = os.fspath(config)
        if not os.path.exists(config):
            raise NotFoundError(f"{config}: there is no such configuration file", config)
        if os.path.isdir(config):
            raise ConfigError(f"{config} is a folder, and the first argument a configuration file: dataset={config!r}")
        base = _core.load_options(os.fsencode(config))
    lines = _lines(options)
    for line, keyword in lines:
        if any("\ud800" <= c <= "\udfff" for c in line):
            raise ConfigError(
                f"{ascii(keyword)}: a configuration is text in UTF-8, which this is not; rename the file, or give "
                "files of data as dataset=forebay.Files(paths)"
            )
    try:
        return _core.parse_options("\n".join(line for line, _ in lines), "options", base) if lines else base
    except ConfigError as error:
        place = re.search(r"options:(\d+):\d*:(.*)", str(error), re.DOTALL)  # the line in error
        if place is None:
            raise
        raise ConfigError(f"{lines[int(place[1]) - 1][1]}:{place[2]}") from None


# What applies to batches whoever makes them.
_ANY_SECTION = ("policy", "queue", "telemetry", "mpi")
_ANY = ("logger", "trace", "trace_s", "dataset.batch_size")


def only_native(options: Mapping[str, Any], general: Collection[str] = _ANY) -> list[str]:
    """The options that only the library's own decoders can honour: all but whole sections and ``general``."""
    keys = {name: key_of(name) if name in _NAMES or name in _SECTIONS else name for name in options}
    return [name for name, key in keys.items() if key not in general and key.partition(".")[0] not in _ANY_SECTION]
