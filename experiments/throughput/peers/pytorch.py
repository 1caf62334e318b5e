"""torch.utils.data.DataLoader with torchvision's transforms, as the reference ImageNet training sets it up: a
map-style data set of paths, PIL decoding, worker processes that persist. --threads is num_workers; 0 loads in the main
process."""

import PIL
import torch
import torchvision
from PIL import Image
from torchvision import transforms

import common
from measuring import measure


class Photographs(torch.utils.data.Dataset):
    def __init__(self, paths, labels, transform):
        self.paths, self.labels, self.transform = paths, labels, transform

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        with open(self.paths[index], "rb") as file:
            return self.transform(Image.open(file).convert("RGB")), self.labels[index]


def transform_of(size):
    return transforms.Compose([
        transforms.RandomResizedCrop(size, scale=common.SCALE, ratio=common.RATIO),
        transforms.RandomHorizontalFlip(common.MIRROR),
        transforms.ToTensor(),
        transforms.Normalize([value / 255 for value in common.MEAN], [value / 255 for value in common.STD]),
    ])


def main():
    options = common.arguments(__doc__)
    paths, labels = common.read_list(options.list)
    loader = torch.utils.data.DataLoader(Photographs(paths, labels, transform_of(options.size)), options.batch,
                                         shuffle=True, drop_last=True, num_workers=options.threads,
                                         persistent_workers=options.threads > 0)
    images = common.endless(lambda: (batch[0] for batch in loader))
    versions = f"torch {torch.__version__}, torchvision {torchvision.__version__}, Pillow {PIL.__version__}"
    measure(images, options, lambda batch: batch.numpy().copy(), version=versions)


if __name__ == "__main__":
    main()
