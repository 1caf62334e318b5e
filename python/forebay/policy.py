"""A program's own policies and operations, written in Python."""

from __future__ import annotations

import abc
import inspect
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np

from ._core import Signals
from .errors import ConfigError

Decision = Literal["fresh", "reuse", "wait"]


class Policy(abc.ABC):
    """Decides for each step of the trainer between a new batch and one already in memory.
    ``forebay.Feeder(policy=MyPolicy())``.

    Use each object for one feeder only; given a class, ``policy=MyPolicy``, every start makes a new object. With
    several ranks each has its own, of the same class. It is called on the trainer's thread, within next().
    """

    @abc.abstractmethod
    def decide(self, signals: Signals) -> Decision:
        """Returns "fresh" to serve the next batch, waiting for it if necessary; "reuse" to serve a batch again; "wait"
        to wait briefly for a batch and be asked again. An exception ends the run. `max_uses` and `max_wait_ms` still
        apply, and the first batch is fresh whatever it returns."""

    def served(self, decision: Decision, signals: Signals) -> None:  # noqa: B027 - most need not know
        """Told once per step, after the last decide(), what was finally served: "fresh" or "reuse"."""


class GivenPolicy(NamedTuple):
    name: str
    make: Callable[[], Any]


class GivenOperation(NamedTuple):
    name: str
    run: Callable[[Any, int], Any]
    keeps_places: bool
    in_evaluation: bool


def _policy_of(value: Any) -> GivenPolicy:
    kind = value if isinstance(value, type) else type(value)
    if not callable(getattr(kind, "decide", None)):
        raise ConfigError(
            f"policy={value!r}: give the name of a policy, or an object with decide(signals), such as a forebay.Policy"
        )
    return GivenPolicy(f"python.{kind.__name__}", value if isinstance(value, type) else lambda: value)


def take_policy(options: dict[str, Any]) -> GivenPolicy | None:
    """The policy object among the options (`_options.flat()`), if any; its name replaces it there."""
    for keyword in ("policy", "policy_name"):
        value = options.get(keyword)
        if value is not None and not isinstance(value, str):
            given = _policy_of(value)
            options[keyword] = given.name
            return given
    return None


def _takes_a_generator(function: Callable[..., Any]) -> bool:
    """Whether its second argument is a generator: one that is required, or is named `rng` or `generator`."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # builtins without a signature
        return False
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return any(p.default is p.empty or p.name in ("rng", "generator") for p in positional[1:2])


def _operation_of(function: Callable[..., Any]) -> GivenOperation:
    name = getattr(function, "__name__", type(function).__name__)
    has_generator = _takes_a_generator(function)

    def run(pixels: Any, seed: int) -> Any:
        # Philox uses its key as it is; the others spend time on expanding a seed.
        drawn = [np.random.Generator(np.random.Philox(key=seed))] if has_generator else []
        result = function(pixels, *drawn)
        if result is None:
            return pixels
        result = np.asarray(result)
        if result.dtype != np.uint8 or result.shape != pixels.shape:
            raise TypeError(
                f"the operation {name} returned an array of {result.dtype} {list(result.shape)}; it must be uint8 "
                f"{list(pixels.shape)}, as it was given, or None if it changed that"
            )
        return np.ascontiguousarray(result)

    keeps_places, in_evaluation = (bool(getattr(function, key, False)) for key in ("keeps_places", "in_evaluation"))
    return GivenOperation(f"python.{name}", run, keeps_places, in_evaluation)


def take_operations(options: dict[str, Any]) -> list[GivenOperation]:
    """The functions among transform.operations, which are replaced there by their names."""
    found: dict[str, tuple[Any, GivenOperation]] = {}

    def name_of(function: Any) -> str:
        given = _operation_of(function)
        if found.setdefault(given.name, (function, given))[0] is not function:
            raise ConfigError(f"two operations are called {given.name!r}, their name in saved states: rename one")
        return given.name

    for keyword in ("operations", "transform_operations"):
        listed = options.get(keyword)
        if callable(listed):
            raise ConfigError("operations is a list: operations=[function]")
        if isinstance(listed, (list, tuple)):
            options[keyword] = [name_of(each) if callable(each) else each for each in listed]
    return [given for _, given in found.values()]
