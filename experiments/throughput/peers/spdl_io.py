"""SPDL: a Pipeline whose threads make whole batches by a decoder of decoding.py; with the variant `ffmpeg` they decode
single images by SPDL's own, one decoder thread each as its documentation has it, with crop, mirror, resize and colour
conversion as FFmpeg filters, and PyTorch normalises whole batches in another stage."""

import random

import spdl.io
from spdl.pipeline import PipelineBuilder

import common
from measuring import measure

AHEAD = 3  # batches, SPDL's default


def ffmpeg_decoder(size):
    def decode(path):
        packets = spdl.io.demux_image(path)
        left, top, width, height = common.random_part(packets.width, packets.height)
        mirror = "hflip," if random.random() < common.MIRROR else ""
        part = f"crop={width}:{height}:{left}:{top},{mirror}scale={size}:{size}:flags=bilinear,format=pix_fmts=rgb24"
        return spdl.io.decode_packets(packets, filter_desc=part)

    return decode


def normaliser():
    import torch

    torch.set_num_threads(1)
    mean = torch.tensor(common.MEAN).view(1, 3, 1, 1)
    scale = 1 / torch.tensor(common.STD).view(1, 3, 1, 1)

    def normalise(frames):
        images = torch.from_numpy(spdl.io.to_numpy(spdl.io.convert_frames(frames))).permute(0, 3, 1, 2)
        return images.to(torch.float32, memory_format=torch.contiguous_format).sub_(mean).mul_(scale).numpy()

    return normalise


def pipeline_of(options):
    paths, _ = common.read_list(options.list)
    files = PipelineBuilder().add_source(common.shuffled(paths))
    if options.variant == "ffmpeg":
        return (files.pipe(ffmpeg_decoder(options.size), concurrency=options.threads)
                .aggregate(options.batch, drop_last=True).pipe(normaliser()).add_sink(AHEAD)
                .build(num_threads=options.threads + 1))
    import decoding

    load = decoding.Load(options)

    def batch_of(chosen):
        return decoding.fill(load, chosen, decoding.empty_batch(len(chosen), options.size))

    return (files.aggregate(options.batch, drop_last=True).pipe(batch_of, concurrency=options.threads).add_sink(AHEAD)
            .build(num_threads=options.threads))


def main():
    options = common.arguments(__doc__)
    pipeline = pipeline_of(options)
    with pipeline.auto_stop():
        measure(pipeline.get_iterator(), options, lambda batch: batch.copy(),
                version=f"spdl {spdl.io.__version__}, {options.variant}")


if __name__ == "__main__":
    main()
