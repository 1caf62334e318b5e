"""The communication that Forebay needs between the ranks of a job. forebay.mpi implements it for MPI, forebay.sockets
for TCP; for another transport, write a subclass."""

from __future__ import annotations

import abc
import contextlib
import mmap
import os
import tempfile
from collections.abc import Callable
from typing import IO, Any

from .errors import Error


class Communicator(abc.ABC):
    """Carries the traffic between the ranks of a job.

    All members are called from one thread, the one that calls the feeder. All ranks make the calls marked collective in
    the same order. A method may block only if its description says so: the library does the waiting, without the GIL.
    """

    rank: int
    size: int

    @abc.abstractmethod
    def duplicate(self) -> Communicator:
        """Collective, blocking: a communicator over the same ranks whose traffic is kept apart from this one's."""

    @abc.abstractmethod
    def start_reduction(self, channel: int, values: memoryview, minima: int) -> None:
        """Starts a reduction of 64-bit integers over all ranks, in place: the last `minima` become the minimum, those
        before them the sum. The results must be in the bytes of `values` once test() returns True. Channels (0 to 16)
        are independent, with at most one open operation each. Collective: all ranks post in the same order. Never
        blocks."""

    @abc.abstractmethod
    def test(self, channel: int) -> bool:
        """True once the channel's operation has completed, or if none is open. Never blocks."""

    @abc.abstractmethod
    def broadcast(self, data: bytes, root: int) -> bytes:
        """Collective, blocking: the root's bytes, on every rank."""

    @abc.abstractmethod
    def start_gather(self, data: bytes) -> None:
        """Collective: starts to gather the bytes of all ranks on every rank."""

    @abc.abstractmethod
    def gathered(self) -> list[bytes] | None:
        """The result of start_gather(), in rank order, once it has completed; None before. Never blocks."""

    @abc.abstractmethod
    def share_on_node(self, size: int) -> Any:
        """Collective, blocking: a writable, zeroed buffer of `size` bytes, shared by the ranks of this node."""

    @abc.abstractmethod
    def tell(self, data: bytes) -> None:
        """Sends a short message to every other rank, in the order of the calls. Never blocks."""

    @abc.abstractmethod
    def listen(self) -> tuple[int, bytes] | None:
        """The next message that has arrived, as the sending rank and the bytes; None if there is none. Never blocks."""

    @abc.abstractmethod
    def start_close(self) -> None:
        """Starts to disconnect from the other ranks. Afterwards only listen() and closed() are called."""

    @abc.abstractmethod
    def closed(self) -> bool:
        """True once none of this rank's pending operations and messages can still complete. Never blocks."""

    def abort(self, cause: str) -> None:  # noqa: B027 - most need not do anything
        """Called if other ranks are waiting for this one and cannot be told: may end the job through its launcher, or
        return."""


def share_file(
    size: int, is_first: bool, of_first: Callable[[str], str], of_all: Callable[[str], list[str]]
) -> mmap.mmap:
    """Memory shared by a node: a zeroed file, in /dev/shm if there is room, that the node's first rank creates, and
    removes once all have mapped it, or if one has gone. of_first: broadcasts the first rank's text to the ranks of the
    node; of_all: gathers the texts of all ranks of the job."""
    path = problem = ""
    memory = None
    with contextlib.ExitStack() as until_mapped:
        try:
            path = until_mapped.enter_context(_made_file(size)).name if is_first else ""
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
    if problems or memory is None:
        raise Error(f"the ranks of a node cannot share {size} bytes of memory: {problems[0]}")
    return memory


def _made_file(size: int) -> IO[bytes]:
    problems = []
    for folder in ("/dev/shm", tempfile.gettempdir()):
        with contextlib.ExitStack() as unless_it_fits:
            try:
                file = unless_it_fits.enter_context(tempfile.NamedTemporaryFile(prefix="forebay-", dir=folder))
                # Allocated now, because running out of room at the first write would raise SIGBUS.
                os.posix_fallocate(file.fileno(), 0, size)
                unless_it_fits.pop_all()
                return file
            except OSError as error:
                problems.append(f"{folder}: {error}")
    raise OSError("; ".join(problems))
