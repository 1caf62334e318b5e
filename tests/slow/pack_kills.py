#!/usr/bin/env python3
"""Whether packing that is killed at random moments and begun again makes the same bytes: pack_kills.py [KILLS]

    tests/slow/pack_kills.py [--forebay FILE] [--data FOLDER] [KILLS]

A set is packed once, in small files. Then the same is done again and again, each time killed by SIGKILL a few times, at
moments drawn from the time that the first run took, until KILLS (100) processes have been killed, and ended by a run
that is let be. Half of the rounds pack as two processes (--part), of which either is killed. All files must be the same,
and nothing else may be left. Without --data, forebay make-dataset draws images."""

import argparse
import hashlib
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LIMIT_S = 600
SEED = 20261123


def contents(folder: Path) -> dict[str, str]:
    return {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


class Packer:
    def __init__(self, forebay: Path, data: Path):
        self.command = [str(forebay), "pack", str(data)]

    def start(self, out: Path, part: str) -> subprocess.Popen[bytes]:
        more = ["--part", part, "--shard-size", "1MiB", "--threads", "2"]
        return subprocess.Popen([*self.command, str(out), *more], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def finish(self, out: Path, part: str) -> None:
        process = self.start(out, part)
        if process.wait(timeout=LIMIT_S) != 0:
            raise SystemExit(f"packing into {out} ended with {process.returncode}")


def main() -> None:
    root = Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--forebay", type=Path, default=root / "build/release/bin/forebay")
    parser.add_argument("--data", type=Path)
    parser.add_argument("kills", nargs="?", type=int, default=100)
    arguments = parser.parse_args()
    rng = random.Random(SEED)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = arguments.data
        if data is None:
            data = folder / "data"
            made = [arguments.forebay, "make-dataset", data, "--images", "150", "--size", "320x240", "--layout", "folder"]
            subprocess.run(made, check=True, stdout=subprocess.DEVNULL)
        packer = Packer(arguments.forebay, data)
        begin = time.monotonic()
        packer.finish(folder / "once", "1/1")
        whole_s = time.monotonic() - begin
        expected = contents(folder / "once")
        print(f"seed {SEED}: {len(expected)} files in {whole_s:.2f} s", flush=True)
        kills = rounds = differ = began = 0
        while kills < arguments.kills:
            rounds += 1
            out = folder / "killed"
            shutil.rmtree(out, ignore_errors=True)
            parts = ["1/1"] if rounds % 2 else ["1/2", "2/2"]
            for _ in range(rng.randrange(1, 6)):
                running = [packer.start(out, part) for part in parts]
                began += len(running)
                time.sleep(rng.uniform(0, whole_s / len(parts)))
                victim = rng.choice(running)
                victim.kill()
                kills += victim.wait() < 0
                for process in running:
                    process.wait(timeout=LIMIT_S)
            for part in parts:
                packer.finish(out, part)
            if contents(out) != expected:
                differ += 1
                print(f"round {rounds}: other files, or other bytes in them")
        print(f"{kills} of {began} processes killed, in {rounds} rounds; {differ} rounds made anything else")
    sys.exit(0 if differ == 0 else 1)


if __name__ == "__main__":
    main()
