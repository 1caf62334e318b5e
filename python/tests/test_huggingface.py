"""Datasets of Hugging Face, as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import forebay
import pytest
from conftest import COUNT

try:
    import datasets
except ImportError as error:  # of something that it needs, too
    pytest.skip(f"datasets of Hugging Face cannot be imported: {error}", allow_module_level=True)


@pytest.fixture(scope="module")
def loaded(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    cache = str(tmp_path_factory.mktemp("cache"))
    return datasets.load_dataset("imagefolder", data_dir=str(folder), split="train", cache_dir=cache)


def embedded(dataset: Any) -> Any:
    """The same with the files' bytes in the table, as in a parquet file of the hub."""

    def read(row: dict[str, Any]) -> dict[str, Any]:
        return {"image": {"bytes": Path(row["image"]["path"]).read_bytes(), "path": None}}

    plain = dataset.cast_column("image", datasets.Image(decode=False))
    return plain.map(read, features=plain.features).cast_column("image", datasets.Image())


def check(feeder: forebay.Feeder, greys: list[int]) -> None:
    seen = []
    for batch in feeder:
        assert batch.images[:, 0, 0, 0].tolist() == [greys[i] for i in batch.ids]
        assert batch.labels.tolist() == [int(greys[i] >= 5 * COUNT // 2) for i in batch.ids]
        seen.extend(batch.ids)
    assert sorted(seen) == list(range(len(greys))) and feeder.classes == ["cat", "dog"]


@pytest.mark.parametrize("where", ["files", "bytes"])
def test_an_image_folder(make: Any, loaded: Any, where: str) -> None:
    dataset = loaded if where == "files" else embedded(loaded)
    check(make(dataset=dataset), [5 * number for number in range(COUNT)])


@pytest.mark.parametrize("where", ["files", "bytes"])
def test_what_was_selected_and_joined(make: Any, loaded: Any, where: str) -> None:
    dataset = loaded if where == "files" else embedded(loaded)
    rows = list(range(COUNT - 1, -1, -3))
    chosen = dataset.select(rows)
    check(make(dataset=chosen, drop_last=False), [5 * number for number in rows])
    both = datasets.concatenate_datasets([chosen.select(range(1, 6)), dataset.select(range(3, 9))])
    check(make(dataset=both, drop_last=False), [5 * number for number in (*rows[1:6], *range(3, 9))])


def test_a_state_belongs_to_its_bytes(make: Any, loaded: Any) -> None:
    dataset = embedded(loaded)
    state = make(dataset=dataset).state_dict()
    make(dataset=dataset).load_state_dict(state)
    with pytest.raises(ValueError, match="data"):
        make(dataset=dataset.select(range(COUNT - 1, -1, -1))).load_state_dict(state)


def test_what_cannot_be_taken_says_why(make: Any, loaded: Any) -> None:
    def refused(dataset: Any, message: str) -> None:
        with pytest.raises(forebay.ConfigError, match=message):
            make(dataset=dataset)

    refused(datasets.DatasetDict({"train": loaded}), "give one of them, 'train'")
    refused(loaded.to_iterable_dataset(), "streaming")
    refused(loaded.with_transform(lambda rows: rows), "its transform would have no effect")
    refused(loaded.remove_columns("image"), "0 columns of images")
    several = loaded.remove_columns("label").add_column("labels", [[0, 1]] * len(loaded))
    refused(several, "column 'labels' holds .* a field of kind multilabel")
    picture = loaded.cast_column("image", datasets.Image(decode=False))[0]["image"]["path"]
    for some in ({"path": picture, "bytes": None}, {"path": None, "bytes": Path(picture).read_bytes()}):
        images = datasets.Features({"image": datasets.Image()})
        rows = datasets.Dataset.from_dict({"image": [some, some, None, some, None]}, features=images)
        refused(rows, "row 2 of the dataset has no image")
        refused(rows.select([4, 0]), "row 0 of the dataset has no image")
