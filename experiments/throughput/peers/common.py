"""What every peer's script shares: its command line, the data list, the clock and what it says at the end.

    PEER.py LIST --threads T --batch 64 --size 224 --warm 2 --seconds 5 [--scratch FOLDER]
    PEER.py CONTAINER --kind tfrecord --turns ...

LIST holds `path,label` lines; CONTAINER is a folder that containers.py wrote. A script builds its loader as its
documentation recommends and hands an endless iterator of float32 [N, 3, size, size] batches to measure(), which prints
one line of JSON. With --turns it says "ready" when it is warm and then measures once for each line of its standard
input, "WARM SECONDS"; in between its queues are full and it waits. The augmentation is that of Forebay's default: a
random part of 0.08 to 1 of the area and an aspect of 3/4 to 4/3, resized, mirrored with probability 0.5; with
--crop none the whole image, which has the size already, mirrored."""

import argparse
import csv
import json
import math
import os
import random
import sys
import time

SCALE = (0.08, 1.0)
RATIO = (3 / 4, 4 / 3)
MIRROR = 0.5
MEAN = (123.675, 116.28, 103.53)  # of values from 0 to 255
STD = (58.395, 57.12, 57.375)
CHECKED_BATCHES = 6  # whose values are looked at, before the clock runs
LEAST_WARM_BATCHES = 10  # loaders fill their queues and compile at first


def arguments(description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("list", help="a list of files, or the folder of a container")
    parser.add_argument("--kind", choices=("files", "tfrecord", "webdataset", "lmdb"), default="files")
    parser.add_argument("--crop", choices=("random", "none"), default="random")
    parser.add_argument("--variant", default="", help="which of several ways to set the loader up")
    parser.add_argument("--turns", action="store_true")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--warm", type=float, default=2)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--scratch", default=".", help="where a format of its own may be written, once")
    return parser.parse_args()


def read_list(path):
    """Paths and labels."""
    with open(path, newline="", encoding="utf-8") as lines:
        rows = [row for row in csv.reader(lines) if row]
    return [row[0] for row in rows], [int(row[1]) for row in rows]


def describe(batches):
    """Shape, type, mean and deviation of some batches."""
    import numpy

    arrays = [numpy.asarray(batch) for batch in batches]
    values = numpy.concatenate([array.reshape(-1) for array in arrays]).astype(numpy.float64)
    return {"shape": list(arrays[0].shape), "dtype": str(arrays[0].dtype),
            "contiguous": all(array.flags["C_CONTIGUOUS"] for array in arrays),
            "mean": float(values.mean()), "std": float(values.std())}


def cpu_seconds(group):
    """Processor time of all processes of a group so far, children that have ended included."""
    ticks = 0
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", encoding="utf-8") as file:
                fields = file.read().rpartition(")")[2].split()  # from the state on; the name may hold anything
        except OSError:
            continue  # it has ended
        if int(fields[2]) == group:
            ticks += sum(int(field) for field in fields[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


def random_part(width, height):
    """Left, top, width and height, of the distribution of torchvision's RandomResizedCrop."""
    for _ in range(10):
        area = width * height * random.uniform(*SCALE)
        ratio = math.exp(random.uniform(*(math.log(bound) for bound in RATIO)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            return random.randint(0, width - w), random.randint(0, height - h), w, h
    return 0, 0, width, height


def measure(batches, options, to_array=lambda batch: batch, **more):
    """Takes batches until warm, then for the seconds asked, and prints the result. `to_array` makes an array of its own
    of a batch; `more` goes into the result."""
    begin = time.monotonic()
    batches = iter(batches)
    checked = [to_array(next(batches)) for _ in range(CHECKED_BATCHES)]
    values = describe(checked)
    del checked
    if not math.isfinite(values["mean"]):
        raise SystemExit("the batches hold values that are not numbers")
    warm_up(batches, options.warm, LEAST_WARM_BATCHES - CHECKED_BATCHES)
    about = {"start_s": time.monotonic() - begin, **values, **more}
    if not options.turns:
        say({**rate_of(batches, options.batch, options.seconds), **about})
        return
    print("ready", flush=True)
    for line in sys.stdin:
        warm, seconds = map(float, line.split())
        warm_up(batches, warm, LEAST_WARM_BATCHES)
        say({**rate_of(batches, options.batch, seconds), **about})


def warm_up(batches, seconds, least):
    """Takes batches for so long, and so many."""
    until = time.monotonic() + seconds
    while least > 0 or time.monotonic() < until:
        next(batches)
        least -= 1


def rate_of(batches, size, seconds):
    """From one batch's arrival to another's."""
    used = cpu_seconds(os.getpgrp())
    since = now = time.monotonic()
    count = 0
    while now < since + seconds:
        next(batches)
        now = time.monotonic()
        count += 1
    busy = (cpu_seconds(os.getpgrp()) - used) / (now - since)
    return {"images_per_s": count * size / (now - since), "busy_cores": busy}


def say(result):
    print(json.dumps(result), flush=True)


def endless(epoch_of):
    """All epochs, one after the other; `epoch_of()` is an iterable of one."""
    while True:
        yield from epoch_of()
