"""WebDataset over tar files, those of containers.py or, for a list, some that it writes once with the files' own bytes
in them. Decoders chosen for speed (decoding.py), batches made in the worker processes of a WebLoader. --threads is
num_workers."""

import glob
import os

import torch
import webdataset

import common
import decoding
import torch_batches
from measuring import measure

SHARDS = 8
SHUFFLE_BUFFER = 1000


def write_shards(folder, paths, labels):
    if os.path.exists(os.path.join(folder, "complete")):
        return
    os.makedirs(folder, exist_ok=True)
    for number in range(SHARDS):
        with webdataset.TarWriter(os.path.join(folder, f"shard-{number:02}.tar")) as shard:
            for index in range(number, len(paths), SHARDS):
                shard.write({"__key__": f"{index:08}", "jpg": decoding.read(paths[index]), "cls": labels[index]})
    open(os.path.join(folder, "complete"), "w", encoding="utf-8").close()


def main():
    options = common.arguments(__doc__)
    folder = options.list
    if options.kind == "files":
        folder = os.path.join(options.scratch, "webdataset")
        write_shards(folder, *common.read_list(options.list))
    if options.prepare:
        return
    dataset = (webdataset.WebDataset(sorted(glob.glob(os.path.join(folder, "*.tar"))), resampled=True)
               .shuffle(SHUFFLE_BUFFER)
               .to_tuple("jpg;png", "cls")
               .map_tuple(decoding.Load(options), int)
               .batched(options.batch, partial=False, collation_fn=torch_batches.collate))
    loader = webdataset.WebLoader(dataset, batch_size=None, num_workers=options.threads,
                                  persistent_workers=options.threads > 0)
    measure((batch[0] for batch in loader), options, lambda batch: torch.as_tensor(batch).numpy().copy(),
            version=f"webdataset {webdataset.__version__}, {decoding.version_of(options.variant)}")


if __name__ == "__main__":
    main()
