"""What every peer shares: its command line, the data list, and the augmentation that all of them do; and starts it.

    common.py MODULE.FUNCTION LIST --threads T --batch 64 --size 224 --warm 2 --seconds 5 [--trainer BYTES] [--scratch FOLDER]
    common.py MODULE.FUNCTION LIST --prepare ...
    common.py MODULE.FUNCTION CONTAINER --kind tfrecord --turns ...

LIST holds `path,label` lines; CONTAINER is a folder that containers.py wrote. A function builds its loader as its
documentation recommends and hands an endless iterator of float32 [N, 3, size, size] batches to measure() of
measuring.py. With --prepare it writes the format of its own, if it has one, and ends. The augmentation is that of
Forebay's default: a random part of 0.08 to 1 of the area and an aspect of 3/4 to 4/3, resized, mirrored with
probability 0.5; with --crop none the whole image, which has the size already, mirrored."""

import argparse
import csv
import importlib
import math
import random

SCALE = (0.08, 1.0)
RATIO = (3 / 4, 4 / 3)
MIRROR = 0.5
MEAN = (123.675, 116.28, 103.53)  # of values from 0 to 255
STD = (58.395, 57.12, 57.375)


def arguments():
    parser = argparse.ArgumentParser(prog="common.py", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("loader", help="MODULE.FUNCTION")
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


DATA, LABEL = 4, 5  # fields of a Datum


class LmdbValues:
    """The LMDB of containers.py, read by py-lmdb, and as much of Caffe's Datum as it takes to find the encoded image.
    Opened in the process that reads: an environment must not be carried over a fork."""

    def __init__(self, folder):
        self.folder, self.transaction = folder, None
        import lmdb

        with lmdb.open(folder, readonly=True, lock=False) as environment, environment.begin() as transaction:
            self.keys = list(transaction.cursor().iternext(values=False))

    def __len__(self):
        return len(self.keys)

    def __getitem__(self, index):
        """The encoded image and its label."""
        if self.transaction is None:
            import lmdb

            self.transaction = lmdb.open(self.folder, readonly=True, lock=False, readahead=False).begin(buffers=True)
        return image_of(self.transaction.get(self.keys[index]))


def varint(datum, at):
    value = shift = 0
    while True:
        byte = datum[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def image_of(datum):
    at, image, label = 0, None, 0
    while at < len(datum):
        tag, at = varint(datum, at)
        value, at = varint(datum, at)
        if tag >> 3 == DATA:
            image = datum[at:at + value]
            at += value
        elif tag >> 3 == LABEL:
            label = value
    return image, label


if __name__ == "__main__":
    options = arguments()
    module, function = options.loader.split(".")
    getattr(importlib.import_module(module), function)(options)
