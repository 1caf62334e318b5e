"""Clips of videos as batches in Python."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import forebay
import numpy as np
import pytest
from conftest import SMALL, run_command
from object_store import Store


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve videos of 40 frames, whose classes are three ways to move."""
    root = tmp_path_factory.mktemp("videos")
    options = ["--task=video", "--images=12", "--classes=3", "--size=48x32", "--seed=5"]
    run_command(sys.executable, "-m", "forebay", "make-dataset", str(root), *options)
    return root


def test_batches_have_the_frames_of_clips(videos: Path) -> None:
    options = {**SMALL, "size": (16, 24), "frames": 5, "stride": 2, "batch_size": 3}
    with forebay.Feeder(dataset=str(videos), **{**options, "epochs": 2}) as feeder:
        assert feeder.classes == ["down", "left", "right"]
        assert feeder.fields[0].shape == (5, 3, 16, 24)
        for epoch in feeder.epochs():
            batches = [np.array(batch.images) for batch in epoch]
            assert sum(len(images) for images in batches) == 12
            assert all(images.shape[1:] == (5, 3, 16, 24) for images in batches)
            # Frames that follow each other differ.
            assert all(np.any(images[:, 1:] != images[:, :-1], axis=(2, 3, 4)).all() for images in batches)
    with forebay.Feeder(dataset=str(videos), layout="NHWC", every=10, **options) as feeder:
        batch = next(iter(feeder))
        assert batch.images.shape == (3, 5, 16, 24, 3)
        for number, label in zip(batch.ids, batch.labels, strict=True):
            video, frame = feeder.sample_name(number)[:-1].split("[frame ")
            assert Path(video).parent.name == feeder.classes[label] and int(frame) % 10 == 0
        with pytest.raises(IndexError, match="no sample of this number"):
            feeder.sample_name(feeder.dataset_size)


def test_torch_gets_them_too(videos: Path) -> None:
    torch = pytest.importorskip("torch")
    options = {**SMALL, "clip": {"frames": 4}, "size": (16, 16)}
    with forebay.Feeder(dataset=str(videos), eval=True, **options) as feeder:
        for batch in feeder:
            clips, labels = batch.torch()
            assert clips.shape[1:] == torch.Size([4, 3, 16, 16]) and len(clips) == len(labels)


def test_what_does_not_go_with_clips_is_refused(videos: Path) -> None:
    for wrong, key in (({"when": "dequeue"}, "transform.when"), ({"views": 2, "mirror": 0.5}, "transform.views")):
        with pytest.raises(forebay.ConfigError, match=f"{key} = .* does not go with clip.frames"):
            forebay.Feeder(dataset=str(videos), frames=4, **{**SMALL, **wrong})
    with pytest.raises(forebay.ConfigError, match="clip=4: clip is a section: give its keys, clip={'frames': 4}"):
        forebay.Feeder(dataset=str(videos), clip=4)
    files = forebay.Files([str(file) for file in sorted(videos.rglob("*.avi"))])
    with pytest.raises(forebay.ConfigError, match="clips are made of the videos that dataset.path names"):
        forebay.Feeder(dataset=files, frames=4, **SMALL)


def test_a_list_behind_a_url_gives_the_same_clips(videos: Path, web: Store, tmp_path: Path) -> None:
    files = {f"{file.parent.name}-{file.name}": file.read_bytes() for file in sorted(videos.rglob("*.avi"))}
    files["list.txt"] = "".join(f"{name} {number % 3}\n" for number, name in enumerate(files)).encode()
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    web.objects = {f"/videos/{name}": data for name, data in files.items()}

    def clips(path: str) -> dict[int, Any]:
        with forebay.Feeder(dataset=path, **{**SMALL, "frames": 3, "every": 20, "crop": "random_resized"}) as feeder:
            return {int(i): clip.tobytes() for batch in feeder for i, clip in zip(batch.ids, batch.images)}

    local = clips(str(tmp_path / "list.txt"))
    assert len(local) == 24
    assert clips(f"{web.url}/videos/list.txt") == local
