"""What worker processes of PyTorch's DataLoader and WebDataset do with an encoded image, set up for speed: cropped and
resized as bytes, and normalised as whole batches in the workers. Variants: `pil`, `cv2`, `simplejpeg` (libjpeg-turbo,
fast inverse DCT and chroma upsampling; cropped and resized by OpenCV)."""

import io
import random

import cv2
import numpy
import simplejpeg
import torch
from PIL import Image

import common

cv2.setNumThreads(0)
torch.set_num_threads(1)

VERSIONS = {"pil": f"Pillow {Image.__version__}", "cv2": f"OpenCV {cv2.__version__}",
            "simplejpeg": f"simplejpeg {simplejpeg.__version__}, OpenCV {cv2.__version__}"}


def by_pil(encoded, size):
    image = Image.open(io.BytesIO(encoded)).convert("RGB")
    if size:
        left, top, width, height = common.random_part(*image.size)
        image = image.resize((size, size), Image.Resampling.BILINEAR, (left, top, left + width, top + height))
    return numpy.asarray(image)


def resized(image, size):
    left, top, width, height = common.random_part(image.shape[1], image.shape[0])
    return cv2.resize(image[top:top + height, left:left + width], (size, size), interpolation=cv2.INTER_LINEAR)


def by_cv2(encoded, size):
    image = cv2.imdecode(numpy.frombuffer(encoded, numpy.uint8), cv2.IMREAD_COLOR)
    return cv2.cvtColor(resized(image, size) if size else image, cv2.COLOR_BGR2RGB)


def by_simplejpeg(encoded, size):
    return resized(simplejpeg.decode_jpeg(encoded, "RGB", fastdct=True, fastupsample=True), size)


DECODERS = {"pil": by_pil, "cv2": by_cv2, "simplejpeg": by_simplejpeg}


class Load:
    """From an encoded image to bytes [size, size, 3]."""

    def __init__(self, options):
        self.decode = DECODERS[options.variant]
        self.size = options.size if options.crop == "random" else 0

    def __call__(self, encoded):
        image = self.decode(encoded, self.size)
        return image[:, ::-1] if random.random() < common.MIRROR else image


def collate(samples):
    """Of a list of (image, label)."""
    images = torch.from_numpy(numpy.stack([image for image, _ in samples])).permute(0, 3, 1, 2)
    batch = images.to(torch.float32, memory_format=torch.contiguous_format)
    mean = torch.tensor(common.MEAN).view(1, 3, 1, 1)
    scale = 1 / torch.tensor(common.STD).view(1, 3, 1, 1)
    return batch.sub_(mean).mul_(scale), torch.tensor([label for _, label in samples])
