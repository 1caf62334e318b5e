"""Makes the data of a task ready: unpacks, sorts or generates them in the work folder, once."""

import gzip
import shutil

from study.machine import call


def unpack_file(source, target):
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_suffix(".partial")
    with gzip.open(source) as packed, open(partial, "wb") as unpacked:
        shutil.copyfileobj(packed, unpacked)
    partial.rename(target)


def make_shapes(machine):
    if (machine.work / "made").exists():
        return None
    options = {"--layout": "folder", "--images": 3000, "--classes": 8, "--size": "32x32", "--split": 0.2, "--seed": 17}
    words = [str(word) for option in options.items() for word in option]
    call([machine.program("forebay"), "make-dataset", str(machine.work / "made"), *words])
    return "made 3,000 images of shapes"


def unpack_fashion(machine):
    unpacked = machine.work / "fashion-mnist"
    if (unpacked / "train-labels-idx1-ubyte").exists():
        return None
    for part in ("t10k-images-idx3", "t10k-labels-idx1", "train-images-idx3", "train-labels-idx1"):
        unpack_file(machine.data / "fashion-mnist" / f"{part}-ubyte.gz", unpacked / f"{part}-ubyte")
    return "unpacked Fashion-MNIST"


def unpack_cifar(machine):
    if (machine.work / "cifar10").exists() or (machine.data / "cifar10" / "train").exists():
        return None
    partial = emptied(machine.work / "cifar10.partial")
    call(["tar", "-C", str(partial), "-xf", str(machine.data / "cifar10" / "cifar10-jpg-20000-train-4000-test.tar")])
    partial.rename(machine.work / "cifar10")
    return "unpacked CIFAR-10"


def sort_bccd(machine):
    """A tree for each part that the set itself is divided into: by images, so that no image is in both."""
    if (machine.work / "bccd").exists():
        return None
    source, partial = machine.data / "voc" / "bccd", emptied(machine.work / "bccd.partial")
    for part in ("trainval", "test"):
        names = (source / "ImageSets" / "Main" / f"{part}.txt").read_text(encoding="utf-8").split()
        for folder, ending in (("JPEGImages", ".jpg"), ("Annotations", ".xml")):
            (partial / part / folder).mkdir(parents=True)
            for name in names:
                (partial / part / folder / (name + ending)).symlink_to((source / folder / (name + ending)).resolve())
    partial.rename(machine.work / "bccd")
    return "divided BCCD"


def emptied(folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


PREPARE = {
    "made": make_shapes,
    "fashion": unpack_fashion,
    "fashion-few": unpack_fashion,
    "cifar": unpack_cifar,
    "cifar-small": unpack_cifar,
    "objects": sort_bccd,
}


def prepare(machine, task):
    """Says what it did, or None if there was nothing to do."""
    return PREPARE[task.removesuffix("-long")](machine)
