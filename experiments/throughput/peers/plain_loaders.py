"""Forebay, and the loaders whose threads make whole batches by a decoder of decoding.py. Each imports its own library
alone."""

import collections
import concurrent.futures
import itertools
from importlib import metadata

import common
from measuring import measure

AHEAD = 4  # batches


def forebay_python(options):
    """Forebay through its Python package: LIST is a configuration file. --threads is the number of decoders, 0 for as
    many as it finds useful. Batches are NumPy's views of its memory."""
    import forebay

    def batches():
        more = {"workers_decode": options.threads} if options.threads else {}
        with forebay.Feeder(options.list, **more) as feeder:
            for batch in feeder:
                yield batch.images

    measure(batches(), options, lambda batch: batch.copy(), version=f"forebay {forebay.__version__}")


def filler(options):
    """A function that makes a batch of files, on the thread that calls it."""
    import decoding

    load = decoding.Load(options)

    def batch_of(paths, out=None):
        return decoding.fill(load, paths, decoding.empty_batch(len(paths), options.size) if out is None else out)

    return batch_of, decoding.version_of(options.variant.split()[0])


def thread_pool(options):
    """No loader at all: a pool of threads from Python's standard library, each of which makes a whole batch and holds
    no lock of Python's meanwhile. The arrays are used again, so that no memory is mapped while it runs: a batch holds
    until the next one is asked for."""
    import decoding

    batch_of, version = filler(options)

    def batches():
        order = common.shuffled(common.read_list(options.list)[0])
        arrays = itertools.cycle([decoding.empty_batch(options.batch, options.size) for _ in range(AHEAD + 1)])
        pending = collections.deque()
        with concurrent.futures.ThreadPoolExecutor(options.threads) as pool:
            while True:
                while len(pending) < AHEAD:
                    chosen = list(itertools.islice(order, options.batch))
                    pending.append(pool.submit(batch_of, chosen, next(arrays)))
                yield pending.popleft().result()

    measure(batches(), options, lambda batch: batch.copy(), version=f"thread pool, {version}")


def grain_data(options):
    """Grain: a MapDataset whose elements are whole batches of files, made by its reading threads or, with `processes`
    in the variant, by its worker processes."""
    import grain

    batch_of, version = filler(options)
    data = (grain.MapDataset.source(common.read_list(options.list)[0]).seed(17).shuffle().repeat()
            .batch(options.batch, drop_remainder=True, batch_fn=list).map(batch_of))
    if "processes" in options.variant:
        data = data.to_iter_dataset(grain.ReadOptions(num_threads=1, prefetch_buffer_size=1)).mp_prefetch(
            grain.MultiprocessingOptions(num_workers=options.threads, per_worker_buffer_size=AHEAD // 2))
    else:
        data = data.to_iter_dataset(grain.ReadOptions(num_threads=options.threads, prefetch_buffer_size=AHEAD))
    measure(data, options, lambda batch: batch.copy(), version=f"grain {metadata.version('grain')}, {version}")


def spdl_io(options):
    """SPDL: a Pipeline whose threads make whole batches, three of them ahead, its default."""
    import spdl.io
    from spdl.pipeline import PipelineBuilder

    batch_of, version = filler(options)
    pipeline = (PipelineBuilder().add_source(common.shuffled(common.read_list(options.list)[0]))
                .aggregate(options.batch, drop_last=True).pipe(batch_of, concurrency=options.threads).add_sink(3)
                .build(num_threads=options.threads))
    with pipeline.auto_stop():
        measure(pipeline.get_iterator(), options, lambda batch: batch.copy(),
                version=f"spdl {spdl.io.__version__}, {version}")
