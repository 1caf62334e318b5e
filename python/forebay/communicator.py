"""What Forebay needs from the ranks of a job. forebay.mpi implements it for MPI; another transport is a subclass."""

from __future__ import annotations

import abc
import mmap
import os
import tempfile
from collections.abc import Callable
from typing import Any

from .errors import Error


class Communicator(abc.ABC):
    """Carries the traffic between the ranks of a job.

    One thread calls every member: the one that calls the feeder. All ranks make the calls marked collective in the
    same order. Nothing may block unless it says so: the library does the waiting, without the GIL.
    """

    rank: int
    size: int

    @abc.abstractmethod
    def duplicate(self) -> Communicator:
        """Collective, blocking: the same ranks, with traffic that cannot meet this one's."""

    @abc.abstractmethod
    def start_reduction(self, channel: int, values: memoryview, minima: int) -> None:
        """Starts a reduction of 64-bit integers over all ranks, in place: the last `minima` become the minimum, those
        before them the sum. `values` are bytes that may be written once test() finds the operation complete. Channels
        (0 to 16) are independent, with one operation each. Collective in posting order; never blocks."""

    @abc.abstractmethod
    def test(self, channel: int) -> bool:
        """True when the channel's operation is complete, or none is open. Never blocks."""

    @abc.abstractmethod
    def broadcast(self, data: bytes, root: int) -> bytes:
        """Collective, blocking: the root's bytes."""

    @abc.abstractmethod
    def start_gather(self, data: bytes) -> None:
        """Collective: starts to collect every rank's bytes on every rank."""

    @abc.abstractmethod
    def gathered(self) -> list[bytes] | None:
        """What start_gather() collected, by rank, once it is complete; None before. Never blocks."""

    @abc.abstractmethod
    def share_on_node(self, size: int) -> Any:
        """Collective, blocking: a writable buffer of that size, zeroed, that the ranks of this node share."""

    @abc.abstractmethod
    def tell(self, data: bytes) -> None:
        """Sends a short message to every other rank, in the order of the calls. Never blocks."""

    @abc.abstractmethod
    def listen(self) -> tuple[int, bytes] | None:
        """The next message that has arrived: the sending rank and the bytes; None if there is none. Never blocks."""

    @abc.abstractmethod
    def start_close(self) -> None:
        """Starts to disconnect from the other ranks. Afterwards only listen() and closed() are called."""

    @abc.abstractmethod
    def closed(self) -> bool:
        """True once no operation or message of this rank is pending that can still complete. Never blocks."""

    def abort(self, cause: str) -> None:  # noqa: B027 - most need not do anything
        """Other ranks wait for this one and cannot be told: a launcher may end the job here, otherwise it returns."""


def share_file(
    size: int, is_first: bool, of_first: Callable[[str], str], of_all: Callable[[str], list[str]]
) -> mmap.mmap:
    """Memory of a node: a zeroed file, in memory if there is room, that the first of its ranks makes and removes once
    all have mapped it. of_first: what that rank says, on each rank of the node; of_all: what each rank of the job says.
    """
    path = problem = ""
    memory = None
    try:
        path = _made_file(size) if is_first else ""
    except OSError as error:
        problem = str(error)
    path = of_first(path)
    try:
        if path:
            with open(path, "r+b") as file:
                memory = mmap.mmap(file.fileno(), size)
    except OSError as error:
        problem = str(error)
    problems = [text for text in of_all(problem) if text]
    if path and is_first:
        os.unlink(path)
    if problems or memory is None:
        raise Error(f"the ranks of a node cannot share {size} bytes of memory: {problems[0]}")
    return memory


def _made_file(size: int) -> str:
    problems = []
    for folder in ("/dev/shm", tempfile.gettempdir()):
        path = ""
        try:
            number, path = tempfile.mkstemp(prefix="forebay-", dir=folder)
            with open(number, "wb"):
                # Now, because a lack of room at the first write would be a bus error.
                os.posix_fallocate(number, 0, size)
            return path
        except OSError as error:
            problems.append(f"{folder}: {error}")
            if path:
                os.unlink(path)
    raise OSError("; ".join(problems))
