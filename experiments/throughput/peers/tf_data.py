"""tf.data: files read and decoded in a parallel map, only the crop decoded, everything else over whole batches, all
parallelism left to AUTOTUNE within as many threads as there are cores, as its performance guide has it."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import tensorflow as tf  # noqa: E402  (its logging is set before)

import common  # noqa: E402

AUTOTUNE = tf.data.AUTOTUNE


def load(size):
    def of(path, label):
        encoded = tf.io.read_file(path)
        begin, extent, _ = tf.image.sample_distorted_bounding_box(
            tf.image.extract_jpeg_shape(encoded), tf.constant([[[0.0, 0.0, 1.0, 1.0]]]), area_range=common.SCALE,
            aspect_ratio_range=common.RATIO, max_attempts=10, use_image_if_no_bounding_boxes=True)
        window = tf.stack([begin[0], begin[1], extent[0], extent[1]])
        image = tf.image.decode_and_crop_jpeg(encoded, window, channels=3)
        image = tf.image.resize(image, [size, size], method="bilinear")
        return tf.image.random_flip_left_right(image), label

    return of


def normalise(images, labels):
    images = (images - tf.constant(common.MEAN)) * (1 / tf.constant(common.STD))
    return tf.transpose(images, [0, 3, 1, 2]), labels


def main():
    options = common.arguments(__doc__)
    paths, labels = common.read_list(options.list)
    data = (tf.data.Dataset.from_tensor_slices((paths, labels))
            .shuffle(len(paths), seed=17)
            .repeat()
            .map(load(options.size), num_parallel_calls=AUTOTUNE, deterministic=False)
            .batch(options.batch, drop_remainder=True, num_parallel_calls=AUTOTUNE, deterministic=False)
            .map(normalise, num_parallel_calls=AUTOTUNE, deterministic=False)
            .prefetch(AUTOTUNE))
    settings = tf.data.Options()
    settings.threading.private_threadpool_size = options.threads
    settings.threading.max_intra_op_parallelism = 1
    settings.deterministic = False
    images = (batch[0] for batch in data.with_options(settings))
    common.measure(images, options, lambda batch: batch.numpy().copy(), version=f"tensorflow {tf.__version__}")


if __name__ == "__main__":
    main()
