"""The images of each case: real ones where there are some, else generated ones; never the same list twice on disk.

Every list repeats its images until an epoch is long: some loaders start anew at every epoch, and a short one would
measure that. The bytes come from the page cache after the first pass, for every loader alike."""

import math
import os
import random
import struct
import subprocess
import tarfile
import zlib

EPOCH_IMAGES = 6400  # a list has at least so many entries
GENERATED = 400
CLASSES = 10
CIFAR_IMAGES = 50000


class Data:
    """Where the lists are, made when asked for. `given` is a folder laid out as photos/, cifar10/, or nothing."""

    def __init__(self, forebay, folder, given):
        self.forebay, self.folder, self.given = forebay, folder, given
        os.makedirs(folder, exist_ok=True)

    def photographs(self):
        """A list file, and what is in it."""
        return self._listed("photos", self._images_below("photos") or self._generated("photos", "500x375"))

    def small(self):
        return self._listed("small", self._unpacked_cifar() or self._generated("small", "32x32"))

    def small_png(self):
        """CIFAR-10 as PNG, as often as CIFAR-10 has training images: some loaders start anew at every epoch."""
        folder = self.given and os.path.join(self.given, "cifar10", "png")
        found = images_below(folder, (".png",)) if folder and os.path.isdir(folder) else self._generated_png()
        return self._listed("png", found, CIFAR_IMAGES)

    def _images_below(self, part):
        """Real images, sorted; none when the folder is not there."""
        folder = self.given and os.path.join(self.given, part)
        return images_below(folder) if folder else []

    def _generated(self, name, size):
        folder = os.path.join(self.folder, name)
        if not os.path.exists(os.path.join(folder, "complete")):
            subprocess.run([self.forebay, "make-dataset", folder, "--images", str(GENERATED), "--classes", str(CLASSES),
                            "--size", size, "--force"], check=True, stdout=subprocess.DEVNULL)
            open(os.path.join(folder, "complete"), "w", encoding="utf-8").close()
        return images_below(folder)

    def _generated_png(self):
        folder = os.path.join(self.folder, "small-png")
        if not os.path.exists(os.path.join(folder, "complete")):
            os.makedirs(folder, exist_ok=True)
            for number in range(GENERATED):
                with open(os.path.join(folder, f"{number:04}.png"), "wb") as file:
                    file.write(random_png(32, 32, number))
            open(os.path.join(folder, "complete"), "w", encoding="utf-8").close()
        return images_below(folder, (".png",))

    def _unpacked_cifar(self):
        packed = self.given and os.path.join(self.given, "cifar10")
        archives = [name for name in sorted(os.listdir(packed)) if name.endswith(".tar")] if packed and \
            os.path.isdir(packed) else []
        if not archives:
            return []
        folder = os.path.join(self.folder, "cifar")
        if not os.path.isdir(folder):
            part = folder + ".part"
            with tarfile.open(os.path.join(packed, archives[0])) as tar:
                wanted = [member for member in tar if member.isfile() and member.name.startswith("train/")]
                extract(tar, part, wanted[::max(1, len(wanted) // EPOCH_IMAGES)])
            os.rename(part, folder)
        return images_below(folder)

    def _listed(self, name, images, least=EPOCH_IMAGES):
        if not images:
            raise SystemExit(f"There are no images for the case '{name}'.")
        path = os.path.join(self.folder, f"{name}.list")
        copies = -(-least // len(images))
        # Some loaders shuffle within a buffer only: the list is not to begin with all images of one class.
        entries = [(image, number % CLASSES) for number, image in enumerate(images)] * copies
        random.Random(17).shuffle(entries)
        with open(path, "w", encoding="utf-8") as out:
            for image, label in entries:
                out.write('"' + image.replace('"', '""') + f'",{label}\n')
        total = sum(os.path.getsize(image) for image in images)
        about = f"{len(images)} images of {total / len(images) / 1000:.1f} kB"
        return path, about + (f", each {copies} times" if copies > 1 else "")


def extract(tar, folder, members):
    """With the checks that Python has since 3.11.4; Debian 12 has 3.11.2."""
    checks = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    tar.extractall(folder, members=members, **checks)


def images_below(folder, endings=(".jpg", ".jpeg")):
    found = []
    for place, _, names in os.walk(os.path.abspath(folder)):
        found += [os.path.join(place, name) for name in names if name.lower().endswith(endings)]
    return sorted(found)


def random_png(width, height, seed):
    """A small picture as libpng writes it: RGB, of each row the filter that leaves the smallest values. Of a few waves and some noise, which compress about as photographs of this size do."""
    source = random.Random(seed)
    waves = [[(source.uniform(10, 50), source.uniform(-0.3, 0.3), source.uniform(-0.3, 0.3), source.uniform(0, 6.3))
              for _ in range(3)] for _ in range(3)]
    rows = []
    for y in range(height):
        row = bytearray()
        for x in range(width):
            for colour in waves:
                value = 128 + sum(a * math.sin(u * x + v * y + w) for a, u, v, w in colour) + source.gauss(0, 6)
                row.append(min(255, max(0, round(value))))
        rows.append(bytes(row))
    return encode(width, rows)


def encode(width, rows):
    above = bytes(3 * width)
    filtered = b""
    for row in rows:
        filtered += min((bytes([number]) + filter_row(number, row, above) for number in range(5)), key=cost)
        above = row
    header = struct.pack(">IIBBBBB", width, len(rows), 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(filtered, 9)) + \
        chunk(b"IEND", b"")


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def filter_row(number, row, above):
    left = bytes(3) + row[:-3]
    corner = bytes(3) + above[:-3]
    predicted = {0: lambda a, b, c: 0, 1: lambda a, b, c: a, 2: lambda a, b, c: b, 3: lambda a, b, c: (a + b) // 2,
                 4: paeth}[number]
    return bytes((value - predicted(a, b, c)) & 255 for value, a, b, c in zip(row, left, above, corner, strict=False))


def paeth(a, b, c):
    p = a + b - c
    return min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]


def cost(row):
    return sum(min(value, 256 - value) for value in row[1:])
