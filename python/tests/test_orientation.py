"""Boxes, masks and pictures of an image before its EXIF orientation are turned with it."""

from __future__ import annotations

import io
import json
import logging
import struct
import tarfile
from pathlib import Path
from typing import Any

import forebay
import numpy as np
import pytest
from conftest import SMALL, png_of

WIDTH, HEIGHT = 60, 40  # as stored
LEFT, TOP, RIGHT, BOTTOM = 20, 6, 35, 30  # the object, as stored
TURNED = (5, 6, 7, 8)


def png(pixels: np.ndarray, orientation: int = 1, number: str = "H") -> bytes:
    """A grey or RGB picture, with EXIF data that have the orientation as a SHORT (H) or a LONG (I)."""
    kind = 3 if number == "H" else 4
    value = struct.pack(">" + number, orientation).ljust(4, b"\0")
    exif = b"MM\0*" + struct.pack(">IHHHI", 8, 1, 0x112, kind, 1) + value + bytes(4)
    return png_of(pixels, exif if orientation != 1 else b"")


def picture() -> np.ndarray:
    pixels = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    pixels[TOP:BOTTOM, LEFT:RIGHT] = 255
    return pixels


def served(path: Path, orientation: int, **options: Any) -> tuple[Any, list[int]]:
    """The one sample, and the place of the white object in it; none if the sample is bad."""
    size = (WIDTH, HEIGHT) if orientation >= 5 else (HEIGHT, WIDTH)
    options = {**SMALL, "size": size, "layout": "NHWC", "batch_size": 1, "run_eval": True, **options}
    options.pop("epochs")
    with forebay.Feeder(dataset=path, telemetry_dir="", **options) as feeder:
        for batch in feeder:
            if len(batch) == 0:
                break
            rows, columns = np.nonzero(np.array(batch.images)[0, :, :, 0] > 128)
            found = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
            fields = {name: np.array(batch[name])[0] for name in options.get("fields", {})}
            if "boxes" in fields:
                fields["boxes"] = fields["boxes"][: batch.counts("boxes")[0]].tolist()
            return fields, [int(side) for side in found]
    return None, []


BOXES: dict[str, Any] = {"samples": "images", "fields": {"boxes": {"kind": "boxes", "most": 4}}}


def coco(folder: Path, image: bytes, width: int, height: int) -> Path:
    (folder / "images").mkdir()
    (folder / "images" / "0.png").write_bytes(image)
    images = [{"id": 1, "file_name": "0.png", "width": width, "height": height}]
    box = [LEFT, TOP, RIGHT - LEFT, BOTTOM - TOP]
    annotations = [{"id": 2, "image_id": 1, "category_id": 1, "bbox": box, "iscrowd": 0}]
    text = json.dumps({"images": images, "categories": [{"id": 1, "name": "x"}], "annotations": annotations})
    (folder / "coco.json").write_text(text)
    return folder / "coco.json"


def voc(folder: Path, image: bytes, width: int, height: int) -> Path:
    (folder / "JPEGImages").mkdir()
    (folder / "Annotations").mkdir()
    (folder / "JPEGImages" / "0.png").write_bytes(image)
    corners = f"<xmin>{LEFT + 1}</xmin><ymin>{TOP + 1}</ymin><xmax>{RIGHT}</xmax><ymax>{BOTTOM}</ymax>"
    (folder / "Annotations" / "0.xml").write_text(
        f"<annotation><size><width>{width}</width><height>{height}</height><depth>3</depth></size>"
        f"<object><name>x</name><bndbox>{corners}</bndbox></object></annotation>"
    )
    return folder


def table(folder: Path, image: bytes, width: int, height: int) -> Path:
    (folder / "0.png").write_bytes(image)
    (folder / "t.csv").write_text(
        f"image,xmin,ymin,xmax,ymax,class,width,height\n0.png,{LEFT},{TOP},{RIGHT},{BOTTOM},x,{width},{height}\n"
    )
    return folder / "t.csv"


def webdataset(folder: Path, image: bytes, width: int, height: int) -> Path:
    text = json.dumps({"width": width, "height": height, "boxes": [[LEFT, TOP, RIGHT, BOTTOM, 0]]}).encode()
    with tarfile.open(folder / "t.tar", "w") as tar:
        for name, data in (("0.png", image), ("0.json", text)):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return folder / "t.tar"


def options_of(make: Any) -> dict[str, Any]:
    if make is webdataset:
        return {"fields": {"boxes": {"kind": "boxes", "most": 4, "from": "json.boxes"}}}
    return BOXES


FORMATS = pytest.mark.parametrize("make", [coco, voc, table, webdataset])


@FORMATS
@pytest.mark.parametrize("orientation", range(1, 9))
def test_boxes_lie_where_their_object_is_shown(make: Any, orientation: int, tmp_path: Path, caplog: Any) -> None:
    caplog.set_level(logging.WARNING, "forebay")
    path = make(tmp_path, png(picture(), orientation, "I"), WIDTH, HEIGHT)
    fields, found = served(path, orientation, **options_of(make))
    if orientation in (1, *TURNED):
        assert fields["boxes"] == [found]
    else:
        # The size does not tell, and annotations are of what is shown.
        assert fields["boxes"] == [[LEFT, TOP, RIGHT, BOTTOM]]
    assert ("before its EXIF orientation" in caplog.text) == (orientation in TURNED)


@FORMATS
@pytest.mark.parametrize("orientation", [1, 6])
def test_boxes_of_what_is_shown_stay(make: Any, orientation: int, tmp_path: Path) -> None:
    shown = (HEIGHT, WIDTH) if orientation == 6 else (WIDTH, HEIGHT)
    path = make(tmp_path, png(picture(), orientation), *shown)
    fields, _ = served(path, orientation, **options_of(make))
    assert fields["boxes"] == [[LEFT, TOP, RIGHT, BOTTOM]]


@FORMATS
@pytest.mark.parametrize("orientation", [1, 6])
def test_an_image_of_another_size_is_a_bad_sample(make: Any, orientation: int, tmp_path: Path) -> None:
    path = make(tmp_path, png(picture(), orientation), 2 * WIDTH, 2 * HEIGHT)
    with pytest.raises(forebay.Error, match="120x80"):
        served(path, orientation, on_bad="fail", **options_of(make))


@pytest.mark.parametrize("make", [coco, voc])
@pytest.mark.parametrize("orientation", [1, *TURNED])
def test_objects_as_samples_are_cut_out_where_they_are_shown(make: Any, orientation: int, tmp_path: Path) -> None:
    path = make(tmp_path, png(picture(), orientation), WIDTH, HEIGHT)
    size = (RIGHT - LEFT, BOTTOM - TOP) if orientation >= 5 else (BOTTOM - TOP, RIGHT - LEFT)
    _, found = served(path, orientation, samples="objects", size=size)
    assert found == [0, 0, size[1], size[0]]


def test_a_size_that_is_not_stated_decides_nothing(tmp_path: Path) -> None:
    path = coco(tmp_path, png(picture(), 6), 0, 0)
    fields, _ = served(path, 6, **BOXES)
    assert fields["boxes"] == [[LEFT, TOP, RIGHT, BOTTOM]]


def test_columns_of_the_box_are_no_size_of_the_image(tmp_path: Path) -> None:
    (tmp_path / "0.png").write_bytes(png(picture()))
    box = {"kind": "boxes", "most": 4, "from": "x, y, x + width, y + height, class"}
    (tmp_path / "t.csv").write_text(
        f"image,x,y,width,height,class\n0.png,{LEFT},{TOP},{RIGHT - LEFT},{BOTTOM - TOP},x\n"
    )
    fields, found = served(tmp_path / "t.csv", 1, samples="images", fields={"boxes": box})
    assert fields["boxes"] == [found]
    (tmp_path / "t.csv").write_text(
        f"image,xmin,ymin,xmax,ymax,width,height\n0.png,{LEFT},{TOP},{RIGHT},{BOTTOM},{RIGHT - LEFT},{BOTTOM - TOP}\n"
    )
    fields, found = served(tmp_path / "t.csv", 1, **BOXES)
    assert fields["boxes"] == [found]


@pytest.mark.parametrize("dtype", ["uint8", "int32"])
@pytest.mark.parametrize("orientation", [1, *TURNED])
def test_masks_and_pictures_beside_the_stored_image_are_turned_too(
    orientation: int, dtype: str, tmp_path: Path
) -> None:
    (tmp_path / "images" / "a").mkdir(parents=True)
    (tmp_path / "beside").mkdir()
    (tmp_path / "images" / "a" / "0.png").write_bytes(png(picture(), orientation))
    grey = picture()[:, :, 0]
    depth = grey.astype(np.uint16) * 200
    (tmp_path / "beside" / "0_mask.png").write_bytes(png(grey // 255 if dtype == "uint8" else grey.astype(np.uint16)))
    (tmp_path / "beside" / "0_depth.png").write_bytes(png(depth))
    fields = {
        "mask": {"kind": "mask", "from": "../beside/{stem}_mask.png", "dtype": dtype},
        "depth": {"kind": "image", "from": "../beside/{stem}_depth.png", "dtype": "float32", "channels": 1},
    }
    found, place = served(tmp_path / "images", orientation, fields=fields)
    for name in ("mask", "depth"):
        rows, columns = np.nonzero(np.squeeze(found[name]) > 0)
        assert [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1] == place, name


class Listed:
    """What torchvision's ImageFolder is to a loader."""

    classes = ("a",)

    def __init__(self, file: Path) -> None:
        self.samples = [(str(file), 0)]

    def __len__(self) -> int:
        return len(self.samples)


@pytest.mark.parametrize(
    ("options", "is_turned"), [({}, False), ({"exif": True}, True), ({"transform_exif": True}, True)]
)
def test_a_loader_shows_the_files_of_an_image_folder_as_they_are_stored(
    options: dict[str, Any], is_turned: bool, tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    from forebay.torch import DataLoader

    (tmp_path / "0.png").write_bytes(png(picture(), 6))
    settings = {**SMALL, "size": (WIDTH, HEIGHT) if is_turned else (HEIGHT, WIDTH), **options}
    for name in ("batch_size", "epochs", "policy", "device"):
        settings.pop(name)
    [(images, _)] = list(DataLoader(Listed(tmp_path / "0.png"), layout="NHWC", copy=True, **settings))
    shown = images[0].numpy()
    assert np.array_equal(shown, np.rot90(picture(), -1) if is_turned else picture())
