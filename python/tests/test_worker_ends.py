"""How processes that read samples end, and programs whose reads never return."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import forebay
import pytest
from conftest import COUNT, SMALL, mpirun, run_program
from test_workers import Own, children, status


def is_running(process: int) -> bool:
    """It may be a zombie, if nobody waits for orphans on this machine."""
    return status(process)[:1] not in ([], ["Z"])


def wait_until(condition: Any) -> None:
    deadline = time.monotonic() + 60
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert condition()


class Holding(Own):
    """Samples that hang, from one on."""

    def __getitem__(self, index: int) -> Any:
        if index >= 8:
            time.sleep(3600)
        return super().__getitem__(index)


def test_closing_does_not_wait_for_a_process(make: Any) -> None:
    before = children()
    feeder = make(dataset=Holding(), processes=2, dataset_shuffle=False)
    feeder.next().release()
    feeder.close()
    assert children() == before


class Waiting(Own):
    """Samples that wait for a file, from one on."""

    def __init__(self, file: Path) -> None:
        super().__init__("bytes")
        self.file = file

    def __getitem__(self, index: int) -> Any:
        if index >= 8:
            wait_until(self.file.exists)
        return super().__getitem__(index)


def test_a_close_that_is_refused_changes_nothing(make: Any, tmp_path: Path) -> None:
    may_go_on = tmp_path / "go"
    feeder = make(dataset=Waiting(may_go_on), processes=1, shuffle=False, hedge="off", watchdog_s=300)
    seen: list[int] = []
    thread = threading.Thread(target=lambda: seen.extend(int(i) for batch in feeder for i in batch.ids))
    thread.start()
    wait_until(lambda: len(seen) == 8 and feeder._is_occupied)
    with pytest.raises(forebay.Error, match="in use"):
        feeder.close()
    may_go_on.touch()
    thread.join(60)
    assert seen == list(range(COUNT)) and feeder.summary()["bad_samples"] == 0


def test_control_c_in_close_leaves_no_process(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    before = children()
    feeder = make(dataset=Own(), processes=2)

    def interrupted(*_: object) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess.Popen, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        feeder.close()
    assert children() == before


PROGRAM = """
import os, sys, forebay
from conftest import SMALL
from test_worker_ends import Holding, Own, children
def start(kind=Own, **options):
    feeder = forebay.Feeder(dataset=kind(), processes=2, **{**SMALL, 'dataset_shuffle': False, **options})
    print(*children(), flush=True)
    return feeder
"""


def processes_of(output: str) -> list[int]:
    numbers = [int(number) for number in output.split()]
    assert len(numbers) == 2
    return numbers


@pytest.mark.parametrize(
    "rest",
    [
        "feeder = start(); feeder.next()",
        "feeder = start(Holding); feeder.next()",
        "feeder = start(); del feeder",
        "feeder = start(); feeder.me = feeder; del feeder",
        "feeder = start()\nfor batch in feeder: sys.exit(0)",
        "feeder = start(Holding); import threading\nthreading.Thread(target=lambda: list(feeder), daemon=True).start()",
    ],
)
def test_the_end_of_the_program_leaves_no_process(rest: str) -> None:
    for process in processes_of(run_program(PROGRAM + rest)):
        wait_until(lambda process=process: not is_running(process))


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("kind", ["Own", "Holding"])
def test_no_signal_leaves_a_process(how: signal.Signals, kind: str) -> None:
    body = f"list(start({kind}, epochs=10**9))"
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM + body],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])},
    )
    assert program.stdout is not None
    processes = processes_of(program.stdout.readline())
    program.send_signal(how)
    _, errors = program.communicate(timeout=60)
    assert program.returncode != 0 and (how != signal.SIGINT or errors.count("KeyboardInterrupt") == 1), errors
    for process in processes:
        wait_until(lambda process=process: not is_running(process))


HANGING = """
import sys, threading, time
import numpy as np
import forebay
{imports}

hung = threading.Event()

class Hangs(forebay.Dataset):
    def __len__(self):
        return 400

    def __getitem__(self, index):
        if index >= 8 and {hangs}:
            hung.set()
            threading.Event().wait()
        return np.full((8, 8), index % 256, np.uint8)

options = dict({small!r}, shuffle=False, watchdog_s={watchdog}, size=(8, 8), workers_io=2{more})
begin = time.monotonic()
try:
    feeder = forebay.Feeder(dataset=Hangs(), **options)
    {body}
except forebay.Error as error:
    print("caught", type(error).__name__, error)
print("goes on after", time.monotonic() - begin)
"""

ENDINGS = {
    "watchdog": "for batch in feeder: del batch",
    "del": "feeder.next(); hung.wait(30); del feeder",
    "close": "feeder.next(); hung.wait(30); feeder.close()",
    "stop": "feeder.next(); hung.wait(30); feeder.request_stop(); feeder.next(); feeder.close()",
    "steps": "feeder.next(); feeder.next(); hung.wait(30); feeder.close()",
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_read_that_never_returns_ends_nothing_else(ending: str) -> None:
    watchdog = 2 if ending == "watchdog" else 60
    text = HANGING.format(imports="", hangs="True", small=SMALL, watchdog=watchdog, more="", body=ENDINGS[ending])
    ended = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0 and "goes on after" in ended.stdout, ended
    assert ("caught WatchdogError" in ended.stdout) == (ending == "watchdog")
    assert "left behind" in ended.stderr and "sample " in ended.stderr, ended.stderr


@pytest.mark.parametrize("ranks", [2, 4])
def test_ranks_over_mpi4py_end_alike(ranks: int) -> None:
    pytest.importorskip("mpi4py")
    text = HANGING.format(
        imports="from mpi4py import MPI",
        hangs="MPI.COMM_WORLD.rank == 1",
        small=SMALL,
        watchdog=2,
        more=", comm=MPI.COMM_WORLD",
        body=ENDINGS["watchdog"],
    )
    output = run_program(text, command=mpirun(ranks), timeout=90)
    assert output.count("goes on after") == ranks and output.count("no fresh batch for") >= ranks, output
