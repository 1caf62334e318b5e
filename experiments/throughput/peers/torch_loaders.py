"""The loaders that work through PyTorch's DataLoader; --threads is num_workers. Each imports its own library alone."""

import glob
import os

import torch

import common
import decoding
from measuring import measure

SHARDS = 8
SHUFFLE_BUFFER = 1000


def shared(shape):
    """An empty float32 tensor that a worker hands over without copying it, as PyTorch's own collate does."""
    if torch.utils.data.get_worker_info() is None:
        return torch.empty(shape, dtype=torch.float32)
    count = 1
    for extent in shape:
        count *= extent
    return torch.empty(0, dtype=torch.float32).set_(torch.UntypedStorage._new_shared(4 * count), 0, shape)


def collate(samples):
    """Of a list of (bytes [size, size, 3], label)."""
    height, width, _ = samples[0][0].shape
    batch = shared((len(samples), 3, height, width))
    for (image, _), out in zip(samples, batch.numpy(), strict=False):
        decoding.normalise(image, out)
    return batch, torch.tensor([label for _, label in samples])


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
    return common.LmdbValues(options.list) if options.kind == "lmdb" else Files(options.list)


def workers(options):
    """torch.utils.data.DataLoader over files or an LMDB, with decoders chosen for speed (decoding.py)."""
    torch.set_num_threads(1)
    images = Images(values_of(options), decoding.Load(options))
    loader = torch.utils.data.DataLoader(images, options.batch, shuffle=True, drop_last=True,
                                         num_workers=options.threads, persistent_workers=options.threads > 0,
                                         collate_fn=collate)
    measure(common.endless(lambda: (batch[0] for batch in loader)), options, lambda batch: batch.numpy().copy(),
            version=f"torch {torch.__version__}, {decoding.version_of(options.variant)}")


class Photographs(torch.utils.data.Dataset):
    def __init__(self, paths, labels, transform):
        self.paths, self.labels, self.transform = paths, labels, transform

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        from PIL import Image

        with open(self.paths[index], "rb") as file:
            return self.transform(Image.open(file).convert("RGB")), self.labels[index]


def reference(options):
    """The same with torchvision's transforms, as the reference ImageNet training sets it up: a map-style data set of
    paths, PIL decoding, worker processes that persist. --threads 0 loads in the main process."""
    import PIL
    import torchvision
    from torchvision import transforms

    transform = transforms.Compose([
        transforms.RandomResizedCrop(options.size, scale=common.SCALE, ratio=common.RATIO),
        transforms.RandomHorizontalFlip(common.MIRROR),
        transforms.ToTensor(),
        transforms.Normalize([value / 255 for value in common.MEAN], [value / 255 for value in common.STD]),
    ])
    paths, labels = common.read_list(options.list)
    loader = torch.utils.data.DataLoader(Photographs(paths, labels, transform), options.batch,
                                         shuffle=True, drop_last=True, num_workers=options.threads,
                                         persistent_workers=options.threads > 0)
    images = common.endless(lambda: (batch[0] for batch in loader))
    versions = f"torch {torch.__version__}, torchvision {torchvision.__version__}, Pillow {PIL.__version__}"
    measure(images, options, lambda batch: batch.numpy().copy(), version=versions)


def write_tars(webdataset, folder, paths, labels):
    if os.path.exists(os.path.join(folder, "complete")):
        return
    os.makedirs(folder, exist_ok=True)
    for number in range(SHARDS):
        with webdataset.TarWriter(os.path.join(folder, f"shard-{number:02}.tar")) as shard:
            for index in range(number, len(paths), SHARDS):
                shard.write({"__key__": f"{index:08}", "jpg": decoding.read(paths[index]), "cls": labels[index]})
    open(os.path.join(folder, "complete"), "w", encoding="utf-8").close()


def web_dataset(options):
    """WebDataset over tar files, those of containers.py or, for a list, some that it writes once with the files' own
    bytes in them. Decoders chosen for speed (decoding.py), batches made in the worker processes of a WebLoader."""
    import webdataset

    torch.set_num_threads(1)
    folder = options.list
    if options.kind == "files":
        folder = os.path.join(options.scratch, "webdataset")
        write_tars(webdataset, folder, *common.read_list(options.list))
    if options.prepare:
        return
    dataset = (webdataset.WebDataset(sorted(glob.glob(os.path.join(folder, "*.tar"))), resampled=True)
               .shuffle(SHUFFLE_BUFFER)
               .to_tuple("jpg;png", "cls")
               .map_tuple(decoding.Load(options), int)
               .batched(options.batch, partial=False, collation_fn=collate))
    loader = webdataset.WebLoader(dataset, batch_size=None, num_workers=options.threads,
                                  persistent_workers=options.threads > 0)
    measure((batch[0] for batch in loader), options, lambda batch: torch.as_tensor(batch).numpy().copy(),
            version=f"webdataset {webdataset.__version__}, {decoding.version_of(options.variant)}")


def streaming_mds(options):
    """MosaicML Streaming: shards in its MDS format on the local disk, with the files' own bytes in them, read by a
    StreamingDataset through PyTorch's DataLoader. Decoders chosen for speed (decoding.py)."""
    import streaming

    torch.set_num_threads(1)
    load = decoding.Load(options)

    class Shards(streaming.StreamingDataset):
        def __getitem__(self, index):
            sample = super().__getitem__(index)
            return load(sample["image"]), sample["label"]

    folder = os.path.join(options.scratch, "mds")
    if not os.path.exists(os.path.join(folder, "index.json")):  # written last
        with streaming.MDSWriter(out=folder, columns={"image": "bytes", "label": "int"}, exist_ok=True) as shards:
            for path, label in zip(*common.read_list(options.list), strict=False):
                shards.write({"image": decoding.read(path), "label": label})
    if options.prepare:
        return
    streaming.base.util.clean_stale_shared_memory()  # of a run that was ended
    data = Shards(local=folder, shuffle=True, batch_size=options.batch, num_canonical_nodes=1)
    loader = torch.utils.data.DataLoader(data, options.batch, num_workers=options.threads, drop_last=True,
                                         persistent_workers=options.threads > 0, collate_fn=collate)
    measure(common.endless(lambda: (batch[0] for batch in loader)), options, lambda batch: batch.numpy().copy(),
            version=f"streaming {streaming.__version__}, {decoding.version_of(options.variant)}")
