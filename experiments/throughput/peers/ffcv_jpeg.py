"""FFCV, with the original JPEG bytes in its own format, so that it decodes what the others decode. Random order with the
whole file in the page cache, as its documentation recommends where memory is enough; all operators are compiled."""

import os
import sys
from importlib import metadata

import numpy
from PIL import Image

from ffcv.fields import IntField, RGBImageField
from ffcv.fields.decoders import IntDecoder, RandomResizedCropRGBImageDecoder
from ffcv.fields.rgb_image import IMAGE_MODES
from ffcv.loader import Loader, OrderOption
from ffcv.transforms import NormalizeImage, RandomHorizontalFlip, Squeeze, ToTensor, ToTorchImage
from ffcv.writer import DatasetWriter

import common
from measuring import measure


class OriginalJpeg(RGBImageField):
    """Keeps the bytes of a file as they are; its images are read as those of RGBImageField."""

    def encode(self, destination, path, malloc):
        with Image.open(path) as image:
            destination["width"], destination["height"] = image.size
            usable = image.mode in ("RGB", "L")
        if not usable:  # FFCV decodes no CMYK
            super().encode(destination, Image.open(path).convert("RGB"), malloc)
            return
        encoded = numpy.fromfile(path, dtype=numpy.uint8)
        destination["mode"] = IMAGE_MODES["jpg"]
        destination["data_ptr"], storage = malloc(encoded.nbytes)
        storage[:] = encoded


class Rows:
    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]


def write_dataset(path, rows):
    if os.path.exists(path):
        return
    largest = max(os.path.getsize(name) for name, _ in rows)
    page = max(1 << 21, 1 << (2 * largest - 1).bit_length())  # a page holds whole samples
    part = path + ".part"
    fields = {"image": OriginalJpeg(write_mode="jpg"), "label": IntField()}
    DatasetWriter(part, fields, page_size=page, num_workers=1).from_indexed_dataset(Rows(rows))
    os.rename(part, path)


def run(options):
    paths, labels = common.read_list(options.list)
    unique = sorted(set(zip(paths, labels, strict=False)))
    place = {row: number for number, row in enumerate(unique)}
    file = os.path.join(options.scratch, "original.beton")
    write_dataset(file, unique)
    if options.prepare:
        return
    size = (options.size, options.size)
    loader = Loader(file, batch_size=options.batch, num_workers=options.threads, order=OrderOption.RANDOM,
                    os_cache=True, drop_last=True, custom_fields={"image": OriginalJpeg},
                    indices=[place[row] for row in zip(paths, labels, strict=False)], pipelines={
                        "image": [RandomResizedCropRGBImageDecoder(size, common.SCALE, common.RATIO),
                                  RandomHorizontalFlip(common.MIRROR),
                                  NormalizeImage(numpy.array(common.MEAN), numpy.array(common.STD), numpy.float32),
                                  ToTensor(), ToTorchImage(channels_last=False)],
                        "label": [IntDecoder(), ToTensor(), Squeeze()]})
    images = common.endless(lambda: (batch[0] for batch in loader))
    measure(images, options, lambda batch: batch.numpy().copy(), version=f"ffcv {metadata.version('ffcv')}")
    # FFCV's own threads are running still, and end an interpreter that comes to its end with SIGABRT.
    sys.stdout.flush()
    os._exit(0)

