"""Forks, threads and the end of the interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import forebay
import pytest
from conftest import COUNT, run_program

HEAD = """
import gc, sys, forebay
from conftest import SMALL
feeder = forebay.Feeder(dataset=sys.argv[1], **SMALL)
"""


@pytest.mark.parametrize(
    "rest",
    [
        "batch = feeder.next()",
        "batch = feeder.next(); view = batch.images; del feeder; gc.collect(); print(view.sum()); del batch",
        "view = feeder.next().images; feeder.close()",
        "epoch = next(feeder.epochs()); batch = next(epoch); del feeder, batch; next(epoch)",
        "feeder.me = feeder; feeder.batch = feeder.next(); del feeder",
        "import builtins; builtins.kept = [feeder, feeder.next(), iter(feeder)]",
        "sys.kept = feeder.next().tensor()\nfor batch in feeder: sys.exit(0)",
        "import threading; threading.Thread(target=lambda: list(feeder), daemon=True).start()",
        "import atexit; atexit.register(lambda: print(feeder.steps))",
        "import logging; logging.basicConfig(level=0, stream=sys.stderr); feeder.next()",
        "def f():\n  yield from feeder\ng = f(); next(g)",
        "import os; feeder.next(); os._exit(0)",
        "import threading\nlocal = threading.local(); local.kept = [feeder, feeder.next()]",
        "class Late:\n  def __del__(self):\n    try: feeder.next()\n    except forebay.Error: pass\nsys.late = Late()",
        "epochs = feeder.epochs(progress=True); sys.kept = [epochs, next(epochs)]; next(sys.kept[1])",
        "import os\nif os.fork(): assert os.wait()[1] == 0",
        "import os\nbatch = feeder.next(); view = batch.images\nif os.fork(): assert os.wait()[1] == 0",
    ],
)
def test_the_interpreter_ends_in_any_order(folder: Path, rest: str) -> None:
    run_program(HEAD + rest, str(folder))


OWN = """
import gc, sys, threading, forebay
from conftest import SMALL, png
class Data(forebay.Dataset):
    def __len__(self): return 400
    def __getitem__(self, i): return png(i % 250)
class Always(forebay.Policy):
    def decide(self, signals): return "fresh"
def blank(pixels, rng): return pixels
def make():
    return forebay.Feeder(**{**SMALL, "dataset": Data(), "policy": Always(), "operations": [blank], "epochs": 9})
"""


@pytest.mark.parametrize(
    "rest",
    [
        "feeder = make(); feeder.next()",
        "sys.kept = [make(), make()]; sys.kept.append(sys.kept[0].next().images)",
        "feeder = make(); threading.Thread(target=lambda: list(feeder), daemon=True).start()",
        "for batch in make(): sys.exit(0)",
        "Data.feeder = make(); Data.feeder.next()",
    ],
)
def test_the_interpreter_ends_beside_code_of_python(rest: str) -> None:
    run_program(OWN + rest)


@pytest.mark.parametrize(
    "rest", ["", "del feeder", "feeder.close()", "sys.graph = (images * torch.ones(1, requires_grad=True)).sum()"]
)
def test_tensors_outlive_everything(folder: Path, rest: str) -> None:
    pytest.importorskip("torch")
    body = "import torch\nimages = feeder.next().torch('image')\nsys.kept = feeder.next().torch()\n"
    tail = "\nprint(tuple(sys.kept[0].shape), int(sys.kept[0].sum()) >= 0)"
    assert run_program(HEAD + body + rest + tail, str(folder)) == "(4, 3, 8, 8) True\n"


@pytest.mark.parametrize("rest", ["", "sys.kept = [feeder, feeder.next()]", "feeder.close()"])
def test_a_feeder_is_made_while_the_interpreter_ends(folder: Path, rest: str) -> None:
    head = f"""
import atexit, sys
def late():  # registered before those of forebay, so it runs after them
    feeder = forebay.Feeder(dataset=sys.argv[1], **SMALL)
    feeder.next()
    {rest or "pass"}
    print("late")
atexit.register(late)
import forebay
from conftest import SMALL
"""
    assert run_program(head, str(folder)) == "late\n"


def test_a_fork_is_refused_and_leaves_the_parent_alone(make: Any) -> None:
    feeder = make()
    batch = feeder.next()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        text = "no error"
        try:
            feeder.next()
        except forebay.Error as error:
            text = str(error)
        try:
            batch.release()
            feeder.close()
        except forebay.Error:
            text += "; refused again"
        del feeder
        os.write(writing, text.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    assert os.waitpid(child, 0)[1] == 0
    assert "fork" in text and "spawn" in text and text.endswith("refused again")
    assert sum(1 for _ in feeder) == COUNT // 4 - 1


def test_a_second_thread_is_refused(make: Any) -> None:
    feeder = make(storage_latency_ms=400)
    caught: list[BaseException] = []
    batches: list[Any] = []

    def other() -> None:
        try:
            while feeder.next() is not None:
                batches.append(1)
        except forebay.Error as error:
            caught.append(error)

    thread = threading.Thread(target=other)
    thread.start()
    deadline = time.monotonic() + 60
    while not caught and thread.is_alive() and time.monotonic() < deadline:
        try:
            feeder.summary()
        except forebay.Error as error:
            caught.append(error)
    feeder.request_stop()
    thread.join(60)
    assert "in use" in str(caught[0]) and not thread.is_alive()


def test_others_of_python_run_while_a_batch_is_waited_for(make: Any) -> None:
    feeder = make(storage_latency_ms=300)
    beats = 0
    ended = threading.Event()

    def beat() -> None:
        nonlocal beats
        while not ended.is_set():
            beats += 1
            time.sleep(0.001)

    thread = threading.Thread(target=beat)
    thread.start()
    before = beats
    for batch in feeder:
        if batch.step == 2:
            break
    ended.set()
    thread.join()
    assert beats > before + 5


def test_the_command(folder: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "forebay", "--version"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout.strip() == f"forebay {forebay.__version__}"
    done = subprocess.run([sys.executable, "-m", "forebay", "nonsense"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "nonsense" in done.stderr


LOG = "import logging; logging.basicConfig(level=1, stream=sys.stdout)\n"


@pytest.mark.parametrize(
    "way",
    [
        "for batch in forebay.Feeder(**o): raise ValueError('mine')",
        "[wrong(batch) for batch in forebay.Feeder(**o)]",
        "Wrong(**o)",
    ],
)
def test_an_exception_that_destroys_a_feeder_arrives(folder: Path, tmp_path: Path, way: str) -> None:
    body = f"""
def wrong(_): raise ValueError('mine')
class Wrong(forebay.Feeder):
    def __init__(self, **options):
        super().__init__(**options)
        wrong(self)
o = {{**SMALL, 'dataset': sys.argv[1], 'trace': sys.argv[2], 'epochs': 50}}
for _ in range(3):
    try:
        {way}
    except ValueError as error:
        print('caught', error)
"""
    head = "import sys, forebay\nfrom conftest import SMALL\n" + LOG
    text = run_program(head + body, str(folder), str(tmp_path / "t"))
    assert text.count("caught mine") == 3, text
