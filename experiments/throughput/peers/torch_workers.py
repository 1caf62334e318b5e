"""torch.utils.data.DataLoader over files or an LMDB, with decoders chosen for speed (worker_decoding.py). --threads is
num_workers."""

import torch

import common
import worker_decoding
from lmdb_values import Values


class Files:
    def __init__(self, path):
        self.paths, self.labels = common.read_list(path)

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        with open(self.paths[index], "rb") as file:
            return file.read(), self.labels[index]


class Images(torch.utils.data.Dataset):
    def __init__(self, values, load):
        self.values, self.load = values, load

    def __len__(self):
        return len(self.values)

    def __getitem__(self, index):
        encoded, label = self.values[index]
        return self.load(encoded), label


def main():
    options = common.arguments(__doc__)
    values = Values(options.list) if options.kind == "lmdb" else Files(options.list)
    loader = torch.utils.data.DataLoader(Images(values, worker_decoding.Load(options)), options.batch, shuffle=True,
                                         drop_last=True, num_workers=options.threads,
                                         persistent_workers=options.threads > 0, collate_fn=worker_decoding.collate)
    images = common.endless(lambda: (batch[0] for batch in loader))
    common.measure(images, options, lambda batch: batch.numpy().copy(),
                   version=f"torch {torch.__version__}, {worker_decoding.VERSIONS[options.variant]}")


if __name__ == "__main__":
    main()
