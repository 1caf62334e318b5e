"""Grain: a MapDataset whose elements are whole batches of files, made by its reading threads or, with `processes` in
the variant, by its worker processes. Decoders chosen for speed (decoding.py)."""

import grain

import common
import decoding
from measuring import measure

AHEAD = 4  # batches


def main():
    options = common.arguments(__doc__)
    paths, _ = common.read_list(options.list)
    load = decoding.Load(options)

    def batch_of(chosen):
        return decoding.fill(load, chosen, decoding.empty_batch(len(chosen), options.size))

    data = (grain.MapDataset.source(paths).seed(17).shuffle().repeat()
            .batch(options.batch, drop_remainder=True, batch_fn=list).map(batch_of))
    if "processes" in options.variant:
        data = data.to_iter_dataset(grain.ReadOptions(num_threads=1, prefetch_buffer_size=1)).mp_prefetch(
            grain.MultiprocessingOptions(num_workers=options.threads, per_worker_buffer_size=AHEAD // 2))
    else:
        data = data.to_iter_dataset(grain.ReadOptions(num_threads=options.threads, prefetch_buffer_size=AHEAD))
    from importlib import metadata

    measure(data, options, lambda batch: batch.copy(),
            version=f"grain {metadata.version('grain')}, {decoding.version_of(options.variant.split()[0])}")


if __name__ == "__main__":
    main()
