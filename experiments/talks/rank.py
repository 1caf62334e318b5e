"""One rank of the x-ray training: reads, and "trains" at the speed of its GPU, for a stretch that all ranks share.

rank.py LOADER SHARDS --rank R --ranks N --seconds S --meet FOLDER    LOADER: old, new or forebay

Prints a line of JSON. The net is a wait: a GPU computes beside its processor.
"""

import argparse
import glob
import json
import os
import sys
import time

BATCH = 16
RATE = 100.0  # images a second of one GPU
SIZE = 224
FINDINGS = ["Atelectasis", "Cardiomegaly", "Effusion", "Infiltration", "Mass", "Nodule", "Pneumonia", "Pneumothorax",
            "Consolidation", "Edema", "Emphysema", "Fibrosis", "Thickening", "Hernia"]
LABELS = len(FINDINGS)


def tensorflow_batches(options):
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    import tensorflow as tf

    files = sorted(glob.glob(os.path.join(options.shards, "*.tfrecord")))
    features = {"image/encoded": tf.io.FixedLenFeature([], tf.string),
                "image/labels": tf.io.FixedLenFeature([LABELS], tf.int64)}

    def decode(record):
        example = tf.io.parse_single_example(record, features)
        image = tf.io.decode_jpeg(example["image/encoded"], channels=3)
        image = tf.image.random_flip_left_right(tf.image.resize(image, [SIZE, SIZE]))
        return (image - 127.5) / 64.0, example["image/labels"]

    if options.loader == "old":
        # All files to each rank, which decodes every record and keeps its share.
        data = (tf.data.TFRecordDataset(files).map(decode, num_parallel_calls=4)
                .shard(options.ranks, options.rank).shuffle(256).repeat().batch(BATCH).prefetch(1))
    else:
        # The list of files is shuffled and shared out first; records are decoded into their batch.
        data = (tf.data.Dataset.from_tensor_slices(files).shuffle(len(files), seed=1).shard(options.ranks, options.rank)
                .interleave(tf.data.TFRecordDataset, cycle_length=4, num_parallel_calls=4, deterministic=False)
                .prefetch(64).shuffle(256).repeat()
                .map(decode, num_parallel_calls=4).batch(BATCH).prefetch(2))
    for images, labels in data.as_numpy_iterator():
        assert images.shape == (BATCH, SIZE, SIZE, 3) and labels.shape == (BATCH, LABELS)
        yield


def forebay_batches(options):
    import forebay
    from mpi4py import MPI

    feeder = forebay.Feeder(
        dataset={"path": options.shards, "format": "tfrecord", "index": options.index}, batch_size=BATCH, epochs=1000,
        fields={"image": {"from": "image/encoded"}, "findings": {"kind": "multilabel", "from": "image/labels", "classes": FINDINGS}},
        size=(SIZE, SIZE), layout="NHWC", crop="center", mirror=0.5, policy="block", comm=MPI.COMM_WORLD)
    for batch in feeder:
        assert tuple(batch.images.shape) == (BATCH, SIZE, SIZE, 3)
        yield


def meet(folder, name, rank, ranks):
    """Waits until all ranks are here: a file of each."""
    open(os.path.join(folder, f"{name}-{rank}"), "w").close()
    for _ in range(6000):
        if len(glob.glob(os.path.join(folder, f"{name}-*"))) >= ranks:
            return
        time.sleep(0.05)
    sys.exit("the other ranks do not come")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("loader", choices=["old", "new", "forebay"])
    parser.add_argument("shards")
    parser.add_argument("--rank", type=int, default=int(os.environ.get("OMPI_COMM_WORLD_RANK", "0")))
    parser.add_argument("--ranks", type=int, default=int(os.environ.get("OMPI_COMM_WORLD_SIZE", "1")))
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--meet", required=True)
    parser.add_argument("--index", default="")
    options = parser.parse_args()
    batches = forebay_batches(options) if options.loader == "forebay" else tensorflow_batches(options)
    step = BATCH / RATE
    for _ in range(4):  # warm
        next(batches)
    meet(options.meet, "warm", options.rank, options.ranks)
    began = time.monotonic()
    steps = 0
    computed = began
    while time.monotonic() - began < options.seconds:
        next(batches)
        computed = max(computed, time.monotonic()) + step
        time.sleep(max(0.0, computed - time.monotonic()))
        steps += 1
    taken = time.monotonic() - began
    print(json.dumps({"rank": options.rank, "images_per_s": steps * BATCH / taken,
                      "cpu_s": time.process_time()}), flush=True)
    meet(options.meet, "done", options.rank, options.ranks)
    if options.loader != "forebay":
        os._exit(0)  # rather than wait for what its threads are at


if __name__ == "__main__":
    main()
