"""SPDL: a Pipeline whose threads decode single images with FFmpeg, one decoder thread each as its documentation has it;
crop, mirror, resize and colour conversion are FFmpeg filters. PyTorch normalises whole batches in another stage."""

import random

import spdl.io
import torch
from spdl.pipeline import PipelineBuilder

import common


def decoder(size):
    def decode(path):
        packets = spdl.io.demux_image(path)
        left, top, width, height = common.random_part(packets.width, packets.height)
        mirror = "hflip," if random.random() < common.MIRROR else ""
        part = f"crop={width}:{height}:{left}:{top},{mirror}scale={size}:{size}:flags=bilinear,format=pix_fmts=rgb24"
        return spdl.io.decode_packets(packets, filter_desc=part)

    return decode


def normaliser():
    mean = torch.tensor(common.MEAN).view(1, 3, 1, 1)
    scale = 1 / torch.tensor(common.STD).view(1, 3, 1, 1)

    def normalise(frames):
        images = torch.from_numpy(spdl.io.to_numpy(spdl.io.convert_frames(frames))).permute(0, 3, 1, 2)
        return images.to(torch.float32, memory_format=torch.contiguous_format).sub_(mean).mul_(scale)

    return normalise


def shuffled(paths):
    while True:
        yield from random.sample(paths, len(paths))


def main():
    options = common.arguments(__doc__)
    paths, _ = common.read_list(options.list)
    torch.set_num_threads(1)
    pipeline = (PipelineBuilder()
                .add_source(shuffled(paths))
                .pipe(decoder(options.size), concurrency=options.threads)
                .aggregate(options.batch, drop_last=True)
                .pipe(normaliser())
                .add_sink(3)
                .build(num_threads=options.threads + 1))
    with pipeline.auto_stop():
        common.measure(pipeline.get_iterator(), options, lambda batch: batch.numpy().copy(),
                       version=f"spdl {spdl.io.__version__}")


if __name__ == "__main__":
    main()
