"""Data behind URLs and the cache, on servers that others wrote; skipped by name where they are missing."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import forebay
import pytest
from conftest import COUNT, mpirun, png, require_ranks, run_command, run_program, tar_of
from object_store import KEY_ID, REGION, SECRET
from real_servers import gateway, nginx, put
from test_cache import COMMAND
from test_remote import PATTERN, check, feed


def classes() -> dict[str, bytes]:
    """Pictures below a prefix, in the classes a, b and c, in the order of their numbers modulo 3."""
    return {f"/bucket/train/{'abc'[number % 3]}/{number:02}.png": png(5 * number) for number in range(COUNT)}


@pytest.fixture(scope="module")
def minio(tmp_path_factory: pytest.TempPathFactory, shards: dict[str, bytes]) -> Iterator[str]:
    objects = {f"/bucket{path}": body for path, body in shards.items()}
    with gateway(tmp_path_factory.mktemp("gateway"), {**objects, **classes()}) as url:
        yield url


@pytest.fixture
def s3(minio: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", minio)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY_ID)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_REGION", REGION)
    return "s3://bucket"


@pytest.fixture(params=["s3", "web"])
def place(request: pytest.FixtureRequest, tmp_path: Path, shards: dict[str, bytes]) -> Iterator[str]:
    """Where the shards lie."""
    if request.param == "s3":
        yield str(request.getfixturevalue("s3"))
    else:
        with nginx(tmp_path, shards) as url:
            yield url


def test_shards_with_a_cache(place: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"cache_dir": str(tmp_path / "cache"), "dataset_index": str(tmp_path / "train.index")}
    first = check(feed(place + PATTERN, **options))
    assert first["bytes_from_store"] > 0
    assert check(feed(place + PATTERN, epochs=2, **options), epochs=2)["bytes_from_store"] == 0


def test_class_folders_with_a_cache(s3: str, tmp_path: Path) -> None:
    """In the index the classes come one after the other."""
    options: dict[str, Any] = {"cache_dir": str(tmp_path / "cache"), "dataset_index": str(tmp_path / "train.index")}
    numbers = [number for first in range(3) for number in range(first, COUNT, 3)]
    for share in (0, 1):
        with feed(s3 + "/train", **options) as feeder:
            for batch in feeder:
                images, labels = batch.numpy()
                own = [numbers[int(i)] for i in batch.ids]
                assert images[:, 0, 0, 0].tolist() == [5 * number for number in own]
                assert labels.tolist() == [number % 3 for number in own]
            assert feeder.summary()["cache_share"] == share


def test_what_the_gateway_refuses(s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each by a process of its own: this one has its keys."""
    with pytest.raises(AssertionError, match="bucket"):
        run_command(COMMAND, "index", "s3://nowhere/train")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET + "x")
    with pytest.raises(AssertionError, match="SignatureDoesNotMatch|AWS_SECRET_ACCESS_KEY") as refused:
        run_command(COMMAND, "index", s3 + "/train")
    assert SECRET not in str(refused.value)


def test_an_object_that_changed(s3: str, minio: str, tmp_path: Path) -> None:
    index = str(tmp_path / "train.index")
    put(f"{minio}/bucket/changed.tar", tar_of(range(8)))
    feed(s3 + "/changed.tar", dataset_index=index).close()
    put(f"{minio}/bucket/changed.tar", tar_of(range(8, 16)))
    with pytest.raises(forebay.Error, match="changed.tar"):
        check(feed(s3 + "/changed.tar", dataset_index=index))


HEAD = """
import json, sys
import forebay
from mpi4py import MPI
from conftest import SMALL
world = MPI.COMM_WORLD
path, index, cache, state, order = sys.argv[1:6]
options = {**SMALL, "batch_size": 2, "epochs": 3, "dataset_index": index, "cache_dir": cache, "dataset_order": order}
feeder = forebay.Feeder(dataset=path, comm=world, resume=state, **options)
seen, last = [], int(sys.argv[6])
for number, batch in enumerate(feeder):
    if batch.is_fresh:
        images, _ = batch.numpy()
        assert (images == (5 * batch.ids)[:, None, None, None]).all()
        seen.extend(int(i) for i in batch.ids)
    if number + 1 == last: break
feeder.save(state)
feeder.close()
everything = world.gather(seen)
if world.rank == 0: print(json.dumps(everything), flush=True)
"""


@pytest.mark.parametrize("order", ["global", "shards", "local"])
@pytest.mark.parametrize("parts", [(1, 2), (2, 1), (2, 2)])
def test_ranks_and_resumes(s3: str, tmp_path: Path, parts: tuple[int, int], order: str) -> None:
    require_ranks(mpi=True)
    words = [s3 + PATTERN, *(str(tmp_path / name) for name in ("train.index", "cache", "feed.state")), order]
    seen: list[int] = []
    for ranks, last in zip(parts, (13, 0)):
        said = run_program(HEAD, *words, str(last), command=mpirun(ranks))
        seen += sum(json.loads(said.strip().splitlines()[-1]), [])
    assert sorted(seen) == sorted(3 * list(range(COUNT)))
