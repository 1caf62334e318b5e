"""Policies in virtual time: the results of `forebay simulate` as tables."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import _core, _options
from .errors import ConfigError

_COLUMNS = ("fresh_percent", "stall_percent", "squared_uses_per_step", "uses_p99", "uses_max", "longest_run", "slots")
_CHOSEN = {"queue": ("capacity", "pool"), "policy": ("name", "pick", "max_uses")}
_OF_SOURCE = ("sigma", "cv", "on", "off", "slowdown", "slow_ranks", "slow_ratio")


@dataclass
class Recommendation:
    """The settings that would have suited a recorded run: ``forebay.Feeder(..., **recommendation.options)``."""

    options: dict[str, Any]  # the sections queue and policy
    table: list[dict[str, Any]]  # as recorded; as predicted for the run's options, for these options, and with a cap
    text: str  # the same as text, and as a configuration file

    def __str__(self) -> str:
        return self.text


def _run(config: Any, options: dict[str, Any], arguments: Sequence[str]) -> str:
    done = subprocess.run(
        [Path(__file__).with_name("bin") / "forebay", "simulate", "/dev/stdin", *arguments],
        input=_options.load(config, options).to_toml(),
        capture_output=True,
        encoding="utf-8",
        errors="backslashreplace",
    )
    if done.returncode != 0:
        raise ConfigError(done.stderr.strip() or f"forebay simulate ended with {done.returncode}")
    return done.stdout


def simulate(
    config: str | os.PathLike[str] | None = None,
    *,
    policies: str | Sequence[str] = "all",
    ratios: float | Iterable[float] = 3.0,
    source: str = "exponential",
    trace: str | os.PathLike[str] | None = None,
    **options: Any,
) -> list[dict[str, Any]]:
    """Simulates policies in virtual time. Returns a row for each policy and ratio, suitable for pandas.DataFrame.

    policies: names, or "all". ratios: steps per batch of the source, R. source: "constant", "exponential", "lognormal",
    "gamma", "outages" or "contention"; trace: the telemetry.dir of a run instead of both. `forebay simulate --help`
    explains ranks, mode, steps, seeds, seed, sigma, cv, on, off, slowdown, slow_ranks and slow_ratio. Other keywords
    are options of forebay.Feeder. Raises ConfigError.
    """
    arguments = ["--json", "-", "--policy", policies if isinstance(policies, str) else ",".join(policies)]
    if trace is not None:
        arguments += ["--trace", os.fspath(trace)]
    else:
        arguments += ["--source", source]
        for ratio in ratios if isinstance(ratios, Iterable) else [ratios]:
            arguments += ["-R", repr(float(ratio))]
    for name in ("ranks", "mode", "steps", "seeds", "seed", *_OF_SOURCE):
        if name in options:
            arguments += [f"--{name.replace('_', '-')}", str(options.pop(name))]
    found: list[dict[str, Any]] = json.loads(_run(config, options, arguments))
    return found


def recommend(
    run: str | os.PathLike[str], config: str | os.PathLike[str] | None = None, **options: Any
) -> Recommendation:
    """The queue and policy that would have suited a recorded run, given its telemetry.dir. ``config`` and options are
    those of the run. Raises ConfigError."""
    text = _run(config, options, ["--trace", os.fspath(run), "--recommend"])
    # Numbers and plain names: what JSON and TOML have in common.
    values = _core.parse_options(text, "recommendation", _core.default_options()).values()
    chosen = {of: {name: json.loads(values[f"{of}.{name}"]) for name in names} for of, names in _CHOSEN.items()}
    table = []
    for line in text.partition("# predicted")[2].splitlines()[1:]:
        of, *figures = line[2:].rsplit(None, len(_COLUMNS))
        table.append({"of": of, **dict(zip(_COLUMNS, (None if word == "-" else float(word) for word in figures)))})
    return Recommendation(chosen, table, text)
