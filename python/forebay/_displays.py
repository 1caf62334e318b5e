"""Displays for a running loop: in a terminal, in a notebook, or else as lines."""

from __future__ import annotations

import abc
import contextlib
import importlib.util
import os
import sys
import threading
from typing import Any, NamedTuple, TextIO

from . import _html
from .errors import ConfigError


def require_way(way: bool | str) -> None:
    if way not in (False, True, "bar", "live", "lines"):
        raise ConfigError(f'progress={way!r}: it is True, False, "bar", "live" or "lines"')


class Shown(NamedTuple):
    """The figures of an interval of the run: since the last drawing, or of an epoch."""

    title: str
    epoch: int
    share: float | None  # of the epoch
    steps: int
    depth: float  # mean number of ready batches
    capacity: int
    fresh: float  # share of the steps
    images_per_s: float
    stall: float  # share of the time
    bound: str
    sentence: str
    waiting: str = ""  # shown while next() waits

    def line(self) -> str:
        return (
            f"epoch {self.epoch}{self._part()}  step {self.steps}  {self.images_per_s:.0f} images/s  "
            f"fresh {100 * self.fresh:.0f} %  stall {100 * self.stall:.1f} %  queue {self.depth:.1f}/{self.capacity}  "
            f"{self.waiting or self.bound}"
        )

    def rows(self) -> list[tuple[str, float | None, str]]:
        """The same as rows of a name, a share from 0 to 1, and text."""
        return [
            (f"epoch {self.epoch}", self.share, f"{self._part()}  step {self.steps:,}".strip()),
            ("queue", self.depth / max(1, self.capacity), f"{self.depth:.1f} of {self.capacity} batches"),
            ("fresh", self.fresh, f"{100 * self.fresh:.1f} % of the steps"),
            ("stall", self.stall, f"{100 * self.stall:.1f} % of the time"),
            ("images/s", None, f"{self.images_per_s:,.0f}"),
            ("limit", None, self.waiting or self.sentence),
        ]

    def _part(self) -> str:
        return "" if self.share is None else f"  {100 * self.share:.0f} %"


class Display(abc.ABC):
    """A place where figures are shown."""

    every_s = 0.2  #: between two drawings

    @abc.abstractmethod
    def show(self, shown: Shown) -> None:
        """Replaces what was shown before."""

    def end_epoch(self, shown: Shown) -> None:
        """Shows the figures of a whole epoch."""
        self.show(shown)

    def hide(self) -> None:  # noqa: B027 - where lines of others do no harm
        """Called before somebody else writes a line. Any thread."""

    def close(self) -> None:  # noqa: B027 - where nothing is held
        """Called when nothing more will be shown."""


class Lines(Display):
    """One line after the other, for files and pipes."""

    every_s = 10.0

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def show(self, shown: Shown) -> None:
        print(f"forebay: {shown.line()}", file=self._out, flush=True)


class Bar(Display):
    """A single line that is redrawn in place; one line remains per epoch."""

    _CELLS = 24

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._lock = threading.RLock()  # a signal handler may log while a line is drawn
        self._is_drawn = False
        self._full, self._empty = "#-"
        with contextlib.suppress(UnicodeError, LookupError):
            "█░".encode(out.encoding or "ascii")
            self._full, self._empty = "█░"

    def show(self, shown: Shown) -> None:
        cells = round(self._CELLS * (shown.share or 0.0))
        drawn = "" if shown.share is None else self._full * cells + self._empty * (self._CELLS - cells) + " "
        columns = 0  # what a terminal without a size says
        with contextlib.suppress(OSError, ValueError):
            columns = os.get_terminal_size(self._out.fileno()).columns
        with self._lock:
            self._out.write("\r" + (drawn + shown.line())[: (columns or 80) - 1] + "\033[K")
            self._out.flush()
            self._is_drawn = True

    def end_epoch(self, shown: Shown) -> None:
        with self._lock:
            self.show(shown)
            self.close()

    def hide(self) -> None:
        self.close("\r\033[K")

    def close(self, end: str = "\n") -> None:
        with self._lock:
            if self._is_drawn:
                self._out.write(end)
                self._out.flush()
                self._is_drawn = False


class Notebook(Display):
    """A table below the cell, redrawn in place."""

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, shown: Shown) -> None:
        page: Any = importlib.import_module("IPython.display")  # IPython is not typed throughout
        drawing = page.HTML(_html.live(shown))
        if self._handle is None:
            self._handle = page.display(drawing, display_id=True)
        else:
            self._handle.update(drawing)


class Live(Display):
    """A rich panel below the program's output."""

    def __init__(self, out: TextIO) -> None:
        from rich.console import Console

        self._console = Console(file=out)
        self._live: Any = None  # while it is drawn
        self._shown: Shown | None = None
        self._lock = threading.RLock()  # a signal handler may log while the panel is drawn

    def show(self, shown: Shown) -> None:
        from rich.live import Live as RichLive
        from rich.panel import Panel
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        with self._lock:
            self._shown = shown
            if self._live is None:
                # Output that the program redirects to a file must arrive there.
                is_beside = sys.stdout is not None and sys.stdout.isatty()
                self._live = RichLive(console=self._console, auto_refresh=False, redirect_stdout=is_beside)
                self._live.start()
            grid = Table.grid(padding=(0, 2))
            for name, share, text in shown.rows():
                grid.add_row(Text(name), "" if share is None else ProgressBar(1.0, share, 24), Text(text))
            width = min(88, self._console.width)  # fixed, whatever the text
            panel = Panel(grid, title=Text(shown.title), title_align="left", width=width)
            self._live.update(panel, refresh=True)

    def hide(self, is_last: bool = False) -> None:
        with self._lock:
            if self._live is not None:
                live, self._live = self._live, None
                live.transient = not is_last
                live.stop()

    def close(self) -> None:
        with self._lock:
            if self._live is None and self._shown is not None:
                self.show(self._shown)  # it was hidden, and should remain visible at the end
            self.hide(is_last=True)


def _is_notebook() -> bool:
    """Whether output goes to a notebook page (Jupyter), rather than to IPython in a terminal."""
    module = sys.modules.get("IPython")
    shell = module.get_ipython() if module is not None else None
    return shell is not None and type(shell).__name__ == "ZMQInteractiveShell"


def display_for(way: bool | str) -> Display:
    """The best display that is possible here for the requested way."""
    out = sys.stderr
    if way != "lines":
        if _is_notebook():
            return Notebook()
        if out.isatty() and os.environ.get("TERM", "dumb") != "dumb":
            has_rich = importlib.util.find_spec("rich") is not None
            return Live(out) if way == "live" and has_rich else Bar(out)
    return Lines(out)
