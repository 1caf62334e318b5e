"""Signals, Ctrl-C most of all."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import COUNT, Made, png, run_program


def start_waiting(folder: Path, body: str) -> subprocess.Popen[str]:
    """A program that prints a line and then waits in the library for what never comes."""
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys, forebay\nfrom conftest import SMALL\nprint('begins', flush=True)\n" + body,
            str(folder),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])},
    )
    assert process.stdout is not None and process.stdout.readline() == "begins\n"
    return process


@pytest.mark.parametrize(
    "where", ["forebay.Feeder(storage_latency_ms=1e8, **o)", "list(forebay.Feeder(storage_latency_ms=300, **o))"]
)
@pytest.mark.parametrize("after", [0.05, 0.8])
def test_control_c_is_heard_in_every_wait(folder: Path, where: str, after: float) -> None:
    process = start_waiting(folder, f"o = {{'dataset': sys.argv[1], **SMALL}}\n{where}")
    time.sleep(after)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode != 0 and "KeyboardInterrupt" in errors, errors


@pytest.mark.parametrize("name", ["a.tar", "{0..7}.tar", "list.csv"])
def test_control_c_is_heard_while_a_store_is_silent(tmp_path: Path, name: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        (tmp_path / "list.csv").write_text(f"{url}a.png,0\n{url}b.png,1\n")
        path = tmp_path / name if name == "list.csv" else url + name
        process = start_waiting(tmp_path, f"forebay.Feeder(dataset={str(path)!r}, batch_size=1)")
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=9)
    assert process.returncode != 0 and "KeyboardInterrupt" in errors, errors


def test_a_wait_that_was_interrupted_is_made_again(make: Any) -> None:
    class Interrupted(Exception):
        pass

    def interrupt(*_: object) -> None:
        raise Interrupted

    seed = random.randrange(1 << 30)
    print("seed", seed)
    chance = random.Random(seed)
    feeder = make(epochs=2, storage_latency_ms=4, max_leases=2)
    before = signal.signal(signal.SIGALRM, interrupt)
    seen: list[int] = []
    interruptions = lost = 0
    try:
        while True:
            try:
                signal.setitimer(signal.ITIMER_REAL, chance.uniform(1e-4, 1e-2))
                batch = feeder.next()
                signal.setitimer(signal.ITIMER_REAL, 0)
            except Interrupted:
                interruptions += 1
                # Python may raise when next() has returned and nobody has its batch yet.
                lost += feeder.steps - lost - len(seen) // 4
                continue
            if batch is None:
                break
            assert batch.step == len(seen) // 4 + lost
            seen.extend(int(i) for i in batch.ids)
            batch.release()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    print(interruptions, "interruptions", lost, "lost")
    assert interruptions > lost and len(seen) + 4 * lost == 2 * COUNT
    assert all(seen.count(number) <= 2 for number in range(COUNT))


def test_a_handler_may_ask_for_a_stop(make: Any) -> None:
    feeder = make(epochs=1000, storage_latency_ms=20)
    before = signal.signal(signal.SIGALRM, lambda *_: feeder.request_stop())
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        for _ in feeder:
            pass
    finally:
        signal.signal(signal.SIGALRM, before)
    assert feeder.was_stopped


def test_a_signal_that_is_heard_while_the_library_logs_is_raised(tmp_path: Path) -> None:
    body = """
import logging, os, signal, threading
class Interrupting(logging.Handler):
    def emit(self, record):
        if threading.current_thread() is threading.main_thread():
            os.kill(os.getpid(), signal.SIGINT)
            for _ in range(1000): pass
logging.getLogger("forebay").addHandler(Interrupting())
try:
    forebay.Feeder(dataset=sys.argv[1], **SMALL)  # warns that all are of one class
except KeyboardInterrupt:
    print("heard")
"""
    (tmp_path / "only").mkdir()
    for number in range(4):
        (tmp_path / "only" / f"{number}.png").write_bytes(png(number))
    text = run_program("import sys, forebay\nfrom conftest import SMALL\n" + body, str(tmp_path))
    assert text == "heard\n"


def test_signals_at_any_moment_are_heard_once(folder: Path, tmp_path: Path) -> None:
    body = """
import logging, random, signal, time
logging.basicConfig(level=1, stream=open(sys.argv[2], "w"))
random.seed(5)
rounds, wrong, began = 0, [], time.monotonic()
while rounds < 200 and time.monotonic() < began + 12:
    rounds += 1
    heard, where = 0, "make"
    feeder = batch = None
    def handler(*_):
        global fired
        fired += 1
        raise KeyboardInterrupt
    fired = 0
    signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-5, 6e-3))
        feeder = forebay.Feeder(**{**SMALL, "dataset": sys.argv[1], "trace": sys.argv[3], "epochs": 2})
        where = "run"
        for batch in feeder: pass
        where = "state"
        feeder.state_dict()
        where = "close"
        feeder.close()
        where = "end"
        time.sleep(0.02)
    except KeyboardInterrupt:
        heard += 1
    signal.setitimer(signal.ITIMER_REAL, 0)
    if (heard, fired) != (1, 1): wrong.append((where, heard, fired))
print(rounds, wrong)
"""
    head = "import sys, forebay\nfrom conftest import SMALL\n"
    text = run_program(head + body, str(folder), str(tmp_path / "log"), str(tmp_path / "t"))
    rounds, wrong = text.split(" ", 1)
    assert int(rounds) >= 10 and wrong == "[]\n", text


def test_control_c_at_exit_leaves_no_feeder_open(folder: Path) -> None:
    body = """
import atexit, os, signal, threading, time
from forebay.feeder import _open
closed = []
class Slow(forebay.Feeder):
    def close(self):
        super().close()
        closed.append(1)
        if len(closed) == 1: raise KeyboardInterrupt
class Data(forebay.Dataset):
    def __len__(self): return 40
    def __getitem__(self, i):
        if i > 30: time.sleep(0.2)
        return png(i)
feeders = [Slow(**{**SMALL, "dataset": Data()}) for _ in range(3)]
for feeder in feeders: feeder.next()
atexit.unregister(forebay.feeder._close_all)
try:
    forebay.feeder._close_all()
except KeyboardInterrupt:
    print("heard", len(closed))
"""
    assert run_program("import sys, forebay\nfrom conftest import SMALL, png\n" + body, str(folder)) == "heard 3\n"


def test_control_c_is_heard_while_close_waits_for_a_read(make: Any) -> None:
    """And close() may be called again."""

    may_go_on, is_waiting, has_returned = threading.Event(), threading.Event(), threading.Event()

    def read(index: int) -> bytes:
        if index >= 8:
            is_waiting.set()
            may_go_on.wait(60)
            has_returned.set()
        return png(5 * index)

    feeder = make(dataset=Made(COUNT, read), dataset_shuffle=False, hedge="off")
    feeder.next().release()
    assert is_waiting.wait(60)
    try:
        for _ in range(2):
            threading.Timer(0.1, lambda: signal.raise_signal(signal.SIGINT)).start()
            with pytest.raises(KeyboardInterrupt):
                feeder.close()
        assert feeder.next() is None and not has_returned.is_set()
    finally:
        may_go_on.set()
    feeder.close()
    assert feeder.summary()["bad_samples"] == 0
