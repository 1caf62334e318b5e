"""Converts an HDF5 or Parquet file of images and labels to a WebDataset archive; needs h5py or pyarrow.

    python convert.py train.h5 train.tar            # datasets "images", uint8 of (H, W) or (H, W, 3), and "labels"
    python convert.py train.parquet train.tar       # columns "image", {bytes, path} as on Hugging Face, and "label"
"""

from __future__ import annotations

import io
import os
import sys
import tarfile
from collections.abc import Iterator
from typing import Any


def rows_of_hdf5(file: str) -> Iterator[tuple[str, bytes, Any]]:
    import h5py
    import numpy

    with h5py.File(file) as h5:
        images, labels = h5["images"], h5["labels"]
        if labels.shape != (len(images),):
            raise SystemExit(f"{file}: {len(images)} images and labels of shape {labels.shape}")
        for image, label in zip(images, labels):
            data = io.BytesIO()
            numpy.save(data, image)
            yield ".npy", data.getvalue(), label  # rows that are JPEG files: ".jpg" and image.tobytes()


def rows_of_parquet(file: str) -> Iterator[tuple[str, bytes, Any]]:
    import pyarrow.parquet

    for batch in pyarrow.parquet.ParquetFile(file).iter_batches(1000, columns=["image", "label"]):
        for row in batch.to_pylist():
            yield ".jpg", row["image"]["bytes"], row["label"]


def text_of(label: Any) -> bytes:
    """The number of a class, or its name."""
    if isinstance(label, (bytes, str)):
        return label if isinstance(label, bytes) else label.encode()
    if label is None or label != int(label):
        raise SystemExit(f"the label {label} is no class")
    return b"%d" % int(label)


def add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(data)
    tar.addfile(member, io.BytesIO(data))


def main(source: str, target: str) -> None:
    rows = rows_of_parquet(source) if source.endswith(".parquet") else rows_of_hdf5(source)
    unfinished = target + ".part"  # a part of the rows would be taken for all of them
    with tarfile.open(unfinished, "w") as tar:
        for number, (ending, image, label) in enumerate(rows):
            add(tar, f"{number:09d}{ending}", image)
            add(tar, f"{number:09d}.cls", text_of(label))
    os.replace(unfinished, target)


if __name__ == "__main__":
    main(*sys.argv[1:])
