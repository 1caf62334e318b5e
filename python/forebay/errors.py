"""The exceptions that Forebay raises. Each message says what was wrong, where, and what to do.

They also derive from built-in types, so that ``except ValueError`` and ``except FileNotFoundError`` work as expected.
"""

from __future__ import annotations


class Error(RuntimeError):
    """Base class of everything that Forebay raises."""


class ConfigError(Error, ValueError):
    """A configuration or an argument that cannot be honoured."""


class NotFoundError(ConfigError, FileNotFoundError):
    """A configuration file, a dataset or a state that does not exist."""


class SampleError(Error):
    """A sample that cannot be served: missing, unreadable, corrupt, or refused by a limit."""


class WatchdogError(Error, TimeoutError):
    """No fresh batch arrived, or another rank was missing, for policy.watchdog_s."""
