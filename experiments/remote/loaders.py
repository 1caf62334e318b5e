"""One loader that reads photographs from a store, measured: images per second, as JSON.

    loaders.py NAME [--io N] [--ahead N] [--trainer BYTES] [--warm S] [--seconds S]

The environment says where the store is (AWS_ENDPOINT_URL and keys); buckets are those of peers. All make batches of 64
random resized crops, float32 [64, 3, 224, 224], mirrored and normalised. Forebay decodes itself; PyTorch's loaders
decode by simplejpeg and OpenCV, which were the fastest of those tried (experiments/throughput).
"""

import argparse
import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "throughput", "peers"))

import common  # noqa: E402
from measuring import measure  # noqa: E402

SHARDS = "shard-{000000..000015}.tar"


def forebay(options, dataset, **more):
    """Waits for every batch: a reused one is no image that was read. Batches are views of its memory."""
    import forebay

    def batches():
        if options.io:
            more["workers_io"] = options.io
        with tempfile.TemporaryDirectory() as folder, forebay.Feeder(
                dataset=dataset, dataset_index=os.path.join(folder, "index"), batch_size=options.batch, epochs=1000,
                size=(options.size, options.size), policy="block", telemetry_dir=folder, **more) as feeder:
            for batch in feeder:
                yield batch.images

    measure(batches(), options, lambda batch: batch.copy(), version=f"forebay {forebay.__version__}")


def forebay_files(options):
    forebay(options, "s3://photos/")


def forebay_tars(options):
    forebay(options, f"s3://tars/{SHARDS}", dataset_order="shards")


def forebay_packs(options):
    forebay(options, "s3://packs/", dataset_order="shards")


def torch_loader(options, data, name, module):
    import torch
    from torch_loaders import collate

    torch.set_num_threads(1)
    loader = torch.utils.data.DataLoader(
        data, options.batch, num_workers=options.io, drop_last=True, persistent_workers=True, collate_fn=collate,
        shuffle=None if isinstance(data, torch.utils.data.IterableDataset) else True)
    measure(common.endless(lambda: (batch[0] for batch in loader)), options, lambda batch: batch.numpy().copy(),
            version=f"{name} {module.__version__}, torch {torch.__version__}")


def s3_connector(options):
    """Amazon's connector, a dataset of objects; each worker asks for the objects of a batch side by side."""
    import decoding
    import s3torchconnector
    from s3torchconnector import S3ClientConfig, S3MapDataset

    load = decoding.Load(options)

    class Photographs(S3MapDataset):
        def __getitems__(self, numbers):
            if not options.ahead:
                return [self[number] for number in numbers]
            if not hasattr(self, "threads"):
                self.threads = ThreadPoolExecutor(options.ahead)
            return list(self.threads.map(self.__getitem__, numbers))

    data = Photographs.from_prefix("s3://photos/", region="us-east-1", endpoint=os.environ["AWS_ENDPOINT_URL"],
                                   s3client_config=S3ClientConfig(force_path_style=True),
                                   transform=lambda reader: (load(reader.read()), 0))
    torch_loader(options, data, "s3torchconnector", s3torchconnector)


def web_dataset(options):
    """Shards by curl, as its documentation has it, in the processes of PyTorch's loader."""
    import decoding
    import torch
    import webdataset
    from torch_loaders import collate

    torch.set_num_threads(1)
    url = f"pipe:curl -s -f {os.environ['AWS_ENDPOINT_URL']}/tars/{SHARDS}"
    data = (webdataset.WebDataset(url, resampled=True).shuffle(1000).to_tuple("jpg", "cls")
            .map_tuple(decoding.Load(options), int).batched(options.batch, partial=False, collation_fn=collate))
    loader = webdataset.WebLoader(data, batch_size=None, num_workers=options.io, persistent_workers=True)
    measure((batch[0] for batch in loader), options, lambda batch: torch.as_tensor(batch).numpy().copy(),
            version=f"webdataset {webdataset.__version__}")


def streaming_mds(options):
    """Shards in its own format, by way of a cache on the disk, which is empty when it starts."""
    import decoding
    import streaming

    load = decoding.Load(options)

    class Photographs(streaming.StreamingDataset):
        def __getitem__(self, index):
            sample = super().__getitem__(index)
            return load(sample["image"]), sample["label"]

    streaming.base.util.clean_stale_shared_memory()
    with tempfile.TemporaryDirectory() as cache:
        data = Photographs(remote="s3://mds", local=cache, shuffle=True, batch_size=options.batch,
                           num_canonical_nodes=1)
        torch_loader(options, data, "streaming", streaming)


def tf_data(options):
    """TensorFlow reads no S3 by itself: objects by urllib3 in a parallel map, then as in experiments/throughput."""
    import urllib3
    from tf_data import cropped, tf

    with open(options.keys, encoding="utf-8") as lines:
        urls = [f"{os.environ['AWS_ENDPOINT_URL']}/photos/{line.split()[0]}" for line in lines]
    pool = urllib3.PoolManager(maxsize=options.io)

    def fetched(url):
        return tf.ensure_shape(tf.numpy_function(
            lambda name: pool.request("GET", name.decode()).data, [url], tf.string, stateful=False), [])

    def finish(images):
        return tf.transpose((images - tf.constant(common.MEAN)) * (1 / tf.constant(common.STD)), [0, 3, 1, 2])

    data = (tf.data.Dataset.from_tensor_slices(urls).shuffle(len(urls)).repeat()
            .map(fetched, num_parallel_calls=options.io, deterministic=False)
            .map(cropped(options.size, "fast"), num_parallel_calls=tf.data.AUTOTUNE, deterministic=False)
            .batch(options.batch, drop_remainder=True).map(finish, num_parallel_calls=1).prefetch(2))
    settings = tf.data.Options()
    settings.threading.private_threadpool_size = options.io + 2
    settings.threading.max_intra_op_parallelism = 1
    settings.deterministic = False
    measure(iter(data.with_options(settings)), options, lambda batch: batch.numpy().copy(),
            version=f"tensorflow {tf.__version__}")


LOADERS = {"forebay-files": forebay_files, "forebay-tars": forebay_tars, "forebay-packs": forebay_packs,
           "s3torchconnector": s3_connector, "webdataset": web_dataset, "streaming": streaming_mds, "tf.data": tf_data}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("loader", choices=LOADERS)
    parser.add_argument("--io", type=int, default=0, help="readers, workers, or calls side by side")
    parser.add_argument("--ahead", type=int, default=0, help="objects that a worker reads side by side")
    parser.add_argument("--keys", help="a list of the objects, for what cannot list them")
    parser.add_argument("--trainer", type=int, default=0, help="bytes that a step hashes on the loader's core")
    parser.add_argument("--warm", type=float, default=2)
    parser.add_argument("--seconds", type=float, default=5)
    options = parser.parse_args(namespace=argparse.Namespace(batch=64, size=224, crop="random", variant="simplejpeg",
                                                             turns=False))
    LOADERS[options.loader](options)
    sys.stdout.flush()
    os._exit(0)  # workers that wait for the store are not waited for


if __name__ == "__main__":
    main()
