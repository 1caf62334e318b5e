#!/usr/bin/env python3
"""Memory and images/s of queues: memory.py FOREBAY PHOTOGRAPHS [--rounds N] [--seconds S] [--batch N]

Random-resized crops to 224 x 224 float32, batches of 64, every step fresh and the trainer as fast as it can: the case
of photographs of experiments/throughput. queue.capacity = 16, 2 and "auto" in turn, N rounds. images/s from the steps'
telemetry after the first two seconds; memory of the process at the end (PSS and RSS, in 10^6 bytes); `became` is the
capacity at the end. Medians, with the range. The exit code is 1 when "auto" takes more than 300 MB, or makes less than
0.97 of the images of 16."""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

QUEUES = ("16", "2", "auto")
WARM_S = 2
LIMIT_S = 120
EPOCH_IMAGES = 6400
MOST_MB = 300
ENOUGH = 0.97

CONFIG = """\
[dataset]
format = "filelist"
path = "{path}"
batch_size = {batch}
[queue]
pool = 1
[policy]
name = "block"
[telemetry]
dir = "{run}"
decisions = false
interval_s = 0
live = "never"
[trainer]
step_ms = 0
[run]
steps = 1000000000
"""


def memory_of(process):
    """PSS and RSS."""
    kilobytes = {}
    with open(f"/proc/{process}/smaps_rollup", encoding="utf-8") as lines:
        for line in lines:
            name, _, value = line.partition(":")
            if name in ("Pss", "Rss"):
                kilobytes[name] = int(value.split()[0])
    return kilobytes["Pss"] * 1024 / 1e6, kilobytes["Rss"] * 1024 / 1e6


def lines_of(file):
    """Whole lines only: it may still be written."""
    try:
        with open(file, encoding="utf-8") as lines:
            return [json.loads(line) for line in lines if line.endswith("\n")]
    except OSError:
        return []


def list_of(photographs, folder):
    """All images below a folder, several times: an epoch is to be long."""
    found = [os.path.join(place, name) for place, _, names in os.walk(os.path.abspath(photographs))
             for name in sorted(names) if name.lower().endswith((".jpg", ".jpeg"))]
    if not found:
        raise SystemExit(f"there are no JPEG files below {photographs}")
    path = os.path.join(folder, "images.list")
    with open(path, "w", encoding="utf-8") as out:
        for number in range(-(-EPOCH_IMAGES // len(found)) * len(found)):
            image = found[number % len(found)].replace('"', '""')
            out.write(f'"{image}",{number % 10}\n')
    return path


def measure(arguments, queue, images, folder):
    run = os.path.join(folder, "run")
    config, summary = os.path.join(folder, "feed.toml"), os.path.join(folder, "summary.json")
    with open(config, "w", encoding="utf-8") as file:
        file.write(CONFIG.format(path=images, batch=arguments.batch, run=run))
    command = [arguments.forebay, "feed", config, "--quiet", "--summary", summary, "--set", f"queue.capacity={queue}"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + LIMIT_S
        steps = os.path.join(run, "steps.0.jsonl")
        while process.poll() is None and time.monotonic() < deadline:
            lines = lines_of(steps)
            if lines and lines[-1]["t_s"] >= WARM_S + arguments.seconds:
                break
            time.sleep(0.2)
        if process.poll() is not None:
            raise SystemExit(f"queue.capacity = {queue} ended early: {process.stderr.read()}")
        pss, rss = memory_of(process.pid)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=LIMIT_S)
    times = [line["t_s"] for line in lines_of(steps) if line["t_s"] >= WARM_S]
    with open(summary, encoding="utf-8") as file:
        became = json.load(file)["queue_capacity"]
    return {"images_per_s": (len(times) - 1) * arguments.batch / (times[-1] - times[0]), "pss": pss, "rss": rss,
            "became": became}


def spread(values):
    return f"{statistics.median(values):7.0f} [{min(values):.0f} .. {max(values):.0f}]"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("forebay", help="the command")
    parser.add_argument("photographs", help="a folder with JPEG files in it, or below it")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=6, help="of each run, measured (default: 6)")
    parser.add_argument("--batch", type=int, default=64)
    arguments = parser.parse_args()
    of = {queue: [] for queue in QUEUES}
    with tempfile.TemporaryDirectory() as folder:
        images = list_of(arguments.photographs, folder)
        for _ in range(arguments.rounds):
            for queue in QUEUES:
                with tempfile.TemporaryDirectory(dir=folder) as own:
                    of[queue].append(measure(arguments, queue, images, own))
    print(f"{'capacity':<9} {'images/s':<24} {'PSS, MB':<22} {'RSS, MB':<22} became")
    for queue, runs in of.items():
        columns = (spread([run[key] for run in runs]) for key in ("images_per_s", "pss", "rss"))
        print(f"{queue:<9} {next(columns):<24} {next(columns):<22} {next(columns):<22} "
              f"{max(run['became'] for run in runs)}")

    def median(queue, key):
        return statistics.median(run[key] for run in of[queue])
    share = median("auto", "images_per_s") / median("16", "images_per_s")
    most = max(run["pss"] for run in of["auto"])
    print(f"auto makes {share:.3f} of the images/s of 16, with {most:.0f} MB at the most; "
          f"load average {os.getloadavg()[0]:.1f}")
    return 0 if share >= ENOUGH and most <= MOST_MB else 1


if __name__ == "__main__":
    sys.exit(main())
