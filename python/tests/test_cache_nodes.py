"""The cache with several nodes: dataset.order = "local", and filling it before a run."""

from __future__ import annotations

import json
import re
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
from conftest import COUNT, mpirun, require_ranks, run_command, run_program
from object_store import Store
from test_cache import COMMAND, Run, on_disk
from test_remote import PATTERN


@pytest.fixture
def run(web: Store, cache: Path) -> Run:
    return Run(web, web.url + PATTERN, cache)


NODES = """
import json, sys
import forebay
from mpi4py import MPI
from test_remote import SMALL
world = MPI.COMM_WORLD
path, index, cache, limit, exchange = sys.argv[1:6]
options = {**SMALL, "dataset_index": index, "cache_dir": cache + str(world.rank), "cache_bytes": int(limit)}
order = {"dataset_order": "local", "dataset_nodes": 2, "dataset_exchange": float(exchange)}
feeder = forebay.Feeder(dataset=path, comm=world, **{**options, **order, "batch_size": 2})
seen = [int(i) for batch in feeder if batch.is_fresh for i in batch.ids]
feeder.close()
everything = world.gather((seen, feeder.summary()))
if world.rank == 0: print(json.dumps(everything), flush=True)
"""


def on_nodes(run: Run, cache: Path, limit: int = 0, exchange: float = 0.0) -> tuple[list[Any], int]:
    """An epoch on two ranks, each with a cache of its own: what each says, and how often the store was asked."""
    run.web.requests.clear()
    words = [run.path, run.options["dataset_index"], str(cache), str(limit), str(exchange)]
    said = run_program(NODES, *words, command=mpirun(2))
    everything = json.loads(said.strip().splitlines()[-1])
    assert sorted(everything[0][0] + everything[1][0]) == list(range(COUNT))
    return everything, len(run.web.requests)


def test_a_node_reads_the_same_samples_in_each_epoch(run: Run, cache: Path) -> None:
    require_ranks(mpi=True)
    first, requests = on_nodes(run, cache)
    assert requests == COUNT
    second, requests = on_nodes(run, cache)
    assert requests == 0
    assert [sorted(seen) for seen, _ in first] == [sorted(seen) for seen, _ in second]
    for _, one in second:
        assert one["cache_share"] == one["cache_bound"] == 1
    _, requests = on_nodes(run, cache, exchange=0.25)
    assert 0 < requests <= COUNT // 4  # what is exchanged, and of that what comes from the other


def test_half_a_cache_on_each_node(run: Run, cache: Path) -> None:
    """Each later epoch reads what the caches do not hold."""
    require_ranks(mpi=True)
    whole, _ = on_nodes(run, cache)
    limit = int(whole[0][1]["cache_held"] / 2)
    small = cache.parent / "small"
    first, _ = on_nodes(run, small, limit)
    room = whole[0][1]["cache_held"] / whole[0][1]["cache_bound"]  # of an epoch; the samples have one size
    for seen, one in first:
        assert one["cache_held"] <= limit and len(seen) == COUNT // 2
        assert one["cache_bound"] == pytest.approx(one["cache_held"] / room)
    second, requests = on_nodes(run, small, limit)
    third, more = on_nodes(run, small, limit)
    assert requests == more and abs(requests - COUNT / 2) <= COUNT / 8
    for (_, before), (_, one), (_, other) in zip(first, second, third):
        assert one["bytes_from_store"] == other["bytes_from_store"] < before["bytes_from_store"]
        assert one["cache_share"] <= 2 * one["cache_bound"]


# ---- forebay index --fill-cache


def fill(run: Run, cache: Path, *words: str) -> dict[str, Any]:
    index = f"dataset.index={run.options['dataset_index']}"
    said = run_command(COMMAND, "index", run.path, "--json", "--fill-cache", *sets(f"cache.dir={cache}", index), *words)
    return dict(json.loads(said)["cache"])


def sets(*settings: str) -> list[str]:
    return [word for one in settings for word in ("--set", one)]


def test_a_cache_that_is_filled_before_the_run(run: Run, cache: Path) -> None:
    run.web.requests.clear()
    filled = fill(run, cache)
    assert filled["samples"] == filled["read"] == COUNT and filled["unreadable"] == 0
    assert filled["held"] == on_disk(cache) and filled["from_store"] > 0
    assert len(run.web.requests) >= COUNT
    assert fill(run, cache)["from_store"] == 0
    summary, requests = run()
    assert requests == 0 and summary["cache_share"] == 1


def test_a_fill_goes_on_where_it_was_stopped(run: Run, cache: Path) -> None:
    """The first is killed in its middle."""
    counted, killed = threading.Event(), threading.Event()

    def fault(number: int, path: str, headers: Any) -> Any:
        if number >= COUNT // 2:
            counted.set()
            killed.wait(60)
        return None

    run.web.requests.clear()
    run.web.fault = fault
    words = [COMMAND, "index", run.path, "--fill-cache", *sets(f"cache.dir={cache}", "workers.io=1")]
    with subprocess.Popen([*words, *sets(f"dataset.index={run.options['dataset_index']}")]) as first:
        assert counted.wait(60)
        first.kill()
        assert first.wait(60) != 0
        killed.set()
    asked = len(run.web.requests)
    run.web.requests.clear()
    fill(run, cache)
    assert asked + len(run.web.requests) <= COUNT + 3
    assert run()[1] == 0


def test_a_fill_of_less_than_all(run: Run, cache: Path) -> None:
    whole = fill(run, cache)["held"]
    small = cache.parent / "small"
    filled = fill(run, small, *sets(f"cache.bytes={whole // 2}"))
    assert 0 < filled["read"] < COUNT and filled["held"] <= whole // 2


LOCAL = sets("dataset.order=local", "dataset.nodes=2", "dataset.batch_size=2")


def test_a_fill_of_a_node(run: Run, cache: Path) -> None:
    require_ranks(mpi=True)
    for node in range(2):
        assert fill(run, cache.parent / f"cache{node}", *LOCAL, "--node", str(node))["samples"] == COUNT // 2
    _, requests = on_nodes(run, cache)
    assert requests == 0


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ([], "there is no cache: add --set cache.dir=FOLDER"),
        (["--node", "1", "--set", "cache.dir=DIR"], 'only dataset.order = "local" has samples of a node'),
        (["--node", "2", "--set", "cache.dir=DIR", *LOCAL], "--node 2: dataset.nodes = 2, counted from 0"),
        (["--set", "cache.dir=/dev/null"], "cache.dir has no effect"),
    ],
)
def test_fills_that_cannot_be(run: Run, cache: Path, words: list[str], what: str) -> None:
    words = [word.replace("DIR", str(cache)) for word in words]
    with pytest.raises(AssertionError, match=re.escape(what)):
        run_command(COMMAND, "index", run.path, "--fill-cache", *words)
    with pytest.raises(AssertionError, match="is an index"):
        run_command(COMMAND, "index", run.options["dataset_index"], "--fill-cache", *sets(f"cache.dir={cache}"))
