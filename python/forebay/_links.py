"""Connections between the ranks of a job, one per pair, and how the ranks find each other."""

from __future__ import annotations

import collections
import contextlib
import fcntl
import hmac
import ipaddress
import json
import os
import secrets
import select
import socket
import struct
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

from .errors import Error

# Takes this rank's bytes and returns those of all ranks, in rank order. Blocking.
Exchange = Callable[[bytes], list[bytes]]

_HEAD = struct.Struct("<BBQ")  # kind, channel, number of bytes that follow
SUM, WORD, GATHER, FAREWELL = range(4)
_HELLO = struct.Struct("<32sI")
LOOPBACK = "127.0.0.1"
_MEET_S = 120.0  # until all ranks are connected
_STRANGERS = 64  # further connections, besides those of ranks, that have not identified themselves
_CHUNK = 1 << 18


class Links:
    """The connections of a communicator. Messages that have arrived wait in `mail` until they are fetched."""

    def __init__(self, peers: dict[int, socket.socket]) -> None:
        self._peers = peers
        self._ranks = {peer.fileno(): rank for rank, peer in peers.items()}
        self._poll = select.epoll()
        self._incoming = {rank: bytearray() for rank in peers}
        self._outgoing = {rank: bytearray() for rank in peers}
        self.mail: dict[tuple[int, int, int], collections.deque[bytes]] = collections.defaultdict(collections.deque)
        self.words: collections.deque[tuple[int, bytes]] = collections.deque()
        self.parted: set[int] = set()  # ranks that will send nothing more
        self.gone: set[int] = set()  # ranks whose connection is closed
        for peer in peers.values():
            peer.setblocking(False)
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._poll.register(peer, select.EPOLLIN)

    @property
    def has_sent(self) -> bool:
        return not any(self._outgoing.values())

    def say_to_all(self, kind: int, channel: int, data: bytes | memoryview) -> None:
        for rank, peer in self._peers.items():
            if rank in self.gone:
                continue
            waiting = self._outgoing[rank]
            was_empty = not waiting
            waiting += _HEAD.pack(kind, channel, len(data))
            waiting += data
            if was_empty:
                self._send(rank)
                if waiting:
                    self._poll.modify(peer, select.EPOLLIN | select.EPOLLOUT)

    def look(self, timeout_s: float = 0) -> None:
        """Sends what is pending and receives what has arrived, within `timeout_s`."""
        if self._poll.closed:
            return
        for number, events in self._poll.poll(timeout_s):
            rank = self._ranks[number]
            if events & select.EPOLLOUT:
                self._send(rank)
                if not self._outgoing[rank]:
                    self._poll.modify(number, select.EPOLLIN)
            if events & ~select.EPOLLOUT:
                self._receive(rank)

    def take(self, kind: int, channel: int, rank: int) -> bytes | None:
        waiting = self.mail[kind, channel, rank]
        return waiting.popleft() if waiting else None

    @property
    def is_closed(self) -> bool:
        return self._poll.closed

    def close(self) -> None:
        self._poll.close()
        for peer in self._peers.values():
            peer.close()

    def _send(self, rank: int) -> None:
        waiting = self._outgoing[rank]
        try:
            while waiting:
                del waiting[: self._peers[rank].send(waiting)]
        except BlockingIOError:
            pass
        except OSError:
            waiting.clear()  # nobody will read it; what the rank sent before must still be received

    def _receive(self, rank: int) -> None:
        try:
            data = self._peers[rank].recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.gone.add(rank)
            self._outgoing[rank].clear()
            self._poll.unregister(self._peers[rank])
            return
        waiting = self._incoming[rank]
        waiting += data
        start = 0
        while len(waiting) - start >= _HEAD.size:
            kind, channel, length = _HEAD.unpack_from(waiting, start)
            end = start + _HEAD.size + length
            if end > len(waiting):
                break
            data, start = bytes(waiting[start + _HEAD.size : end]), end
            if kind == WORD:
                self.words.append((rank, data))
            elif kind == FAREWELL:
                self.parted.add(rank)
            else:
                self.mail[kind, channel, rank].append(data)
        del waiting[:start]


def connect(rank: int, hosts: Sequence[str], exchange: Exchange) -> dict[int, socket.socket]:
    """Connects to all other ranks. Collective. Each rank connects to those before it."""
    if len(hosts) == 1:
        return {}
    deadline = time.monotonic() + _MEET_S
    listener = None
    token = secrets.token_bytes(32)
    peers: dict[int, socket.socket] = {}
    with contextlib.ExitStack() as listening, contextlib.ExitStack() as unless_met:
        unless_met.callback(lambda: list(map(socket.socket.close, peers.values())))
        try:
            listener = listening.enter_context(_listen(hosts, rank))
            mine: dict[str, Any] = {"port": listener.getsockname()[1], "token": token.hex()}
        except OSError as error:
            mine = {"problem": str(error)}
        places = [json.loads(text) for text in exchange(json.dumps(mine).encode())]
        for other, place in enumerate(places):
            if "problem" in place:
                raise Error(f"rank {other} cannot listen for connections: {place['problem']}")
        for other in range(rank):
            peers[other] = _call((hosts[other], places[other]["port"]), other, deadline)
            peers[other].sendall(_HELLO.pack(bytes.fromhex(places[other]["token"]), rank))
        if listener is not None:
            listener.setblocking(False)
            _meet(listener, token, set(range(rank + 1, len(hosts))), peers, deadline)
        unless_met.pop_all()
    return peers


def _listen(hosts: Sequence[str], rank: int) -> socket.socket:
    """Listens on the address by which the others reach this rank; if that is a name, which may mean a different
    interface here than there, on all addresses."""
    backlog = len(hosts) + _STRANGERS
    if all(host == LOOPBACK for host in hosts):
        return socket.create_server((LOOPBACK, 0), backlog=backlog)
    with contextlib.suppress(ValueError):
        version = ipaddress.ip_address(hosts[rank]).version
        family = socket.AF_INET if version == 4 else socket.AF_INET6
        return socket.create_server((hosts[rank], 0), family=family, backlog=backlog)
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", 0), family=socket.AF_INET6, backlog=backlog, dualstack_ipv6=True)
    return socket.create_server(("", 0), backlog=backlog)


def _call(address: tuple[str, int], rank: int, deadline: float) -> socket.socket:
    try:
        return socket.create_connection(address, timeout=max(1.0, deadline - time.monotonic()))
    except OSError as error:
        raise Error(
            f"rank {rank} cannot be reached at {address[0]} port {address[1]}: {error}. Set MASTER_ADDR to an address "
            "that all machines reach, and GLOO_SOCKET_IFNAME to the network interface between them"
        ) from None


def _meet(
    listener: socket.socket, token: bytes, missing: set[int], peers: dict[int, socket.socket], deadline: float
) -> None:
    """Accepts connections from the missing ranks. The hellos of all pending connections, which a rank sends
    immediately, are awaited together, and the oldest of too many is dropped, so that a stranger keeps no rank
    waiting."""
    from multiprocessing.connection import wait

    most = len(missing) + _STRANGERS
    guests: list[socket.socket] = []  # oldest first
    try:
        while missing:
            patience_s = deadline - time.monotonic()
            if patience_s <= 0:
                raise Error(f"ranks {sorted(missing)} did not connect within {_MEET_S:.0f} s")
            ready: list[Any] = wait([listener, *guests], patience_s)
            for each in ready:
                if each is listener:
                    with contextlib.suppress(OSError):  # it has already disconnected
                        guest = listener.accept()[0]
                        if len(guests) == most:
                            guests.pop(0).close()
                        guest.setblocking(False)
                        guest.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, _HELLO.size)  # wait() is for it all
                        guests.append(guest)
                elif each in guests:
                    guests.remove(each)
                    rank = _rank_of(each, token)
                    if rank in missing:
                        missing.remove(rank)
                        peers[rank] = each
                    else:
                        each.close()
    finally:
        for guest in guests:
            guest.close()


def _rank_of(guest: socket.socket, token: bytes) -> int:
    """The rank of a guest whose hello has arrived; -1 for a stranger. Bytes after the hello are left for Links."""
    with contextlib.suppress(OSError, struct.error):
        said, rank = _HELLO.unpack(guest.recv(_HELLO.size))
        guest.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
        return int(rank) if hmac.compare_digest(said, token) else -1
    return -1


def node() -> str:
    """An identifier that is equal for processes that can share memory."""
    folder = os.stat("/dev/shm" if os.access("/dev/shm", os.W_OK) else tempfile.gettempdir())
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            machine = file.read().strip()
    except OSError:
        machine = socket.gethostname()
    return f"{machine} {folder.st_dev} {folder.st_ino}"


def host(nodes: Sequence[str]) -> str:
    """The address at which other ranks reach this process: that of GLOO_SOCKET_IFNAME, or the one facing
    MASTER_ADDR."""
    if len(set(nodes)) == 1:
        return LOOPBACK
    interface = os.environ.get("GLOO_SOCKET_IFNAME")
    if interface:
        return _address_of(interface)
    master = os.environ.get("MASTER_ADDR")
    if not master:
        return socket.gethostname()
    family, kind, _, _, address = socket.getaddrinfo(master, 1, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind) as probe:
        probe.connect(address)  # sends nothing
        own = str(probe.getsockname()[0])
    # On the master's machine its name may resolve to the loopback; the others reach it by that name.
    return master if own.startswith("127.") or own == "::1" else own


def _address_of(interface: str) -> str:
    name = interface.split(",")[0].encode()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            answer = fcntl.ioctl(probe, 0x8915, struct.pack("256s", name[:15]))  # SIOCGIFADDR
        except OSError as error:
            raise Error(f"GLOO_SOCKET_IFNAME={interface!r}: the interface has no IPv4 address: {error}") from None
    return socket.inet_ntoa(answer[20:24])
