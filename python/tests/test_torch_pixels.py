"""Pixels of PyTorch's loader by Forebay: those of torchvision's chains."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import forebay
import pytest
from conftest import pairs

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("is_scaled_first", [False, True])
def test_the_crops_of_cifar_are_those_of_torchvision(is_scaled_first: bool) -> None:
    """The same pixels at the same offset, and all offsets alike."""
    datasets, np = pytest.importorskip("torchvision.datasets"), pytest.importorskip("numpy")
    transforms, change = (pytest.importorskip(f"torchvision.transforms{name}") for name in ("", ".functional"))
    photos, fill = datasets.CIFAR10.__new__(datasets.CIFAR10), 51
    photos.data = np.random.default_rng(7).integers(0, 256, (20, 32, 32, 3), np.uint8)
    photos.targets, photos.classes, photos.target_transform = list(range(20)), [str(i) for i in range(20)], None
    crop = transforms.RandomCrop(32, padding=4, fill=fill / 255 if is_scaled_first else fill)
    steps = [transforms.ToTensor(), crop] if is_scaled_first else [crop, transforms.ToTensor()]
    normal = transforms.Normalize((0.5, 0.4, 0.3), (0.2, 0.3, 0.25))
    photos.transform = transforms.Compose([*steps, transforms.RandomHorizontalFlip(), normal])
    torch.manual_seed(5)
    loader = forebay.torch.DataLoader(photos, 20, True, native="require", workers_io=1, workers_decode=1)
    padded = [change.pad(torch.from_numpy(each).permute(2, 0, 1), 4, fill) for each in photos.data]
    whole = [normal(each.float() / 255) for each in padded]
    wide = torch.stack(whole).unfold(2, 32, 1).unfold(3, 32, 1)  # picture, channel, top, left, row, column
    places = torch.zeros(9, 9, 2)
    for _ in range(25):
        for images, labels in loader:
            for image, label in zip(images, labels):
                found = [(wide[label] - each[:, None, None]).abs().amax((0, 3, 4)) for each in (image, image.flip(2))]
                difference, at = torch.stack(found, 2).flatten().min(0)
                assert difference < 1e-5
                places.view(-1)[at] += 1
    assert places.sum() == 500 and 190 < places[:, :, 1].sum() < 310
    by_row, by_column = places.sum((1, 2)), places.sum((0, 2))  # 56 each
    assert min(by_row.min(), by_column.min()) > 25 and max(by_row.max(), by_column.max()) < 95
    loader.close()


@pytest.mark.parametrize(
    ("resized", "cut"), [(64, 56), ((64, 72), 56), ((64, 72), (60, 40)), (48, (56, 40)), (None, None)]
)
def test_both_ways_show_the_same_pixels(tmp_path: Path, resized: Any, cut: Any) -> None:
    np, image = pytest.importorskip("numpy"), pytest.importorskip("PIL.Image")
    datasets, transforms = (pytest.importorskip(f"torchvision.{name}") for name in ("datasets", "transforms"))
    rng = np.random.default_rng(11)
    (tmp_path / "any").mkdir()
    for number, (width, height) in enumerate([(90, 70), (70, 90), (64, 64), (201, 65)]):
        waves = 128 + 90 * np.sin(np.arange(width * height * 3).reshape(height, width, 3) / (5 + number))
        pixels = (waves + rng.normal(0, 12, waves.shape)).clip(0, 255).astype(np.uint8)
        image.fromarray(pixels).save(tmp_path / "any" / f"{number}.png")
    steps = [transforms.Resize(resized), transforms.CenterCrop(cut)] if cut else [transforms.Resize((50, 60))]
    dataset = datasets.ImageFolder(str(tmp_path), transforms.Compose([*steps, transforms.ToTensor()]))
    ours, theirs = (forebay.torch.DataLoader(dataset, 4, native=native) for native in ("require", "off"))
    for (images, labels), (their_images, their_labels) in pairs(ours, theirs):
        assert torch.equal(labels, their_labels) and images.shape == their_images.shape
        difference = 255 * (images - their_images).abs()
        assert difference.mean() <= 0.5 and difference.max() <= 2.01
    ours.close()
