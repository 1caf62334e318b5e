"""What a running loop shows: a bar or a live view in a terminal, a table in a notebook, else a line now and then.

Everything is drawn on the trainer's thread: at its steps, and while it waits in the feeder.
"""

from __future__ import annotations

import abc
import contextlib
import importlib
import importlib.util
import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from . import _core, _html
from .errors import ConfigError

if TYPE_CHECKING:
    from .feeder import Feeder

_REDRAW_S = 0.2
_LINE_S = 10.0  # between two lines where nothing can be redrawn
_PATIENCE_S = 0.5  # a wait for a batch that is longer is said

clock = time.monotonic


def require_way(way: bool | str) -> None:
    if way not in (False, True, "bar", "live", "lines"):
        raise ConfigError(f'progress={way!r}: it is True, False, "bar", "live" or "lines"')


class Shown(NamedTuple):
    """The figures of a stretch of the run: since the last drawing, or of an epoch."""

    title: str
    epoch: int
    share: float | None  # of the epoch
    steps: int
    depth: float  # mean of the batches that were ready
    capacity: int
    fresh: float  # share of the steps
    images_per_s: float
    stall: float  # share of the time
    bound: str
    sentence: str
    waiting: str = ""  # said while next() waits

    def line(self) -> str:
        share = "" if self.share is None else f"  {100 * self.share:.0f} %"
        return (
            f"epoch {self.epoch}{share}  step {self.steps}  {self.images_per_s:.0f} images/s  "
            f"fresh {100 * self.fresh:.0f} %  stall {100 * self.stall:.1f} %  queue {self.depth:.1f}/{self.capacity}  "
            f"{self.waiting or self.bound}"
        )


class _Mark(NamedTuple):
    """Where the figures stood."""

    summary: dict[str, Any]
    profile: dict[str, Any]


class Meter:
    """Figures of a stretch are differences of those since the start."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._depth = 0.0

    @staticmethod
    def mark(feeder: Feeder) -> _Mark:
        return _Mark(feeder.summary(), feeder.profile())

    def since(self, before: _Mark, now: _Mark, epoch: int, share: float | None) -> Shown:
        def grown(key: str) -> float:
            return float(now.summary[key] - before.summary[key])

        def images(of: _Mark) -> float:
            return float(of.summary["images_per_s"] * of.summary["wall_s"])

        steps, wall = grown("steps"), grown("wall_s")
        window = now.profile["window_s"] - before.profile["window_s"]
        if window > 0:  # it ends with the last batch that is made
            ring = [mark.profile["queues"]["ring"]["mean"] * mark.profile["window_s"] for mark in (before, now)]
            self._depth = max(0.0, (ring[1] - ring[0]) / window)
        return Shown(
            title=self._title,
            epoch=epoch,
            share=share,
            steps=now.summary["steps"],
            depth=self._depth,
            capacity=int(now.profile["queue_capacity"]),
            fresh=grown("fresh") / steps if steps else 0.0,
            images_per_s=max(0.0, (images(now) - images(before)) / wall) if wall > 0 else 0.0,
            stall=min(1.0, max(0.0, grown("stall_s") / wall)) if wall > 0 else 0.0,
            bound=now.profile["bound"],
            sentence=now.profile["sentence"],
        )


class Display(abc.ABC):
    """Where figures go."""

    every_s = _REDRAW_S

    @abc.abstractmethod
    def show(self, shown: Shown) -> None:
        """In the place of what was shown before."""

    def end_epoch(self, shown: Shown) -> None:
        """The figures of a whole epoch."""
        self.show(shown)

    def hide(self) -> None:  # noqa: B027 - where lines of others do no harm
        """Somebody else is about to write a line. Any thread."""

    def close(self) -> None:  # noqa: B027 - where nothing is held
        """Nothing more will be shown."""


class Lines(Display):
    """One after the other, for files and pipes."""

    every_s = _LINE_S

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def show(self, shown: Shown) -> None:
        print(f"forebay: {shown.line()}", file=self._out, flush=True)


class Bar(Display):
    """One line that is drawn again and again; one remains of each epoch."""

    _CELLS = 24

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._lock = threading.RLock()  # a handler of signals may log while a line is drawn
        self._is_drawn = False
        full, empty = "█░"
        try:
            (full + empty).encode(out.encoding or "ascii")
        except (UnicodeError, LookupError):
            full, empty = "#-"
        self._full, self._empty = full, empty

    def show(self, shown: Shown) -> None:
        cells = round(self._CELLS * (shown.share or 0.0))
        drawn = "" if shown.share is None else self._full * cells + self._empty * (self._CELLS - cells) + " "
        try:
            width = os.get_terminal_size(self._out.fileno()).columns - 1
        except (OSError, ValueError):
            width = -1
        width = width if width > 0 else 79
        with self._lock:
            self._out.write("\r" + (drawn + shown.line())[:width] + "\033[K")
            self._out.flush()
            self._is_drawn = True

    def end_epoch(self, shown: Shown) -> None:
        with self._lock:
            self.show(shown)
            self.close()

    def hide(self) -> None:
        with self._lock:
            if self._is_drawn:
                self._out.write("\r\033[K")
                self._out.flush()
                self._is_drawn = False

    def close(self) -> None:
        with self._lock:
            if self._is_drawn:
                self._out.write("\n")
                self._out.flush()
                self._is_drawn = False


class Notebook(Display):
    """A table below the cell, drawn again in its place."""

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
    """A panel of rich below what the program prints."""

    def __init__(self, out: TextIO) -> None:
        from rich.console import Console
        from rich.live import Live as RichLive

        self._live = RichLive(console=Console(file=out), auto_refresh=False)
        self._live.start()

    def show(self, shown: Shown) -> None:
        self._live.update(self._drawn(shown), refresh=True)

    def close(self) -> None:
        self._live.stop()

    @staticmethod
    def _drawn(shown: Shown) -> Any:
        from rich.panel import Panel
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        def row(name: str, share: float | None, text: str) -> tuple[Any, Any, Any]:
            return Text(name), "" if share is None else ProgressBar(1.0, share, width=24), Text(text)

        grid = Table.grid(padding=(0, 2))
        for line in (
            row(f"epoch {shown.epoch}", shown.share, "" if shown.share is None else f"{100 * shown.share:.0f} %"),
            row("queue", shown.depth / max(1, shown.capacity), f"{shown.depth:.1f} of {shown.capacity} batches"),
            row("fresh", shown.fresh, f"{100 * shown.fresh:.1f} % of the steps"),
            row("stall", shown.stall, f"{100 * shown.stall:.1f} % of the time"),
        ):
            grid.add_row(*line)
        both = Table.grid()
        both.add_row(grid)
        both.add_row(Text(f"step {shown.steps:,}, {shown.images_per_s:,.0f} images/s"))
        both.add_row(Text(shown.waiting or shown.sentence))
        return Panel(both, title=Text(shown.title), title_align="left", expand=False)


def _is_notebook() -> bool:
    """Where output is a page: Jupyter, and not IPython in a terminal."""
    module = sys.modules.get("IPython")
    shell = module.get_ipython() if module is not None else None
    return shell is not None and type(shell).__name__ == "ZMQInteractiveShell"


def display_for(way: bool | str) -> Display:
    """The best that is possible here for what was asked for."""
    out = sys.stderr
    if way != "lines":
        if _is_notebook():
            return Notebook()
        if out.isatty() and os.environ.get("TERM", "dumb") != "dumb":
            has_rich = importlib.util.find_spec("rich") is not None
            return Live(out) if way == "live" and has_rich else Bar(out)
    return Lines(out)


class View:
    """The figures of a loop on a display. Used by the trainer's thread alone; refers to no feeder."""

    def __init__(self, display: Display, meter: Meter, logger: logging.Logger, begin: _Mark) -> None:
        self._display = display
        self._meter = meter
        self._logger = logger
        self._begin = self._epoch_begin = begin
        self._epoch = self._batches = self._done = 0
        self._shown = self._since(begin, begin)
        self._due = clock() + display.every_s
        self._asked: float | None = None
        self._is_open = True
        # Lines of the log do not end up behind the bar.
        logger.addFilter(self._hide)

    def _hide(self, _: logging.LogRecord) -> bool:
        with contextlib.suppress(OSError, ValueError):
            self._display.hide()
        return True

    def begin_epoch(self, epoch: int, batches: int, mark: _Mark) -> None:
        self._epoch, self._batches, self._done = epoch, batches, 0
        self._epoch_begin = mark

    def end_epoch(self, now: _Mark) -> None:
        self._asked = None
        if now.summary["steps"] > self._epoch_begin.summary["steps"]:
            self._draw(self._display.end_epoch, self._since(self._epoch_begin, now))
        self._begin = now

    def asked(self) -> None:
        """The trainer asks for a batch."""
        self._asked = clock()

    def served(self, number: int, mark: Callable[[], _Mark]) -> None:
        """It got the batch of this number in the epoch."""
        self._asked = None
        self._done = max(self._done, number + 1)
        now_s = clock()
        if now_s < self._due or not self._is_open:
            return
        self._due = now_s + self._display.every_s
        now = mark()
        self._shown = self._since(self._begin, now)
        self._begin = now
        self._draw(self._display.show, self._shown)

    def tick(self) -> None:
        """Called again and again while the trainer waits."""
        now_s = clock()
        if now_s < self._due or self._asked is None or not self._is_open:
            return
        if now_s < self._asked + _PATIENCE_S:
            return
        self._due = now_s + self._display.every_s
        waiting = f"waits for a batch: {now_s - self._asked:.0f} s"
        self._draw(self._display.show, self._shown._replace(waiting=waiting))

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._logger.removeFilter(self._hide)
            with contextlib.suppress(OSError, ValueError):
                self._display.close()

    def _draw(self, draw: Callable[[Shown], None], shown: Shown) -> None:
        """What cannot be shown, because the terminal is gone or standard error is closed, ends the view alone."""
        try:
            if self._is_open:
                draw(shown)
        except (OSError, ValueError):
            self.close()

    def _since(self, before: _Mark, now: _Mark) -> Shown:
        share = min(1.0, self._done / self._batches) if self._batches else None
        return self._meter.since(before, now, self._epoch, share)


class Waiting:
    """Called by the feeder while it waits."""

    view: View | None = None

    def __call__(self) -> None:
        if self.view is not None:
            self.view.tick()


class Watched:
    """The batches of an epoch, with a view of the loop over them."""

    def __init__(self, feeder: Feeder, batches: _core.Batches, view: View) -> None:
        self._batches = batches
        self._view = view
        self._mark: Callable[[], _Mark] = lambda: Meter.mark(feeder)
        view.begin_epoch(feeder.epochs_completed, feeder.batches_per_epoch, self._mark())

    def __iter__(self) -> Watched:
        return self

    def __next__(self) -> _core.Batch:
        view = self._view
        view.asked()
        try:
            batch = next(self._batches)
        except StopIteration:
            view.end_epoch(self._mark())
            raise
        view.served(batch.number, self._mark)
        return batch
