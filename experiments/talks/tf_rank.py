#!/usr/bin/env python3
"""One rank of a tf.data pipeline over the TFRecord files that dell.py writes, as Dell's talk has it before and after.

    tf_rank.py FOLDER old|new --rank R --ranks N --batch 64 --side 224 --labels 14

One call of `map` at a time, on a thread pool of one. Says "ready" once it has a batch; its answer to the line
"WARM SECONDS" on its input is a line of JSON: images taken, seconds, processor seconds, and bytes that it has read."""

import argparse
import glob
import json
import os
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import tensorflow as tf  # noqa: E402  (its logging is set before)

SEED = 17
SHUFFLED = 512  # samples in the shuffle buffer
OPEN = 4  # files that are read in turn
AHEAD = 2  # batches
MEAN = (123.675, 116.28, 103.53)
STD = (58.395, 57.12, 57.375)


def loader(side, labels):
    features = {"image/encoded": tf.io.FixedLenFeature([], tf.string),
                "image/labels": tf.io.FixedLenFeature([labels], tf.int64)}

    # Mirrored and normalised before it is enlarged: the same values for less than half of the time.
    def load(record):
        example = tf.io.parse_single_example(record, features)
        image = tf.io.decode_image(example["image/encoded"], channels=3, expand_animations=False)
        image = tf.image.random_flip_left_right(tf.ensure_shape(image, [None, None, 3]))
        image = (tf.cast(image, tf.float32) - tf.constant(MEAN)) * (1 / tf.constant(STD))
        return tf.image.resize(image, [side, side], method="bilinear"), tf.cast(example["image/labels"], tf.float32)

    return load


def old(files, options, load):
    """Every rank reads and decodes everything, and keeps its share."""
    return (tf.data.TFRecordDataset(files)
            .map(load, num_parallel_calls=1)
            .shard(options.ranks, options.rank)
            .shuffle(SHUFFLED, seed=SEED)
            .repeat()
            .batch(options.batch, drop_remainder=True)
            .prefetch(AHEAD))


def new(files, options, load):
    """Every rank reads its share of the files. The seed makes all ranks shuffle them alike."""
    return (tf.data.Dataset.from_tensor_slices(files).shuffle(len(files), seed=SEED).shard(options.ranks, options.rank)
            .interleave(tf.data.TFRecordDataset, cycle_length=OPEN, num_parallel_calls=OPEN)
            .prefetch(options.batch)
            .shuffle(SHUFFLED, seed=SEED)
            .repeat()
            .apply(tf.data.experimental.map_and_batch(load, options.batch, num_parallel_calls=1, drop_remainder=True))
            .prefetch(AHEAD))


PIPELINES = {"old": old, "new": new}


def bytes_read():
    """By this process, from the page cache too."""
    with open("/proc/self/io", encoding="ascii") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("rchar:"))


def take(batches, seconds):
    """Takes batches for so long; ends with one's arrival. Says how many, and how long it took."""
    count, since = 0, time.monotonic()
    while True:
        next(batches)
        count += 1
        took = time.monotonic() - since
        if took >= seconds:
            return count, took


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("pipeline", choices=PIPELINES)
    for name in ("rank", "ranks", "batch", "side", "labels"):
        parser.add_argument(f"--{name}", type=int, required=True)
    options = parser.parse_args()
    tf.random.set_seed(SEED)
    files = sorted(glob.glob(os.path.join(options.folder, "*.tfrecord")))
    data = PIPELINES[options.pipeline](files, options, loader(options.side, options.labels))
    settings = tf.data.Options()
    settings.threading.private_threadpool_size = 1
    settings.threading.max_intra_op_parallelism = 1
    batches = iter(data.with_options(settings))
    images, labels = next(batches)
    if images.shape[1:] != (options.side, options.side, 3) or labels.shape != (options.batch, options.labels):
        raise SystemExit(f"the batches have the shapes {images.shape} and {labels.shape}")
    print("ready", flush=True)
    warm, seconds = map(float, sys.stdin.readline().split())
    take(batches, warm)
    read, used = bytes_read(), time.process_time()
    count, took = take(batches, seconds)
    print(json.dumps({"images": count * options.batch, "seconds": took, "cpu_s": time.process_time() - used,
                      "bytes": bytes_read() - read, "tensorflow": tf.__version__}), flush=True)


if __name__ == "__main__":
    main()
