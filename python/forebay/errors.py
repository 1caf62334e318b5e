"""What Forebay raises. Each message says what was wrong, where, and what to do.

The types are Python's own as well, so that ``except ValueError`` or ``except FileNotFoundError`` do what one expects.
"""

from __future__ import annotations


class Error(RuntimeError):
    """Base of everything that Forebay raises."""


class ConfigError(Error, ValueError):
    """A configuration or an argument that cannot be honoured."""


class NotFoundError(ConfigError, FileNotFoundError):
    """A configuration file, a data set or a state that is not there."""


class SampleError(Error):
    """A sample that cannot be served: missing, unreadable, corrupt, or refused by a limit."""


class WatchdogError(Error, TimeoutError):
    """No fresh batch arrived, or another rank did not come, for policy.watchdog_s."""
