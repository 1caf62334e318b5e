"""Policies and operations of a program's own, and policies in virtual time."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

import forebay
import numpy as np
import pytest
from conftest import COUNT, ids_of, pairs, run_program


class EveryOther(forebay.Policy):
    def __init__(self) -> None:
        self.seen: list[forebay.Signals] = []
        self.done: list[str] = []

    def decide(self, signals: forebay.Signals) -> Any:
        self.seen.append(signals)
        return "fresh" if signals.step % 2 == 0 else "reuse"

    def served(self, decision: Any, signals: forebay.Signals) -> None:
        self.done.append(decision)


def test_a_policy_decides_every_step(make: Any) -> None:
    policy = EveryOther()
    feeder = make(policy=policy)
    fresh = [batch.is_fresh for batch in feeder]
    assert fresh == [step % 2 == 0 for step in range(len(fresh))] and sum(fresh) == COUNT // 4
    assert policy.done == ["fresh" if is_fresh else "reuse" for is_fresh in fresh]
    assert {signals.capacity for signals in policy.seen} == {4} and policy.seen[-1].produced == COUNT // 4
    assert sorted(policy.seen, key=lambda s: s.now_s) == policy.seen
    assert 'name = "python.EveryOther"' in feeder.to_toml()


def test_a_class_without_a_base_and_rules_of_every_policy(make: Any) -> None:
    class Reuse:
        def decide(self, signals: forebay.Signals) -> str:
            return "reuse"

    for policy in (Reuse, Reuse(), {"name": Reuse(), "max_uses": 3}):
        options = policy if isinstance(policy, dict) else {"name": policy, "max_uses": 3}
        uses = [batch.use_index for batch in make(policy=options, pool=1, pick="current")]
        assert uses == [0, 1, 2] * (COUNT // 4 - 1) + [0]


def test_a_policy_may_wait(make: Any) -> None:
    class Patient(forebay.Policy):
        waits = 0

        def decide(self, signals: forebay.Signals) -> Any:
            if signals.depth:
                return "fresh"
            self.waits += 1
            assert signals.waited_s >= 0
            return "wait"

    policy = Patient()
    assert sorted(ids_of(make(policy=policy, storage_latency_ms=2))) == list(range(COUNT)) and policy.waits


def test_what_a_policy_raises_arrives_as_it_is(make: Any) -> None:
    class Wrong(forebay.Policy):
        def decide(self, signals: forebay.Signals) -> Any:
            return {}["no such key"]

    with pytest.raises(KeyError, match="no such key") as caught:
        ids_of(make(policy=Wrong()))
    assert any(frame.name == "decide" for frame in traceback.extract_tb(caught.value.__traceback__))


@pytest.mark.parametrize("method", ["decide", "served"])
@pytest.mark.parametrize("step", [0, 3])
def test_what_a_policy_raises_ends_the_run_in_that_step(make: Any, method: str, step: int) -> None:
    class Wrong:
        def at(self, here: str, signals: forebay.Signals) -> str:
            if here == method and signals.step >= step:
                raise LookupError(here)
            return "fresh"

        def decide(self, signals: forebay.Signals) -> str:
            return self.at("decide", signals)

        def served(self, decision: str, signals: forebay.Signals) -> None:
            self.at("served", signals)

    feeder, steps = make(policy=Wrong()), []
    with pytest.raises(LookupError, match=method):
        for batch in feeder:
            steps.append(batch.is_fresh)
    asked = 1 if method == "decide" and step == 0 else step  # the first step asks nobody
    assert steps == asked * [True] and feeder.steps == asked
    rest = make()
    rest.load_state_dict(feeder.state_dict())
    assert len(ids_of(rest)) == COUNT - 4 * asked


@pytest.mark.parametrize("answer", ["frsh", None, 1])
def test_other_answers_are_refused(make: Any, answer: Any) -> None:
    class Odd:
        def decide(self, signals: forebay.Signals) -> Any:
            return answer

    with pytest.raises(forebay.Error, match=f'{answer!r}; it returns "fresh", "reuse" or "wait"'):
        ids_of(make(policy=Odd()))


def test_what_is_no_policy_is_refused(make: Any) -> None:
    with pytest.raises(ValueError, match=r"an object with decide\(signals\)"):
        make(policy=object())


def images_of(feeder: forebay.Feeder) -> dict[int, Any]:
    return {int(i): image.copy() for batch in feeder for i, image in pairs(batch.ids, batch.images)}


def test_operations_on_pixels_in_place_and_not(make: Any) -> None:
    def invert(pixels: Any) -> Any:
        assert pixels.shape == (6, 8, 3) and pixels.flags.c_contiguous
        return 255 - pixels

    class Left:
        """Red in the left column, in place."""

        def __call__(self, pixels: Any) -> None:
            pixels[:, 0] = (255, 0, 0)

    images = images_of(make(operations=[invert, Left()], size=(6, 8)))
    assert sorted(images) == list(range(COUNT))
    for number, image in images.items():
        assert (image[:, :, 1:] == 255 - 5 * number).all()
        assert (image[0, :, 0] == 255).all() and (image[1:, :, 0] == 0).all()


def test_a_generator_is_the_same_on_any_thread(make: Any) -> None:
    def noise(pixels: Any, rng: np.random.Generator) -> Any:
        return rng.integers(0, 256, pixels.shape, np.uint8)

    one, many = (images_of(make(operations=[noise], workers_decode=n)) for n in (1, 4))
    assert all((one[number] == many[number]).all() for number in range(COUNT))
    assert len({image.tobytes() for image in one.values()}) == COUNT


def test_operations_beside_those_of_the_library_and_in_evaluation(make: Any) -> None:
    def black(pixels: Any) -> None:
        pixels[:] = 0

    def white(pixels: Any) -> None:
        pixels[:] = 255

    white.in_evaluation = True  # type: ignore[attr-defined]
    images = images_of(make(operations=["erase", black], erase={"probability": 1.0}, mean=[9, 9, 9]))
    assert all((image == 0).all() for image in images.values())
    images = images_of(make(transform={"operations": [white, black]}, eval=True))
    assert all((image == 255).all() for image in images.values())


def test_what_an_operation_raises_is_the_cause(make: Any) -> None:
    def broken(pixels: Any) -> None:
        raise LookupError("no such table")

    with pytest.raises(forebay.Error, match=r"python\.broken.*no such table") as caught:
        ids_of(make(operations=[broken]))
    assert isinstance(caught.value.__cause__, LookupError)
    assert any(frame.name == "broken" for frame in traceback.extract_tb(caught.value.__cause__.__traceback__))


def test_other_arrays_and_names_are_refused(make: Any, folder: Path) -> None:
    def floats(pixels: Any) -> Any:
        return pixels / 2

    def other() -> Any:
        def floats(pixels: Any) -> None: ...

        return floats

    with pytest.raises(forebay.Error, match=r"operation floats returned an array of float64 \[8, 8, 3\]"):
        ids_of(make(operations=[floats]))
    with pytest.raises(ValueError, match="two operations are called 'python.floats'"):
        make(operations=[floats, other()])
    with pytest.raises(ValueError, match="operations is a list"):
        make(operations=floats)


def test_a_table_of_policies() -> None:
    table = forebay.simulate(policies=["block", "greedy"], ratios=[1.5, 3], source="constant", steps=500, capacity=4)
    assert len(table) == 4 and {row["policy"] for row in table} == {"block", "greedy"}
    assert {row["R"] for row in table} == {1.5, 3}
    assert {row["R"] for row in forebay.simulate(policies="greedy", ratios=np.array([1, 2]), steps=100)} == {1, 2}
    assert len({row["policy"] for row in forebay.simulate(steps=100, ratios=2)}) > 3


def test_simulations_do_not_depend_on_the_locale() -> None:
    program = "import forebay; print(len(forebay.simulate(policies='greedy', steps=100, dataset='\\u00fcmlaut')))"
    ascii_only = ("env", "LC_ALL=C", "PYTHONUTF8=0", "PYTHONCOERCECLOCALE=0")
    assert run_program(program, command=ascii_only) == "1\n"


def test_what_cannot_be_simulated_is_a_value_error(tmp_path: Path) -> None:
    for wrong in ({"policies": "gredy"}, {"source": "none"}, {"ratios": -1}, {"trace": tmp_path / "nowhere"}):
        with pytest.raises(ValueError, match="policy.name|source|ratio|nowhere"):
            forebay.simulate(**wrong)


def test_what_would_have_suited_a_run(make: Any, tmp_path: Path) -> None:
    run = tmp_path / "run"
    with make(telemetry_dir=run, policy={"name": "interval", "interval": 2}, epochs=4) as feeder:
        for _ in feeder:
            pass
    found = forebay.recommend(run, policy="block", capacity=4)
    assert set(found.options) == {"queue", "policy"} and found.options["queue"]["capacity"] >= 1
    assert [row["of"] for row in found.table][:3] == ["recorded", "configured", "recommended"]
    assert all(0 <= row["fresh_percent"] <= 100 for row in found.table) and "[queue]" in str(found)
    make(**{"policy": found.options["policy"], "capacity": found.options["queue"]["capacity"]}).close()
