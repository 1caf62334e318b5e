#!/usr/bin/env python3
"""How long it takes to index containers in the page cache, with how much memory.

    experiments/throughput/indexing.py FOLDER [--records 200000] [--kinds tfrecord,webdataset,recordio,lmdb]

Writes one container after the other below FOLDER, of records of 10 kB (--bytes), builds its index several times by
`bench_index` (-DFOREBAY_EXPERIMENTS=ON), each time in a process of its own, and deletes it. LMDB is written by py-lmdb,
which peers/setup installs. 200,000 records take 2 GB of disk and memory, 1,000,000 take 12."""

import argparse
import importlib.util
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import time

import containers

CLASSES = 1000
JPEG_START = bytes.fromhex("ffd8ffe000104a46494600010100000100010000")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="where the containers are written; must not exist")
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--bytes", type=int, default=10_000, help="of an image")
    parser.add_argument("--kinds", default="tfrecord,webdataset,recordio,lmdb")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--peers", default="build/peers")
    return parser.parse_args()


def written(kind, folder, image, records, peers):
    """The container's path; by an interpreter that has py-lmdb, if that is what it takes."""
    rows = [(image, number % CLASSES) for number in range(records)]
    if kind != "lmdb" or importlib.util.find_spec("lmdb"):
        containers.write(kind, folder, rows)
        return os.path.join(folder, kind)
    pythons = [os.path.join(peers, name, "bin", "python") for name in ("torch", "dali", "tf")]
    python = next((path for path in pythons if os.path.exists(path)), None)
    if python is None:
        return None
    listed = os.path.join(folder, "list.csv")
    with open(listed, "w", encoding="utf-8") as file:
        file.writelines(f'"{path}",{label}\n' for path, label in rows)
    subprocess.run([python, containers.__file__, listed, folder, kind], check=True)
    return os.path.join(folder, kind)


def bytes_below(folder):
    return sum(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder))


def main():
    options = parse()
    folder = os.path.abspath(options.folder)
    os.makedirs(folder)
    try:
        image = os.path.join(folder, "image.jpg")
        with open(image, "wb") as file:
            file.write(JPEG_START + random.Random(17).randbytes(options.bytes - len(JPEG_START)))
        bench = os.path.join(options.build, "bin", "bench_index")
        print(f"{options.records:,} records of {options.bytes / 1000:g} kB in the page cache; median of "
              f"{options.rounds} "
              "builds [range]")
        print(f"{'format':<11} {'files, GB':>9}  {'build, s':<24}  {'index, MB':>9}  {'peak memory, MB':>15}")
        for kind in options.kinds.split(","):
            begin = time.monotonic()
            path = written(kind, folder, image, options.records, options.peers)
            if path is None:
                print(f"{kind:<11} missing: py-lmdb is not installed (peers/setup)")
                continue
            print(f"{kind}: written in {time.monotonic() - begin:.0f} s", file=sys.stderr)
            size = bytes_below(path)
            index = os.path.join(folder, "index")
            runs = [json.loads(subprocess.run([bench, "build", kind, path, index], check=True, text=True,
                                              stdout=subprocess.PIPE).stdout)
                    for _ in range(options.rounds + 1)][1:]  # the first one brings it into the page cache
            if any(run["samples"] != options.records for run in runs):
                raise SystemExit(f"{kind}: {runs[0]['samples']} samples were indexed, not {options.records}")
            times = [run["build_s"] for run in runs]
            spread = f"{statistics.median(times):.2f} [{min(times):.2f} .. {max(times):.2f}]"
            print(f"{kind:<11} {size / 1e9:9.1f}  {spread:<24}  {runs[0]['bytes'] / 1e6:9.1f}  "
                  f"{max(run['peak_mb'] for run in runs):15.0f}", flush=True)
            for left in (path, path + "-index"):
                shutil.rmtree(left, ignore_errors=True)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
