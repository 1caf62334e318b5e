#!/usr/bin/env python3
"""What a decoder thread spends its time on: the shares of its processor time by stage, from samples of perf.

    experiments/decode/profile.py [--forebay FILE] [--steps N] [--runs N] DATASET [SETTING...]

DATASET is what dataset.path takes: files, or a packed set. SETTING is a --set of forebay feed. Random-resized crops to
224 x 224, one decoder. Prints the median share of each stage over the runs with the range, then the functions that no
stage names. perf must be there (Debian: linux-perf) and may count processor time (as root, or kernel.perf_event_paranoid
of at most 2).
"""

import argparse
import collections
import re
import statistics
import subprocess
import tempfile
from pathlib import Path

THREAD = "forebay-dec 0"
# By what the name of a function holds: the first that fits.
STAGES = (
    ("symbols of the packed code", ("::decode", "::skip", "take_few", "PackedTile")),
    ("masks and values to blocks", ("::expand", "::count_bits", "::count_equal")),
    ("Huffman codes of the file", ("ScanDecoder", "read_mcu", "skip_mcu")),
    ("inverse DCT", ("::transform", "PixelStage::transform")),
    ("upsampling and colours", ("double_across", "double_down", "from_ycc", "mixed_rows", "merge", "ycc", "PixelStage")),
    ("render: resize, normalise", ("resample", "blend", "Resizer", "Resampling", "convert", "Transform::", "mix")),
    ("checksum", ("crc",)),
    ("copies", ("memmove", "memcpy", "memset")),
)
PIXEL_STAGE_DECODE = "PixelStage::decode"  # upsampling, not symbols


def stage_of(function: str) -> str:
    if PIXEL_STAGE_DECODE in function:
        return "upsampling and colours"
    return next((stage for stage, names in STAGES if any(name in function for name in names)), "")


def run(forebay: Path, config: Path, folder: Path) -> collections.Counter[str]:
    """Samples by function, of the decoder's thread."""
    data = folder / "perf.data"
    subprocess.run(["perf", "record", "-q", "-o", data, "-e", "cpu-clock", "-F", "2500", "--", forebay, "feed", config, "--quiet"],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    # perf's own --comms leaves out functions that other threads call too.
    text = subprocess.run(["perf", "report", "-i", data, "--no-children", "--sort", "comm,dso,symbol", "-n", "-t", "|"],
                          check=True, capture_output=True, text=True).stdout
    found: collections.Counter[str] = collections.Counter()
    for line in text.splitlines():
        fields = [field.strip() for field in line.split("|")]
        if len(fields) < 5 or line.startswith("#") or fields[2] != THREAD:
            continue
        symbol = re.sub(r"^\[.\] ", "", fields[4])
        found["kernel" if "kernel" in fields[3] else symbol] += int(fields[1])
    return found


def main() -> None:
    root = Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--forebay", type=Path, default=root / "build/release/bin/forebay")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("dataset", type=Path)
    parser.add_argument("settings", nargs="*")
    arguments = parser.parse_args()
    shares: dict[str, list[float]] = collections.defaultdict(list)
    others: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "feed.toml"
        config.write_text(
            f'seed = 1\n[dataset]\npath = "{arguments.dataset.resolve()}"\nbatch_size = 64\n[transform]\nsize = [224, 224]\n'
            f'[policy]\nname = "block"\n[workers]\ndecode = 1\n[run]\nepochs = 1000000\nsteps = {arguments.steps}\n'
            '[trainer]\nstep_ms = 0\n[telemetry]\ndir = ""\n', encoding="utf-8")
        for _ in range(arguments.runs):
            samples = run(arguments.forebay, config, Path(folder))
            total = sum(samples.values())
            if total == 0:
                raise SystemExit(f"perf saw no thread {THREAD}")
            by_stage: collections.Counter[str] = collections.Counter()
            for function, count in samples.items():
                stage = stage_of(function)
                by_stage[stage or "everything else"] += count
                if not stage:
                    others[function] += count
            for stage in {stage for stage, _ in STAGES} | {"everything else"}:
                shares[stage].append(100 * by_stage[stage] / total)
    for stage, values in sorted(shares.items(), key=lambda entry: -statistics.median(entry[1])):
        print(f"{statistics.median(values):6.1f} % [{min(values):.1f} .. {max(values):.1f}]  {stage}")
    total = sum(others.values())
    print("of everything else: " + ", ".join(f"{name} {100 * count / total:.0f} %" for name, count in others.most_common(6)))


if __name__ == "__main__":
    main()
