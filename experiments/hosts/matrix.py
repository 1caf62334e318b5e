#!/usr/bin/env python3
"""A job on several hosts to which something happens, and whether its ranks end as they should and the job loses
nothing: matrix.py HOSTS_RANK [--quick] [--only TEXT] [--hosts N,...] [--seed N]. README.md has what is checked."""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from cases import Case, cases
from hosts import Hosts, Missing, mpirun, require_namespaces

START_S = 180.0  # for mpirun and the first steps, on a busy machine


@dataclass
class Rank:
    """How a part of the job ended for one rank: `text` is "end", or the error; empty when it did not say."""

    text: str = ""
    at_s: float = 0.0  # after the fault


@dataclass
class Outcome:
    ranks: list[Rank]
    gone_s: float | None  # when no rank was left, after the fault; None: not within the time that they were given
    mpirun_s: float | None  # when it ended; None: it was not waited for any more
    steps_after: int  # that all ranks made after the fault
    printed: str


class Job:
    """A case on its hosts."""

    def __init__(self, case: Case, program: Path, folder: Path, seed: int) -> None:
        self.case = case
        self.program = program
        self.folder = folder
        self.random = random.Random(f"{seed} {case.title}")
        self.seed = seed
        self.environment = dict(os.environ, FOREBAY_HOSTS=str(folder))
        self.shared = folder / "shared"

    def settings(self, part: int) -> list[str]:
        case = self.case
        return [
            f"folder={self.folder}",
            f"part={part}",
            f"ranks={case.ranks}",
            f"ranks_after={case.ranks_after}",
            f"epochs={case.epochs}",
            f"save_every={case.save_every}",
            f"step_ms={case.step_ms}",
            f"watchdog_s={case.watchdog_s}",
            f"lockstep={int(case.lockstep)}",
            f"all_reduce={int(case.all_reduce)}",
        ]

    def write_data(self) -> None:
        """Each host's own copy."""
        subprocess.run([self.program, "data", *self.settings(0)], check=True)
        for host in range(self.case.hosts):
            shutil.copytree(self.folder / "data", self.folder / f"data.h{host}")
        shutil.rmtree(self.folder / "data")

    def start(self, hosts: Hosts, names: list[str], part: int) -> subprocess.Popen[bytes]:
        launcher = mpirun(hosts, names, self.case.per_host, self.case.settings_of_mpirun)
        command = [*launcher, str(self.program), "rank", *self.settings(part)]
        with (self.folder / f"printed.{part}").open("wb") as printed:
            return subprocess.Popen(
                hosts.on_head(command), env=self.environment, stdin=subprocess.DEVNULL, stdout=printed, stderr=printed
            )

    def printed(self, part: int) -> str:
        return (self.folder / f"printed.{part}").read_text(errors="replace").strip()

    def steps(self, part: int, rank: int) -> int:
        try:
            return (self.shared / f"{part}.{rank}.steps").read_bytes().count(b"\n")
        except FileNotFoundError:
            return 0

    def fewest_steps(self) -> int:
        return min(self.steps(0, rank) for rank in range(self.case.ranks))

    def end_of(self, part: int, rank: int, since: float) -> Rank:
        try:
            at, _, text = (self.shared / f"{part}.{rank}.end").read_text().strip().partition(" ")
        except FileNotFoundError:
            return Rank()
        return Rank(text, float(at) - since)

    def first_part(self, hosts: Hosts) -> Outcome:
        job = self.start(hosts, hosts.names, 0)
        try:
            self.await_steps(job)
            time.sleep(self.random.random() * 0.1)  # at any moment of a step
            began, steps = time.time(), self.fewest_steps()
            self.strike(hosts)
            gone_s, ended_s = self.await_end(job, hosts, began)
            ranks = [self.end_of(0, rank, began) for rank in range(self.case.ranks)]
            return Outcome(ranks, gone_s, ended_s, self.fewest_steps() - steps, self.printed(0))
        finally:
            job.kill()
            job.wait()

    def await_steps(self, job: subprocess.Popen[bytes]) -> None:
        wanted = 20 + self.random.randrange(self.case.save_every + 1)
        deadline = time.monotonic() + START_S
        while self.fewest_steps() < wanted:
            if job.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{self.case.title}: the job does not start\n{self.printed(0)}")
            time.sleep(0.01)

    def strike(self, hosts: Hosts) -> None:
        case = self.case
        if case.fault == "cut":
            hosts.tell_switch(f"cut {case.victim}")
        elif case.fault == "power off":  # nobody is told: no connection is closed
            hosts.tell_switch(f"cut {case.victim}")
            hosts.kill(case.victim)
        elif case.fault == "killed":
            hosts.kill(case.victim)
        elif case.fault in ("delay", "loss"):
            hosts.tell_switch(f"{case.fault} {case.victim} {case.amount}")

    def await_end(
        self, job: subprocess.Popen[bytes], hosts: Hosts, began: float
    ) -> tuple[float | None, float | None]:
        """When no rank was left and when mpirun ended. A cut that ends is healed meanwhile."""
        lasts_s = self.case.lasts_s
        deadline = began + (lasts_s or 0) + self.case.end_limit_s
        gone_s = ended_s = None
        while time.time() < deadline:
            if lasts_s is not None and time.time() >= began + lasts_s:
                hosts.tell_switch(f"heal {self.case.victim}")
                lasts_s = None
            if ended_s is None and job.poll() is not None:
                ended_s = time.time() - began
            if gone_s is None and not hosts.processes(self.program):
                gone_s = time.time() - began
            if gone_s is not None and (ended_s is not None or not self.case.must_end):
                break
            time.sleep(0.2)
        return gone_s, ended_s

    def resume(self, hosts: Hosts, names: list[str]) -> bool:
        job = self.start(hosts, names, 1)
        try:
            job.wait(START_S + self.case.run_limit_s)
        except subprocess.TimeoutExpired:
            return False
        finally:
            job.kill()
            job.wait()
        return all(self.end_of(1, rank, 0).text == "end" for rank in range(len(names) * self.case.per_host))

    def keep_state(self, part: int) -> None:
        if (self.shared / "feed.state").exists():
            shutil.copy(self.shared / "feed.state", self.shared / f"{part}.state")

    def audit(self) -> dict[str, object]:
        done = subprocess.run([self.program, "audit", *self.settings(0)], capture_output=True, text=True)
        if done.returncode not in (0, 1) or not done.stdout:
            return {"lost": -1, "doubled": -1, "violations": [done.stderr.strip()]}
        return dict(json.loads(done.stdout))


def problems_of(case: Case, outcome: Outcome, resumed: bool, audit: dict[str, object]) -> list[str]:
    """What must not be."""
    problems = []
    lives = [rank for number, rank in enumerate(outcome.ranks) if case.lives(number)]
    texts = {rank.text for rank in lives if rank.text}
    if case.must_survive and texts != {"end"}:
        problems.append("a rank failed although nothing lasted for long")
    if any(not rank.text for rank in lives) and (case.is_seen_by_feeder or case.must_survive):
        problems.append("a rank said nothing")
    for side in case.sides():
        errors = {outcome.ranks[number].text for number in side if outcome.ranks[number].text}
        if len(errors) > 1:
            problems.append("ranks that can hear each other have different errors")
    if case.is_seen_by_feeder and any(rank.at_s > case.error_limit_s for rank in lives if rank.text != "end"):
        problems.append("an error came later than the watchdog allows")
    if outcome.mpirun_s is None and case.must_end:
        problems.append("mpirun did not end")
    if outcome.gone_s is None:
        problems.append("ranks did not end")
    if not resumed:
        problems.append("the job did not resume to its end")
    if audit["lost"] or audit["doubled"] or audit["violations"]:
        problems.append(f"not each sample once: {audit['violations']}")
    return problems


def run_case(case: Case, program: Path, folder: Path, seed: int) -> list[str]:
    job = Job(case, program, folder, seed)
    job.shared.mkdir()
    job.write_data()
    began = time.monotonic()
    with Hosts(folder, case.hosts, seed, case.tcp_retries) as hosts:
        outcome = job.first_part(hosts)
    job.keep_state(0)
    has_ended = all(rank.text == "end" for rank in outcome.ranks)
    resumed = has_ended
    if not has_ended:
        with Hosts(folder, case.hosts, seed + 1) as hosts:
            resumed = job.resume(hosts, case.hosts_after())
        job.keep_state(1)
    audit = job.audit()
    problems = problems_of(case, outcome, resumed, audit)
    print_row(case, outcome, audit, time.monotonic() - began, problems)
    if problems:
        print(outcome.printed[-3000:])
        if not resumed:
            steps = [job.steps(1, rank) for rank in range(case.ranks_after)]
            print(f"the job that resumed made so many steps: {steps}\n{job.printed(1)[-3000:]}", flush=True)
    return problems


def is_right(case: Case, program: Path, folder: Path, seed: int) -> bool:
    try:
        return not run_case(case, program, folder, seed)
    except RuntimeError as error:  # of this case's hosts; the others may fare better
        print(f"       PROBLEM: {error}", flush=True)
        return False


COLUMNS = "{:>5}  {:>5}  {:<36}  {:<8}  {:>8}  {:>12}  {:>7}  {:>9}  {:>5}  {:>4}  {:>7}  {:>5}"


def print_row(case: Case, outcome: Outcome, audit: dict[str, object], wall_s: float, problems: list[str]) -> None:
    times = [rank.at_s for rank in outcome.ranks if rank.text and rank.text != "end"]
    saw = f"{min(times):.1f} .. {max(times):.1f}" if times else "-"
    gone, ended = ("-" if at is None else f"{at:.1f}" for at in (outcome.gone_s, outcome.mpirun_s))
    mode = "lockstep" if case.lockstep else "local"
    print(
        COLUMNS.format(
            case.hosts, case.ranks, case.title, mode, f"{case.watchdog_s:g}", saw, gone, ended, f"{outcome.steps_after}",
            str(audit["lost"]), str(audit["doubled"]), f"{wall_s:.0f}",
        )
    )  # fmt: skip
    said: dict[str, list[int]] = {}
    for number, rank in enumerate(outcome.ranks):
        said.setdefault(rank.text or "nothing", []).append(number)
    for text, numbers in said.items():
        print(f"       ranks {', '.join(map(str, numbers))}: {text}")
    for problem in problems:
        print(f"       PROBLEM: {problem}")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", type=Path)
    parser.add_argument("--quick", action="store_true", help="2 and 4 hosts, short cuts")
    parser.add_argument("--only", default="", help="cases whose title has this text")
    parser.add_argument("--hosts", default="", help="only with so many hosts: 2,4")
    parser.add_argument("--seed", type=int, default=1, help="of the moments and of what is lost")
    parser.add_argument("--times", type=int, default=1, help="run each case so often, with other seeds")
    arguments = parser.parse_args()
    try:
        require_namespaces()
    except Missing as missing:
        print(f"no hosts can be made here: {missing}", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # removes the hosts
    counts = {int(count) for count in arguments.hosts.split(",") if count}
    chosen = [
        case
        for case in cases(arguments.quick)
        if arguments.only in case.title and (not counts or case.hosts in counts)
    ]
    if not chosen:
        print("there is no such case", file=sys.stderr)
        return 2
    print(f"seed {arguments.seed}")
    print(
        COLUMNS.format(
            "hosts", "ranks", "fault", "mode", "watchdog", "errors, s", "gone, s", "mpirun, s", "steps",
            "lost", "doubled", "all, s",
        )
    )
    program = arguments.program.resolve()
    wrong = 0
    for round_number in range(arguments.times):
        for case in chosen:
            with tempfile.TemporaryDirectory(prefix="forebay-hosts-") as folder:
                seed = arguments.seed + round_number
                wrong += not is_right(case, program, Path(folder), seed)
    total = len(chosen) * arguments.times
    print(f"{total} cases, {wrong} with problems")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
