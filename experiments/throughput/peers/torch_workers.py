"""torch.utils.data.DataLoader over files or an LMDB, with decoders chosen for speed (decoding.py). --threads is
num_workers."""

import torch

import common
import decoding
import torch_batches
from measuring import measure


class Files:
    def __init__(self, path):
        self.paths, self.labels = common.read_list(path)

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        return decoding.read(self.paths[index]), self.labels[index]


class Images(torch.utils.data.Dataset):
    def __init__(self, values, load):
        self.values, self.load = values, load

    def __len__(self):
        return len(self.values)

    def __getitem__(self, index):
        encoded, label = self.values[index]
        return self.load(encoded), label


def values_of(options):
    if options.kind != "lmdb":
        return Files(options.list)
    from lmdb_values import Values

    return Values(options.list)


def main():
    options = common.arguments(__doc__)
    images = Images(values_of(options), decoding.Load(options))
    loader = torch.utils.data.DataLoader(images, options.batch, shuffle=True, drop_last=True,
                                         num_workers=options.threads, persistent_workers=options.threads > 0,
                                         collate_fn=torch_batches.collate)
    measure(common.endless(lambda: (batch[0] for batch in loader)), options, lambda batch: batch.numpy().copy(),
            version=f"torch {torch.__version__}, {decoding.version_of(options.variant)}")


if __name__ == "__main__":
    main()
