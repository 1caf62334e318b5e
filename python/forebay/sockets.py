"""Ranks that communicate over TCP, with one connection per pair, for jobs without MPI.

A rank sends its part of an operation to all others immediately. So an operation completes on a rank once the others
have started it, whatever they do afterwards, and nothing runs in the background.
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence

import numpy as np

from ._links import FAREWELL, GATHER, SUM, WORD, Exchange, Links, connect
from .communicator import Communicator, share_file
from .errors import Error


class _Sum:
    """A reduction in progress."""

    def __init__(self, values: memoryview, minima: int, others: Sequence[int]) -> None:
        self.values: memoryview | None = values
        self.total = np.frombuffer(values, np.int64).copy()
        self._sums = len(self.total) - minima
        self.missing = set(others)

    def add(self, rank: int, data: bytes) -> None:
        theirs, sums = np.frombuffer(data, np.int64), self._sums
        if len(theirs) != len(self.total):
            raise Error(f"rank {rank} reduces {len(theirs)} values and this one {len(self.total)}")
        self.total[:sums] += theirs[:sums]
        np.minimum(self.total[sums:], theirs[sums:], out=self.total[sums:])
        self.missing.remove(rank)


# Open connections of abandoned communicators: other ranks may still read what was sent.
_abandoned: list[Links] = []


class SocketCommunicator(Communicator):
    """Ranks of processes that can exchange a few bytes once, through `exchange`.

    hosts: the address of each rank. nodes: equal for ranks that can share memory.
    Every rank sends its part to every other, which suits up to about a hundred ranks.
    """

    def __init__(self, rank: int, hosts: Sequence[str], nodes: Sequence[str], exchange: Exchange) -> None:
        self.rank = rank
        self.size = len(hosts)
        self._hosts = list(hosts)
        self._nodes = list(nodes)
        self._others = [other for other in range(self.size) if other != rank]
        self._sums: dict[int, _Sum] = {}
        self._gather: dict[int, bytes] = {}
        self._is_closing = False
        self._links = Links(connect(rank, hosts, exchange))

    def duplicate(self) -> SocketCommunicator:
        return SocketCommunicator(self.rank, self._hosts, self._nodes, self._exchange)

    def start_reduction(self, channel: int, values: memoryview, minima: int) -> None:
        self._sums[channel] = _Sum(values, minima, self._others)
        self._links.say_to_all(SUM, channel, values)

    def test(self, channel: int) -> bool:
        open_sum = self._sums.get(channel)
        if open_sum is None:
            return True
        self._links.look()
        for rank in tuple(open_sum.missing):
            if (data := self._links.take(SUM, channel, rank)) is not None:
                open_sum.add(rank, data)
            elif rank in self._links.gone and rank not in self._links.parted:
                raise self._has_gone(rank)
        if open_sum.missing:
            return False
        del self._sums[channel]
        if open_sum.values is not None:
            open_sum.values[:] = open_sum.total.tobytes()
        return True

    def broadcast(self, data: bytes, root: int) -> bytes:
        return self._exchange(data if self.rank == root else b"")[root]

    def start_gather(self, data: bytes) -> None:
        self._gather = {self.rank: data}
        self._links.say_to_all(GATHER, 0, data)

    def gathered(self) -> list[bytes] | None:
        self._links.look()
        for rank in [rank for rank in self._others if rank not in self._gather]:
            if (data := self._links.take(GATHER, 0, rank)) is not None:
                self._gather[rank] = data
            elif self._has_parted(rank):
                raise self._has_gone(rank)
        if len(self._gather) < self.size or not self._links.has_sent:
            return None
        return [self._gather[rank] for rank in range(self.size)]

    def share_on_node(self, size: int) -> mmap.mmap:
        first = self._nodes.index(self._nodes[self.rank])

        def of_all(text: str) -> list[str]:
            return [said.decode() for said in self._exchange(text.encode())]

        return share_file(size, self.rank == first, lambda path: of_all(path)[first], of_all)

    def tell(self, data: bytes) -> None:
        self._links.say_to_all(WORD, 0, data)

    def listen(self) -> tuple[int, bytes] | None:
        if not self._links.words:
            self._links.look()
        return self._links.words.popleft() if self._links.words else None

    def start_close(self) -> None:
        self._is_closing = True
        for open_sum in self._sums.values():
            open_sum.values = None  # no longer wanted; its memory may be freed
        self._links.say_to_all(FAREWELL, 0, b"")

    def closed(self) -> bool:
        self._links.look()
        # After a farewell nothing is left to read, so closing the connection loses nothing in transit.
        if not self._links.has_sent or not all(self._has_parted(rank) for rank in self._others):
            return False
        self._links.close()
        return True

    def _exchange(self, data: bytes) -> list[bytes]:
        self.start_gather(data)
        while (everything := self.gathered()) is None:
            self._links.look(1)
        return everything

    def _has_parted(self, rank: int) -> bool:
        return rank in self._links.parted or rank in self._links.gone

    def _has_gone(self, rank: int) -> Error:
        return Error(f"rank {rank} has gone: it closed its feeder or its process ended; its own output says why")

    def __del__(self) -> None:
        links = getattr(self, "_links", None)
        if links is None or links.is_closed:
            return
        if self._is_closing or not links.has_sent:
            _abandoned.append(links)
        else:
            links.close()
