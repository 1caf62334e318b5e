"""Chains of torchvision as options, without torchvision: only names and attributes matter."""

from __future__ import annotations

from typing import Any

import pytest
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


def test_a_function_of_the_program_is_not_mistaken_for_torchvisions() -> None:
    class Resize:
        size = (8, 8)

    with pytest.raises(ValueError, match="Resize has no counterpart"):
        options_of(chain(Resize(), TENSOR))
