"""Trains a small net of 3D convolutions on video clips, whose classes are kinds of motion.

    python -m forebay make-dataset videos --task video --classes 4 --images 160 --size 64x48 --split 0.25
    python train_clips.py videos/train videos/val
"""

from __future__ import annotations

import argparse
from typing import Any

import forebay
import torch
from torch import nn


class Net(nn.Sequential):
    """The first convolution sees differences between frames that follow each other."""

    def __init__(self, classes: int) -> None:
        layers: list[nn.Module] = []
        for channels, width in ((1, 16), (16, 32), (32, 64)):
            convolution = nn.Conv3d(channels, width, 3, padding=1, bias=False)
            layers += [convolution, nn.BatchNorm3d(width), nn.ReLU(), nn.MaxPool3d((1, 2, 2))]
        super().__init__(*layers, nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(64, classes))


def accuracy(net: nn.Module, options: dict[str, Any]) -> float:
    """The share of held-out videos that the net gets right by the clip in their middle."""
    right = seen = 0
    net.eval()
    with torch.no_grad(), forebay.Feeder(eval=True, **options) as feeder:
        for batch in feeder:
            clips, labels = batch.torch()
            right += int((net(clips.transpose(1, 2)).argmax(1) == labels).sum())
            seen += len(batch)
    net.train()
    return right / seen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train")
    parser.add_argument("held_out")
    parser.add_argument("--epochs", type=int, default=10)
    arguments = parser.parse_args()

    torch.manual_seed(17)
    # Grey, and never mirrored: that would make another class of many clips.
    options: dict[str, Any] = {"clip": {"frames": 6}, "size": (32, 32), "crop": "center", "channels": 1, "mirror": 0}
    with forebay.Feeder(
        dataset=arguments.train, batch_size=8, epochs=arguments.epochs, policy="block", **options
    ) as feeder:
        net = Net(len(feeder.classes))
        optimiser = torch.optim.AdamW(net.parameters(), lr=3e-3)
        for epoch in feeder.epochs():
            for batch in epoch:
                clips, labels = batch.torch()
                clips = clips.transpose(1, 2)  # [N, T, C, H, W], as batches have them, to [N, C, T, H, W]
                loss = nn.functional.cross_entropy(net(clips), labels)
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
            share = accuracy(net, {"dataset": arguments.held_out, "batch_size": 8, **options})
            print(f"epoch {epoch.number + 1}: loss {float(loss):.2f}, held-out accuracy {share:.2f}", flush=True)


if __name__ == "__main__":
    main()
