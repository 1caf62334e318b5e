"""The images of each case: real ones where there are some, else generated ones; never the same list twice on disk.

Every list repeats its images until an epoch is long: some loaders start anew at every epoch, and a short one would
measure that. The bytes come from the page cache after the first pass, for every loader alike."""

import os
import random
import subprocess
import tarfile

import png

EPOCH_IMAGES = 6400  # a list has at least so many entries
GENERATED = 400
CLASSES = 10
CIFAR_IMAGES = 50000


class Data:
    """Where the lists are, made when asked for. `given` is a folder laid out as photos/, cifar10/, voc/, or nothing."""

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

    def objects(self):
        """Folders of Pascal VOC by name."""
        found = {}
        for name in ("raccoon", "bccd"):
            folder = self.given and os.path.join(self.given, "voc", name)
            if folder and os.path.isdir(folder):
                found[name] = folder
        if not found:
            self._generated("objects", "500x375", "--objects", "8")
            found["generated"] = os.path.join(self.folder, "objects")
        return found

    def _images_below(self, part):
        """Real images, sorted; none when the folder is not there."""
        folder = self.given and os.path.join(self.given, part)
        return images_below(folder) if folder else []

    def _generated(self, name, size, *more):
        folder = os.path.join(self.folder, name)
        if not os.path.exists(os.path.join(folder, "complete")):
            subprocess.run([self.forebay, "make-dataset", folder, "--images", str(GENERATED), "--classes", str(CLASSES),
                            "--size", size, "--force", *more], check=True, stdout=subprocess.DEVNULL)
            open(os.path.join(folder, "complete"), "w", encoding="utf-8").close()
        return images_below(folder)

    def _generated_png(self):
        folder = os.path.join(self.folder, "small-png")
        if not os.path.exists(os.path.join(folder, "complete")):
            os.makedirs(folder, exist_ok=True)
            for number in range(GENERATED):
                with open(os.path.join(folder, f"{number:04}.png"), "wb") as file:
                    file.write(png.random_picture(32, 32, number))
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
