"""A cache on the node: what it has is not asked for again, and whatever happens to it, each sample is right."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import forebay
import pytest
from conftest import COUNT, images, png, run_command, tar_of
from object_store import Store
from test_remote import PATTERN, check, feed

BLOCK = 4096
COMMAND = os.path.join(os.path.dirname(forebay.__file__), "bin", "forebay")


class Run:
    """Runs over one store, one cache and a saved index; each gives its summary and how often the store was asked."""

    def __init__(self, web: Store, path: str, cache: Path, **options: Any) -> None:
        self.web = web
        self.path = path
        self.options = {"cache_dir": str(cache), "workers_io": 4, **options}
        if self.options.get("dataset_index") is None:
            self.options["dataset_index"] = str(cache.parent / "train.index")
        feed(path, **{**self.options, "cache_dir": ""}).close()

    def __call__(self, classes: int = 3, epochs: int = 1, **options: Any) -> tuple[dict[str, Any], int]:
        self.web.requests.clear()
        summary = check(feed(self.path, epochs=epochs, **{**self.options, **options}), classes, epochs)
        return summary, len(self.web.requests)


@pytest.fixture
def run(web: Store, cache: Path) -> Run:
    return Run(web, web.url + PATTERN, cache)


def entries(cache: Path) -> list[Path]:
    return [file for file in cache.glob("*/??/*") if file.is_file()]


def on_disk(cache: Path) -> int:
    return sum(file.stat().st_blocks * 512 for file in entries(cache))


def damage(file: Path) -> None:
    """Flips a bit in each block that is there."""
    body = bytearray(file.read_bytes())
    for at in range(2 * BLOCK, len(body), BLOCK):
        body[min(at + 100, len(body)) - 1] ^= 4
    file.write_bytes(body)


def test_what_it_holds_is_not_asked_for_again(run: Run, cache: Path) -> None:
    # With more readers, one may read for the next epoch what another has under way.
    first, requests = run(epochs=3, workers_io=1)
    assert requests == COUNT
    assert first["bytes_from_store"] * 2 == first["bytes_from_cache"]
    assert first["cache_share"] == pytest.approx(2 / 3)
    assert first["cache_held"] == on_disk(cache)
    again, requests = run(epochs=2)
    assert requests == 0
    assert again["bytes_from_store"] == 0 and again["cache_share"] == 1
    assert again["hedged_reads"] == 0


@pytest.mark.parametrize("share", [0.5, 0.75])
def test_a_cache_of_a_part(run: Run, cache: Path, share: float) -> None:
    all_of_it = run(cache_dir=str(cache) + ".all")[0]["cache_held"]
    limit = int(all_of_it * share)
    first = run(cache_bytes=limit)[0]
    assert limit - 3 * BLOCK < first["cache_held"] <= limit and on_disk(cache) <= limit
    reads = [run(cache_bytes=limit) for _ in range(2)]
    (second, requests), (third, more) = reads
    assert requests == more and second["bytes_from_store"] == third["bytes_from_store"]
    # Each block that is kept is one that is not read: N - what the cache holds.
    heads = 2 * BLOCK * len(entries(cache))
    assert second["bytes_from_store"] == first["bytes_from_store"] - (first["cache_held"] - heads)
    assert abs(requests - COUNT * (1 - share)) <= COUNT / 8


def test_coalesced_reads(run: Run) -> None:
    options: dict[str, Any] = {"dataset_order": "shards", "dataset_run": 4, "dataset_window": 16}
    first, _ = run(**options)
    again, requests = run(**options)
    assert requests == 0 and first["bytes_from_store"] == again["bytes_from_cache"]
    assert run()[1] == 0  # the same blocks, whatever the order


def test_a_shard_that_changed(web: Store, run: Run, cache: Path) -> None:
    run()
    each = COUNT // 4
    web.objects["/data/shard-01.tar"] = tar_of(range(each, 2 * each))[:-512] + bytes(2048)
    index = str(cache.parent / "new.index")
    summary, _ = Run(web, run.path, cache, dataset_index=index)()
    assert 0 < summary["bytes_from_store"] < summary["bytes_from_cache"]
    assert Run(web, run.path, cache, dataset_index=index)()[1] == 0
    assert len(entries(cache)) == 4


def test_a_flipped_bit(run: Run, cache: Path, capfd: pytest.CaptureFixture[str]) -> None:
    held = run()[0]["cache_held"]
    for file in entries(cache):
        damage(file)
    summary, requests = run()
    assert requests == COUNT and summary["bytes_from_cache"] == 0
    assert "which were read from its store again" in capfd.readouterr().err
    summary, requests = run()
    assert requests == 0 and summary["cache_held"] == held


@pytest.mark.parametrize("kind", ["head", "empty", "short", "folder", "link"])
def test_an_entry_that_is_none(run: Run, cache: Path, kind: str) -> None:
    run()
    for file in entries(cache):
        body = file.read_bytes()
        file.unlink()
        if kind == "head":
            file.write_bytes(b"x" + body[1:])
        elif kind == "empty":
            file.write_bytes(b"")
        elif kind == "short":
            file.write_bytes(body[: len(body) // 2])
        elif kind == "folder":
            file.mkdir()
        else:
            file.symlink_to("/dev/zero")
    assert run()[1] > 0
    if kind in ("head", "empty", "short", "link"):
        assert run()[1] == 0


@pytest.mark.parametrize("what", ["data", "all", "itself"])
def test_a_directory_that_is_emptied(web: Store, run: Run, cache: Path, what: str) -> None:
    run()

    def wipe() -> None:
        """While others write there."""
        for path in list(cache.iterdir()):
            if path.is_file() and what != "data":
                path.unlink()
        if what == "itself":
            cache.rename(cache.with_name("gone"))
        for path in list(cache.iterdir()) if cache.exists() else []:
            while path.is_dir() and not path.name.endswith(".gone"):
                path = path.rename(path.with_name(path.name + ".gone"))
            shutil.rmtree(path, ignore_errors=True)

    web.requests.clear()
    seen: list[int] = []
    with feed(run.path, epochs=4, **run.options) as feeder:
        for number, batch in enumerate(feeder):
            if number == 2:
                wipe()
            images, _ = batch.numpy()
            assert (images == (5 * batch.ids)[:, None, None, None]).all()
            seen += [int(i) for i in batch.ids]
    assert sorted(seen) == sorted(4 * list(range(COUNT)))
    if what == "itself":
        assert not cache.exists()  # a disk that is gone is not filled by another
    else:
        assert 0 < len(web.requests) < 2 * COUNT
        assert run()[1] < COUNT


SMALL_FILES = """
import resource, sys
import forebay
from test_remote import check, feed
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[4]), int(sys.argv[4])))
check(feed(sys.argv[1], dataset_index=sys.argv[2], cache_dir=sys.argv[3], epochs=2), epochs=2)
"""


def test_a_disk_that_takes_no_more(run: Run, cache: Path) -> None:
    """The system refuses to write beyond a place, as it does on a full disk."""
    words = [run.path, run.options["dataset_index"], str(cache)]
    done = subprocess.run(
        [sys.executable, "-c", SMALL_FILES, *words, str(20 * BLOCK)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])},
    )
    assert done.returncode == 0, done.stderr
    assert "cannot be written" in done.stderr and done.stderr.count("cannot be written") == 1
    assert run()[1] > 0 and run()[1] == 0


def test_a_directory_that_cannot_be_used(run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "none" / "cache"):
        assert run(cache_dir=str(place))[1] == COUNT
        assert "cache.dir has no effect" in caplog.text
        caplog.clear()


def test_two_jobs_on_one_cache(web: Store, run: Run, cache: Path) -> None:
    web.requests.clear()
    failed: list[BaseException] = []

    def job(seed: int) -> None:
        try:
            check(feed(run.path, epochs=3, **{**run.options, "seed": seed}), epochs=3)
        except BaseException as error:  # noqa: BLE001
            failed.append(error)

    jobs = [threading.Thread(target=job, args=(seed,)) for seed in (1, 2, 3)]
    for one in jobs:
        one.start()
    for one in jobs:
        one.join(300)
        assert not one.is_alive()
    assert not failed
    # What two read in the same moment is asked for twice; the most is all of it by each once.
    assert COUNT <= len(web.requests) <= 3 * COUNT
    summary, requests = run()
    assert requests == 0 and on_disk(cache) <= summary["cache_held"]


KILLED = """
import os, signal, sys
from test_remote import feed
with feed(sys.argv[1], dataset_index=sys.argv[2], cache_dir=sys.argv[3], epochs=2, workers_io=4) as feeder:
    for number, batch in enumerate(feeder):
        if number == 4:
            os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_job_that_is_killed(run: Run, cache: Path) -> None:
    with pytest.raises(AssertionError, match=f"ended with -{int(signal.SIGKILL)}"):
        run_command(sys.executable, "-c", KILLED, run.path, run.options["dataset_index"], str(cache))
    assert entries(cache)
    (cache / "used").write_bytes(b"")  # as a machine that crashed leaves it
    summary, requests = run()
    assert requests < COUNT and summary["cache_held"] == on_disk(cache)
    assert run()[1] == 0


# ---- whole objects


def test_whole_objects_are_compared_once_in_a_run(web: Store, cache: Path) -> None:
    web.objects = images()
    run = Run(web, web.url + "/list.csv", cache)
    first, _ = run(epochs=3, workers_io=1)
    assert sum(path != "/list.csv" for path, _ in web.requests) == COUNT
    assert first["cache_share"] == pytest.approx(2 / 3)
    for file in entries(cache):  # a clock that was ahead
        os.utime(file, (time.time() + 86400,) * 2)
    web.statuses.clear()
    summary, _ = run(epochs=3, workers_io=1)
    assert sum(path != "/list.csv" for path, _ in web.requests) == web.statuses[304] == COUNT
    assert summary["bytes_from_store"] == 0 and summary["cache_share"] == 1


def test_whole_objects_that_change(web: Store, cache: Path) -> None:
    web.objects = images()
    run = Run(web, web.url + "/list.csv", cache)
    run()
    for number in range(COUNT):
        web.objects[f"/images/{number:03}.png"] = png(5 * number) + bytes(number)
    web.statuses.clear()
    run()
    assert web.statuses[304] == 1  # that to which nothing was added
    for file in entries(cache):
        damage(file)
    web.statuses.clear()
    summary, _ = run()
    assert web.statuses[304] == COUNT and summary["bytes_from_cache"] == 0


def test_a_time_is_no_version(web: Store, cache: Path) -> None:
    """An older file that is put back is "not modified" since the time of the newer one."""
    web.objects = images()
    run = Run(web, web.url + "/list.csv", cache)

    def answer(handler: Any) -> bool:
        status, body = (304, b"") if "If-Modified-Since" in handler.headers else (200, web.objects[handler.path])
        handler.answer(status, body, {"Last-Modified": "Mon, 01 Jan 2024 00:00:00 GMT"})
        return True

    web.fault = lambda number, path, headers: answer if "/images/" in path else None
    assert run()[0]["cache_share"] == run()[0]["cache_share"] == 0


# ---- files of a slow mount


@pytest.fixture
def mount(cache: Path) -> Iterator[Path]:
    """A folder on another file system than the cache's."""
    place = Path("/dev/shm") / f"forebay-{os.getpid()}"
    if not place.parent.is_dir():
        pytest.skip("there is no second file system")
    place.mkdir()
    if place.stat().st_dev == cache.parent.stat().st_dev:
        place.rmdir()
        pytest.skip("there is no second file system")
    yield place
    shutil.rmtree(place)


def age(*files: Path) -> None:
    """The cache leaves files alone that have changed just now."""
    changed = max(file.stat().st_ctime_ns for file in files)
    probe = files[0].parent / "probe"
    for _ in range(600):
        time.sleep(0.05)
        probe.write_bytes(b"")
        if probe.stat().st_ctime_ns > changed + 2_100_000_000:
            break
    probe.unlink()


def test_files_of_a_mount(mount: Path, cache: Path, web: Store) -> None:
    for path, body in images().items():
        (mount / path[1:]).parent.mkdir(exist_ok=True)
        (mount / path[1:]).write_bytes(body)
    age(*mount.glob("images/*"))
    run = Run(web, str(mount / "list.csv"), cache, cache_files="all")
    assert run()[0]["cache_share"] == 0
    assert run()[0]["cache_share"] == 1
    assert run(cache_files="auto")[0]["bytes_from_cache"] == 0  # it is a local disk
    changed = mount / "images" / "007.png"
    times = changed.stat()
    changed.write_bytes(png(5 * 7)[:-1] + b"\x83")  # the same size
    os.utime(changed, ns=(times.st_atime_ns, times.st_mtime_ns))
    summary, _ = run()
    assert 0 < summary["bytes_from_store"] <= BLOCK  # it has changed, whatever its time says
    age(changed)
    run()
    assert run()[0]["cache_share"] == 1


def test_shards_of_a_mount(mount: Path, cache: Path, web: Store, shards: dict[str, bytes]) -> None:
    for path, body in shards.items():
        (mount / Path(path).name).write_bytes(body)
    age(*mount.glob("*.tar"))
    run = Run(web, str(mount / "shard-{00..03}.tar"), cache, cache_files="all")
    assert run()[0]["bytes_from_store"] > 0
    assert run(epochs=2)[0]["cache_share"] == 1


# ---- forebay cache


def test_the_command(run: Run, cache: Path) -> None:
    with pytest.raises(AssertionError, match="is no cache of Forebay"):
        run_command(COMMAND, "cache", str(cache))
    run()
    assert f"{run.path}: " in run_command(COMMAND, "cache", str(cache))
    assert "none damaged" in run_command(COMMAND, "cache", str(cache), "--verify")
    damage(entries(cache)[0])
    with pytest.raises(AssertionError, match="of them damaged, now forgotten"):
        run_command(COMMAND, "cache", str(cache), "--verify")
    assert "none damaged" in run_command(COMMAND, "cache", str(cache), "--verify")
    assert 0 < run()[1] < COUNT
    with feed(run.path, **run.options):
        assert "in use" in run_command(COMMAND, "cache", str(cache))
        assert "kept, because a process uses it" in run_command(COMMAND, "cache", str(cache), "--clear")
    assert entries(cache)
    assert "removed" in run_command(COMMAND, "cache", str(cache), "--clear")
    assert not entries(cache)
    assert run()[1] == COUNT


def test_data_that_nobody_uses_make_room(web: Store, run: Run, cache: Path, shards: dict[str, bytes]) -> None:
    held = run()[0]["cache_held"]
    web.objects.update({path.replace("data", "other"): body for path, body in shards.items()})
    other = Run(web, web.url + PATTERN.replace("data", "other"), cache, dataset_index=str(cache.parent / "other.index"))
    with feed(run.path, **run.options):  # in use: it stays
        assert other(cache_bytes=held)[1] == COUNT
    assert run()[1] == 0
    other(cache_bytes=held, epochs=2, workers_io=1)
    assert other(cache_bytes=held)[1] == 0
    assert on_disk(cache) <= held
    assert run(cache_bytes=held)[1] == COUNT
