#!/usr/bin/env python3
"""A network switch in user space: one TAP device in the network namespace of each host, and between them delay, loss,
a rate, and cables that can be pulled while it runs. The kernel needs no netem, so results do not depend on it.

    switch.py NAME=PID=ADDRESS... [--seed N]

NAME: the host; PID: a process in its network namespace; ADDRESS: of its device `net0`, with the length of the prefix.
Commands come on standard input, one a line, and each is answered by a line:

    cut HOST | heal HOST          from now on no frame reaches or leaves the host, those under way included
    delay HOST|all MS             each frame to or from the host takes so much longer
    loss HOST|all PERCENT         so many of the frames to or from the host are lost, at random
    rate HOST|all MBIT            what the host's link carries in each direction; 0 = any
    counts                        frames carried, lost at random, and lost to a cut

It ends when standard input does, and the devices with it."""

from __future__ import annotations

import ctypes
import fcntl
import heapq
import os
import random
import select
import struct
import subprocess
import sys
import time
from dataclasses import dataclass, field

MTU = 9000
DEVICE = "net0"
TUNSETIFF = 0x400454CA
IFF_TAP, IFF_NO_PI = 0x0002, 0x1000
CLONE_NEWNET = 0x40000000
BROADCAST = 0x01  # bit of a MAC address's first byte: for all, or for a group
QUEUED_AT_MOST = 100_000  # frames under way; more are lost, as in any switch


@dataclass
class Link:
    """The cable between a host and the switch."""

    host: str
    tap: int
    is_cut: bool = False
    delay_s: float = 0.0
    loss: float = 0.0
    bytes_per_s: float = 0.0
    free_at: dict[str, float] = field(default_factory=lambda: {"in": 0.0, "out": 0.0})

    def passes_at(self, direction: str, now: float, size: int) -> float:
        """When a frame that comes at `now` has passed."""
        if self.bytes_per_s > 0:
            now = self.free_at[direction] = max(now, self.free_at[direction]) + size / self.bytes_per_s
        return now + self.delay_s


def enter_network(namespace: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, CLONE_NEWNET) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error), "setns")


def open_tap(pid: int, address: str, number: int) -> int:
    """A TAP device in the namespace of `pid`. The device goes when the descriptor is closed, by whatever end."""
    own = os.open("/proc/self/ns/net", os.O_RDONLY)
    theirs = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    try:
        enter_network(theirs)
        tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22x", DEVICE.encode(), IFF_TAP | IFF_NO_PI))
        mac = f"02:00:00:00:00:{number:02x}"
        for command in (
            f"link set {DEVICE} address {mac} mtu {MTU} up",
            f"address add {address} dev {DEVICE}",
            "link set lo up",
        ):
            subprocess.run(["ip", *command.split()], check=True)
        return tap
    finally:
        enter_network(own)
        os.close(own)
        os.close(theirs)


class Switch:
    def __init__(self, links: list[Link], seed: int) -> None:
        self.links = links
        self.random = random.Random(seed)
        self.places: dict[bytes, Link] = {}  # by MAC address, as learnt
        self.due: list[tuple[float, int, Link, Link, bytes]] = []
        self.frames = self.lost = self.cut = 0
        self.epoll = select.epoll()
        for link in links:
            self.epoll.register(link.tap, select.EPOLLIN)
        self.by_tap = {link.tap: link for link in links}
        os.set_blocking(sys.stdin.fileno(), False)
        self.epoll.register(sys.stdin.fileno(), select.EPOLLIN)
        self.typed = b""

    def run(self) -> None:
        while True:
            wait = -1.0 if not self.due else max(0.0, self.due[0][0] - time.monotonic())
            for source, _ in self.epoll.poll(wait):
                if source in self.by_tap:
                    self.receive(self.by_tap[source])
                elif not self.listen():
                    return
            self.deliver()

    def receive(self, link: Link) -> None:
        for _ in range(64):  # others have a turn as well
            try:
                frame = os.read(link.tap, MTU + 64)
            except BlockingIOError:
                return
            except OSError:  # the host is gone
                self.epoll.unregister(link.tap)
                return
            self.places[frame[6:12]] = link
            to = None if frame[0] & BROADCAST else self.places.get(frame[0:6])
            for other in self.links if to is None else [to]:
                if other is not link:
                    self.send(link, other, frame)

    def send(self, source: Link, target: Link, frame: bytes) -> None:
        loss = max(source.loss, target.loss)
        if (loss > 0 and self.random.random() < loss) or len(self.due) >= QUEUED_AT_MOST:
            self.lost += 1
            return
        at = target.passes_at("in", source.passes_at("out", time.monotonic(), len(frame)), len(frame))
        self.frames += 1
        heapq.heappush(self.due, (at, self.frames, source, target, frame))

    def deliver(self) -> None:
        now = time.monotonic()
        while self.due and self.due[0][0] <= now:
            _, _, source, target, frame = heapq.heappop(self.due)
            if source.is_cut or target.is_cut:
                self.cut += 1
                continue
            try:
                os.write(target.tap, frame)
            except OSError:  # the host is gone
                self.cut += 1

    def listen(self) -> bool:
        typed = os.read(sys.stdin.fileno(), 4096)
        *lines, self.typed = (self.typed + typed).split(b"\n")
        for line in lines:
            print(self.obey(line.decode().split()), flush=True)
        return bool(typed)

    def obey(self, words: list[str]) -> str:
        match words:
            case ["counts"]:
                return f"{self.frames} {self.lost} {self.cut}"
            case ["cut" | "heal" as command, host]:
                for link in self.named(host):
                    link.is_cut = command == "cut"
            case ["delay", host, value]:
                for link in self.named(host):
                    link.delay_s = float(value) / 1000
            case ["loss", host, value]:
                for link in self.named(host):
                    link.loss = float(value) / 100
            case ["rate", host, value]:
                for link in self.named(host):
                    link.bytes_per_s = float(value) * 1e6 / 8
            case _:
                return "unknown command"
        return "done"

    def named(self, host: str) -> list[Link]:
        return [link for link in self.links if host in ("all", link.host)]


def main(arguments: list[str]) -> int:
    seed = 1
    if "--seed" in arguments:
        at = arguments.index("--seed")
        seed = int(arguments[at + 1])
        del arguments[at : at + 2]
    links = []
    for number, argument in enumerate(arguments):
        host, pid, address = argument.split("=")
        links.append(Link(host, open_tap(int(pid), address, number + 1)))
    print("ready", flush=True)
    Switch(links, seed).run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
