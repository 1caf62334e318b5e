#!/usr/bin/env python3
"""Times `forebay report` on the telemetry of a generated run, and says how large the page is.

    experiments/report/measure.py [--ranks 1000] [--steps 1000000] [--step-s 0.02] [--only-steps] [--forebay PATH] [DIR]

Each rank has intervals of 5 s, and steps of about 300 bytes each. A rank's files differ in sixteen ways and are copied;
of the steps, which come to 300 GB, there is one file under the names of all ranks. --only-steps leaves the intervals out.
"""
import argparse
import json
import os
import pathlib
import random
import resource
import shutil
import subprocess
import tempfile
import time

SETTINGS = {"policy.name": '"adaptive"', "queue.capacity": "16", "workers.io": "8"}


def interval(number, steps, step_s, slow):
    waits = random.random() * 0.1 * slow
    fresh = steps // 3 if slow < 1 else steps // 5
    return {
        "t_s": 5.0 * (number + 1), "interval_s": 5.0, "step_num": steps * (number + 1) - 1, "epoch": number // 100,
        "queue_size": random.randrange(17), "capacity": 16, "mean_enqueue_rate": 15.4, "mean_dequeue_rate": fresh / 5,
        "mean_running_time": step_s, "steps": steps, "fresh": fresh, "reused": steps - fresh,
        "fresh_fraction": fresh / steps, "exhausted_steps": random.randrange(9), "lambda": 15.9, "mu": 48.2, "R": 3.03,
        "stall": waits, "census_waits": 3, "census_wait_s": 0.001, "job_fresh_samples": 64 * number * fresh,
        "job_uses_max": random.randrange(1, 9), "images_per_s": 812.0, "blocked_producer_s": 0.0,
        "bytes_read": 48_000_000, "retries": 0, "hedged_reads": 0, "read_s": 9.9, "decode_s": 1.2, "bad_samples": 3,
        "dropped_records": 0}


def step(number, step_s):
    use = number % 3
    return {
        "step": number, "t_s": round(number * step_s, 9), "epoch": number // 10_000, "batch": number // 3,
        "use_index": use, "decision": "reuse" if use else "fresh", "depth": number % 17, "size": 64, "wait_s": 0.000012345,
        "census_wait_s": 0.0, "step_s": step_s, "ahead_s": 0.0, "padding": False, "adjacent": False, "exhausted": False,
        "produced": number // 3 + 16, "blocked_producer_s": 0.0}


def write_lines(file, records):
    with open(file, "w") as out:
        out.writelines(json.dumps(record, separators=(",", ":")) + "\n" for record in records)


def generate(folder, arguments):
    random.seed(1)
    per_interval = int(5 / arguments.step_s)
    intervals = arguments.steps // per_interval
    for rank in range(arguments.ranks):
        head = {"forebay": "run", "version": 1, "rank": rank, "ranks": arguments.ranks, "first_step": 0,
                "started": "2026-01-01T00:00:00.000Z", "host": f"node{rank // 8}"}
        if rank == 0:
            head["settings"] = SETTINGS
        write_lines(folder / f"run.{rank}.jsonl", [head, {"forebay": "end"}])
        file = folder / f"intervals.{rank}.jsonl"
        if arguments.only_steps:
            pass
        elif rank < 16:
            write_lines(file, (interval(i, per_interval, arguments.step_s, rank / 8) for i in range(intervals)))
        else:
            shutil.copy(folder / f"intervals.{rank % 16}.jsonl", file)
        file = folder / f"steps.{rank}.jsonl"
        if rank == 0:
            write_lines(file, (step(i, arguments.step_s) for i in range(arguments.steps)))
        else:
            os.link(folder / "steps.0.jsonl", file)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", nargs="?", help="where the run is generated, and stays; default: a temporary folder")
    parser.add_argument("--ranks", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--step-s", type=float, default=0.02)
    parser.add_argument("--only-steps", action="store_true")
    parser.add_argument("--forebay", default="build/release/bin/forebay")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(arguments.dir or temporary) / "run"
        if not folder.is_dir():
            folder.mkdir(parents=True)
            generate(folder, arguments)
        page = folder.parent / "report.html"
        seconds, processor = [], []
        for _ in range(3):
            begin, used = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([arguments.forebay, "report", folder, "--out", page], check=True, capture_output=True)
            now = resource.getrusage(resource.RUSAGE_CHILDREN)
            seconds.append(time.monotonic() - begin)
            processor.append(now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime)
        files = sum(file.stat().st_size for file in folder.iterdir())
        print(f"{arguments.ranks} ranks, {arguments.steps} steps each, {files / 1e9:.1f} GB of telemetry: "
              f"{sorted(seconds)[1]:.2f} s (of three, {min(seconds):.2f} to {max(seconds):.2f}), "
              f"{sorted(processor)[1]:.2f} s of processor time, "
              f"{page.stat().st_size / 1e6:.2f} MB")


main()
