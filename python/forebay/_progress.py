"""The figures of a running loop, as a display shows them.

Everything is drawn on the trainer's thread: at its steps, and while it waits in the feeder.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from ._displays import Display, Shown

if TYPE_CHECKING:
    from .feeder import Feeder

_PATIENCE_S = 0.5  # a longer wait for a batch is shown

clock = time.monotonic


class Mark(NamedTuple):
    """The figures at one moment."""

    summary: dict[str, Any]
    profile: dict[str, Any]

    @classmethod
    def of(cls, feeder: Feeder) -> Mark:
        return cls(feeder.summary(), feeder.profile())


class View:
    """Shows the figures of a loop on a display. Used only by the trainer's thread; holds no reference to a feeder."""

    def __init__(self, display: Display, title: str, logger: logging.Logger, begin: Mark) -> None:
        self._display, self._title, self._logger = display, title, logger
        self._begin = self._epoch_begin = begin
        self._epoch = self._batches = self._done = 0
        self._depth = 0.0
        self._shown = self._since(begin, begin)
        self._due = clock() + display.every_s
        self._asked: float | None = None
        self._is_open = True
        # Hides the bar while a log line is written, which would otherwise be appended to it.
        logger.addFilter(self._hide)

    def _hide(self, _: logging.LogRecord) -> bool:
        with contextlib.suppress(OSError, ValueError):
            self._display.hide()
        return True

    def begin_epoch(self, epoch: int, batches: int, mark: Mark) -> None:
        self._epoch, self._batches, self._done = epoch, batches, 0
        self._epoch_begin = mark

    def end_epoch(self, now: Mark) -> None:
        self._asked = None
        if now.summary["steps"] > self._epoch_begin.summary["steps"]:
            self._draw(self._display.end_epoch, self._since(self._epoch_begin, now))
        self._begin = now

    def asked(self) -> None:
        """The trainer asks for a batch."""
        self._asked = clock()

    def served(self, number: int, mark: Callable[[], Mark]) -> None:
        """The trainer got the batch with this number in the epoch."""
        self._asked = None
        self._done = max(self._done, number + 1)
        now_s = clock()
        if now_s < self._due or not self._is_open:
            return
        self._due = now_s + self._display.every_s
        before, self._begin = self._begin, mark()
        self._shown = self._since(before, self._begin)
        self._draw(self._display.show, self._shown)

    def tick(self) -> None:
        """Called repeatedly while the trainer waits."""
        now_s = clock()
        if self._asked is None or now_s < max(self._due, self._asked + _PATIENCE_S):
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
        """Draws. If that fails, because the terminal is gone or standard error is closed, only the view ends."""
        try:
            if self._is_open:
                draw(shown)
        except (OSError, ValueError):
            self.close()

    def _since(self, before: Mark, now: Mark) -> Shown:
        """The figures of an interval, as differences of those since the start."""

        def grown(key: str) -> float:
            return float(now.summary[key] - before.summary[key])

        def images(of: Mark) -> float:
            return float(of.summary["images_per_s"] * of.summary["wall_s"])

        steps, wall = grown("steps"), grown("wall_s")
        window = now.profile["window_s"] - before.profile["window_s"]
        if window > 0:  # the window ends with the last batch made
            ring = [mark.profile["queues"]["ring"]["mean"] * mark.profile["window_s"] for mark in (before, now)]
            self._depth = max(0.0, (ring[1] - ring[0]) / window)
        return Shown(
            title=self._title,
            epoch=self._epoch,
            share=min(1.0, self._done / self._batches) if self._batches else None,
            steps=now.summary["steps"],
            depth=self._depth,
            capacity=int(now.profile["queue_capacity"]),
            fresh=grown("fresh") / steps if steps else 0.0,
            images_per_s=max(0.0, (images(now) - images(before)) / wall) if wall > 0 else 0.0,
            stall=min(1.0, max(0.0, grown("stall_s") / wall)) if wall > 0 else 0.0,
            bound=now.profile["bound"],
            sentence=now.profile["sentence"],
        )


class Waiting:
    """Called by the feeder while it waits."""

    view: View | None = None

    def __call__(self) -> None:
        if self.view is not None:
            self.view.tick()

    def end(self) -> None:
        if self.view is not None:
            self.view.close()
