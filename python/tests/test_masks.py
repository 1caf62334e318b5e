"""Masks of COCO files beside what pycocotools makes of them, and masks whose colours are classes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import forebay
import numpy as np
import pytest
from conftest import COUNT, SIDE, Made

SEED = 20261125


def image_at(path: Path, height: int, width: int) -> None:
    np.save(path, np.zeros((height, width, 3), np.uint8))


def coco_of(folder: Path, height: int, width: int, images: list[list[Any]]) -> str:
    """A file with an annotation for each segmentation of each image; its category is its place in the image."""
    names = [f"{number:04}.npy" for number in range(len(images))]
    image_at(folder / names[0], height, width)
    for name in names[1:]:
        (folder / name).hardlink_to(folder / names[0])
    numbered = [(number, place, shape) for number, shapes in enumerate(images) for place, shape in enumerate(shapes)]
    content = {
        "images": [{"id": n, "file_name": name, "width": width, "height": height} for n, name in enumerate(names)],
        "categories": [{"id": n, "name": f"class {n}"} for n in range(max(len(shapes) for shapes in images))],
        "annotations": [
            {"id": i, "image_id": n, "category_id": place, "bbox": [0, 0, width, height], "segmentation": shape}
            for i, (n, place, shape) in enumerate(numbered)
        ],
    }
    path = folder / "coco.json"
    path.write_text(json.dumps(content))
    return str(path)


def masks_of(path: str, size: tuple[int, int], samples: str) -> list[Any]:
    feeder = forebay.Feeder(
        dataset=path, samples=samples, fields={"mask": {"kind": "mask", "from": "segmentation"}}, size=size,
        crop="none", mirror=0, dtype="uint8", batch_size=32, eval=True, device="host", workers_io=1, workers_decode=1,
    )  # fmt: skip
    with feeder:
        return [mask.copy() for batch in feeder for mask in batch["mask"]]


def places(random: Any, count: int, limit: int) -> Any:
    """Whole, half, hundredths, and some beyond the image on either side."""
    kind = random.integers(4)
    if kind == 0:
        return random.integers(-2, limit + 3, count).astype(float)
    if kind == 1:
        return random.integers(0, 2 * limit + 1, count) / 2
    low, high = (0, limit) if kind == 2 else (-limit / 2, 1.5 * limit)
    return random.uniform(low, high, count).round(2)


def polygon(random: Any, height: int, width: int) -> list[float]:
    corners = int(random.integers(3, 12))
    points = np.stack([places(random, corners, width), places(random, corners, height)], 1)
    if random.integers(4) == 0:
        points[1] = points[0]
    if random.integers(4) == 0:
        points[-1] = points[0]
    return points.ravel().tolist()  # type: ignore[no-any-return]


def shape_of(random: Any, height: int, width: int) -> tuple[Any, Any]:
    """A segmentation as a file has it, and pycocotools' mask of it."""
    coco = pytest.importorskip("pycocotools.mask")
    kind = random.integers(4)
    if kind < 2:
        polygons = [polygon(random, height, width) for _ in range(int(random.integers(1, 4)))]
        return polygons, coco.decode(coco.merge(coco.frPyObjects(polygons, height, width)))
    pixels = np.asfortranarray(random.random((height, width)) < random.random(), np.uint8)
    text = coco.encode(pixels)
    if kind == 2:
        return {"size": text["size"], "counts": text["counts"].decode()}, pixels
    flat = pixels.ravel(order="F")
    ends = [0, *(np.flatnonzero(np.diff(flat)) + 1).tolist(), flat.size]
    counts = ([0] if flat[0] else []) + np.diff(ends).tolist()
    assert (coco.decode(coco.frPyObjects({"size": [height, width], "counts": counts}, height, width)) == pixels).all()
    return {"size": [height, width], "counts": counts}, pixels


@pytest.mark.parametrize("size", [(48, 64), (33, 7), (1, 50), (120, 119)])
def test_masks_are_those_of_pycocotools(tmp_path: Path, size: tuple[int, int]) -> None:
    pytest.importorskip("pycocotools")
    height, width = size
    print("seed", SEED, size)
    random = np.random.default_rng([SEED, *size])
    drawn = [[shape_of(random, height, width) for _ in range(int(random.integers(1, 5)))] for _ in range(110)]
    path = coco_of(tmp_path, height, width, [[shape for shape, _ in shapes] for shapes in drawn])
    alone = masks_of(path, size, "objects")
    expected = [mask for shapes in drawn for _, mask in shapes]
    assert len(alone) == len(expected)
    for number, (mask, wanted) in enumerate(zip(alone, expected)):
        assert (mask == wanted).all(), number
    whole = masks_of(path, size, "images")
    for number, (mask, shapes) in enumerate(zip(whole, drawn)):
        wanted = np.zeros(size, np.uint8)
        for place, (_, pixels) in enumerate(shapes):
            wanted[pixels == 1] = place + 1
        assert (mask == wanted).all(), number


@pytest.mark.parametrize(
    "colours",
    [
        ["0,0,0", "255,0,0", "0,9,0=7"],
        [(0, 0, 0), np.array([255, 0, 0]), "0,9,0=7"],
        {(0, 0, 0): 0, (255, 0, 0): np.int64(1), "other": 7},
    ],
)
def test_colours_are_classes(tmp_path: Path, colours: Any) -> None:
    (tmp_path / "in").mkdir()
    paths = [tmp_path / "in" / f"{number}.npy" for number in range(4)]
    masks = np.zeros((4, 2, 2, 3), np.uint8)
    masks[:, 0, 1] = [255, 0, 0]
    masks[1, 1, 0] = [0, 9, 0]
    for path, mask in zip(paths, masks):
        image_at(path, 2, 2)
        np.save(tmp_path / path.name, mask)
    field: dict[str, Any] = {"kind": "mask", "dtype": "int64", "colours": colours}
    options: dict[str, Any] = {
        "size": (2, 2),
        "crop": "none",
        "mirror": 0,
        "eval": True,
        "batch_size": 4,
        "device": "host",
    }
    files = forebay.Files(paths, fields={"mask": {**field, "values": list(masks)}})
    folder: dict[str, Any] = {
        "dataset": tmp_path / "in",
        "format": "folder",
        "fields": {"mask": {**field, "from": "../{stem}.npy"}},
    }
    sources: list[dict[str, Any]] = [{"dataset": files}, folder]
    for source in sources:
        with forebay.Feeder(**source, **options) as feeder:
            batch = next(iter(feeder))
            assert batch["mask"].tolist() == [[[0, 1], [7 if n == 1 else 0, 0]] for n in range(4)]


@pytest.mark.parametrize("colours", [3, [3], [(0.5, 0, 0)], {"0,0,0": "x"}, [(0, 0)], ["0,0,0", "0,0,0"]])
def test_colours_that_are_none_are_refused(tmp_path: Path, colours: Any) -> None:
    path = tmp_path / "a.npy"
    image_at(path, 2, 2)
    field: dict[str, Any] = {"kind": "mask", "colours": colours, "values": [np.zeros((2, 2), np.uint8)]}
    with pytest.raises(forebay.ConfigError, match="colours"):
        forebay.Feeder(dataset=forebay.Files([path], fields={"mask": field}), size=(2, 2), batch_size=1)


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint16", "int8", "float32", "bool"])
def test_masks_are_class_numbers_of_any_type(make: Any, folder: Path, dtype: str) -> None:
    paths = sorted(folder.glob("*/*.png"), key=lambda path: path.name)

    def mask_of(number: int) -> Any:
        return np.full((SIDE, SIDE), number % 2).astype(dtype)

    def read(number: int) -> dict[str, Any]:
        return {"image": paths[number], "mask": mask_of(number)}

    listed = {"kind": "mask", "values": [mask_of(number) for number in range(COUNT)]}
    for data in (forebay.Files(paths, fields={"mask": listed}), Made(COUNT, read, fields={"mask": {"kind": "mask"}})):
        for batch in make(dataset=data, on_bad="fail"):
            assert batch["mask"].dtype == np.uint8 and (batch["mask"] == (batch.ids % 2)[:, None, None]).all()


@pytest.mark.parametrize("value", [256, -1, 0.5, float("nan")])
def test_masks_that_eight_bits_do_not_hold_are_refused(folder: Path, value: float) -> None:
    paths = sorted(folder.glob("*/*.png"))
    masks = [np.full((SIDE, SIDE), 3), np.full((SIDE, SIDE), value), *[np.full((SIDE, SIDE), 255)] * (COUNT - 2)]
    with pytest.raises(forebay.ConfigError, match=r'sample 1 .* other than the whole numbers from 0 to 255; .*"int32"'):
        forebay.Files(paths, fields={"mask": {"kind": "mask", "values": masks}})
