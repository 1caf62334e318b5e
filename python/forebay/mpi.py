"""The ranks of an MPI job through mpi4py, with whichever MPI it was built for, Open MPI or MPICH.

A program needs only ``forebay.Feeder(..., comm=MPI.COMM_WORLD)``. Importing this module loads MPI.
"""

from __future__ import annotations

import mmap
import time
from array import array
from typing import Any

from mpi4py import MPI

from .communicator import Communicator, share_file
from .errors import Error

_WORD = 1  # the tag of messages

# Buffers to which MPI may still write after their communicator was abandoned.
_abandoned: list[Any] = []


def _complete(request: Any) -> None:
    """Waits without holding the GIL, so that signals are handled."""
    while not request.Test():
        time.sleep(50e-6)


class _Reduction:
    """A reduction that is not complete: where its result goes, if anywhere, and the buffer to which MPI writes."""

    def __init__(self, comm: Any, values: memoryview, minima: int) -> None:
        self.result: memoryview | None = values
        self.buffer = memoryview(bytearray(values))
        numbers = self.buffer.cast("q")
        sums = len(numbers) - minima
        self.requests = [
            comm.Iallreduce(MPI.IN_PLACE, [part, MPI.INT64_T], operation)
            for part, operation in ((numbers[:sums], MPI.SUM), (numbers[sums:], MPI.MIN))
            if len(part)
        ]


class MpiCommunicator(Communicator):
    """The ranks of an mpi4py intracommunicator, which is only duplicated (a collective call)."""

    def __init__(self, comm: Any) -> None:
        if not isinstance(comm, MPI.Intracomm):
            raise Error(f"comm is {comm!r}; it must be an intracommunicator of mpi4py, such as MPI.COMM_WORLD")
        if MPI.Query_thread() < MPI.THREAD_FUNNELED:
            raise Error("MPI was initialised with MPI_THREAD_SINGLE; Forebay needs MPI_THREAD_FUNNELED or more")
        self._control = comm.Dup()
        self._sums = self._control.Dup()
        self._partings = self._control.Dup()
        self.rank = self._control.Get_rank()
        self.size = self._control.Get_size()
        self._reductions: dict[int, _Reduction] = {}  # by channel
        self._words: list[tuple[bytes, list[Any]]] = []
        self._gather: dict[str, Any] = {}
        self._started_sums = self._sent = self._received = 0
        self._farewell: Any = None
        self._farewells = array("q", [0] * (2 * self.size))
        self._is_open = True

    def duplicate(self) -> MpiCommunicator:
        return MpiCommunicator(self._control)

    def start_reduction(self, channel: int, values: memoryview, minima: int) -> None:
        self._reductions[channel] = _Reduction(self._sums, values, minima)
        self._started_sums += 1

    def test(self, channel: int) -> bool:
        reduction = self._reductions.get(channel)
        if reduction is None:
            return True
        if not MPI.Request.Testall(reduction.requests):
            return False
        del self._reductions[channel]
        if reduction.result is not None:
            reduction.result[:] = reduction.buffer
        return True

    def broadcast(self, data: bytes, root: int) -> bytes:
        length = array("q", [len(data)])
        _complete(self._control.Ibcast([length, MPI.INT64_T], root))
        buffer = bytearray(data) if self.rank == root else bytearray(length[0])
        _complete(self._control.Ibcast([buffer, MPI.BYTE], root))
        return bytes(buffer)

    def start_gather(self, data: bytes) -> None:
        lengths, mine = array("q", [0] * self.size), array("q", [len(data)])
        request = self._control.Iallgather([mine, MPI.INT64_T], [lengths, MPI.INT64_T])
        self._gather = {"data": data, "mine": mine, "lengths": lengths, "request": request}

    def gathered(self) -> list[bytes] | None:
        state = self._gather
        if not state["request"].Test():
            return None
        counts = list(state["lengths"])
        starts = [sum(counts[:rank]) for rank in range(self.size)]
        if "all" not in state:
            if sum(counts) >= 2**31:
                raise Error("the texts of all ranks add up to more than 2 GiB, which MPI_Allgatherv cannot take")
            state["all"] = bytearray(sum(counts))
            state["request"] = self._control.Iallgatherv(
                [state["data"], MPI.BYTE], [state["all"], counts, starts, MPI.BYTE]
            )
            return None
        self._gather = {}
        return [bytes(state["all"][start : start + count]) for start, count in zip(starts, counts)]

    def share_on_node(self, size: int) -> mmap.mmap:
        node = self._control.Split_type(MPI.COMM_TYPE_SHARED)
        memory = share_file(size, node.Get_rank() == 0, node.bcast, self._control.allgather)
        node.Free()
        return memory

    def tell(self, data: bytes) -> None:
        self._forget_sent_words()
        others = (rank for rank in range(self.size) if rank != self.rank)
        self._words.append((data, [self._control.Isend([data, MPI.BYTE], rank, _WORD) for rank in others]))
        self._sent += 1

    def listen(self) -> tuple[int, bytes] | None:
        status = MPI.Status()
        if not self._control.Iprobe(MPI.ANY_SOURCE, _WORD, status):
            return None
        rank, data = status.Get_source(), bytearray(status.Get_count(MPI.BYTE))
        self._control.Recv([data, MPI.BYTE], rank, _WORD)
        self._received += 1
        return rank, bytes(data)

    def start_close(self) -> None:
        for reduction in self._reductions.values():
            reduction.result = None  # no longer wanted; its memory may be freed
        mine = array("q", [self._started_sums, self._sent])
        request = self._partings.Iallgather([mine, MPI.INT64_T], [self._farewells, MPI.INT64_T])
        self._farewell = (request, mine)

    def closed(self) -> bool:
        request, mine = self._farewell
        if not request.Test():
            return False
        sums, words = self._farewells[::2], self._farewells[1::2]  # of each rank
        # A sum that some rank has not started never completes on the others.
        if self._gather or any(started != mine[0] for started in sums):
            self._abandon()
            return True
        while self.listen():
            pass
        self._forget_sent_words()
        if self._received != sum(words) - mine[1] or self._words or not all(map(self.test, list(self._reductions))):
            return False
        self._free()
        return True

    def _free(self) -> None:
        """Frees the communicator. MPI defines this as collective, but Open MPI and MPICH free locally."""
        self._is_open = False
        for comm in (self._sums, self._partings, self._control):
            comm.Free()

    def _forget_sent_words(self) -> None:
        self._words = [word for word in self._words if not MPI.Request.Testall(word[1])]

    def _abandon(self) -> None:
        """Keeps the buffers, which MPI still uses, because waiting for open operations could hang."""
        self._is_open = False
        _abandoned.append((self._reductions, self._words, self._gather, self._farewell, self._farewells))

    def __del__(self) -> None:
        if not getattr(self, "_is_open", False) or MPI.Is_finalized():
            return
        if self._words or self._gather or self._farewell or self._reductions:
            self._abandon()
        else:
            self._free()
