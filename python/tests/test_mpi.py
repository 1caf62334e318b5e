"""Several ranks, through mpi4py."""

from __future__ import annotations

import ast
import json
import shutil
from pathlib import Path
from typing import Any

import forebay
import pytest
from conftest import COUNT, SMALL, mpirun, run_program

pytest.importorskip("mpi4py")
if shutil.which("mpirun") is None:
    pytest.skip("there is no mpirun", allow_module_level=True)

HEAD = """
import json, sys, forebay
from mpi4py import MPI
from conftest import SMALL
world = MPI.COMM_WORLD
def say(what):
    everything = world.gather(what)
    if world.rank == 0: print(everything, flush=True)
"""


def ranks(count: int, body: str, *arguments: str) -> Any:
    """What rank 0 printed last, read as a value."""
    return ast.literal_eval(run_program(HEAD + body, *arguments, command=mpirun(count)).strip().splitlines()[-1])


@pytest.mark.parametrize("count", [1, 2, 4])
def test_each_epoch_serves_every_sample_once_over_all_ranks(folder: Path, count: int) -> None:
    body = """
feeder = forebay.Feeder(dataset=sys.argv[1], comm=world, **{**SMALL, "epochs": 2, "batch_size": 2})
seen, steps = [], 0
for epoch in feeder.epochs():
    seen.append([])
    for batch in epoch:
        steps += 1
        if batch.is_fresh: seen[-1].extend(int(i) for i in batch.ids)
feeder.close()
say((seen, steps))
"""
    all_ranks = ranks(count, body, str(folder))
    assert len({steps for _, steps in all_ranks}) == 1
    for epoch in range(2):
        assert sorted(i for seen, _ in all_ranks for i in seen[epoch]) == list(range(COUNT))


@pytest.mark.parametrize("mode", ["local", "lockstep"])
def test_both_modes(folder: Path, mode: str) -> None:
    body = """
feeder = forebay.Feeder(dataset=sys.argv[1], comm=world, **{**SMALL, "epochs": 3, "batch_size": 2, "mode": sys.argv[2],
                        "policy": "interval", "interval": 2})
fresh = [int(i) for batch in feeder if batch.is_fresh for i in batch.ids]
feeder.close()
say(fresh)
"""
    assert sorted(i for seen in ranks(2, body, str(folder), mode) for i in seen) == sorted(3 * list(range(COUNT)))


def test_a_state_resumes_on_another_number_of_ranks(folder: Path, tmp_path: Path) -> None:
    body = """
feeder = forebay.Feeder(dataset=sys.argv[1], comm=world, **{**SMALL, "batch_size": 2})
seen = []
for batch in feeder:
    if batch.is_fresh: seen.extend(int(i) for i in batch.ids)
    if batch.step == 3: break
state = feeder.state_dict()
assert len(set(world.allgather(json.dumps(state)))) == 1
if world.rank == 0: json.dump(state, open(sys.argv[2], "w"))
feeder.close()
say(seen)
"""
    file = tmp_path / "state.json"
    seen = [i for rank in ranks(2, body, str(folder), str(file)) for i in rank]
    with forebay.Feeder(dataset=folder, **{**SMALL, "batch_size": 2}) as feeder:
        feeder.load_state_dict(json.loads(file.read_text()))
        rest = [int(i) for batch in feeder if batch.is_fresh for i in batch.ids]
    assert sorted(seen + rest) == list(range(COUNT)) and rest


def test_an_error_of_one_rank_is_an_error_of_all(folder: Path) -> None:
    body = """
texts = []
for options in ({"batch_size": 0 if world.rank else 2}, {"batch_size": 2, "seed": world.rank}, {"dataset": "nowhere"}):
    try:
        forebay.Feeder(**{"dataset": sys.argv[1], "comm": world, **SMALL, **options})
        texts.append("nothing")
    except forebay.Error as error:
        texts.append(f"{type(error).__name__}: {error}")
say(texts)
"""
    one, two = ranks(2, body, str(folder))
    assert "rank 1" in one[0] and "batch_size" in one[0] and "batch_size" in two[0]
    assert "seed" in one[1] and "seed" in two[1]
    assert "nowhere" in one[2] and "nowhere" in two[2]


def test_a_rank_that_leaves_is_named(folder: Path) -> None:
    body = """
feeder = forebay.Feeder(dataset=sys.argv[1], comm=world, **{**SMALL, "epochs": 1000})
text = ""
try:
    for batch in feeder:
        if world.rank == 1 and batch.step == 5:
            raise ValueError("enough")
except ValueError:
    pass
except forebay.Error as error:
    text = str(error)
feeder.close()
say(text)
"""
    texts = ranks(2, body, str(folder))
    assert "rank 1 has left" in texts[0] and texts[1] == ""


def test_an_exception_in_a_wait_ends_the_run_on_all_ranks(folder: Path) -> None:
    body = """
import os, signal
feeder = forebay.Feeder(dataset=sys.argv[1], comm=world, **{**SMALL, "epochs": 1000, "storage_latency_ms": 3})
text = ""
if world.rank == 1:
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
try:
    for batch in feeder: pass
except KeyboardInterrupt:
    text = "interrupted"
except forebay.Error as error:
    text = str(error)
feeder.close()
say(text)
"""
    texts = ranks(2, body, str(folder))
    assert texts[1] == "interrupted" and ("KeyboardInterrupt" in texts[0] or "rank 1 has left" in texts[0])


def test_a_feeder_without_its_ranks_is_refused(folder: Path) -> None:
    body = """
try:
    forebay.Feeder(dataset=sys.argv[1], **SMALL)
    text = ""
except forebay.ConfigError as error:
    text = str(error)
with forebay.Feeder(dataset=sys.argv[1], comm=forebay.SOLO, **SMALL) as feeder:
    count = sum(1 for _ in feeder)
say((text, count))
"""
    for text, count in ranks(2, body, str(folder)):
        assert "comm=MPI.COMM_WORLD" in text and count == COUNT // 4


def test_many_feeders_leave_nothing_of_mpi_behind(folder: Path) -> None:
    body = """
def free_contexts():
    made = [world.Dup() for _ in range(4)]
    for comm in made: comm.Free()
for _ in range(5):
    with forebay.Feeder(dataset=sys.argv[1], comm=world, **SMALL) as feeder:
        feeder.next().release()
free_contexts()
from forebay import mpi
say(len(mpi._abandoned))
"""
    assert ranks(2, body, str(folder)) == [0, 0]


def test_ranks_end_without_closing(folder: Path) -> None:
    body = """
feeder = forebay.Feeder(dataset=sys.argv[1], comm=world, **SMALL)
batch = feeder.next()
say(batch.size)
"""
    assert ranks(2, body, str(folder)) == [4, 4]


def test_a_problem_without_text_reaches_all_ranks(folder: Path) -> None:
    body = """
class Wrong(forebay.Dataset):
    def __len__(self):
        if world.rank == 1: raise NotImplementedError
        return 40
texts = []
for options in ({"dataset": Wrong()}, {"resume": 7 if world.rank else None}, {"logger": 7 if world.rank else None}):
    try:
        forebay.Feeder(**{"dataset": sys.argv[1], "comm": world, **SMALL, **options})
        texts.append("nothing")
    except Exception as error:
        texts.append(f"{type(error).__name__}: {error}")
say(texts)
"""
    one, two = ranks(2, body, str(folder))
    assert one[0] == "ConfigError: rank 1: NotImplementedError" and two[0] == "NotImplementedError: "
    assert "rank 1: TypeError" in one[1] and two[1].startswith("TypeError")
    assert "rank 1: TypeError" in one[2] and two[2].startswith("TypeError")


@pytest.mark.parametrize("way", ["del feeder", "feeder.close()"])
def test_control_c_while_ranks_part(folder: Path, way: str) -> None:
    body = f"""
import os, signal, threading
feeder = forebay.Feeder(dataset=sys.argv[1], comm=world, **{{**SMALL, "epochs": 50}})
feeder.next().release()
parted = world.Dup()
text = ""
if world.rank == 0:
    threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    try:
        {way}
    except KeyboardInterrupt:
        text = "interrupted"
    parted.Barrier()
else:
    parted.Barrier()
    feeder.close()
say(text)
"""
    assert ranks(2, body, str(folder)) == ["" if way.startswith("del") else "interrupted", ""]


def test_an_exception_that_destroys_a_feeder_of_several_ranks_arrives(folder: Path) -> None:
    body = """
text = ""
try:
    for batch in forebay.Feeder(dataset=sys.argv[1], comm=world, **{**SMALL, "epochs": 50}):
        raise ValueError("mine")
except ValueError as error:
    text = str(error)
say(text)
"""
    assert ranks(2, body, str(folder)) == ["mine", "mine"]
