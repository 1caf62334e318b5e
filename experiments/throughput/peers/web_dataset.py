"""WebDataset: tar shards, decoded by PIL and transformed by torchvision, batched in the worker processes of a
WebLoader. The shards are written once, the files' own bytes in them. --threads is num_workers."""

import os
import tarfile

import torch
import webdataset

import common
import pytorch

SHARDS = 8
SHUFFLE_BUFFER = 1000


def write_shards(folder, paths, labels):
    """The names of the shards."""
    names = [os.path.join(folder, f"shard-{number:02}.tar") for number in range(SHARDS)]
    if all(os.path.exists(name) for name in names):
        return names
    os.makedirs(folder, exist_ok=True)
    for number, name in enumerate(names):
        with webdataset.TarWriter(name + ".part") as shard:
            for index in range(number, len(paths), SHARDS):
                with open(paths[index], "rb") as file:
                    shard.write({"__key__": f"{index:08}", "jpg": file.read(), "cls": labels[index]})
        tarfile.open(name + ".part").close()
        os.rename(name + ".part", name)
    return names


def main():
    options = common.arguments(__doc__)
    shards = write_shards(os.path.join(options.scratch, "webdataset"), *common.read_list(options.list))
    dataset = (webdataset.WebDataset(shards, resampled=True)
               .shuffle(SHUFFLE_BUFFER)
               .decode("pil")
               .to_tuple("jpg", "cls")
               .map_tuple(pytorch.transform_of(options.size), lambda label: label)
               .batched(options.batch, partial=False))
    loader = webdataset.WebLoader(dataset, batch_size=None, num_workers=options.threads,
                                  persistent_workers=options.threads > 0)
    common.measure((batch[0] for batch in loader), options, lambda batch: torch.as_tensor(batch).numpy().copy(),
                   version=f"webdataset {webdataset.__version__}")


if __name__ == "__main__":
    main()
