"""Loaders beside a trainer that takes a core: its step computes for STEP_MS when it has a core to itself, and the
loader's threads or processes share the same cores. Everything is in Python, Forebay through its package."""

import os
import subprocess
import sys

from bench import Failed, Row, script_of
from cases import Check, config_file, like_the_bare_loop, ratio
from container_cases import ResidentCase
from loaders import PEERS, title_of
from resident import Resident

STEP_MS = 50
WARM_UP_S = 2
WANTED = 1.1  # of any loader's images per second


def work_of_a_step(bench):
    """Bytes to hash in a step, by the interpreter that the loaders run in."""
    python = bench.python_of(PEERS["forebay-python"].environment)
    done = subprocess.run(["taskset", "-c", str(bench.cores[0]), python, "-c",
                           "import measuring; print(measuring.hashed_per_second())"], check=True, text=True,
                          capture_output=True, cwd=os.path.dirname(script_of("measuring.py")))
    return int(float(done.stdout) * STEP_MS / 1000)


class Beside:
    """A loader with a trainer in its process; started when it is first measured."""

    def __init__(self, bench, peer, way, what, amount):
        self.bench, self.peer, self.way, self.what, self.amount = bench, peer, way, what, amount
        self.resident = None

    def turn(self):
        if self.resident is None:
            command = self.bench.command_of(self.peer, self.what, self.way)
            self.resident = Resident([*command, f"--trainer={self.amount}"], self.bench.cores, WARM_UP_S, 224)
        return self.resident.turn(self.bench.warm_s / 2, self.bench.seconds)

    def close(self):
        if self.resident:
            self.resident.close()


def beside_a_trainer(bench, data, only, variants):
    try:
        amount = work_of_a_step(bench)
    except (Failed, subprocess.CalledProcessError) as why:
        print(f"\nThe case 'trainer' is left out: {why}", file=sys.stderr)
        return None
    images, about = data.photographs()
    config = config_file(bench, "trainer", "filelist", images, 224)
    rows, loaders = {}, []
    for peer in (peer for peer in PEERS if peer in only):
        ways = {PEERS[peer].beside_trainer, *(PEERS[peer].ways if variants == "all" else ())}
        for way in sorted(ways):
            loader = Beside(bench, peer, way, config if peer == "forebay-python" else images, amount)
            loaders.append(loader)
            rows[peer, way] = Row(title_of(peer, way), lambda loader=loader: like_the_bare_loop(
                loader.turn(), rows.get(forebay)))
    forebay = ("forebay-python", PEERS["forebay-python"].beside_trainer)

    def checks():
        return [Check(f"beside a trainer: forebay-python / {key[0]}", ratio(rows, forebay, key), WANTED)
                for key in rows if key != forebay and key[1] == PEERS[key[0]].beside_trainer]

    return ResidentCase("trainer", f"Beside a trainer that computes for {STEP_MS} ms per batch ({about})",
                        list(rows.values()), checks, residents=loaders, reference=rows.get(forebay))
