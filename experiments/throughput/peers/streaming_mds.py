"""MosaicML Streaming: shards in its MDS format on the local disk, with the files' own bytes in them, read by a
StreamingDataset through PyTorch's DataLoader. Decoders chosen for speed (decoding.py). --threads is num_workers."""

import os

import streaming
import torch

import common
import decoding
import torch_batches
from measuring import measure


def write_shards(folder, paths, labels):
    if os.path.exists(os.path.join(folder, "index.json")):  # written last
        return
    with streaming.MDSWriter(out=folder, columns={"image": "bytes", "label": "int"}, exist_ok=True) as shards:
        for path, label in zip(paths, labels, strict=False):
            shards.write({"image": decoding.read(path), "label": label})


class Images(streaming.StreamingDataset):
    def __init__(self, folder, options):
        super().__init__(local=folder, shuffle=True, batch_size=options.batch, num_canonical_nodes=1)
        self.load = decoding.Load(options)

    def __getitem__(self, index):
        sample = super().__getitem__(index)
        return self.load(sample["image"]), sample["label"]


def main():
    options = common.arguments(__doc__)
    folder = os.path.join(options.scratch, "mds")
    write_shards(folder, *common.read_list(options.list))
    if options.prepare:
        return
    streaming.base.util.clean_stale_shared_memory()  # of a run that was ended
    loader = torch.utils.data.DataLoader(Images(folder, options), options.batch, num_workers=options.threads,
                                         drop_last=True, persistent_workers=options.threads > 0,
                                         collate_fn=torch_batches.collate)
    measure(common.endless(lambda: (batch[0] for batch in loader)), options, lambda batch: batch.numpy().copy(),
            version=f"streaming {streaming.__version__}, {decoding.version_of(options.variant)}")


if __name__ == "__main__":
    main()
