"""Ranks without MPI: each is a thread here, with connections as between processes."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import forebay
import numpy as np
import pytest
from conftest import COUNT, SMALL
from forebay import _links
from forebay.communicator import share_file
from forebay.sockets import SocketCommunicator

LIMIT_S = 60
Work = Callable[[SocketCommunicator], Any]


def ranks(count: int, work: Work, *, host: str = "127.0.0.1", nodes: Sequence[str] = (), meddle: Any = None) -> Any:
    """What work(communicator) returned on each rank; the first error otherwise."""
    meeting = threading.Barrier(count)
    said = [b""] * count
    results: list[Any] = [None] * count
    errors: list[BaseException] = []

    def run(rank: int) -> None:
        def exchange(data: bytes) -> list[bytes]:
            said[rank] = data
            meeting.wait(LIMIT_S)
            if meddle is not None:
                meddle(rank, said)
            everything = list(said)
            meeting.wait(LIMIT_S)
            return everything

        try:
            results[rank] = work(SocketCommunicator(rank, [host] * count, nodes or ["here"] * count, exchange))
        except BaseException as error:
            errors.append(error)
            meeting.abort()

    threads = [threading.Thread(target=run, args=(rank,), daemon=True) for rank in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
    if errors:
        raise errors[0]
    assert not any(thread.is_alive() for thread in threads)
    return results


def until(condition: Callable[[], Any]) -> Any:
    limit = threading.Event()
    for _ in range(LIMIT_S * 1000):
        result = condition()
        if result:
            return result
        limit.wait(0.001)
    raise AssertionError("it did not come")


def part(comm: SocketCommunicator) -> None:
    comm.start_close()
    until(comm.closed)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_sums_and_minima_on_all_channels(count: int) -> None:
    def work(comm: SocketCommunicator) -> list[list[int]]:
        found = []
        for turn in range(50):
            values = [np.array([comm.rank, 1, -comm.rank, 2**62 - comm.rank], np.int64) + turn for _ in range(17)]
            for channel in range(17):
                comm.start_reduction(channel, memoryview(values[channel]).cast("B"), 2)
            # The order of the answers is free.
            for channel in reversed(range(17)):
                until(lambda channel=channel: comm.test(channel))
            assert all((each == values[0]).all() for each in values)
            found.append(values[0].tolist())
        part(comm)
        return found

    for found in ranks(count, work):
        for turn, (first, second, low, high) in enumerate(found):
            assert first == sum(range(count)) + count * turn and second == count * (1 + turn)
            assert low == turn - (count - 1) and high == 2**62 - (count - 1) + turn


def test_nothing_waits_for_a_rank_that_does_not_come() -> None:
    come = threading.Event()

    def work(comm: SocketCommunicator) -> int:
        values = np.ones(3, np.int64)
        if comm.rank == 1:
            assert come.wait(LIMIT_S)
        comm.start_reduction(0, memoryview(values).cast("B"), 0)
        if comm.rank == 0:
            assert not comm.test(0) and comm.listen() is None
            come.set()
        until(lambda: comm.test(0))
        part(comm)
        return int(values.sum())

    assert ranks(2, work) == [6, 6]


def test_an_operation_ends_without_further_calls_of_the_others() -> None:
    done = threading.Event()

    def work(comm: SocketCommunicator) -> None:
        values = np.ones(1, np.int64)
        comm.start_reduction(0, memoryview(values).cast("B"), 0)
        if comm.rank == 1:
            assert done.wait(LIMIT_S)  # and calls nothing meanwhile
        until(lambda: comm.test(0))
        done.set()
        part(comm)

    ranks(2, work)


def test_words_arrive_in_their_order() -> None:
    def work(comm: SocketCommunicator) -> dict[int, list[bytes]]:
        for number in range(20):
            comm.tell(f"{comm.rank} {number}".encode())
        heard: dict[int, list[bytes]] = {}
        for _ in range(40):
            rank, word = until(comm.listen)
            heard.setdefault(rank, []).append(word)
        part(comm)
        return heard

    for rank, heard in enumerate(ranks(3, work)):
        assert heard == {other: [f"{other} {n}".encode() for n in range(20)] for other in range(3) if other != rank}


def test_large_texts_and_duplicates() -> None:
    def work(comm: SocketCommunicator) -> bool:
        own = comm.duplicate()
        own.start_gather(bytes([own.rank]) * 6_000_000)
        comm.start_gather(b"small")
        assert until(comm.gathered) == [b"small"] * 3
        assert until(own.gathered) == [bytes([rank]) * 6_000_000 for rank in range(3)]
        data = own.broadcast(b"x" * 5_000_000 if own.rank == 2 else b"", 2)
        part(own)
        part(comm)
        return data == b"x" * 5_000_000

    assert ranks(3, work) == [True] * 3


def test_ranks_of_a_node_share_memory() -> None:
    def work(comm: SocketCommunicator) -> list[int]:
        memory = comm.share_on_node(64)
        memory[comm.rank] = 7
        comm.broadcast(b"", 0)
        until(lambda: memory[:].count(7) == 2)
        comm.start_gather(b"")
        until(comm.gathered)
        part(comm)
        return list(memory[:4])

    assert ranks(4, work, nodes=["a", "b", "a", "b"], host="localhost") == [[7, 0, 7, 0], [0, 7, 0, 7]] * 2


def test_a_rank_that_has_gone_is_named() -> None:
    def work(comm: SocketCommunicator) -> None:
        if comm.rank == 1:
            comm._links.close()  # as the end of its process
            return
        comm.start_reduction(0, memoryview(np.ones(1, np.int64)).cast("B"), 0)
        until(lambda: comm.test(0))

    with pytest.raises(forebay.Error, match="rank 1 has gone"):
        ranks(2, work)


def test_memory_of_a_node_is_given_back_if_a_rank_has_gone() -> None:
    places = []

    def gone(path: str) -> str:
        places.append(path)
        raise forebay.Error("rank 1 has gone")

    with pytest.raises(forebay.Error, match="has gone"):
        share_file(64, True, gone, lambda text: [text])
    assert places and not Path(places[0]).exists()


def test_strangers_are_no_ranks() -> None:
    strangers = []

    def meddle(rank: int, said: list[bytes]) -> None:
        if rank == 0 and b"port" in said[0]:
            for text in (b"x" * 36, b"short"):
                strangers.append(socket.create_connection(("127.0.0.1", json.loads(said[0])["port"])))
                strangers[-1].sendall(text)
                strangers[-1].shutdown(socket.SHUT_WR)

    def work(comm: SocketCommunicator) -> bytes:
        data = comm.broadcast(b"from 1" if comm.rank == 1 else b"", 1)
        part(comm)
        return data

    assert ranks(2, work, meddle=meddle) == [b"from 1"] * 2
    assert len(strangers) == 2
    for stranger in strangers:
        stranger.close()


def test_strangers_that_say_little_keep_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_links, "_STRANGERS", 8)
    strangers: list[socket.socket] = []

    def meddle(rank: int, said: list[bytes]) -> None:
        if rank == 0 and b"port" in said[0]:
            for _ in range(11):  # as many as the system lets wait, and more than are listened to
                stranger = socket.create_connection(("127.0.0.1", json.loads(said[0])["port"]), timeout=LIMIT_S)
                stranger.sendall(b"x" * (len(strangers) % 36))
                strangers.append(stranger)

    def work(comm: SocketCommunicator) -> int:
        part(comm)
        return comm.size

    # With one after the other each would have held the start for as long as it kept its connection.
    assert ranks(3, work, meddle=meddle) == [3, 3, 3]
    for stranger in strangers:
        stranger.close()


def test_a_rank_listens_where_the_others_reach_it() -> None:
    with _links._listen(["127.0.0.2", "127.0.0.1"], 0) as listener:
        assert listener.getsockname()[0] == "127.0.0.2"
    with _links._listen(["127.0.0.1", "127.0.0.1"], 1) as listener:
        assert listener.getsockname()[0] == "127.0.0.1"


def test_where_others_reach_a_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GLOO_SOCKET_IFNAME", raising=False)
    assert _links.host(["one", "one"]) == "127.0.0.1"
    monkeypatch.setenv("MASTER_ADDR", "localhost")
    assert _links.host(["one", "two"]) == "localhost"
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    assert _links.host(["one", "two"]) == "127.0.0.1"
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "nothing0")
    with pytest.raises(forebay.Error, match="nothing0"):
        _links.host(["one", "two"])


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("mode", ["local", "lockstep"])
def test_feeders_serve_every_sample_once(folder: Path, count: int, mode: str) -> None:
    def work(comm: SocketCommunicator) -> Any:
        seen, steps = [], 0
        options = {**SMALL, "batch_size": 2, "epochs": 2, "mode": mode}
        with forebay.Feeder(dataset=folder, comm=comm, **options) as feeder:
            for epoch in feeder.epochs():
                seen.append([int(i) for batch in epoch for i in batch.ids if batch.is_fresh])
            steps = feeder.steps
        return seen, steps

    found = ranks(count, work)
    assert len({steps for _, steps in found}) == 1
    for epoch in range(2):
        assert sorted(i for seen, _ in found for i in seen[epoch]) == list(range(COUNT))


def test_a_feeder_names_the_rank_with_the_error(folder: Path) -> None:
    def work(comm: SocketCommunicator) -> str:
        try:
            forebay.Feeder(dataset=folder, comm=comm, **{**SMALL, "batch_size": 0 if comm.rank else 2})
        except forebay.ConfigError as error:
            return str(error)
        return ""

    one, two = ranks(2, work)
    assert "rank 1" in one and "batch_size" in one and "batch_size" in two
