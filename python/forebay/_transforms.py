"""Translates a chain of torchvision transforms into options of Forebay."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from .errors import ConfigError


class Unlike(ConfigError):
    """A part of a loader that only PyTorch's workers can handle: the program's own, or a transform that Forebay has
    not, or not in this form."""


# Transforms whose counterpart is not identical, so that the program must ask for it explicitly.
_NEAR = {
    "ColorJitter": 'operations=["colour"], colour={"brightness": 0.4, ...}',
    "RandomGrayscale": 'operations=["colour"], colour={"grey": 0.2, ...}',
    "GaussianBlur": 'operations=["blur"], blur={"probability": 1, "sigma": (0.1, 2.0)}',
    "RandomSolarize": 'operations=["solarise"], solarise={"probability": 0.5, "threshold": 128}',
    "RandomErasing": 'operations=["erase"], erase={"probability": 0.5}',
}


def _sides(size: Any) -> list[int]:
    """Height and width, or a single number."""
    return [int(side) for side in (size if isinstance(size, Sequence) else [size])]


def _both(size: Any) -> tuple[int, int]:
    """Height and width; a single number stands for a square."""
    return _sides(size)[0], _sides(size)[-1]


def steps_of(transform: Any) -> Iterable[Any]:
    """The transforms of a chain, in order."""
    kind = type(transform)
    if (kind.__module__.split(".")[0], kind.__name__) in (("torchvision", "Compose"), ("torch", "Sequential")):
        for inner in transform.transforms if kind.__name__ == "Compose" else transform:
            yield from steps_of(inner)
    else:
        yield transform


def _border(padding: Any) -> list[int]:
    """torchvision's ``padding`` as pixels on the left, top, right and bottom."""
    return (_sides(padding) * 4)[:4]


class _Reading:
    """The chain read so far. ``sides``: height and width of all images, if known; ``channels``: their channels.
    What it says of the step at fault is what follows its name."""

    def __init__(self, sides: tuple[int, int] | None, channels: int) -> None:
        self.sides, self.channels = sides, channels
        self.options: dict[str, Any] = {"mirror": 0.0}
        self.resized: list[int] = []  # the size given to Resize
        self.is_tensor = False
        self.is_scaled = False  # values from 0 to 1, not 0 to 255
        self.mean: list[float] = [0.0] * 3
        self.std: list[float] = [1.0] * 3
        self.is_normalised = False

    def read(self, step: Any) -> None:
        name = type(step).__name__
        if type(step).__module__.split(".")[0] == "torchvision":
            if name in ("Identity", "ToPureTensor"):
                return
            reader = getattr(self, f"_{name}", None)
            if reader is not None:
                reader(step)
                return
            if name in _NEAR:
                raise Unlike(
                    "has a counterpart in Forebay that draws differently (docs/operations.md): remove "
                    f"{name} from the chain and give {_NEAR[name]}"
                )
        inner = "give its .transforms in its place, or " if hasattr(step, "transforms") else ""  # a preset
        raise Unlike(
            f"has no counterpart in Forebay: {inner}remove it and do it to the batch in the training loop, or give a "
            "function of your own in operations=[...] (docs/python.md)"
        )

    def _geometry(self, **options: Any) -> None:
        if "crop" in self.options:
            raise Unlike(
                "comes after another crop or resize; one RandomResizedCrop, one Resize((height, width)), or one Resize "
                "and then CenterCrop or RandomCrop can be taken"
            )
        self.options.update(options)

    def _require_bilinear(self, step: Any) -> None:
        if self.is_tensor and getattr(step, "antialias", True) is not True:
            raise Unlike("resizes tensors without antialiasing, and Forebay with it: say antialias=True")
        way = getattr(step, "interpolation", "bilinear")
        way = getattr(way, "value", way)
        if str(way).lower() not in ("bilinear", "2", "none"):
            raise Unlike(
                f"resizes by {way}; Forebay resizes bilinearly with antialiasing: say "
                "interpolation=InterpolationMode.BILINEAR, as it will be"
            )

    def _RandomResizedCrop(self, step: Any) -> None:
        self._require_bilinear(step)
        if self.resized:
            raise Unlike("comes after a Resize; remove that")
        self._geometry(crop="random_resized", size=_both(step.size), scale=tuple(step.scale), ratio=tuple(step.ratio))

    def _Resize(self, step: Any) -> None:
        self._require_bilinear(step)
        if getattr(step, "max_size", None) is not None:
            raise Unlike("makes images of different sizes with max_size: give both sides")
        if self.resized or "padding" in self.options:
            raise Unlike("comes twice, or after Pad; keep one of them, before")
        self._geometry()
        self.resized = _sides(step.size)

    def _CenterCrop(self, step: Any) -> None:
        height, width = _both(step.size)
        resized = self.resized or list(self.sides or ())
        if not resized:
            raise Unlike("is taken after a Resize: Resize(256), CenterCrop(224)")
        # torchvision cuts an odd pixel off on one side, and a preceding flip would swap the sides.
        if self.options["mirror"] > 0 and (len(resized) == 1 or (resized[1] - width) % 2 != 0):
            raise Unlike("comes after RandomHorizontalFlip; put that after it")
        if self.is_normalised and max(height - resized[0], width - resized[-1]) > 0:
            raise Unlike("is larger than the image, after Normalize; put Normalize last")
        if len(resized) == 1 and height == width <= resized[0]:
            self._geometry(crop="center", size=(height, width), center_fraction=height / resized[0])
        else:
            self._geometry(crop="center", size=(height, width), resize=resized)

    def _RandomCrop(self, step: Any) -> None:
        if getattr(step, "pad_if_needed", False):
            raise Unlike("has no counterpart in Forebay with pad_if_needed=True: say how much, padding=4")
        if step.padding is not None:
            border = _border(step.padding)
            if ".v2" in type(step).__module__:  # v2 stores left, right, top, bottom
                border = [border[i] for i in (0, 2, 1, 3)]
            self._pad(step, border)
        self._geometry()
        self._crop_randomly(*_both(step.size))

    def _Pad(self, step: Any) -> None:
        self._pad(step, _border(step.padding))

    def _pad(self, step: Any, border: list[int]) -> None:
        if str(getattr(step, "padding_mode", "constant")) != "constant":
            raise Unlike(
                f"pads by padding_mode={step.padding_mode!r}, and Forebay with one colour alone: say "
                'padding_mode="constant", as it will be'
            )
        fill = getattr(step, "fill", 0) or 0  # None and {} also mean 0
        fill = list(fill) if isinstance(fill, Sequence) else [fill]
        if not all(isinstance(value, (int, float)) and math.isfinite(value) for value in fill):
            raise Unlike(f"takes its fill as a number or three: {fill}")
        fill = [value * 255 if self.is_scaled else value for value in fill]
        if any(value != int(value) or not 0 <= value <= 255 for value in fill):
            raise Unlike(f"fills with {fill}; Forebay with whole numbers from 0 to 255")
        if self.is_normalised or "crop" in self.options or "padding" in self.options or min(border) < 0:
            raise Unlike("pads once, before the crop and Normalize, and cuts nothing off")
        if border[0] != border[2] and self.options["mirror"] > 0:
            raise Unlike("pads left and right differently; put RandomHorizontalFlip after it")
        self.options.update(padding=border, fill=[int(value) for value in fill])

    def _RandomHorizontalFlip(self, step: Any) -> None:
        p, before = float(step.p), float(self.options["mirror"])
        self.options["mirror"] = p + before - 2 * p * before  # exactly one of the two flips

    def _ToTensor(self, step: Any) -> None:
        torch: Any = sys.modules.get("torch")
        if torch is not None and torch.get_default_dtype() != torch.float32:
            raise Unlike(
                f"makes tensors of {torch.get_default_dtype()}, PyTorch's default type, and Forebay of torch.float32: "
                "convert the batch in the training loop"
            )
        self.is_tensor = self.is_scaled = True

    def _PILToTensor(self, step: Any) -> None:
        self.is_tensor = True

    _ToImage = _PILToTensor

    def _ConvertImageDtype(self, step: Any) -> None:
        if not self.is_tensor or str(step.dtype) != "torch.float32":
            raise Unlike(
                "is taken to torch.float32 after PILToTensor or ToImage; for another type remove it and give "
                'dtype="float16", "bfloat16" or "uint8"'
            )
        self.is_scaled = True

    def _ToDtype(self, step: Any) -> None:
        if str(step.dtype) == "torch.uint8" and not self.is_scaled:
            return  # the values stay as they are
        if not getattr(step, "scale", False):
            raise Unlike("is taken with scale=True: values from 0 to 1")
        self._ConvertImageDtype(step)

    def _Normalize(self, step: Any) -> None:
        mean, std = (np.ravel(each).astype(float).tolist() for each in (step.mean, step.std))
        if not self.is_scaled or self.is_normalised or {len(mean), len(std)} - {1, self.channels}:
            raise Unlike("is taken once, after ToTensor, with one mean and deviation or one of each channel")
        self.mean, self.std = (each * (3 // len(each)) for each in (mean, std))
        self.is_normalised = True

    def _Grayscale(self, step: Any) -> None:
        if step.num_output_channels != 1 or self.is_normalised:
            raise Unlike("is taken to one channel, before Normalize")
        self.channels = self.options["channels"] = 1

    def _RGB(self, step: Any) -> None:
        if self.channels == 1:
            raise Unlike("makes three channels of one: remove it and repeat the channel in the training loop")

    def _ImageClassification(self, step: Any) -> None:  # weights.transforms()
        self._require_bilinear(step)
        if self.resized or "padding" in self.options:
            raise Unlike("is a preset that resizes; remove Resize and Pad before it")
        self.resized = _sides(step.resize_size)
        self._CenterCrop(type("CenterCrop", (), {"size": step.crop_size}))
        self.is_tensor = self.is_scaled = True
        self._Normalize(step)

    def _show_all(self) -> None:
        """Takes images of one size as they are, for a chain without a crop."""
        if len(self.resized) == 1 and self.sides:
            self.resized = [int(self.resized[0] * side / min(self.sides)) for side in self.sides]
        sides = self.resized if len(self.resized) == 2 else self.sides
        if not sides:
            raise Unlike(
                "transform: the images would have different sizes; add Resize((height, width)), Resize(256) and "
                "CenterCrop(224), or RandomResizedCrop(224)"
            )
        if "padding" in self.options:  # the crop fits in one place only
            left, top, right, bottom = self.options["padding"]
            self._crop_randomly(sides[0] + top + bottom, sides[1] + left + right)
        else:
            self.options.update(crop="none", size=tuple(sides))

    def _crop_randomly(self, height: int, width: int) -> None:
        self.options.update(crop="random", size=(height, width), **({"resize": self.resized} if self.resized else {}))

    def finish(self) -> dict[str, Any]:
        if not self.is_tensor:
            raise Unlike("transform: the chain makes no tensors; it must contain ToTensor()")
        if "crop" not in self.options:
            self._show_all()
        if "padding" in self.options:
            (left, top, right, bottom), (height, width) = self.options["padding"], self.options["size"]
            if self.options["crop"] != "random":
                raise Unlike("transform: Pad is taken before RandomCrop; remove it")
            if max(left, right) >= width or max(top, bottom) >= height:
                raise Unlike("transform: the padding is as large as the crop, which could show it alone")
        if self.is_scaled:
            # Forebay normalises values from 0 to 255.
            self.options.update(dtype="float32", mean=[255 * v for v in self.mean], std=[255 * v for v in self.std])
        else:
            self.options["dtype"] = "uint8"
        return self.options


def options_of(transform: Any, sides: tuple[int, int] | None = None, channels: int = 3) -> dict[str, Any]:
    """The options equivalent to the transform. If there are none, raises ConfigError and says what to do."""
    reading = _Reading(sides, channels)
    for step in steps_of(transform):
        try:
            reading.read(step)
        except Unlike as why:
            raise Unlike(f"transform: {type(step).__name__} {why}") from None
    return reading.finish()
