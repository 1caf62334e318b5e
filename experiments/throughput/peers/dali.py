"""NVIDIA DALI on the CPU: the pipeline of its ResNet-50 example with every operator on the CPU and no device. The crop
is made while decoding; resizing antialiases; one operator crops, mirrors, normalises and transposes."""

import nvidia.dali as dali
from nvidia.dali import fn, pipeline_def, types

import common


@pipeline_def
def training(paths, labels, size):
    encoded, label = fn.readers.file(files=paths, labels=labels, random_shuffle=True, pad_last_batch=False,
                                     initial_fill=1024, name="reader")
    images = fn.decoders.image_random_crop(encoded, device="cpu", output_type=types.RGB,
                                           random_area=list(common.SCALE), random_aspect_ratio=list(common.RATIO),
                                           num_attempts=10)
    images = fn.resize(images, device="cpu", resize_x=size, resize_y=size, interp_type=types.INTERP_LINEAR)
    images = fn.crop_mirror_normalize(images, device="cpu", dtype=types.FLOAT, output_layout="CHW",
                                      mean=list(common.MEAN), std=list(common.STD),
                                      mirror=fn.random.coin_flip(probability=common.MIRROR))
    return images, label


def main():
    options = common.arguments(__doc__)
    paths, labels = common.read_list(options.list)
    pipeline = training(paths, labels, options.size, batch_size=options.batch, num_threads=options.threads,
                        device_id=None, seed=17, prefetch_queue_depth=2)
    pipeline.build()

    def batches():
        while True:
            yield pipeline.run()[0]

    common.measure(batches(), options, lambda batch: batch.as_array().copy(), version=f"DALI {dali.__version__}")


if __name__ == "__main__":
    main()
