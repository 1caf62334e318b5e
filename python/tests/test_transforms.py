"""Chains of torchvision as options, without torchvision: only names and attributes matter."""

from __future__ import annotations

from typing import Any

import forebay
import numpy as np
import pytest
from conftest import SMALL
from forebay._transforms import options_of


def step(name: str, **attributes: Any) -> Any:
    return type(name, (), {"__module__": "torchvision.transforms.v2", **attributes})()


def chain(*steps: Any) -> Any:
    return step("Compose", transforms=list(steps))


TENSOR = step("ToTensor")
NORMAL = step("Normalize", mean=(0.5, 0.4, 0.3), std=[0.1, 0.2, 0.3])
RANDOM = step("RandomResizedCrop", size=(224, 160), scale=(0.1, 1.0), ratio=(0.5, 2), interpolation="bilinear")
HALF = {"mean": 0.5, "std": 0.5}
ONE = {"mean": (0.5,), "std": (0.5,)}
UNIT = {"dtype": "float32", "mean": [0, 0, 0], "std": [255] * 3}


@pytest.mark.parametrize(
    ("transform", "options"),
    [
        (
            chain(RANDOM, step("RandomHorizontalFlip", p=0.25), TENSOR, NORMAL),
            {"crop": "random_resized", "size": (224, 160), "scale": (0.1, 1.0), "ratio": (0.5, 2), "mirror": 0.25}
            | {"dtype": "float32", "mean": [127.5, 102, 76.5], "std": [25.5, 51, 76.5]},
        ),
        (
            chain(chain(step("Resize", size=256), step("CenterCrop", size=(224, 224))), TENSOR),
            {"crop": "center", "size": (224, 224), "center_fraction": 0.875, "mirror": 0, **UNIT},
        ),
        (
            chain(step("ToImage"), step("Resize", size=[64, 32]), step("ToDtype", dtype="torch.float32", scale=True)),
            {"crop": "none", "size": (64, 32), "mirror": 0, **UNIT},
        ),
        (
            chain(step("Resize", size=(8, 8)), step("PILToTensor")),
            {"crop": "none", "size": (8, 8), "mirror": 0, "dtype": "uint8"},
        ),
        (
            step(
                "ImageClassification",
                **{"resize_size": [232], "crop_size": [224], "mean": (0.5, 0.4, 0.3), "std": (0.1, 0.2, 0.3)},
                interpolation="bilinear",
            ),
            {"crop": "center", "size": (224, 224), "center_fraction": 224 / 232, "mirror": 0, "dtype": "float32"}
            | {"mean": [127.5, 102, 76.5], "std": [25.5, 51, 76.5]},
        ),
        (
            chain(
                RANDOM, step("RGB"), step("ToDtype", dtype="torch.uint8", scale=True), TENSOR, step("Normalize", **HALF)
            ),
            {"crop": "random_resized", "size": (224, 160), "scale": (0.1, 1.0), "ratio": (0.5, 2), "mirror": 0}
            | {"dtype": "float32", "mean": [127.5] * 3, "std": [127.5] * 3},
        ),
        (
            chain(
                step("Grayscale", num_output_channels=1), step("Resize", size=(8, 8)), TENSOR, step("Normalize", **ONE)
            ),
            {"crop": "none", "size": (8, 8), "channels": 1, "mirror": 0, "dtype": "float32"}
            | {"mean": [127.5] * 3, "std": [127.5] * 3},
        ),
    ],
)
def test_the_usual_chains(transform: Any, options: dict[str, Any]) -> None:
    found = options_of(transform)
    assert found.keys() == options.keys()
    for name, value in options.items():
        assert found[name] == (pytest.approx(value) if name in ("mean", "std") else value)


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([step("RandomRotation", degrees=10), TENSOR], "RandomRotation has no counterpart.*operations="),
        ([step("ColorJitter"), TENSOR], r'remove ColorJitter .* operations=\["colour"\]'),
        ([step("Resize", size=256), TENSOR], r"different sizes; add Resize\(\(height, width\)\)"),
        ([step("CenterCrop", size=224), TENSOR], "after a Resize"),
        ([step("Resize", size=200), step("CenterCrop", size=224), TENSOR], "no larger"),
        ([step("Resize", size=(8, 8)), RANDOM, TENSOR], "RandomResizedCrop comes after another"),
        ([step("Resize", size=8), RANDOM, TENSOR], "Resize of the shorter side has no place"),
        ([step("Resize", size=(8, 8), interpolation="bicubic"), TENSOR], "resizes by bicubic"),
        ([TENSOR, step("Resize", size=(8, 8), antialias=None)], "without antialiasing"),
        ([step("Grayscale", num_output_channels=3), RANDOM, TENSOR], "to one channel"),
        ([RANDOM], "ToTensor"),
        ([RANDOM, NORMAL, TENSOR], "Normalize is taken once, after ToTensor"),
        ([RANDOM, step("ToImage"), step("ToDtype", dtype="torch.float32", scale=False)], "scale=True"),
        ([RANDOM, step("PILToTensor"), step("ConvertImageDtype", dtype="torch.float16")], 'dtype="float16"'),
    ],
)
def test_what_has_no_counterpart_is_refused_with_a_remedy(steps: list[Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        options_of(chain(*steps))


@pytest.mark.parametrize(
    ("sides", "resize", "size"), [((28, 28), 32, (32, 32)), ((32, 48), [40], (40, 60)), ((30, 20), None, (30, 20))]
)
def test_images_of_one_size_need_no_crop(sides: tuple[int, int], resize: Any, size: tuple[int, int]) -> None:
    steps = [] if resize is None else [step("Resize", size=resize)]
    found = options_of(chain(*steps, TENSOR), sides)
    assert (found["crop"], found["size"]) == ("none", size)


def test_a_function_of_the_program_is_not_mistaken_for_torchvisions() -> None:
    class Resize:
        size = (8, 8)

    class Preset:  # of torchvision's reference scripts
        transforms = chain(RANDOM, TENSOR)

    with pytest.raises(ValueError, match="Resize has no counterpart"):
        options_of(chain(Resize(), TENSOR))
    with pytest.raises(ValueError, match="Preset has no counterpart in Forebay: give its .transforms in its place"):
        options_of(Preset())


SIZES = ((500, 375), (333, 480), (320, 320), (90, 41))  # width and height


class Pictures(forebay.Dataset):
    """Noise over slow waves, with masks that number the columns, a box around the middle, and other pictures."""

    fields = {  # noqa: RUF012
        "mask": {"kind": "mask"},
        "boxes": {"kind": "boxes", "most": 1, "min_visible": 0.01},
        "same": {"kind": "image", "dtype": "uint8"},
        "depth": {"kind": "image", "channels": 1},
    }

    def __len__(self) -> int:
        return len(SIZES)

    def __getitem__(self, index: int) -> Any:
        width, height = SIZES[index]
        noise = np.random.default_rng(index).normal(0, 20, (height, width, 3))
        waves = 128 + 60 * np.sin(np.arange(width) / 17)[None, :, None] * np.cos(np.arange(height) / 23)[:, None, None]
        pixels = np.clip(waves + noise, 0, 255).astype(np.uint8)
        mask = np.broadcast_to((np.arange(width) % 251).astype(np.uint8), (height, width))
        boxes = [[width / 4, height / 4, 3 * width / 4, 3 * height / 4]]
        depth = pixels[:, :, 0].astype(np.uint16) * 256
        return {"image": pixels, "mask": mask, "boxes": boxes, "same": pixels, "depth": depth}


def served(resized: int, cut: int) -> Any:
    transform = chain(step("Resize", size=resized), step("CenterCrop", size=cut), step("PILToTensor"))
    options: dict[str, Any] = {**SMALL, **options_of(transform), "batch_size": len(SIZES), "dataset_shuffle": False}
    with forebay.Feeder(dataset=Pictures(), **options) as feeder:
        batch = feeder.next()
        assert batch is not None
        return batch.copy()


def weights(size: int, out: int) -> Any:
    """How much each of `size` pixels is in each of `out`: a triangle as wide as the scale, by definition."""
    scale = size / out
    distance = np.abs(np.arange(size) + 0.5 - (np.arange(out)[:, None] + 0.5) * scale)
    triangle = np.maximum(0, 1 - distance / max(scale, 1))
    return triangle / triangle.sum(1, keepdims=True)


@pytest.mark.parametrize(("resized", "cut"), [(256, 224), (232, 224), (57, 57), (64, 31)])
def test_the_middle_is_cut_out_of_the_whole_image_resized(resized: int, cut: int) -> None:
    batch = served(resized, cut)
    for place, index in enumerate(batch.ids):
        width, height = SIZES[index]
        wide, high = (int(resized * side / min(width, height)) for side in (width, height))
        left, top = round((wide - cut) / 2), round((high - cut) / 2)
        item = Pictures()[index]
        columns, rows = weights(width, wide)[left : left + cut], weights(height, high)[top : top + cut]
        exact = np.einsum("yh,hwc,xw->cyx", rows, item["image"].astype(float), columns, optimize=True)
        assert np.abs(batch.images[place] - exact).max() < 1.1
        assert (batch["same"][place] == batch.images[place]).all()
        assert batch["depth"][place] / 256 == pytest.approx(exact[:1], abs=1e-3)
        under = ((np.arange(cut) + left + 0.5) * width / wide).astype(int)
        assert (batch["mask"][place] == under % 251).all()
        x, y = ((np.array([0.25, 0.75]) * side - first).clip(0, cut) for side, first in ((wide, left), (high, top)))
        assert batch["boxes"][place][0] == pytest.approx([x[0], y[0], x[1], y[1]], abs=1e-4)


def test_the_middle_is_torchvisions() -> None:
    transforms = pytest.importorskip("torchvision").transforms
    image = pytest.importorskip("PIL.Image")
    theirs = transforms.Compose([transforms.Resize(256), transforms.CenterCrop(224)])
    batch = served(256, 224)
    for place, index in enumerate(batch.ids):
        pixels = np.asarray(theirs(image.fromarray(Pictures()[index]["image"]))).transpose(2, 0, 1)
        difference = np.abs(batch.images[place].astype(int) - pixels)
        assert difference.mean() <= 0.5
        assert difference.max() <= 2
