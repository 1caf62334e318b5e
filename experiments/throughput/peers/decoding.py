"""From an encoded image to float32 [3, size, size], for the loaders that leave this to their users, set up for speed:
cropped and resized as bytes by OpenCV, then converted plane by plane while they are in the cache. One thread works on
one image. Variants of the decoder: `cv2` (OpenCV), `simplejpeg` (libjpeg-turbo with the fast inverse DCT and chroma
upsampling), `torchvision` (its io.decode_jpeg), `pil`, which also crops and resizes by Pillow."""

import io
import random

import cv2
import numpy

import common

cv2.setNumThreads(0)

OFFSET = [-mean / std for mean, std in zip(common.MEAN, common.STD, strict=False)]
FACTOR = [1 / std for std in common.STD]


def cut(image, size):
    """A random part of an RGB image, resized."""
    left, top, width, height = common.random_part(image.shape[1], image.shape[0])
    return cv2.resize(image[top:top + height, left:left + width], (size, size), interpolation=cv2.INTER_LINEAR)


def by_cv2(encoded, size):
    image = cv2.imdecode(numpy.frombuffer(encoded, numpy.uint8), cv2.IMREAD_COLOR_RGB)
    return cut(image, size) if size else image


def by_simplejpeg(encoded, size):
    import simplejpeg

    return cut(simplejpeg.decode_jpeg(encoded, "RGB", fastdct=True, fastupsample=True), size)


def by_torchvision(encoded, size):
    import torch
    from torchvision.io import ImageReadMode, decode_jpeg

    image = decode_jpeg(torch.frombuffer(bytearray(encoded), dtype=torch.uint8), ImageReadMode.RGB)
    return cut(image.permute(1, 2, 0).numpy(), size)


def by_pil(encoded, size):
    from PIL import Image

    image = Image.open(io.BytesIO(encoded)).convert("RGB")
    if size:
        left, top, width, height = common.random_part(*image.size)
        image = image.resize((size, size), Image.Resampling.BILINEAR, (left, top, left + width, top + height))
    return numpy.asarray(image)


DECODERS = {"cv2": by_cv2, "simplejpeg": by_simplejpeg, "torchvision": by_torchvision, "pil": by_pil}


def version_of(variant):
    """What decodes."""
    from importlib import metadata

    name = {"pil": "Pillow", "cv2": "opencv-python-headless"}.get(variant, variant)
    try:
        return f"{name} {metadata.version(name)}"
    except metadata.PackageNotFoundError:  # Debian's
        return name


class Load:
    """From an encoded image to bytes [size, size, 3]."""

    def __init__(self, options):
        self.decode = DECODERS[options.variant.split()[0]]
        self.size = options.size if options.crop == "random" else 0

    def __call__(self, encoded):
        image = self.decode(encoded, self.size)
        return cv2.flip(image, 1) if random.random() < common.MIRROR else image


def normalise(image, out):
    """Of bytes [size, size, 3], into float32 [3, size, size]."""
    for channel, plane in enumerate(cv2.split(image)):
        # plane * factor + offset in one pass; the quickest of five ways that were tried.
        cv2.addWeighted(plane, FACTOR[channel], plane, 0, OFFSET[channel], dst=out[channel], dtype=cv2.CV_32F)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def fill(load, paths, out):
    """A batch of files, by the thread that calls. Returns `out`."""
    for number, path in enumerate(paths):
        normalise(load(read(path)), out[number])
    return out


def empty_batch(count, size):
    return numpy.empty((count, 3, size, size), numpy.float32)
