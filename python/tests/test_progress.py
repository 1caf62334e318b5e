"""What a running loop shows: in a terminal, in a notebook, in a file."""

from __future__ import annotations

import fcntl
import importlib.util
import io
import itertools
import logging
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import threading
import types
from pathlib import Path
from typing import Any

import forebay
import pytest
from conftest import COUNT, SMALL, Made, png
from forebay import _progress
from forebay._displays import Display, Shown
from forebay._progress import Mark, View

LOOP = """
import logging, sys, forebay
from conftest import SMALL
feeder = forebay.Feeder(**{**SMALL, "dataset": sys.argv[1], "epochs": 2, "storage_latency_ms": 15})
for epoch in feeder.epochs(progress=sys.argv[2]):
    for batch in epoch:
        if batch.step == 8:
            logging.getLogger("forebay").warning("a line of the log")
"""


def on_terminal(text: str, *arguments: str, columns: int = 130, stdout: int = subprocess.DEVNULL) -> str:
    """What a program writes to a terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    process = subprocess.Popen(
        [sys.executable, "-c", text, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=theirs,
        env={**os.environ, "PYTHONPATH": path, "TERM": "xterm", "PYTHONIOENCODING": "utf-8"},
    )
    os.close(theirs)
    killer = threading.Timer(120, process.kill)
    killer.start()
    said = b""
    try:
        while part := os.read(ours, 65536):
            said += part
    except OSError:  # the end of a terminal
        pass
    finally:
        os.close(ours)
        killer.cancel()
    assert process.wait(60) == 0, said.decode()
    return said.decode()


def test_a_bar_in_a_terminal(folder: Path) -> None:
    said = on_terminal(LOOP, str(folder), "bar")
    lines = said.split("\r\n")
    drawings = [drawing for line in lines for drawing in line.split("\r")]
    assert len(drawings) > 4, said  # it moved
    ends = [line.split("\r")[-1] for line in lines if "images/s" in line.split("\r")[-1]]
    assert len(ends) == 2, said
    for number, end in enumerate(ends):
        assert f"epoch {number}  100 %  step {10 * (number + 1)}" in end and "fresh 100 %" in end and "queue" in end
        assert end.startswith("█" * 24)
    assert any(line.split("\r")[-1] == "\033[Ka line of the log" for line in lines), said


def test_a_bar_fits_the_terminal(folder: Path) -> None:
    said = on_terminal(LOOP, str(folder), "bar", columns=40)
    drawings = [part.removesuffix("\033[K") for line in said.split("\r\n") for part in line.split("\r")]
    assert all(len(part) < 40 for part in drawings if "epoch" in part), said


def test_a_live_view_in_a_terminal(folder: Path) -> None:
    pytest.importorskip("rich")
    said = on_terminal(LOOP, str(folder), "live")
    for text in ("epoch 1", "queue", "of 4 batches", "fresh", "stall", "images/s", "a line of the log"):
        assert text in said, said
    assert said.rstrip().endswith("\033[?25h"), "the cursor is back"


def screen_of(said: str) -> list[str]:
    """What a terminal shows in the end: of the movements, up, down, to the left and erasing are understood."""
    lines, row, column = [""], 0, 0
    for part in re.findall(r"\033\[[0-9;?]*[A-Za-z]|[^\033]", said):
        if part == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif part == "\r":
            column = 0
        elif part.startswith("\033["):
            if part[-1] == "A":
                row = max(0, row - int(part[2:-1] or 1))
            elif part[-1] == "K":
                lines[row] = "" if part[2:-1] == "2" else lines[row][:column]
        else:
            lines[row] = lines[row][:column].ljust(column) + part + lines[row][column + 1 :]
            column += 1
    return [line.rstrip() for line in lines]


def test_a_live_view_leaves_files_and_the_log_alone(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("rich")
    loop = "import logging\nlogging.basicConfig()\n" + LOOP + "        print('step', batch.step)\n"
    with open(tmp_path / "printed", "w") as file:
        said = on_terminal(loop, str(folder), "live", stdout=file.fileno())
    assert (tmp_path / "printed").read_text().split("\n") == [f"step {number}" for number in range(20)] + [""]
    screen = screen_of(said)
    assert screen[0] == "WARNING:forebay:a line of the log" and screen[1].startswith("╭─ forebay"), screen
    assert screen[-2].startswith("╰") and screen[-1] == "" and sum("╭" in line for line in screen) == 1, screen


def test_without_rich_a_live_view_is_a_bar(folder: Path) -> None:
    hidden = "import sys, importlib.abc\nsys.modules['rich'] = None\nimport importlib.util as u\nf = u.find_spec\n"
    hidden += "u.find_spec = lambda name, *a: None if name == 'rich' else f(name, *a)\n"
    assert "epoch 1  100 %" in on_terminal(hidden + LOOP, str(folder), "live")


def test_lines_where_there_is_no_terminal(make: Any, capsys: pytest.CaptureFixture[str]) -> None:
    for way in (True, "live", "lines"):
        for epoch in make(epochs=2).epochs(progress=way):
            for _ in epoch:
                pass
        said = capsys.readouterr().err.splitlines()
        assert [line.split("  ")[0] for line in said] == ["forebay: epoch 0", "forebay: epoch 1"]
        assert "100 %  step 20" in said[1] and "\033" not in said[1] and "\r" not in said[1]


def test_a_loop_that_is_left_shows_no_more(make: Any, capsys: pytest.CaptureFixture[str]) -> None:
    feeder = make(epochs=3)
    epochs = feeder.epochs(progress=True)
    next(next(epochs))
    assert feeder._logger.filters
    epochs.close()
    assert not feeder._logger.filters
    assert sum(1 for _ in feeder) == COUNT // 4 - 1
    assert capsys.readouterr().err == ""


def test_closing_the_feeder_ends_its_view(make: Any) -> None:
    feeder = make()
    epochs = feeder.epochs(progress=True)
    next(next(epochs))
    feeder.close()
    assert not feeder._logger.filters


def test_a_close_that_is_refused_leaves_the_view(make: Any) -> None:
    class Closing:
        def decide(self, signals: forebay.Signals) -> str:
            with pytest.raises(forebay.Error, match="the feeder is in use"):
                feeder.close()
            return "fresh"

    feeder = make(policy=Closing())
    steps = 0
    for epoch in feeder.epochs(progress=True):
        for _ in epoch:
            steps += 1
            assert feeder._logger.filters
    assert steps == COUNT // 4 and not feeder._logger.filters


def test_a_terminal_that_is_gone_ends_no_run(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone(io.StringIO):
        def isatty(self) -> bool:
            return True

        def write(self, _: str) -> int:
            raise BrokenPipeError

    for stream in (Gone(), None):
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.setenv("TERM", "xterm")
        assert sum(1 for epoch in make().epochs(progress=True) for _ in epoch) == COUNT // 4


def test_other_words_are_refused_at_once(make: Any) -> None:
    with pytest.raises(forebay.ConfigError, match="progress='bars'.*\"bar\""):
        make().epochs(progress="bars")


def test_a_table_in_a_notebook(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []

    class ZMQInteractiveShell:
        pass

    class Handle:
        def update(self, html: str) -> None:
            drawn.append(html)

    def display(html: str, display_id: bool) -> Handle:
        assert display_id
        drawn.append(html)
        return Handle()

    fake, page = types.ModuleType("IPython"), types.ModuleType("IPython.display")
    vars(fake)["get_ipython"] = ZMQInteractiveShell
    vars(page).update(HTML=str, display=display)
    monkeypatch.setitem(sys.modules, "IPython", fake)
    monkeypatch.setitem(sys.modules, "IPython.display", page)
    for epoch in make(epochs=2).epochs(progress=True):
        for _ in epoch:
            pass
    assert len(drawn) >= 2 and all("<caption" in html and "step" in html for html in drawn)


def test_the_view_is_drawn_while_the_loop_waits(make: Any) -> None:
    drawn, asked = threading.Event(), itertools.count(1)

    def read(i: int) -> bytes:
        assert next(asked) <= 24 or drawn.wait(60)
        return png(i)

    class Drawing:
        def tick(self) -> None:
            drawn.set()

        def close(self) -> None:
            pass

    feeder = make(dataset=Made(COUNT, read), shuffle=False)
    feeder._waiting.view = Drawing()
    assert sorted(int(i) for batch in feeder for i in batch.ids) == list(range(COUNT))
    assert drawn.is_set()


def mark(steps: int, fresh: int, wall_s: float, stall_s: float, images_per_s: float, mean: float) -> Mark:
    summary = {"steps": steps, "fresh": fresh, "wall_s": wall_s, "stall_s": stall_s, "images_per_s": images_per_s}
    window_s = wall_s
    profile = {"queues": {"ring": {"mean": mean}}, "window_s": window_s, "queue_capacity": 16.0}
    return Mark(summary, {**profile, "bound": "balanced", "sentence": "balanced: nothing"})


class Kept(Display):
    """Keeps what it is to show."""

    def __init__(self) -> None:
        self.said: list[Shown] = []

    def show(self, shown: Shown) -> None:
        self.said.append(shown)


def test_figures_are_those_of_the_stretch() -> None:
    begin = mark(0, 0, 0.0, 0.0, 0.0, 0.0)
    view = View(Kept(), "t", logging.getLogger("forebay.test"), begin)
    half = mark(100, 100, 10.0, 0.0, 400.0, 8.0)
    end = mark(300, 150, 20.0, 5.0, 300.0, 5.0)
    first, second = view._since(begin, half), view._since(half, end)
    assert (first.fresh, first.stall, first.images_per_s, first.depth) == (1.0, 0.0, 400.0, 8.0)
    assert (second.fresh, second.stall, second.depth) == (0.25, 0.5, 2.0)
    assert second.images_per_s == pytest.approx((300 * 20 - 400 * 10) / 10)
    nothing = view._since(end, end)
    assert (nothing.fresh, nothing.stall, nothing.images_per_s, nothing.depth) == (0.0, 0.0, 0.0, 2.0)
    assert "%" not in nothing.line().split("step")[0]


def test_a_long_wait_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(_progress, "clock", lambda: now[0])
    display = Kept()
    said = display.said
    here = mark(3, 3, 1.0, 0.0, 10.0, 1.0)
    view = View(display, "t", logging.getLogger("forebay.test"), here)
    view.begin_epoch(7, 10, here)
    view.tick()
    view.asked()
    for seconds in (0.3, 0.1, 3.0, 0.1):
        now[0] += seconds
        view.tick()
    assert [shown.waiting for shown in said] == ["waits for a batch: 3 s"]
    view.served(4, lambda: here)
    assert said[-1].waiting == "" or len(said) == 1
    now[0] += 1
    view.served(5, lambda: here)
    assert said[-1].waiting == "" and said[-1].share == 0.6 and said[-1].epoch == 7
    view.asked()
    view.end_epoch(here)
    now[0] += 10
    view.tick()
    assert len(said) == 2  # between epochs nothing is waited for
    view.close()
    now[0] += 10
    view.served(6, lambda: here)
    view.tick()
    assert len(said) == 2


def test_the_package_needs_neither_rich_nor_ipython() -> None:
    assert "rich" not in SMALL
    code = "import sys, forebay; print([name for name in ('rich', 'IPython', 'tqdm') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]", done
    assert importlib.util.find_spec("forebay") is not None
