"""What happens to which host, and what must follow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hosts import KEEPALIVE, LINUX_TCP_RETRIES

BUSY_S = 5.0  # of an error, on a machine with more ranks than cores


@dataclass(frozen=True)
class Case:
    hosts: int
    per_host: int
    fault: str = "none"  # "cut", "power off", "killed", "delay", "loss"
    host: int = -1  # that it happens to; -1: the last
    lasts_s: float | None = None  # a cut: None = for ever
    amount: float = 0.0  # of delay (ms) or loss (%)
    watchdog_s: float = 60.0
    lockstep: bool = False
    all_reduce: bool = False  # the trainer has one of its own in each step
    save_every: int = 10
    epochs: int = 4
    step_ms: float = 10.0
    finds_out: bool = False  # the network and mpirun are set up to find out soon that a host is silent

    @property
    def ranks(self) -> int:
        return self.hosts * self.per_host

    @property
    def struck(self) -> int:
        return self.host % self.hosts

    @property
    def victim(self) -> str:
        return "all" if self.fault == "loss" else f"h{self.struck}"

    @property
    def title(self) -> str:
        who = "" if self.victim == "all" or self.fault == "none" else f"{self.victim} "
        how = {
            "none": "nothing",
            "cut": f"cut off {f'{self.lasts_s:g} s' if self.lasts_s is not None else 'for ever'}",
            "power off": "loses power",
            "killed": "killed",
            "delay": f"{self.amount:g} ms away",
            "loss": f"{self.amount:g} % of frames lost",
        }[self.fault]
        saves = ", saves" if self.save_every == 1 else ""
        sums = ", sums" if self.all_reduce else ""
        keepalive = ", keepalive" if self.finds_out else ""
        return who + how + saves + sums + keepalive

    @property
    def tcp_retries(self) -> int:
        return 5 if self.finds_out else LINUX_TCP_RETRIES

    @property
    def settings_of_mpirun(self) -> dict[str, str]:
        return KEEPALIVE if self.finds_out else {}

    @property
    def kills(self) -> bool:
        return self.fault in ("power off", "killed")

    @property
    def must_survive(self) -> bool:
        return self.fault in ("none", "delay", "loss") or (self.lasts_s is not None and self.lasts_s < self.watchdog_s)

    @property
    def must_end(self) -> bool:
        """mpirun learns of it soon: a cable that stays cut, or a machine without power, closes no connection."""
        return self.must_survive or self.fault == "killed" or self.finds_out

    @property
    def is_seen_by_feeder(self) -> bool:
        """Nothing else ends the ranks first: a trainer's own all-reduce hides all from the feeder, and mpirun ends a
        job when it hears that a host has died."""
        return not self.must_survive and self.fault != "killed" and not self.all_reduce

    @property
    def error_limit_s(self) -> float:
        """docs/trust.md promises this much, after the fault."""
        return 1.25 * self.watchdog_s + 1 + 3 + BUSY_S

    @property
    def run_limit_s(self) -> float:
        """Of a run without a fault; delays take some steps' time each."""
        slow = 1.0 if self.fault == "delay" else 0.1 if self.fault == "loss" else 0.02
        return 30 + 250 * self.epochs * (self.step_ms / 1000 + slow)

    @property
    def end_limit_s(self) -> float:
        if self.must_survive:
            return self.run_limit_s + 60
        return (self.error_limit_s if self.is_seen_by_feeder else 0) + 60

    def lives(self, rank: int) -> bool:
        return not self.kills or rank // self.per_host != self.struck

    def sides(self) -> list[list[int]]:
        """Ranks that can hear each other all the time."""
        if self.fault not in ("cut", "power off", "killed"):
            return [list(range(self.ranks))]
        there = [rank for rank in range(self.ranks) if rank // self.per_host == self.struck]
        return [[rank for rank in range(self.ranks) if rank not in there], there]

    def hosts_after(self) -> list[str]:
        """Where the job resumes: without a host that died."""
        return [f"h{host}" for host in range(self.hosts) if not self.kills or host != self.struck]

    @property
    def ranks_after(self) -> int:
        return len(self.hosts_after()) * self.per_host


def cases(quick: bool) -> Iterator[Case]:
    for number, (hosts, per_host) in enumerate([(2, 2), (4, 1)] if quick else [(2, 2), (4, 2), (8, 1)]):
        shape = {"hosts": hosts, "per_host": per_host, "lockstep": number % 2 == 1}
        yield Case(**shape)
        yield from short_cases(shape) if quick else long_cases(shape)


def short_cases(shape: dict[str, int]) -> Iterator[Case]:
    yield Case(**shape, fault="cut", lasts_s=1, watchdog_s=10)
    yield Case(**shape, fault="cut", watchdog_s=4)
    yield Case(**shape, fault="cut", host=0, watchdog_s=4, save_every=1)
    yield Case(**shape, fault="power off", watchdog_s=4)
    yield Case(**shape, fault="killed", watchdog_s=4)
    yield Case(**shape, fault="cut", watchdog_s=4, all_reduce=True, finds_out=True)
    yield Case(**shape, fault="delay", amount=50, epochs=1)
    yield Case(**shape, fault="loss", amount=5, epochs=1)


def long_cases(shape: dict[str, int]) -> Iterator[Case]:
    for host in (-1, 0):
        yield Case(**shape, fault="cut", host=host, lasts_s=1)
        yield Case(**shape, fault="cut", host=host, lasts_s=10)
        yield Case(**shape, fault="cut", host=host, lasts_s=120)
        yield Case(**shape, fault="cut", host=host, lasts_s=120, watchdog_s=300)
        yield Case(**shape, fault="cut", host=host)
        yield Case(**shape, fault="cut", host=host, save_every=1)
        yield Case(**shape, fault="power off", host=host)
        yield Case(**shape, fault="killed", host=host)
    yield Case(**shape, fault="cut", all_reduce=True, finds_out=True)
    yield Case(**shape, fault="delay", amount=200, epochs=1)
    yield Case(**shape, fault="loss", amount=5)
