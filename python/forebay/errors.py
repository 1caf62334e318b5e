"""The exceptions that Forebay raises. Each message says what was wrong, where, and what to do.

They also derive from built-in types, so that ``except ValueError`` and ``except FileNotFoundError`` work as expected.
"""

from __future__ import annotations

import errno
import os
from typing import Any


class Error(RuntimeError):
    """Base class of everything that Forebay raises."""


class ConfigError(Error, ValueError):
    """A configuration or an argument that cannot be honoured."""


class NotFoundError(ConfigError, FileNotFoundError):
    """A configuration file, a dataset or a state that does not exist: ``filename``."""

    def __init__(self, text: str, file: str | bytes | os.PathLike[Any] | None = None) -> None:
        super().__init__(text)
        if file is not None:
            self.errno, self.strerror, self.filename = errno.ENOENT, os.strerror(errno.ENOENT), os.fspath(file)

    def __str__(self) -> str:
        return str(self.args[0])  # without OSError's number in front

    def __reduce__(self) -> Any:
        return NotFoundError, (str(self), self.filename)


class SampleError(Error):
    """A sample that cannot be served: missing, unreadable, corrupt, or refused by a limit."""


class WatchdogError(Error, TimeoutError):
    """No fresh batch arrived, or another rank was missing, for policy.watchdog_s."""
