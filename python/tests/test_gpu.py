"""Batches on a GPU as other libraries take them: on the fake CUDA runtime, which does what streams do in any order that
CUDA allows. Programs of their own, because their forebay is linked to it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import forebay
import pytest
from conftest import SMALL, run_program

MODULE = os.environ.get("FOREBAY_FAKE_GPU", "")
pytestmark = pytest.mark.skipif(not MODULE, reason="FOREBAY_FAKE_GPU names no module on the fake CUDA runtime")

# Few places, which are soon filled again.
GPU = {**SMALL, "device": "cuda", "capacity": 1, "pool": 1, "max_leases": 1, "epochs": 3}
BEGIN = f"""
import gc, sys
sys.path.insert(0, sys.argv[1])
import forebay, fake_gpu
from fake_gpu import Array, Cupy, Jax, Look, Stream, Torch, machine, synchronize

SIDE = 8

def feeder_of(**options):
    return forebay.Feeder(**{{"dataset": sys.argv[2], **{GPU!r}, **options}})

def wrong(looks):
    '''Kernels that found other pixels than those of their batch.'''
    return sum(look.found() != b"".join(bytes([5 * int(i)]) * (3 * SIDE * SIDE) for i in ids) for look, ids in looks)

def on_machines(work, seeds=range(1, 11), gpus=1):
    '''work(seed) on a machine of its own, which nothing outlives.'''
    found = 0
    for seed in seeds:
        with machine(gpus, seed):
            found += work(seed) or 0
            fake_gpu.current = None
            gc.collect()
    return found

def wrong_of(feeder, take, stream, seeds=range(1, 11)):
    '''take(batch) is an array, which is read on the stream and dropped.'''
    def work(seed):
        looks = []
        mine = stream()
        number = getattr(mine, "ptr", mine)
        with feeder() as batches:
            for batch in batches:
                looks.append((take(batch, mine).look(number), batch.ids))
        synchronize(number)
        assert len(looks) == 30
        return wrong(looks)
    return on_machines(work, seeds)
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Any:
    """Runs a program with such a forebay."""
    root = tmp_path_factory.mktemp("package")
    package = root / "forebay"
    package.mkdir()
    for file in Path(forebay.__file__).parent.iterdir():
        if not file.name.startswith(("_core", "__pycache__")):
            (package / file.name).symlink_to(file)
    (package / "_core.abi3.so").symlink_to(Path(MODULE).resolve())
    return lambda text: run_program(BEGIN + text, str(root), str(folder))


@pytest.mark.parametrize("when", ["enqueue", "dequeue"])
def test_a_consumer_on_any_stream_finds_the_batch_and_keeps_its_place(run: Any, when: str) -> None:
    run(f"""
def feeder():
    return feeder_of(when={when!r}, canvas=(SIDE, SIDE))
def use(mine):
    fake_gpu.current = mine
Torch(), Cupy()
def by_torch(batch, mine):
    use(mine)
    return batch.torch("image", copy=False)
def by_cupy(batch, mine):
    use(mine)
    return batch.cupy("image", copy=False)
for take in (
    by_torch,
    by_cupy,
    lambda batch, mine: fake_gpu.take_as_torch(batch),
    lambda batch, mine: fake_gpu.take_as_tensorflow(batch.tensor("image")),
):
    assert wrong_of(feeder, take, lambda: None) == 0
for take in (by_torch, by_cupy, lambda batch, mine: (use(mine), fake_gpu.take_as_cupy(batch))[1]):
    assert wrong_of(feeder, take, Stream) == 0
# A stream that asks for no order has none: this GPU would show it.
assert wrong_of(feeder, lambda batch, mine: Array(batch.__dlpack__(stream=-1)), Stream, range(1, 21)) > 0
""")


def test_streams_that_forebay_is_told_of_end_the_batch(run: Any) -> None:
    run("""
def unordered(batch, mine):
    return Array(batch.__dlpack__(stream=-1))
def feeder():
    return feeder_of()
assert wrong_of(feeder, unordered, Stream, range(1, 21)) > 0
def told_once(seed):
    side = Stream()
    looks = []
    with feeder_of(also_streams=[side]) as batches:
        for batch in batches:
            looks.append((unordered(batch, side).look(side.ptr), batch.ids))
    synchronize(side.ptr)
    assert len(looks) == 30
    return wrong(looks)
def told_for_each(seed):
    side = Stream()
    looks = []
    with feeder_of() as feeder:
        for batch in feeder:
            array, ids = unordered(batch, side), batch.ids
            batch.release(stream=side)
            looks.append((array.look(side.ptr), ids))
            del array
    synchronize(side.ptr)
    assert len(looks) == 30
    return wrong(looks)
assert on_machines(told_once) == 0
assert on_machines(told_for_each) == 0
""")


def test_a_stream_lives_until_its_batch_has_ended(run: Any) -> None:
    run("""
def work(seed):
    looks = []
    with feeder_of() as feeder:
        while feeder.next_epoch():
            while True:
                stream = Stream()
                batch = feeder.next(stream=stream)
                number = stream.ptr
                del stream
                if batch is None:
                    break
                array, ids = Array(batch.__dlpack__(stream=number)), batch.ids
                batch.release()
                looks.append((array.look(number), ids))
                del array
    assert len(looks) == 30
    for look, _ in looks:
        while not look.is_ready():
            pass
    return wrong(looks)
assert on_machines(work) == 0
""")


def test_the_default_stream_can_be_asked_for(run: Any) -> None:
    run("""
def work(seed):
    mine = Stream()
    with feeder_of(stream=mine, max_leases=2) as feeder:
        assert feeder.next_epoch()
        assert feeder.next().tensor().__cuda_array_interface__["stream"] == mine.ptr
        assert feeder.next(stream=0).tensor().__cuda_array_interface__["stream"] == 1
on_machines(work, [1])
""")


def test_jax_gets_copies_and_each_batch_stays_until_its_copy_is_made(run: Any) -> None:
    run("""
def work(seed):
    jax = Jax()
    looks = []
    with feeder_of(max_leases=1 + seed % 3) as batches:
        for batch in batches:
            looks.append((batch.jax("image"), batch.ids))
    synchronize(jax.computes.ptr)
    jax.end()
    assert len(looks) == 30
    return wrong(looks)
assert on_machines(work) == 0
""")


def test_a_jax_without_gpus_is_told_what_to_do(run: Any) -> None:
    run("""
def said(**of):
    jax = Jax(**of)
    with feeder_of() as feeder:
        assert feeder.next_epoch()
        try:
            feeder.next().jax()
        except RuntimeError as error:
            jax.end()
            return error
    raise AssertionError("JAX took it")
def work(seed):
    error = said(has_gpus=False)
    assert isinstance(error, forebay.Error)
    assert "Unknown backend cuda" in str(error) and 'device="host"' in str(error)
    error = said(is_full=True)
    assert not isinstance(error, forebay.Error) and str(error) == "RESOURCE_EXHAUSTED"
on_machines(work, [1])
""")


def test_what_cannot_be_right_is_refused(run: Any) -> None:
    run("""
def refused(work):
    try:
        work()
    except BufferError as error:
        return str(error)
    raise AssertionError("it was not refused")
def work(seed):
    jax = Jax()
    with feeder_of() as feeder:
        assert feeder.next_epoch()
        batch = feeder.next()
        assert "take the batch as batch.jax()" in refused(lambda: sys.modules["jax.dlpack"].from_dlpack(batch))
        assert "another one on each thread" in refused(lambda: batch.__dlpack__(stream=2))
        assert "stream -7 is none" in refused(lambda: batch.__dlpack__(stream=-7))
    jax.end()
on_machines(work, [1])
""")


@pytest.mark.parametrize("when", ["enqueue", "dequeue"])
def test_labels_are_where_the_images_are(run: Any, when: str) -> None:
    run(f"""
Torch(), Cupy()
def work(seed):
    mine = fake_gpu.current = Stream()
    looks, labels = [], []
    with feeder_of(when={when!r}, canvas=(SIDE, SIDE)) as batches:
        for batch in batches:
            images, targets = (batch.torch if seed % 2 else batch.cupy)(copy=False)
            looks.append((images.look(mine.ptr), batch.ids))
            labels.append((targets.look(mine.ptr), batch.labels))
            assert (batch.labels == (batch.ids >= 20)).all() and (batch.numpy("label") == batch.labels).all()
            del images, targets
    synchronize(mine.ptr)
    assert len(looks) == 30
    return wrong(looks) + sum(look.found() != right.tobytes() for look, right in labels)
assert on_machines(work) == 0
""")


def test_pytorchs_loader_takes_its_gpu_to_pin_memory(run: Any) -> None:
    pytest.importorskip("torch")
    run("""
import contextlib, torch, forebay.torch
torch.cuda.is_available = lambda: True
torch.cuda.current_device = lambda: 1
@contextlib.contextmanager
def current(gpu):
    fake_gpu.set_current(gpu)
    yield
forebay.torch._current = current
with machine(2, 1):
    loader = forebay.torch.DataLoader(sys.argv[2], 4, pin_memory=True, size=(SIDE, SIDE), capacity=1, pool=1)
    batch = next(iter(loader.feeder))
    assert batch.images.__dlpack_device__() == (2, 1)
    batch.release()
    loader.close()
    del batch, loader
    gc.collect()
""")
