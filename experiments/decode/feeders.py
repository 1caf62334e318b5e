#!/usr/bin/env python3
"""Whole feeders with workers.jpeg = "own" and "turbo" in turn: images per second, and their ratio within each round.

    experiments/decode/feeders.py [--forebay FILE] [--rounds N] [--steps N] DATASET:SIDE...

DATASET is a folder that dataset.path takes, SIDE the side of the square crops. Each is fed with one and two decoders.
"""

import argparse
import re
import statistics
import subprocess
import tempfile
from pathlib import Path

BATCH = 64


def images_per_s(forebay: Path, config: Path, jpeg: str, decoders: int) -> float:
    command = [forebay, "feed", config, "--set", f"workers.jpeg={jpeg}", "--set", f"workers.decode={decoders}"]
    text = subprocess.run(command, check=True, capture_output=True, text=True)
    found = re.search(r"([0-9]+) fresh images/s", text.stdout + text.stderr)
    if found is None:
        raise SystemExit(f"{forebay} feed printed no images/s")
    return float(found[1])


def spread(values: list[float], digits: int) -> str:
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{middle:.{digits}f} [{low:.{digits}f} .. {high:.{digits}f}]"


def main() -> None:
    root = Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--forebay", type=Path, default=root / "build/release/bin/forebay")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=0, help="batches of a run (default: 100; 1500 if SIDE < 64)")
    parser.add_argument("datasets", nargs="+", metavar="DATASET:SIDE")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for given in arguments.datasets:
            path, _, side = given.rpartition(":")
            config = Path(folder) / "feed.toml"
            steps = arguments.steps or (1500 if int(side) < 64 else 100)
            config.write_text(
                f'seed = 1\n[dataset]\npath = "{Path(path).resolve()}"\nbatch_size = {BATCH}\n'
                f'[transform]\nsize = [{side}, {side}]\n[policy]\nname = "block"\n'
                f'[run]\nepochs = 1000000\nsteps = {steps}\n[trainer]\nstep_ms = 0\n[telemetry]\ndir = ""\n'
            )
            for decoders in (1, 2):
                own, turbo = [], []
                for _ in range(arguments.rounds):
                    own.append(images_per_s(arguments.forebay, config, "own", decoders))
                    turbo.append(images_per_s(arguments.forebay, config, "turbo", decoders))
                ratios = [a / b for a, b in zip(own, turbo)]
                print(
                    f"{path}, {decoders} decoder{'s' if decoders > 1 else ''}: own / turbo {spread(ratios, 2)}; "
                    f"images/s {spread(own, 0)} and {spread(turbo, 0)}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
