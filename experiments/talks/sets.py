"""The data of the talks: real data where a folder has them, else pictures that `forebay make-dataset` draws."""

import csv
import gzip
import os
import struct
import sys
import tarfile
import zlib

from feeds import call

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "throughput"))
from data import extract  # noqa: E402
from png import chunk  # noqa: E402

SIDE = 28  # of MNIST
FILES = 10000  # of its training images, each a file
FINDINGS = 14  # that an X-ray may show
HEADER = {3: 16, 1: 8}  # bytes of an idx file, by its dimensions


def read_idx(path, dimensions):
    with gzip.open(path) as file:
        return file.read()[HEADER[dimensions]:]


def grey_png(pixels):
    """A row of SIDE pixels after the other, unfiltered."""
    rows = b"".join(b"\0" + pixels[y * SIDE:(y + 1) * SIDE] for y in range(SIDE))
    header = struct.pack(">IIBBBBB", SIDE, SIDE, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


class Sets:
    def __init__(self, forebay, data):
        self.forebay, self.data = forebay, data

    def _has(self, *parts):
        path = self.data and os.path.join(self.data, *parts)
        return path if path and os.path.exists(path) else None

    def digits(self):
        """Class folders of MNIST's images, each a PNG file; and what they are."""
        folder = self.forebay.path("mnist-files")
        source = self._has("mnist")
        if not source:
            return self._made("digits", "28x28", 4000), "made pictures of 28 x 28"
        if not os.path.exists(folder):
            images = read_idx(os.path.join(source, "train-images-idx3-ubyte.gz"), 3)
            labels = read_idx(os.path.join(source, "train-labels-idx1-ubyte.gz"), 1)
            for label in range(10):
                os.makedirs(os.path.join(folder + ".part", str(label)), exist_ok=True)
            for number in range(FILES):
                path = os.path.join(folder + ".part", str(labels[number]), f"{number:05}.png")
                with open(path, "wb") as file:
                    file.write(grey_png(images[number * SIDE * SIDE:(number + 1) * SIDE * SIDE]))
            os.rename(folder + ".part", folder)
        return folder, f"MNIST, {FILES} PNG files"

    def held_out_digits(self):
        """MNIST's test images as idx files, or None."""
        source = self._has("mnist")
        if not source:
            return None
        folder = self.forebay.path("mnist-test")
        os.makedirs(folder, exist_ok=True)
        for name in ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"):
            with gzip.open(os.path.join(source, name + ".gz")) as packed, \
                    open(os.path.join(folder, name), "wb") as file:
                file.write(packed.read())
        return folder

    def small(self):
        """CIFAR-10 as JPEG files in class folders."""
        archive = self._has("cifar10", "cifar10-jpg-20000-train-4000-test.tar")
        if not archive:
            return self._made("small", "32x32", 4000), "made pictures of 32 x 32"
        folder = self.forebay.path("cifar")
        if not os.path.exists(folder):
            with tarfile.open(archive) as tar:
                extract(tar, folder + ".part", [member for member in tar if member.name.startswith("train/")])
            os.rename(folder + ".part", folder)
        return os.path.join(folder, "train"), "CIFAR-10, 20000 JPEG files"

    def photographs(self):
        folder = self._has("photos", "imagenet-sample")
        return (folder, "400 ImageNet photographs") if folder else \
            (self._made("photos", "500x375", 400), "made pictures of 500 x 375")

    def objects(self):
        """Images with Pascal VOC boxes, several objects in an image."""
        folder = self._has("voc", "bccd")
        return (folder, "BCCD, 364 images with 4,886 boxes") if folder else \
            (self._made("objects", "500x375", 400, "--objects", "8"), "made pictures with 8 boxes each")

    def xrays(self):
        """The names of findings; for each image its path and a 0 or 1 for each of them; and what the images are."""
        table = self._has("xray", "nih64_labels.csv")
        if table:
            with open(table, newline="", encoding="utf-8") as file:
                (_, *names), *rows = csv.reader(file)
            images = os.path.join(os.path.dirname(table), "nih64")
            found = [(os.path.join(images, path), list(map(int, marks))) for path, *marks in rows]
            return names, found, f"{len(found)} chest X-rays of the NIH, 64 x 64 PNG"
        folder = self._made("xray", "64x64", 480, "--task", "multilabel", classes=FINDINGS)
        with open(os.path.join(folder, "labels.csv"), newline="", encoding="utf-8") as file:
            rows = [(path, set(filter(None, cell.split("|")))) for path, cell in list(csv.reader(file))[1:]]
        names = sorted(set().union(*(shown for _, shown in rows)))
        return names, [(os.path.join(folder, path), [int(name in shown) for name in names]) for path, shown in rows], \
            f"{len(rows)} made pictures of 64 x 64"

    def _made(self, name, size, images, *more, classes=10):
        folder = self.forebay.path(f"made-{name}")
        if not os.path.exists(folder):
            call([self.forebay.command, "make-dataset", folder + ".part", "--images", str(images), "--classes",
                  str(classes), "--size", size, "--seed", "17", *more])
            os.rename(folder + ".part", folder)
        return folder
