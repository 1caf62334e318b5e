"""Chains of torchvision as options, without torchvision: only names and attributes matter."""

from __future__ import annotations

import contextlib
import itertools
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


def crop(size: Any, padding: Any = None, **attributes: Any) -> Any:
    given = {"pad_if_needed": False, "fill": 0, "padding_mode": "constant", **attributes}
    kind = type("RandomCrop", (), {"__module__": "torchvision.transforms.transforms", "size": size, **given})
    kind.padding = padding  # type: ignore[attr-defined]
    return kind()


TENSOR = step("ToTensor")
NORMAL = step("Normalize", mean=(0.5, 0.4, 0.3), std=[0.1, 0.2, 0.3])
RANDOM = step("RandomResizedCrop", size=(224, 160), scale=(0.1, 1.0), ratio=(0.5, 2), interpolation="bilinear")
MIDDLE = [step("Resize", size=256), step("CenterCrop", size=224)]
PRESET = step(
    "ImageClassification",
    **{"resize_size": [232], "crop_size": [224], "mean": (0.5, 0.4, 0.3), "std": (0.1, 0.2, 0.3)},
    interpolation="bilinear",
)
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
            chain(step("Resize", size=[64, 80]), step("CenterCrop", size=56), step("PILToTensor")),
            {"crop": "center", "size": (56, 56), "resize": [64, 80], "mirror": 0, "dtype": "uint8"},
        ),
        (
            chain(step("Resize", size=64), step("CenterCrop", size=(56, 72)), step("PILToTensor")),
            {"crop": "center", "size": (56, 72), "resize": [64], "mirror": 0, "dtype": "uint8"},
        ),
        (
            chain(crop(32, padding=4), step("RandomHorizontalFlip", p=0.5), TENSOR),
            {"crop": "random", "size": (32, 32), "padding": [4] * 4, "fill": [0], "mirror": 0.5, **UNIT},
        ),
        (
            chain(step("Resize", size=40), crop((32, 30), padding=(1, 2), fill=(9, 8, 7)), step("PILToTensor")),
            {"crop": "random", "size": (32, 30), "resize": [40], "padding": [1, 2, 1, 2], "fill": [9, 8, 7]}
            | {"mirror": 0, "dtype": "uint8"},
        ),
        (
            # RandomCrop of v2 has its padding as left, right, top and bottom.
            chain(step("RandomCrop", size=(32, 32), padding=[1, 2, 3, 4], fill=0, padding_mode="constant"), TENSOR),
            {"crop": "random", "size": (32, 32), "padding": [1, 3, 2, 4], "fill": [0], "mirror": 0, **UNIT},
        ),
        (
            chain(TENSOR, step("Pad", padding=[1, 2, 3, 4], fill=0.2), crop(32)),
            {"crop": "random", "size": (32, 32), "padding": [1, 2, 3, 4], "fill": [51], "mirror": 0, **UNIT},
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
            PRESET,
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
        ([step("Resize", size=8), step("Resize", size=(8, 8)), TENSOR], "Resize comes twice"),
        ([step("Resize", size=(8, 8)), RANDOM, TENSOR], "RandomResizedCrop comes after a Resize"),
        ([RANDOM, step("Resize", size=8), TENSOR], "Resize comes after another crop"),
        ([crop(32, 4), RANDOM, TENSOR], "RandomResizedCrop comes after another crop"),
        ([crop(32, 4, padding_mode="reflect"), TENSOR], "pads by padding_mode='reflect'.*one colour alone"),
        ([crop(32, 4, pad_if_needed=True), TENSOR], "pad_if_needed=True.*say how much"),
        ([crop(32, 4, fill={"Image": 127}), TENSOR], "fill as a number or three"),
        ([crop(32, 4, fill=0.5), TENSOR], "whole numbers from 0 to 255"),
        ([TENSOR, NORMAL, crop(32, 4)], "pads once, before the crop and Normalize"),
        ([step("Pad", padding=2), crop(32, 4), TENSOR], "pads once"),
        ([step("RandomHorizontalFlip", p=0.5), crop(32, [1, 2, 3, 4]), TENSOR], "put RandomHorizontalFlip after it"),
        ([crop(32, 4, fill=float("nan")), TENSOR], "fill as a number or three"),
        ([crop(32, 32), TENSOR], "padding is as large as the crop"),
        ([step("RandomHorizontalFlip", p=0.5), *MIDDLE, TENSOR], "CenterCrop comes after RandomHorizontalFlip"),
        (
            [TENSOR, NORMAL, step("Resize", size=20), step("CenterCrop", size=32)],
            "larger than the image, after Normalize",
        ),
        ([step("Resize", size=(400, 300)), PRESET], "ImageClassification is a preset that resizes"),
        ([step("Pad", padding=2), step("Resize", size=(8, 8)), TENSOR], "Resize comes twice, or after Pad"),
        ([step("Resize", size=9), step("Pad", padding=2), step("CenterCrop", size=8), TENSOR], "before RandomCrop"),
        ([step("Resize", size=(8, 8), interpolation="bicubic"), TENSOR], "resizes by bicubic"),
        ([TENSOR, step("Resize", size=(8, 8), antialias=None)], "without antialiasing"),
        ([step("Grayscale", num_output_channels=3), RANDOM, TENSOR], "to one channel"),
        ([step("Grayscale", num_output_channels=1), step("RGB"), RANDOM, TENSOR], "RGB makes three channels"),
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


@pytest.mark.parametrize("resize", [[], [32, 48]])
def test_images_of_one_size_with_a_border_have_one_size_too(resize: Any) -> None:
    steps = [step("Resize", size=resize)] if resize else []
    found = options_of(chain(*steps, step("Pad", padding=(1, 2, 3, 4)), TENSOR), (28, 30))
    height, width = resize or (28, 30)
    assert (found["crop"], found["size"], found.get("resize", [])) == ("random", (height + 6, width + 4), resize)
    cut = options_of(chain(step("CenterCrop", size=24), TENSOR), (28, 30))
    assert (cut["crop"], cut["size"], cut["resize"]) == ("center", (24, 24), [28, 30])


def test_tensors_are_of_pytorchs_default_type(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch, "get_default_dtype", lambda: torch.float64)
    with pytest.raises(ValueError, match="ToTensor makes tensors of torch.float64"):
        options_of(chain(RANDOM, TENSOR))
    assert options_of(chain(RANDOM, step("PILToTensor")))["dtype"] == "uint8"


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


def served(*steps: Any, **more: Any) -> Any:
    """A batch of all pictures, and what each shows of its own."""
    transform = chain(*steps, step("PILToTensor"))
    options: dict[str, Any] = {**SMALL, **options_of(transform), "batch_size": len(SIZES), "dataset_shuffle": False}
    with forebay.Feeder(dataset=Pictures(), **{**options, **more}) as feeder:
        batch = feeder.next()
        assert batch is not None
        return batch.copy(), batch.views()


def weights(size: int, out: int) -> Any:
    """How much each of `size` pixels is in each of `out`: a triangle as wide as the scale, by definition."""
    scale = size / out
    distance = np.abs(np.arange(size) + 0.5 - (np.arange(out)[:, None] + 0.5) * scale)
    triangle = np.maximum(0, 1 - distance / max(scale, 1))
    return triangle / triangle.sum(1, keepdims=True)


def require_shown(batch: Any, place: int, size: Any, at: Any, mirror: bool = False, fill: Any = (0, 0, 0)) -> None:
    """The sample is cut out, `at` rows and columns from the corner, of its whole picture resized to that height and
    width, and so are its fields."""
    (high, wide), (top, left), (rows, columns) = size, at, batch.images.shape[2:]
    item = Pictures()[batch.ids[place]]
    height, width = item["image"].shape[:2]
    y, x = np.arange(rows) + top, np.arange(columns)[:: -1 if mirror else 1] + left
    is_inside = ((y >= 0) & (y < high))[:, None] & ((x >= 0) & (x < wide))
    down, across = weights(height, high)[y.clip(0, high - 1)], weights(width, wide)[x.clip(0, wide - 1)]
    pixels = np.einsum("yh,hwc,xw->cyx", down, item["image"].astype(float), across, optimize=True)
    exact = np.where(is_inside, pixels, np.array(fill)[:, None, None])
    assert np.abs(batch.images[place] - exact).max() < 1.1
    assert (batch["same"][place] == batch.images[place]).all()
    grey = round(np.dot(fill, [0.299, 0.587, 0.114]))
    assert batch["depth"][place][0] == pytest.approx(np.where(is_inside, 256 * pixels[0], grey), abs=0.3)
    under = ((x + 0.5) * width / wide).astype(int)
    assert (batch["mask"][place] == np.where(is_inside, under % 251, 0)).all()
    middle = np.array([0.25, 0.75])
    box_x, box_y = (middle * wide - left).clip(0, columns), (middle * high - top).clip(0, rows)
    box_x = (columns - box_x)[::-1] if mirror else box_x
    is_shown = np.ptp(box_x) * np.ptp(box_y) >= Pictures.fields["boxes"]["min_visible"] * wide * high / 4
    box = [box_x[0], box_y[0], box_x[1], box_y[1]] if is_shown else [0] * 4
    assert batch["boxes"][place][0] == pytest.approx(box, abs=1e-4)


def size_of(index: int, resized: Any) -> tuple[int, int]:
    width, height = SIZES[index]
    if isinstance(resized, tuple):
        return resized
    high, wide = (int((resized or min(width, height)) * side / min(width, height)) for side in (height, width))
    return high, wide


@pytest.mark.parametrize(
    ("resized", "cut"),
    [(256, 224), (232, 224), (57, 57), (64, 31), (50, (40, 49)), ((300, 210), 160), ((40, 60), (64, 31)), (50, 57)],
)
def test_the_middle_is_cut_out_of_the_whole_image_resized(resized: Any, cut: Any) -> None:
    batch, _ = served(step("Resize", size=resized), step("CenterCrop", size=cut))
    for place, index in enumerate(batch.ids):
        high, wide = size_of(index, resized)
        rows, columns = batch.images.shape[2:]

        def first(whole: int, part: int) -> int:
            return round((whole - part) / 2) if part <= whole else -((part - whole) // 2)

        require_shown(batch, place, (high, wide), (first(high, rows), first(wide, columns)))


@pytest.mark.parametrize("is_mirrored", [False, True])
@pytest.mark.parametrize(
    ("resized", "given"),
    [
        (None, {"size": (40, 89)}),
        (None, {"size": 70, "padding": [20, 30, 1, 4], "fill": (255, 0, 7)}),
        (64, {"size": (60, 56), "padding": 8, "fill": 77}),
        ((50, 70), {"size": (52, 64), "padding": (0, 2)}),
    ],
)
def test_a_random_crop_is_cut_pixel_for_pixel(resized: Any, given: Any, is_mirrored: bool) -> None:
    steps = [] if resized is None else [step("Resize", size=resized)]
    flip = step("RandomHorizontalFlip", p=float(is_mirrored))
    fill = np.broadcast_to(given.get("fill", 0), 3)
    seen = set()
    for seed in range(6):
        batch, views = served(*steps, crop(**given), flip, seed=seed)
        for place, index in enumerate(batch.ids):
            high, wide = size_of(index, resized)
            region, (width, height) = views[place], SIZES[index]
            assert region.mirror == is_mirrored
            # To the nearest pixel of the picture, so there are some places of the resized one that it may be.
            tops = {round((region.top + near) * high / height) for near in (-0.4, 0, 0.4)}
            lefts = {round((region.left + near) * wide / width) for near in (-0.4, 0, 0.4)}
            for at in itertools.product(tops, lefts):
                with contextlib.suppress(AssertionError):
                    require_shown(batch, place, (high, wide), at, is_mirrored, fill)
                    break
            else:
                require_shown(batch, place, (high, wide), (min(tops), min(lefts)), is_mirrored, fill)
            seen.add(at)
    assert len(seen) > 6


def test_a_random_crop_of_an_evaluation_is_the_middle() -> None:
    batch, views = served(step("Resize", size=60), crop(64, padding=[0, 9, 4, 1]), run_eval=True)
    for place, index in enumerate(batch.ids):
        high, wide = size_of(index, 60)
        require_shown(batch, place, (high, wide), (round((high + 10 - 64) / 2) - 9, round((wide + 4 - 64) / 2)))


def test_a_picture_that_is_too_small_is_a_bad_sample() -> None:
    with pytest.raises(forebay.Error, match=r"cut out of 94x45 pixels .* less than 48x48, transform\.size"):
        served(crop(48, padding=2), on_bad="fail")


@pytest.mark.parametrize(
    ("resized", "cut"), [(256, 224), ((256, 300), 224), ((256, 256), (160, 224)), (90, (80, 90)), (224, 256)]
)
def test_the_middle_is_torchvisions(resized: Any, cut: Any) -> None:
    transforms = pytest.importorskip("torchvision").transforms
    image = pytest.importorskip("PIL.Image")
    theirs = transforms.Compose([transforms.Resize(resized), transforms.CenterCrop(cut)])
    batch, _ = served(step("Resize", size=resized), step("CenterCrop", size=cut))
    for place, index in enumerate(batch.ids):
        pixels = np.asarray(theirs(image.fromarray(Pictures()[index]["image"]))).transpose(2, 0, 1)
        difference = np.abs(batch.images[place].astype(int) - pixels)
        assert difference.mean() <= 0.5
        assert difference.max() <= 2
