"""WebDataset over the tar files of containers.py, with decoders chosen for speed (worker_decoding.py), batches made in
the worker processes of a WebLoader. --threads is num_workers."""

import glob
import os

import torch
import webdataset

import common
import worker_decoding

SHUFFLE_BUFFER = 1000


def main():
    options = common.arguments(__doc__)
    load = worker_decoding.Load(options)
    dataset = (webdataset.WebDataset(sorted(glob.glob(os.path.join(options.list, "*.tar"))), resampled=True)
               .shuffle(SHUFFLE_BUFFER)
               .to_tuple("jpg;png", "cls")
               .map_tuple(load, int)
               .batched(options.batch, partial=False, collation_fn=worker_decoding.collate))
    loader = webdataset.WebLoader(dataset, batch_size=None, num_workers=options.threads,
                                  persistent_workers=options.threads > 0)
    version = f"webdataset {webdataset.__version__}, {worker_decoding.VERSIONS[options.variant]}"
    common.measure((batch[0] for batch in loader), options, lambda batch: torch.as_tensor(batch).numpy().copy(),
                   version=version)


if __name__ == "__main__":
    main()
