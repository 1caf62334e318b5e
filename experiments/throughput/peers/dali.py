"""NVIDIA DALI on the CPU: the pipeline of its ResNet-50 example with every operator on the CPU and no device. The
crop is made while decoding; resizing antialiases; one operator crops, mirrors, normalises and transposes. Containers
are read by its own readers. Variant `fast`: resizing without antialiasing, the decoder's fast inverse DCT."""

import glob
import os

import nvidia.dali as dali
from nvidia.dali import fn, pipeline_def, types
from nvidia.dali import tfrecord as features

import common
from measuring import measure


def read(options):
    """The encoded images and their labels, shuffled in a buffer."""
    shared = {"random_shuffle": True, "pad_last_batch": False, "initial_fill": 1024, "name": "reader"}
    if options.kind == "tfrecord":
        shards = sorted(glob.glob(os.path.join(options.list, "train-*")))
        indices = [os.path.join(options.list + "-index", os.path.basename(shard)) for shard in shards]
        read = fn.readers.tfrecord(path=shards, index_path=indices, features={
            "image/encoded": features.FixedLenFeature((), features.string, ""),
            "image/class/label": features.FixedLenFeature([1], features.int64, -1)}, **shared)
        return read["image/encoded"], read["image/class/label"]
    if options.kind == "webdataset":
        shards = sorted(glob.glob(os.path.join(options.list, "*.tar")))
        return fn.readers.webdataset(paths=shards, ext=["jpg", "cls"], missing_component_behavior="error", **shared)
    if options.kind == "lmdb":
        return fn.readers.caffe(path=options.list, **shared)
    paths, labels = common.read_list(options.list)
    return fn.readers.file(files=paths, labels=labels, **shared)


@pipeline_def
def training(options):
    fast = options.variant == "fast"
    encoded, label = read(options)
    if options.crop == "random":
        images = fn.decoders.image_random_crop(encoded, device="cpu", output_type=types.RGB,
                                               random_area=list(common.SCALE), random_aspect_ratio=list(common.RATIO),
                                               num_attempts=10, use_fast_idct=fast)
        images = fn.resize(images, device="cpu", resize_x=options.size, resize_y=options.size,
                           interp_type=types.INTERP_LINEAR, antialias=not fast)
    else:
        images = fn.decoders.image(encoded, device="cpu", output_type=types.RGB)
    images = fn.crop_mirror_normalize(images, device="cpu", dtype=types.FLOAT, output_layout="CHW",
                                      mean=list(common.MEAN), std=list(common.STD),
                                      mirror=fn.random.coin_flip(probability=common.MIRROR))
    return images, label


def run(options):
    pipeline = training(options, batch_size=options.batch, num_threads=options.threads, device_id=None, seed=17,
                        prefetch_queue_depth=2)
    pipeline.build()

    def batches():
        while True:
            yield pipeline.run()[0]

    measure(batches(), options, lambda batch: batch.as_array().copy(), version=f"DALI {dali.__version__}")

