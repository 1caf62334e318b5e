"""tf.data: files or records read and decoded in a parallel map, only the crop decoded, everything else over whole
batches, all parallelism left to AUTOTUNE within as many threads as there are cores, as its performance guide has it.
LMDB through a Python generator: TensorFlow has no reader of it. Variant `fast`: the fast inverse DCT and chroma
upsampling without interpolation."""

import glob
import os
import random

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import tensorflow as tf  # noqa: E402  (its logging is set before)

import common  # noqa: E402
from measuring import measure  # noqa: E402

AUTOTUNE = tf.data.AUTOTUNE
SHUFFLE_BUFFER = 1000


def of_files(options):
    paths, labels = common.read_list(options.list)
    return (tf.data.Dataset.from_tensor_slices((paths, labels)).shuffle(len(paths), seed=17).repeat(),
            lambda path, label: (tf.io.read_file(path), label))


def of_tfrecord(options):
    shards = sorted(glob.glob(os.path.join(options.list, "train-*")))
    records = (tf.data.Dataset.from_tensor_slices(shards).shuffle(len(shards)).repeat()
               .interleave(tf.data.TFRecordDataset, cycle_length=len(shards), num_parallel_calls=AUTOTUNE,
                           deterministic=False)
               .shuffle(SHUFFLE_BUFFER))
    features = {"image/encoded": tf.io.FixedLenFeature([], tf.string),
                "image/class/label": tf.io.FixedLenFeature([], tf.int64)}

    def parse(record):
        example = tf.io.parse_single_example(record, features)
        return example["image/encoded"], example["image/class/label"]

    return records, parse


def of_lmdb(options):
    def values():
        database = common.LmdbValues(options.list)
        while True:
            for index in random.sample(range(len(database)), len(database)):
                image, label = database[index]
                yield bytes(image), label

    signature = (tf.TensorSpec((), tf.string), tf.TensorSpec((), tf.int64))
    return tf.data.Dataset.from_generator(values, output_signature=signature), lambda encoded, label: (encoded, label)


SOURCES = {"files": of_files, "tfrecord": of_tfrecord, "lmdb": of_lmdb}


def cropped(size, variant):
    fast = {"dct_method": "INTEGER_FAST", "fancy_upscaling": False} if variant == "fast" else {}

    def of(encoded):
        begin, extent, _ = tf.image.sample_distorted_bounding_box(
            tf.image.extract_jpeg_shape(encoded), tf.constant([[[0.0, 0.0, 1.0, 1.0]]]), area_range=common.SCALE,
            aspect_ratio_range=common.RATIO, max_attempts=10, use_image_if_no_bounding_boxes=True)
        window = tf.stack([begin[0], begin[1], extent[0], extent[1]])
        image = tf.image.decode_and_crop_jpeg(encoded, window, channels=3, **fast)
        image = tf.image.resize(image, [size, size], method="bilinear")
        return tf.image.random_flip_left_right(image)

    return of


def whole(size):
    return lambda encoded: tf.ensure_shape(tf.io.decode_png(encoded, channels=3), [size, size, 3])


def mirrored(images):
    chosen = tf.random.uniform([tf.shape(images)[0], 1, 1, 1]) < common.MIRROR
    return tf.where(chosen, tf.reverse(images, [2]), images)


def run(options):
    records, parse = SOURCES[options.kind](options)
    random_crop = options.crop == "random"
    decode = cropped(options.size, options.variant) if random_crop else whole(options.size)

    def load(*record):
        encoded, label = parse(*record)
        return decode(encoded), label

    def finish(images, labels):
        if not random_crop:
            images = tf.cast(mirrored(images), tf.float32)
        images = (images - tf.constant(common.MEAN)) * (1 / tf.constant(common.STD))
        return tf.transpose(images, [0, 3, 1, 2]), labels

    data = (records
            .map(load, num_parallel_calls=AUTOTUNE, deterministic=False)
            .batch(options.batch, drop_remainder=True, num_parallel_calls=AUTOTUNE, deterministic=False)
            .map(finish, num_parallel_calls=AUTOTUNE, deterministic=False)
            .prefetch(AUTOTUNE))
    settings = tf.data.Options()
    settings.threading.private_threadpool_size = options.threads
    settings.threading.max_intra_op_parallelism = 1
    settings.deterministic = False
    images = (batch[0] for batch in data.with_options(settings))
    measure(images, options, lambda batch: batch.numpy().copy(), version=f"tensorflow {tf.__version__}")

