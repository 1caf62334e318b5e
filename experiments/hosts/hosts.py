"""Hosts on one machine: each has a network, a name, System V memory, process ids, /dev/shm, temporary files and a data
folder of its own, and reaches the others through switch.py only. Nothing of them has a name on the machine: they are
held by processes that the kernel kills when this one ends, however it ends, and with a host's first process all others
on it are killed."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

HERE = Path(__file__).resolve().parent
HEAD = "head"  # runs mpirun and no rank
SUBNET = "10.77.0"  # within the namespaces only
DIES_WITH_US = ["setpriv", "--pdeathsig", "KILL"]
OWN = ["--net", "--uts", "--ipc", "--mount"]
LIMIT_S = 20
LINUX_TCP_RETRIES = 15  # net.ipv4.tcp_retries2: about a quarter of an hour

# $1: the folder, $2: the host's name, $3: how often TCP sends again before it gives up.
SETUP = """
set -e
hostname "$2"
echo "$3" > /proc/sys/net/ipv4/tcp_retries2
mount -t tmpfs none /dev/shm
mount -t tmpfs none "$1/tmp"
mount --bind "$1/names" /etc/hosts
[ ! -d "$1/data.$2" ] || mount --bind "$1/data.$2" "$1/data"
echo ready
exec sleep infinity
"""


class Missing(Exception):
    """What this machine lacks."""


def require_namespaces() -> None:
    if os.geteuid() != 0:
        raise Missing("root is needed to make network namespaces")
    for tool in ("unshare", "nsenter", "setpriv", "ip", "mpirun"):
        if shutil.which(tool) is None:
            raise Missing(f"{tool} is not installed")
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        raise Missing("/dev/net/tun cannot be opened")
    tried = subprocess.run(
        ["unshare", *OWN, "--pid", "--fork", "--kill-child", "--mount-proc", "mount", "-t", "tmpfs", "none", "/dev/shm"],
        capture_output=True,
        text=True,
    )
    if tried.returncode != 0:
        raise Missing(f"namespaces cannot be made here: {tried.stderr.strip()}")


@dataclass
class Host:
    name: str
    holder: subprocess.Popen[str]
    pid: int  # of its first process, as seen from here


class Hosts:
    """`count` hosts, h0 and so on, and the head. Removed when the scope is left, or this process dies."""

    def __init__(self, folder: Path, count: int, seed: int, tcp_retries: int = LINUX_TCP_RETRIES) -> None:
        self.folder = folder
        self.tcp_retries = tcp_retries
        self.names = [f"h{number}" for number in range(count)]
        self.hosts: dict[str, Host] = {}
        self.switch: subprocess.Popen[str] | None = None
        self.seed = seed

    def __enter__(self) -> Hosts:
        for name in ("tmp", "pids", "data", "shared"):
            (self.folder / name).mkdir(exist_ok=True)
        addresses = {name: f"{SUBNET}.{10 + number}" for number, name in enumerate([*self.names, HEAD])}
        lines = ["127.0.0.1 localhost", *(f"{address} {name}" for name, address in addresses.items())]
        (self.folder / "names").write_text("\n".join(lines) + "\n")
        try:
            for name in addresses:
                self.hosts[name] = self.hold(name)
                (self.folder / "pids" / name).write_text(f"{self.hosts[name].pid}\n")
            ports = [f"{name}={host.pid}={addresses[name]}/24" for name, host in self.hosts.items()]
            command = [*DIES_WITH_US, sys.executable, str(HERE / "switch.py"), "--seed", str(self.seed), *ports]
            self.switch = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            self.answer(self.switch, "ready")
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()

    def hold(self, name: str) -> Host:
        # mpirun's agents enter the other hosts by process ids as they are here, so the head has none of its own.
        processes = [] if name == HEAD else ["--pid", "--fork", "--kill-child", "--mount-proc"]
        command = [*DIES_WITH_US, "unshare", *OWN, *processes, "sh", "-c", SETUP, "host", str(self.folder), name]
        command.append(str(self.tcp_retries))
        with (self.folder / f"printed.{name}").open("w") as printed:
            holder = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=printed, text=True
            )
        try:
            self.answer(holder, "ready")
        except RuntimeError:
            print((self.folder / f"printed.{name}").read_text(), file=sys.stderr)
            raise
        children = Path(f"/proc/{holder.pid}/task/{holder.pid}/children").read_text().split()
        return Host(name, holder, holder.pid if name == HEAD else int(children[0]))

    @staticmethod
    def answer(process: subprocess.Popen[str], expected: str) -> str:
        assert process.stdout is not None
        line = process.stdout.readline().strip()
        if expected and line != expected:
            raise RuntimeError(f"{process.args!r} answered {line!r} and not {expected!r}")
        return line

    def tell_switch(self, command: str, expected: str = "done") -> str:
        assert self.switch is not None and self.switch.stdin is not None
        self.switch.stdin.write(command + "\n")
        self.switch.stdin.flush()
        return self.answer(self.switch, expected)

    def kill(self, name: str) -> None:
        """All processes on the host, at once."""
        os.kill(self.hosts[name].pid, signal.SIGKILL)
        self.hosts[name].holder.wait(LIMIT_S)

    def processes(self, program: Path) -> list[int]:
        """Which run that program on any host, by their ids here."""
        networks = set()
        for host in self.hosts.values():
            with contextlib.suppress(OSError):
                networks.add(os.readlink(f"/proc/{host.pid}/ns/net"))
        found = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                is_here = entry.name.isdigit() and os.readlink(entry / "ns/net") in networks
                if is_here and os.readlink(entry / "exe").removesuffix(" (deleted)") == str(program):
                    found.append(int(entry.name))
        return found

    def on_head(self, command: list[str]) -> list[str]:
        """The command that runs this one on the head."""
        pid = str(self.hosts[HEAD].pid)
        enter = ["nsenter", "--mount", "--uts", "--ipc", "--net", "--target", pid, f"--wd={self.folder}", "--"]
        return [*DIES_WITH_US, *enter, *command]

    def remove(self) -> None:
        for process in [self.switch, *(host.holder for host in self.hosts.values())]:
            if process is None:
                continue
            process.kill()
            process.wait(LIMIT_S)
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()


# By default mpirun finds out after eight minutes that a host is silent with which it has nothing to talk about.
KEEPALIVE = {"oob_tcp_keepalive_time": "5", "oob_tcp_keepalive_intvl": "2", "oob_tcp_keepalive_probes": "3"}


def mpirun(hosts: Hosts, names: list[str], per_host: int, settings_beside: dict[str, str]) -> list[str]:
    """mpirun with its options, for ranks on those hosts, in their order."""
    settings = {
        "plm_rsh_agent": str(HERE / "launch"),
        "plm_rsh_no_tree_spawn": "1",
        "oob_tcp_if_include": f"{SUBNET}.0/24",
        "btl": "self,vader,tcp",
        "btl_tcp_if_include": f"{SUBNET}.0/24",
        "orte_tmpdir_base": str(hosts.folder / "tmp"),
        **settings_beside,
    }
    command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--tag-output"]
    for name, value in settings.items():
        command += ["--mca", name, value]
    command += ["-n", str(len(names) * per_host), "--map-by", "slot"]
    return [*command, "--host", ",".join(f"{name}:{per_host}" for name in names)]
