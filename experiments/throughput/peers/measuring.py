"""The clock that a peer's batches are taken by, and what it says of them.

measure() takes batches and prints one line of JSON: images per second, processor time, memory, the time to the first
batch, and the values' mean and deviation. With --turns it says "ready" when it is warm and then measures once for each
line of its standard input, "WARM SECONDS"; in between it waits, with the loader's queues full.

With --trainer the program works between two batches as a trainer does that computes on the processor: a fixed amount
of hashing, in many short calls that hold no lock of Python's, as a trainer's kernels do. The result then has the
length of every step, and how much of it the trainer waited."""

import hashlib
import json
import math
import os
import sys
import time

CHECKED_BATCHES = 6  # whose values are looked at, before the clock runs
LEAST_WARM_BATCHES = 10  # loaders fill their queues and compile at first
CALLS_PER_STEP = 100  # of a trainer's work
MEGABYTE = 1e6


class Trainer:
    """A step that hashes so many bytes, on the thread that calls."""

    def __init__(self, amount):
        self.block = bytes(amount // CALLS_PER_STEP)

    def step(self):
        for _ in range(CALLS_PER_STEP if self.block else 0):
            hashlib.sha256(self.block)


def hashed_per_second(seconds=0.5):
    """Bytes that this interpreter hashes on one core."""
    block = bytes(1 << 20)
    begin = time.monotonic()
    count = 0
    while time.monotonic() < begin + seconds:
        hashlib.sha256(block)
        count += 1
    return count * len(block) / (time.monotonic() - begin)


def measure(batches, options, to_array=lambda batch: batch, **more):
    """Takes batches until warm, then for the seconds asked, and prints the result. `to_array` makes an array of its own
    of a batch; `more` goes into the result."""
    batches = iter(batches)
    first = next(batches)
    about = {"first_batch_s": seconds_since_start()}
    checked = [to_array(first)]
    del first
    checked += [to_array(next(batches)) for _ in range(CHECKED_BATCHES - 1)]
    about.update(describe(checked), **more)
    del checked
    if not math.isfinite(about["mean"]):
        raise SystemExit("the batches hold values that are not numbers")
    trainer = Trainer(options.trainer)
    warm_up(batches, trainer, options.warm, LEAST_WARM_BATCHES - CHECKED_BATCHES)
    if not options.turns:
        say({**rate_of(batches, trainer, options.batch, options.seconds), **about})
        return
    print("ready", flush=True)
    for line in sys.stdin:
        warm, seconds = map(float, line.split())
        warm_up(batches, trainer, warm, 0 if trainer.block else LEAST_WARM_BATCHES)
        say({**rate_of(batches, trainer, options.batch, seconds), **about})


def describe(batches):
    """Shape, type, mean and deviation of some batches."""
    import numpy

    arrays = [numpy.asarray(batch) for batch in batches]
    values = numpy.concatenate([array.reshape(-1) for array in arrays]).astype(numpy.float64)
    return {"shape": list(arrays[0].shape), "dtype": str(arrays[0].dtype),
            "contiguous": all(array.flags["C_CONTIGUOUS"] for array in arrays),
            "mean": float(values.mean()), "std": float(values.std())}


def warm_up(batches, trainer, seconds, least):
    """Takes batches for so long, and so many."""
    until = time.monotonic() + seconds
    while least > 0 or time.monotonic() < until:
        next(batches)
        trainer.step()
        least -= 1


def rate_of(batches, trainer, size, seconds):
    """From one batch's arrival to another's."""
    next(batches)
    used = cpu_seconds(os.getpgrp())
    since = arrived = time.monotonic()
    steps, waits = [], []
    while arrived < since + seconds:
        trainer.step()
        done = time.monotonic()
        next(batches)
        now = time.monotonic()
        steps.append(now - arrived)
        waits.append(now - done)
        arrived = now
    took = arrived - since
    result = {"images_per_s": len(steps) * size / took, "busy_cores": (cpu_seconds(os.getpgrp()) - used) / took,
              "pss_mb": pss_mb(os.getpgrp()), "waiting": sum(waits) / took}
    if trainer.block:
        result["steps_ms"] = [round(1e3 * step, 2) for step in steps]
    return result


def say(result):
    print(json.dumps(result), flush=True)


def stats_of(group):
    """(process, fields of its stat from the state on) of all processes of a group."""
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", encoding="utf-8") as file:
                fields = file.read().rpartition(")")[2].split()  # the name before it may hold anything
        except OSError:
            continue  # it has ended
        if int(fields[2]) == group:
            yield entry, fields


def cpu_seconds(group):
    """Processor time of all processes of a group so far, children that have ended included."""
    ticks = sum(int(field) for _, fields in stats_of(group) for field in fields[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


def pss_mb(group):
    """Memory of all processes of a group; what several share is divided among them (proportional set size)."""
    kilobytes = 0
    for process, _ in stats_of(group):
        try:
            with open(f"/proc/{process}/smaps_rollup", encoding="utf-8") as file:
                kilobytes += next((int(line.split()[1]) for line in file if line.startswith("Pss:")), 0)
        except OSError:
            continue
    return kilobytes * 1024 / MEGABYTE


def seconds_since_start():
    """Since this process was started, before it was an interpreter."""
    with open("/proc/self/stat", encoding="utf-8") as file:
        ticks = int(file.read().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
