"""What the worker processes of PyTorch's DataLoader make of samples, for all loaders that work through it."""

import torch

import decoding

torch.set_num_threads(1)


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
