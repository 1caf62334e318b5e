"""What every peer's script shares: its command line, the data list, and the augmentation that all of them do.

    PEER.py LIST --threads T --batch 64 --size 224 --warm 2 --seconds 5 [--trainer BYTES] [--scratch FOLDER]
    PEER.py LIST --prepare ...
    PEER.py CONTAINER --kind tfrecord --turns ...

LIST holds `path,label` lines; CONTAINER is a folder that containers.py wrote. A script builds its loader as its
documentation recommends and hands an endless iterator of float32 [N, 3, size, size] batches to measure() of
measuring.py. With --prepare it writes the format of its own, if it has one, and ends. The augmentation is that of
Forebay's default: a random part of 0.08 to 1 of the area and an aspect of 3/4 to 4/3, resized, mirrored with
probability 0.5; with --crop none the whole image, which has the size already, mirrored."""

import argparse
import csv
import math
import random

SCALE = (0.08, 1.0)
RATIO = (3 / 4, 4 / 3)
MIRROR = 0.5
MEAN = (123.675, 116.28, 103.53)  # of values from 0 to 255
STD = (58.395, 57.12, 57.375)


def arguments(description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("list", help="a list of files, or the folder of a container")
    parser.add_argument("--kind", choices=("files", "tfrecord", "webdataset", "lmdb"), default="files")
    parser.add_argument("--crop", choices=("random", "none"), default="random")
    parser.add_argument("--variant", default="", help="which of several ways to set the loader up")
    parser.add_argument("--prepare", action="store_true", help="write the loader's own format, then end")
    parser.add_argument("--turns", action="store_true")
    parser.add_argument("--trainer", type=int, default=0, help="bytes that a trainer hashes in each step")
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


def random_part(width, height):
    """Left, top, width and height, of the distribution of torchvision's RandomResizedCrop."""
    for _ in range(10):
        area = width * height * random.uniform(*SCALE)
        ratio = math.exp(random.uniform(*(math.log(bound) for bound in RATIO)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            return random.randint(0, width - w), random.randint(0, height - h), w, h
    return 0, 0, width, height


def endless(epoch_of):
    """All epochs, one after the other; `epoch_of()` is an iterable of one."""
    while True:
        yield from epoch_of()


def shuffled(items):
    """All items, again and again, in another order each time."""
    while True:
        yield from random.sample(items, len(items))
