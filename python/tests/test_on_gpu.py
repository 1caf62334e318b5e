"""Batches on a real GPU, as PyTorch, CuPy and JAX take them. test_gpu.py has the fake CUDA runtime instead."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import forebay
import pytest
from conftest import SMALL, require_ranks, run_command, torchrun

torch = pytest.importorskip("torch")


pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch sees no GPU")

# Few places, which are soon filled again, of batches that take a while to copy.
GPU = {**SMALL, "device": "cuda", "size": (224, 224), "batch_size": 8, "capacity": 1, "pool": 1, "epochs": 20}
BEHIND = 2_000_000  # clock cycles by which the GPU is behind whoever ends a batch


def late_errors(images: Any, greys: Any, labels: Any = None) -> Any:
    """How many elements are wrong, looked at on the current stream when the host has gone on."""
    torch.cuda._sleep(BEHIND)
    wrong = (images != greys.view(-1, 1, 1, 1)).sum()
    return wrong if labels is None else wrong + (labels != (greys >= 100)).sum()


def greys_of(batch: Any) -> Any:
    return torch.as_tensor(batch.ids.astype("int64") * 5).to("cuda", non_blocking=True)


@contextlib.contextmanager
def skipped_without_cuda() -> Iterator[None]:
    try:
        yield
    except forebay.ConfigError as error:
        if "no CUDA backend" in str(error):
            pytest.skip("this build has no CUDA backend")
        raise


@pytest.fixture(params=["enqueue", "dequeue"])
def feeder(request: Any, folder: Path) -> Iterator[Callable[..., Any]]:
    with contextlib.ExitStack() as made:

        def one(**options: Any) -> Any:
            options = {**GPU, "when": request.param, "canvas": (8, 8), **options}
            with skipped_without_cuda():
                return made.enter_context(forebay.Feeder(dataset=folder, **options))

        yield one


def test_the_readmes_loop(feeder: Any) -> None:
    wrong = torch.zeros((), dtype=torch.int64, device="cuda")
    steps = 0
    for batch in feeder():
        greys = greys_of(batch)
        images, labels = batch.torch()
        assert images.is_cuda and labels.is_cuda
        wrong += late_errors(images, greys, labels)
        del images, labels
        steps += 1
    assert steps == 100 and wrong.item() == 0


def test_reuses_and_leases_that_are_kept(feeder: Any) -> None:
    wrong = torch.zeros((), dtype=torch.int64, device="cuda")
    kept, reuses = [], 0
    policy = {"name": "interval", "interval": 3}
    for batch in feeder(policy=policy, max_leases=3, pool=2, epochs=60):
        reuses += not batch.is_fresh
        images, labels = batch.torch(copy=False)
        kept.append((images, labels, greys_of(batch)))
        del images, labels, batch
        if len(kept) == 2:
            images, labels, greys = kept.pop(0)
            wrong += late_errors(images, greys, labels)
            del images, labels
    assert wrong.item() == 0 and reuses > 0


def test_another_stream(feeder: Any) -> None:
    side = torch.cuda.Stream()
    wrong = torch.zeros((), dtype=torch.int64, device="cuda")
    torch.cuda.synchronize()
    for batch in feeder(max_leases=1):
        greys = greys_of(batch)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            images = torch.from_dlpack(batch)
            wrong += late_errors(images, greys)
            greys.record_stream(side)
        del images
    torch.cuda.synchronize()
    assert wrong.item() == 0


@pytest.mark.parametrize("told", ["once", "each"])
def test_a_stream_that_forebay_is_told_of(feeder: Any, told: str) -> None:
    side = torch.cuda.Stream()
    wrong = torch.zeros((), dtype=torch.int64, device="cuda")
    torch.cuda.synchronize()
    for batch in feeder(max_leases=1, **({"also_streams": [side]} if told == "once" else {})):
        greys = greys_of(batch)
        images = batch.torch("image", copy=False)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            wrong += late_errors(images, greys)
            greys.record_stream(side)
        del images
        if told == "each":
            batch.release(stream=side)
    torch.cuda.synchronize()
    assert wrong.item() == 0


def test_cupy(feeder: Any) -> None:
    cupy = pytest.importorskip("cupy")
    wrong = cupy.zeros((), dtype="int64")
    for batch in feeder():
        ids = cupy.asarray(batch.ids.astype("int64"))
        images, labels = batch.cupy(copy=False)
        torch.cuda._sleep(BEHIND)
        wrong += (images != (5 * ids).reshape(-1, 1, 1, 1)).sum() + (labels != (ids >= 20)).sum()
        del images, labels
    assert int(wrong) == 0


def test_jax(feeder: Any) -> None:
    jax = pytest.importorskip("jax")
    if not any(device.platform == "gpu" for device in jax.devices()):
        pytest.skip("JAX sees no GPU")
    wrong = 0
    for batch in feeder():
        greys = jax.numpy.asarray(5 * batch.ids.astype("int32"))
        with pytest.raises(BufferError, match="batch.jax"):
            jax.dlpack.from_dlpack(batch)
        images = batch.jax("image")
        wrong = wrong + (images != greys.reshape(-1, 1, 1, 1)).sum()
        del images
    assert int(wrong) == 0


@pytest.mark.parametrize("feeder", ["dequeue"], indirect=True)
def test_a_graph_is_captured_once_and_replayed(feeder: Any) -> None:
    stream, graph, address = torch.cuda.Stream(), None, None
    greys = torch.zeros(8, dtype=torch.int64, device="cuda")
    wrong = torch.zeros((), dtype=torch.int64, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        for batch in feeder(stream=stream, policy="greedy", max_leases=1, steps=1000, epochs=1000):
            images = batch.torch("image", copy=False)
            greys.copy_(greys_of(batch))
            address = address or images.data_ptr()
            assert images.data_ptr() == address
            if graph is None:
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph, stream=stream):
                    wrong += (images != greys.view(-1, 1, 1, 1)).sum()
            graph.replay()
            del images
    assert wrong.item() == 0


def test_next_is_refused_in_a_capture_and_spoils_nothing(feeder: Any) -> None:
    stream = torch.cuda.Stream()
    batches = feeder(stream=stream)
    assert batches.next_epoch()
    number = torch.zeros((), dtype=torch.int64, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        with pytest.raises(forebay.Error, match="captured"):
            batches.next()
        number += 1
    graph.replay()
    batch = batches.next()
    with torch.cuda.stream(stream):
        assert late_errors(batch.torch("image", copy=False), greys_of(batch)).item() == 0
    assert number.item() == 1


def test_pytorchs_loader(folder: Path) -> None:
    import forebay.torch

    with skipped_without_cuda():
        forebay.Feeder(dataset=folder, **GPU).close()
    loader = forebay.torch.DataLoader(folder, 8, pin_memory=True, size=(224, 224), dtype="uint8", mirror=0)
    wrong = 0
    for images, labels in loader:
        assert images.is_cuda and labels.is_cuda
        wrong += ((images[:, 0, 0, 0] >= 100) != labels.bool()).sum().item()
    loader.close()
    assert wrong == 0


def test_reuse_of_batches_on_the_gpu() -> None:
    """The source works on a stream of its thread, and the loop on one of its own."""

    def source() -> Iterator[Any]:
        memory = torch.zeros(1 << 20, device="cuda")
        for number in range(100):
            torch.cuda._sleep(BEHIND // 10)
            memory.fill_(number)
            yield {"values": memory, "number": number}

    side = torch.cuda.Stream()
    wrong = torch.zeros((), dtype=torch.int64, device="cuda")
    torch.cuda.synchronize()
    numbers = []
    with torch.cuda.stream(side):
        for batch in forebay.reuse(source(), policy="greedy", queue_pool=1, queue_capacity=1):
            values = batch["values"]
            torch.cuda._sleep(BEHIND // 20)
            wrong += (values != batch["number"]).sum()
            numbers.append(batch["number"])
            del values, batch
    torch.cuda.synchronize()
    assert wrong.item() == 0 and sorted(set(numbers)) == list(range(100))


def test_reuse_keeps_memory_pinned() -> None:
    made = torch.utils.data.DataLoader(torch.arange(40), batch_size=4, pin_memory=True)
    assert all(batch.is_pinned() for batch in forebay.reuse(made, policy="block"))


RANK = """
import json, os, sys
import forebay, torch
from test_on_gpu import GPU, greys_of, late_errors
torch.distributed.init_process_group("gloo")
wrong = torch.zeros((), dtype=torch.int64, device="cuda:0")
seen = []
options = {**GPU, "batch_size": 4, "epochs": 10, "when": sys.argv[3], "canvas": (8, 8), "device": "cuda:0"}
for batch in forebay.Feeder(dataset=sys.argv[1], comm="torch", **options):
    images, labels = batch.torch(copy=False)
    wrong += late_errors(images, greys_of(batch), labels)
    seen += [(batch.epoch, int(i)) for i in batch.ids if batch.is_fresh]
    del images, labels
assert wrong.item() == 0
with open(sys.argv[2] + "/seen." + os.environ["RANK"], "w") as file:
    json.dump(seen, file)
torch.distributed.destroy_process_group()
"""


@pytest.mark.parametrize("when", ["enqueue", "dequeue"])
def test_two_ranks_share_a_gpu(folder: Path, tmp_path: Path, when: str) -> None:
    require_ranks(torch=True)
    with skipped_without_cuda():
        forebay.Feeder(dataset=folder, **GPU).close()
    program = tmp_path / "program.py"
    program.write_text(RANK)
    run_command(*torchrun(2), str(program), str(folder), str(tmp_path), when)
    parts = [json.loads(file.read_text()) for file in tmp_path.glob("seen.*")]
    served = Counter((epoch, i) for part in parts for epoch, i in part)
    assert len(parts) == 2 and set(served.values()) == {1}
    assert set(served) == {(epoch, i) for epoch in range(10) for i in range(40)}
