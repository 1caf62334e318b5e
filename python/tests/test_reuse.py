"""Batches that somebody else makes, behind Forebay's queue."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from typing import Any

import forebay
import numpy as np
import pytest
from conftest import mpirun, run_program

OPTIONS: dict[str, Any] = {"policy": "block", "queue_capacity": 3}


class Numbers:
    """Batches of a number each; it is told when to give which."""

    def __init__(self, count: int, gates: dict[int, threading.Event] | None = None) -> None:
        self.count, self.gates, self.epochs = count, gates or {}, 0

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Any]:
        self.epochs += 1
        memory = np.zeros(2)
        for number in range(self.count):
            if number in self.gates:
                assert self.gates[number].wait(60)
            memory[:] = number  # the same memory for each batch
            yield memory, {"number": [number], "text": "a"}


@pytest.fixture
def reuse() -> Any:
    made = []

    def one(source: Any, **options: Any) -> forebay.Reuse:
        made.append(forebay.reuse(source, **{**OPTIONS, **options}))
        return made[-1]

    yield one
    for each in made:
        each.close()


def numbers(batches: Any) -> list[int]:
    return [int(memory[0]) for memory, _ in batches]


def test_epochs_of_a_source(reuse: Any) -> None:
    source = Numbers(7)
    batches = reuse(source)
    assert len(batches) == 7 and [numbers(batches) for _ in range(3)] == [list(range(7))] * 3 and source.epochs == 3
    memory, rest = next(iter(batches))
    assert rest == {"number": [0], "text": "a"} and numbers(batches) == list(range(1, 7))
    assert batches.summary()["steps"] == batches.summary()["fresh"] == 28 and 'policy "block"' in repr(batches)


def test_a_generator_is_one_epoch(reuse: Any) -> None:
    batches = reuse(iter(Numbers(3)), policy="adaptive")
    assert set(numbers(batches)) == {0, 1, 2} and list(batches) == []


def test_a_late_batch_is_not_waited_for(reuse: Any) -> None:
    gate = threading.Event()
    served = []
    batches = reuse(Numbers(5, {3: gate}), policy="greedy")
    for memory, _ in batches:
        served.append(int(memory[0]))
        assert not memory.flags.writeable
        if len(set(served)) == 3 and served.count(served[-1]) > 4:  # again and again
            gate.set()
    assert sorted(set(served)) == list(range(5))
    assert batches.summary()["steps"] == len(served) and batches.summary()["fresh"] == 5


def test_what_the_source_raises_is_raised_in_its_place(reuse: Any) -> None:
    class Failing(Numbers):
        def __iter__(self) -> Iterator[Any]:
            yield from Numbers(2)
            raise KeyError("third")

    loop = reuse(Failing(3))
    batches = iter(loop)
    assert [next(batches)[1]["number"] for _ in range(2)] == [[0], [1]]
    for step in (batches, iter(loop)):
        with pytest.raises(KeyError, match="third"):
            next(step)
    state = loop.state_dict()
    again = reuse(Numbers(3))
    again.load_state_dict(state)
    assert numbers(again) == [2]


def test_a_loop_that_could_not_begin_begins_later(reuse: Any) -> None:
    class Late(Numbers):
        def __iter__(self) -> Iterator[Any]:
            if self.count == 0:
                raise KeyError("later")
            return super().__iter__()

    source = Late(0)
    batches = reuse(source)
    for _ in range(2):
        with pytest.raises(KeyError, match="later"):
            list(batches)
    source.count = 3
    assert numbers(batches) == [0, 1, 2]
    with pytest.raises(forebay.ConfigError, match="policy"):
        list(wrong := reuse(Numbers(2), policy="x"))
    with pytest.raises(forebay.ConfigError, match="policy"):
        list(wrong)


def test_a_tensor_that_was_written_to_is_not_served_again(reuse: Any) -> None:
    torch = pytest.importorskip("torch")
    gate = threading.Event()

    def source() -> Iterator[Any]:
        yield torch.ones(3)
        gate.wait(60)
        yield torch.ones(3)

    batches = reuse(source(), policy="greedy")
    with pytest.raises(forebay.Error, match="was written to"):
        for tensor in batches:
            tensor.mul_(2)
    gate.set()
    gate.clear()
    copies = reuse(source(), policy="greedy", copy=True)
    for count, tensor in enumerate(copies):
        assert tensor.mul_(2).tolist() == [2, 2, 2]
        if count == 10:
            gate.set()


def test_a_state_continues_behind_what_was_served(reuse: Any) -> None:
    first = reuse(Numbers(6))
    for memory, _ in first:
        if memory[0] == 2:
            break
    state = first_state = first.state_dict()
    second = reuse(Numbers(6))
    second.load_state_dict(state)
    assert numbers(second) == [3, 4, 5] and numbers(second) == list(range(6))

    class Stateful(Numbers):
        at = 0

        def __iter__(self) -> Iterator[Any]:
            while self.at < self.count:
                self.at += 1
                yield np.array([self.at - 1]), None
            self.at = 0

        def state_dict(self) -> dict[str, int]:
            return {"at": self.at}

        def load_state_dict(self, state: dict[str, int]) -> None:
            self.at = state["at"]

    first = reuse(Stateful(6))
    steps = iter(first)
    assert [int(next(steps)[0][0]) for _ in range(2)] == [0, 1]
    state = first.state_dict()
    assert state["source"] == {"at": 2}
    second = reuse(Stateful(6))
    second.load_state_dict(state)
    assert numbers(second) == [2, 3, 4, 5]
    state = second.state_dict()
    third = reuse(Stateful(6))
    third.load_state_dict(state)
    assert numbers(third) == list(range(6))
    fewer = reuse(Numbers(1))
    fewer.load_state_dict(first_state)
    with pytest.raises(forebay.Error, match="ended after 1 of the 3 batches"):
        list(fewer)


def test_a_stop_leaves_the_epoch_where_it_is(reuse: Any) -> None:
    batches = reuse(Numbers(6))
    served = []
    for memory, _ in batches:
        served.append(int(memory[0]))
        if len(served) == 3:
            batches.feeder.request_stop()
    assert list(batches) == []
    state = batches.state_dict()
    again = reuse(Numbers(6))
    again.load_state_dict(state)
    assert served + numbers(again) == list(range(6)) and numbers(again) == list(range(6))


def test_a_state_between_epochs_has_the_generators_state(reuse: Any) -> None:
    torch = pytest.importorskip("torch")

    def loader() -> Any:
        generator = torch.Generator().manual_seed(1)
        return reuse(torch.utils.data.DataLoader(list(range(20)), 5, shuffle=True, generator=generator))

    first, second = loader(), loader()
    epochs = [[batch.tolist() for batch in first] for _ in range(2)]
    list(second)
    third = loader()
    third.load_state_dict(second.state_dict())
    assert [batch.tolist() for batch in third] == epochs[1] != epochs[0]


def test_a_state_before_the_first_batch_is_of_the_epoch_that_has_begun(reuse: Any) -> None:
    class Drawn(Numbers):
        drawn: Any = None
        loaded: Any = None

        def __iter__(self) -> Iterator[Any]:
            self.drawn, self.loaded = self.loaded or random.random(), None
            return iter([(np.array([1000 * self.drawn]), None)] * self.count)

        def state_dict(self) -> Any:
            return self.drawn

        def load_state_dict(self, state: Any) -> None:
            self.loaded = state

    first, second = reuse(Drawn(2)), reuse(Drawn(2))
    steps = iter(first)
    second.load_state_dict(first.state_dict())
    assert numbers(second) == numbers(steps)


def test_the_state_of_its_feeder_is_refused(reuse: Any, tmp_path: Any) -> None:
    batches = reuse(Numbers(2))
    list(batches)
    file = tmp_path / "state"
    for call in (batches.feeder.state_dict, lambda: batches.feeder.save(file), lambda: batches.feeder.restore(file)):
        with pytest.raises(forebay.Error, match="use state_dict"):
            call()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": (8, 8)}, "size: for images"),
        ({"batch_size": 3}, "batch_size: for images"),
        ({"dataset": {"batch_size": 3}}, "batch_size: for images"),
        ({"steps": 3}, "steps: for images or runs"),
        ({"resume": "x"}, r"load_state_dict\(\)"),
        ({"queue_size": 3}, "no option 'queue_size'"),
        ({"policy": "x"}, "x"),
    ],
)
def test_what_makes_no_sense_is_refused(reuse: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(forebay.ConfigError, match=message):
        list(reuse(Numbers(2), **options))


def test_ranks_end_an_epoch_together() -> None:
    pytest.importorskip("mpi4py")
    text = """
from mpi4py import MPI
import forebay, numpy
rank = MPI.COMM_WORLD.rank
class Source:
    def __iter__(self): return iter([numpy.full(2, i) for i in range(5 + 4 * rank)])
batches = forebay.reuse(Source(), policy="block", comm=MPI.COMM_WORLD)
steps = [[int(batch[0]) for batch in batches] for _ in range(3)]
batches.close()
everything = MPI.COMM_WORLD.gather(steps)
if rank == 0:
    for one, two in zip(*everything):
        assert len(one) == len(two) >= 9, (one, two)
        assert sorted(set(one)) == list(range(5)) and sorted(set(two)) == list(range(9)), (one, two)
    print("together")
"""
    assert "together" in run_program(text, command=mpirun(2))


def test_ranks_resume_and_fail_together() -> None:
    pytest.importorskip("mpi4py")
    text = """
from mpi4py import MPI
import forebay, numpy
comm = MPI.COMM_WORLD
rank = comm.rank
class Source:
    fails = None
    def __init__(self, has_state=False):
        self.at = 0
        if has_state: self.state_dict, self.load_state_dict = lambda: self.at, lambda at: setattr(self, "at", at)
    def __iter__(self):
        while self.at < 2 + 2 * rank:
            if self.at == self.fails: raise KeyError("lost")
            self.at += 1
            yield numpy.full(2, self.at - 1)
        self.at = 0
def loop(has_state, state=None):
    batches = forebay.reuse(Source(has_state), policy="block", comm=comm, watchdog_s=6)
    if state is not None: batches.load_state_dict(state)
    return batches
def served(steps): return sorted({int(batch[0]) for batch in steps})
mine = list(range(2 + 2 * rank))
for has_state in (False, True):
    for steps in range(1, 7):
        first = loop(has_state)
        before = served(batch for _, batch in zip(range(steps), first))
        state = first.state_dict()
        first.close()
        second = loop(has_state, state)
        after = served(second)
        again = served(second)
        second.close()
        assert comm.allgather(state["epoch"]) == [0, 0], state
        assert sorted({*before, *after}) == mine and set(before) & set(after) <= {before[-1]}, (steps, before, after)
        assert again == mine, (steps, again)
for of_whom, where in ((state, forebay.SOLO), (comm.bcast(state), comm)):  # another number of ranks; another rank
    batches = forebay.reuse(Source(True), policy="block", comm=where)
    batches.load_state_dict(of_whom)
    try:
        list(batches)
        raise SystemExit("accepted")
    except forebay.ConfigError as error:
        assert f"is of rank {rank if where is forebay.SOLO else 0} of 2 where" in str(error), error
first = loop(False)
served(first)
if rank == 1: first._source.fails = 2
try:
    served(first)
    raise SystemExit("goes on")
except KeyError as error:
    assert rank == 1 and error.args == ("lost",), error
except forebay.Error as error:
    assert rank == 0 and "rank 1: KeyError: 'lost'" in str(error), error
comm.barrier()  # none has closed its feeder
first.close()
print("together" if rank == 0 else "")
"""
    assert "together" in run_program(text, command=mpirun(2))


def test_a_state_of_an_epochs_end_goes_on_with_the_next(reuse: Any) -> None:
    first = reuse(Numbers(4))
    state = next(first.state_dict() for number, _ in enumerate(first) if number == 3)
    again = reuse(Numbers(4))
    again.load_state_dict(state)
    assert [numbers(again) for _ in range(3)] == [[], [0, 1, 2, 3], [0, 1, 2, 3]]
