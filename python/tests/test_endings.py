"""Programs whose reads never return: whatever ends the feeder, the program goes on, and ends."""

from __future__ import annotations

import subprocess
import sys

import pytest
from conftest import SMALL, mpirun, run_program

PROGRAM = """
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
    text = PROGRAM.format(imports="", hangs="True", small=SMALL, watchdog=watchdog, more="", body=ENDINGS[ending])
    ended = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0 and "goes on after" in ended.stdout, ended
    assert ("caught WatchdogError" in ended.stdout) == (ending == "watchdog")
    assert "left behind" in ended.stderr and "sample " in ended.stderr, ended.stderr


@pytest.mark.parametrize("ranks", [2, 4])
def test_ranks_over_mpi4py_end_alike(ranks: int) -> None:
    pytest.importorskip("mpi4py")
    text = PROGRAM.format(
        imports="from mpi4py import MPI",
        hangs="MPI.COMM_WORLD.rank == 1",
        small=SMALL,
        watchdog=2,
        more=", comm=MPI.COMM_WORLD",
        body=ENDINGS["watchdog"],
    )
    output = run_program(text, command=mpirun(ranks), timeout=90)
    assert output.count("goes on after") == ranks and output.count("no fresh batch for") >= ranks, output
