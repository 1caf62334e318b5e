"""Small datasets whose pixels tell their number, and programs of their own."""

from __future__ import annotations

import io
import itertools
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import forebay
import numpy as np
import pytest
from object_store import Store, environment, running

SIDE = 8
COUNT = 40

# A shell lets what it starts in the background ignore Ctrl-C, and all that is started from there.
signal.signal(signal.SIGINT, signal.default_int_handler)

# What keeps a run small, on the host, and free of chance.
SMALL: dict[str, Any] = {
    "size": (SIDE, SIDE),
    "crop": "none",
    "mirror": 0,
    "dtype": "uint8",
    "batch_size": 4,
    "workers_io": 1,
    "workers_decode": 1,
    "capacity": 4,
    "policy": "block",
    "device": "host",
    "epochs": 1,
}


def png_of(pixels: np.ndarray, exif: bytes = b"") -> bytes:
    """A grey or RGB picture, with EXIF data if there are any."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    height, width = pixels.shape[:2]
    header = struct.pack(">IIBBBBB", width, height, 8 * pixels.itemsize, 2 if pixels.ndim == 3 else 0, 0, 0, 0)
    rows = b"".join(b"\0" + row.astype(pixels.dtype.newbyteorder(">")).tobytes() for row in pixels)
    parts = {b"IHDR": header, **({b"eXIf": exif} if exif else {}), b"IDAT": zlib.compress(rows), b"IEND": b""}
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(kind, data) for kind, data in parts.items())


def png(value: int) -> bytes:
    """A picture of one grey."""
    return png_of(np.full((SIDE, SIDE), value, np.uint8))


class Made(forebay.Dataset):
    """So many samples that a function reads, with attributes such as `fields`."""

    def __init__(self, count: int, read: Callable[[int], Any], **attributes: Any) -> None:
        self._count, self._read = count, read
        vars(self).update(attributes)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> Any:
        return self._read(index)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty pictures in two classes: number n has the grey 5 n, and comes n-th in the index."""
    root = tmp_path_factory.mktemp("pictures")
    for number in range(COUNT):
        place = root / ("cat" if number < COUNT // 2 else "dog")
        place.mkdir(exist_ok=True)
        (place / f"{number:03}.png").write_bytes(png(5 * number))
    return root


@pytest.fixture
def make(folder: Path) -> Any:
    """Makes small feeders and closes them."""
    made = []

    def one(**options: Any) -> forebay.Feeder:
        made.append(forebay.Feeder(**{"dataset": folder, **SMALL, **options}))
        return made[-1]

    yield one
    for feeder in made:
        feeder.close()


def pairs(*columns: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
    """zip() of as many each, which Python 3.9 does not check."""
    missing = object()
    for row in itertools.zip_longest(*columns, fillvalue=missing):
        assert all(each is not missing for each in row)
        yield row


def ids_of(feeder: forebay.Feeder) -> list[int]:
    """The samples of a run, as they were served fresh."""
    return [int(i) for epoch in feeder.epochs() for batch in epoch if batch.is_fresh for i in batch.ids]


def run_command(*words: str, timeout: float = 300) -> str:
    """Runs a program of its own; its standard output. The program must end well."""
    done = subprocess.run(
        words,
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])},
    )
    assert done.returncode == 0, f"it ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
    assert "Fatal" not in done.stderr, done.stderr
    return done.stdout


def run_program(text: str, *arguments: str, command: tuple[str, ...] = (), timeout: float = 120) -> str:
    """The same for a text in Python."""
    return run_command(*command, sys.executable, "-c", text, *arguments, timeout=timeout)


def mpirun(count: int) -> tuple[str, ...]:
    """The words of a command that come before those of a program of so many ranks."""
    os.environ.setdefault("OMPI_ALLOW_RUN_AS_ROOT", "1")
    os.environ.setdefault("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
    os.environ.setdefault("OMPI_MCA_rmaps_base_oversubscribe", "1")
    os.environ.setdefault("OMPI_MCA_btl", "self,vader")
    return ("mpirun", "-n", str(count))


# torchrun. That of PyTorch 1.13 does not start under Python 3.11: a flag of 0 is no member of its enumeration there.
TORCHRUN = """
import sys
import tarfile
from torch.distributed import run
from torch.distributed.elastic.multiprocessing.api import Std
if Std.from_str("0") is None:
    Std.from_str = classmethod(lambda kind, text: kind.NONE)
run.main(sys.argv[1:])
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def torchrun(count: int) -> tuple[str, ...]:
    """The same for torchrun, before the file of a program in Python."""
    place = ("--master_addr=127.0.0.1", f"--master_port={free_port()}")
    return (sys.executable, "-c", TORCHRUN, f"--nproc_per_node={count}", "--monitor_interval=0.1", *place)


def require_ranks(*, torch: bool = False, mpi: bool = False) -> None:
    """Skips a test without what it starts ranks with."""
    if mpi:
        pytest.importorskip("mpi4py")
        if shutil.which("mpirun") is None:
            pytest.skip("there is no mpirun")
    if torch and not pytest.importorskip("torch").distributed.is_available():
        pytest.skip("PyTorch was built without torch.distributed")


# Stores on the loopback, for data behind URLs.
SHARDS = 4


def tar_of(numbers: range) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for number in numbers:
            for ending, data in (
                ("png", png(5 * number)),
                ("cls", str(number % 3).encode()),
                ("bin", bytes(20_000)),
            ):
                member = tarfile.TarInfo(f"{number:03}.{ending}")
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
    return file.getvalue()


@pytest.fixture(scope="module")
def shards() -> dict[str, bytes]:
    each = COUNT // SHARDS
    return {f"/data/shard-{i:02}.tar": tar_of(range(i * each, (i + 1) * each)) for i in range(SHARDS)}


def images() -> dict[str, bytes]:
    """Pictures as objects, and a list of them with labels."""
    files = {f"/images/{number:03}.png": png(5 * number) for number in range(COUNT)}
    files["/list.csv"] = "".join(f"images/{number:03}.png,{number % 3}\n" for number in range(COUNT)).encode()
    return files


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def web(shards: dict[str, bytes]) -> Iterator[Store]:
    with running(dict(shards)) as store:
        yield store


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Store]:
    with running({}, is_s3=True) as store:
        for name in list(os.environ):
            if name.startswith("AWS_"):
                monkeypatch.delenv(name)
        monkeypatch.setenv("HOME", str(tmp_path))
        for name, value in {"AWS_EC2_METADATA_DISABLED": "true", **environment(store)}.items():
            monkeypatch.setenv(name, value)
        yield store
