"""Data of Python's own."""

from __future__ import annotations

import os
import pickle
import shutil
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import forebay
import numpy as np
import pytest
from conftest import COUNT, SIDE, Made, ids_of, png


def paths_of(folder: Path) -> list[Path]:
    return sorted(folder.glob("*/*.png"), key=lambda path: path.name)


@pytest.mark.parametrize("labels", [[7] * COUNT, np.full(COUNT, 7), ["seven"] * COUNT, None])
def test_files_from_lists(make: Any, folder: Path, labels: Any) -> None:
    files = forebay.Files(paths_of(folder), labels)
    expected = {True: -1, False: 0 if isinstance(labels, list) and labels[0] == "seven" else 7}[labels is None]
    seen = []
    for batch in make(dataset=files):
        assert (batch.images[:, 0, 0, 0] == 5 * batch.ids).all() and (batch.labels == expected).all()
        seen.extend(batch.ids)
    assert sorted(seen) == list(range(COUNT)) and len(files) == COUNT


def test_an_image_folder_is_taken_as_it_is(make: Any, folder: Path) -> None:
    samples = [(str(path), int(path.parent.name == "dog")) for path in paths_of(folder)]
    feeder = make(dataset=SimpleNamespace(samples=samples, classes=["cat", "dog"]))
    assert feeder.classes == ["cat", "dog"]
    assert all((batch.labels == (batch.ids >= COUNT // 2)).all() for batch in feeder)


def test_files_say_what_does_not_fit(folder: Path) -> None:
    paths = paths_of(folder)
    for arguments, message in (
        ((paths, [1]), "40 samples and 1 labels"),
        (([],), "no samples"),
        ((str(folder),), "takes a list"),
        ((paths, ["cat", 1] * (COUNT // 2)), "not both"),
        ((paths, []), "labels are empty"),
        ((SimpleNamespace(columns=["path", "label"]),), "paths are a SimpleNamespace: give one of its columns"),
        ((paths, SimpleNamespace(columns=["label"])), "labels are a SimpleNamespace: give one of its columns"),
        ((paths, ["dog", "dog|cat"] * (COUNT // 2)), '"dog|cat" is a set of labels'),
        ((paths, ["[1, 2]", "[0]"] * (COUNT // 2)), "is a set of labels"),
        ((paths, ["0 1 1", "1 0 1"] * (COUNT // 2)), "is a set of labels"),
        ((paths, ["0.5", "1"] * (COUNT // 2)), '"0.5" is a number with a fraction'),
        ((paths, ["1,0", "1e-3"] * (COUNT // 2)), '"1,0" is a number with a fraction'),
        ((paths, ["1", "nan"] * (COUNT // 2)), "'nan' of sample 1 is no class number"),
    ):
        with pytest.raises(ValueError, match=message.replace("|", r"\|")):
            forebay.Files(*arguments)
    assert forebay.Files(paths, ["dog|cat", "0.5"] * (COUNT // 2), classes=["0.5", "dog|cat"]).classes[1] == "dog|cat"
    assert len(forebay.Files(paths, ["cat", "cat\xa0"] * (COUNT // 2)).classes) == 2  # as in lists
    with pytest.raises(ValueError, match="label 3, but there are 2 classes"):
        forebay.Files(paths, [3] * COUNT, classes=["a", "b"])
    with pytest.raises(ValueError, match="none of the classes"):
        forebay.Files(paths, ["c"] * COUNT, classes=["a", "b"])


def test_labels_that_have_been_read_already_are_refused(make: Any, folder: Path) -> None:
    labels = (number % 2 for number in range(COUNT))
    forebay.Files(paths_of(folder), labels)
    with pytest.raises(forebay.ConfigError, match="an iterator can be read only once"):
        forebay.Files(paths_of(folder), labels)
    pictures = Pictures(folder, "path")
    pictures.labels = iter(pictures.labels)
    make(dataset=pictures)
    with pytest.raises(forebay.ConfigError, match="an iterator can be read only once"):
        make(dataset=pictures)


def test_relative_paths_are_those_of_the_folder_where_files_was_made(
    make: Any, folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(folder)
    names = [path.relative_to(folder) for path in paths_of(folder)]
    files = forebay.Files(names, fields={"mask": {"kind": "mask", "values": names}})
    monkeypatch.chdir(tmp_path)
    for batch in make(dataset=files, on_bad="fail"):
        assert (batch.images[:, 0, 0, 0] == 5 * batch.ids).all() and (batch["mask"][:, 0, 0] == 5 * batch.ids).all()


def test_a_missing_file_is_a_bad_sample(make: Any, folder: Path, tmp_path: Path) -> None:
    paths = [*paths_of(folder), tmp_path / "gone.png"]
    feeder = make(dataset=forebay.Files(paths), batch_size=1)
    assert COUNT not in ids_of(feeder) and feeder.summary()["bad_samples"] == 1
    with pytest.raises(forebay.Error, match=r"gone\.png"):
        ids_of(make(dataset=forebay.Files(paths), batch_size=1, on_bad="fail"))


class Pictures(forebay.Dataset):
    def __init__(self, folder: Path, kind: str) -> None:
        self.paths = paths_of(folder)
        self.kind = kind
        self.labels = [number % 3 for number in range(len(self.paths))]
        self.classes = ["a", "b", "c"]

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        if self.kind == "bytes":
            return self.paths[index].read_bytes()
        if self.kind == "path":
            return self.paths[index]
        return np.full((SIDE, SIDE, 3) if self.kind == "colour" else (SIDE, SIDE), 5 * index, np.uint8)


@pytest.mark.parametrize("kind", ["bytes", "path", "colour", "grey"])
def test_a_class_of_its_own(make: Any, folder: Path, kind: str) -> None:
    seen = []
    for batch in make(dataset=Pictures(folder, kind), workers_io=3):
        assert (batch.images[:, 0, 0, 0] == 5 * batch.ids).all() and (batch.labels == batch.ids % 3).all()
        seen.extend(batch.ids)
    assert sorted(seen) == list(range(COUNT))


def test_what_a_class_of_its_own_must_say(make: Any, folder: Path) -> None:
    class Numbered(Pictures):
        def identity(self) -> Any:
            return 7

    with pytest.raises(forebay.ConfigError, match=r"identity\(\) returned 7: it returns a text"):
        make(dataset=Numbered(folder, "path"))
    for processes in ("2", 1.5, -1):
        with pytest.raises(forebay.ConfigError, match=f"processes={processes!r}: a number of processes"):
            make(dataset=Pictures(folder, "path"), processes=processes)


def test_half_the_data_is_not_replaced_by_default(make: Any, folder: Path, tmp_path: Path) -> None:
    paths = sorted(folder.glob("*/*.png"))
    (tmp_path / "empty.png").touch()
    half = [tmp_path / "empty.png" if path.parent.name == "dog" else path for path in paths]
    for options in ({"policy": "block"}, {"eval": True}):
        with pytest.raises(forebay.Error, match=r"bad samples in a dataset of \d+, but max_bad allows"):
            ids_of(make(dataset=forebay.Files(half), **options))
    one = [tmp_path / "empty.png", *paths[1:]]
    assert len(ids_of(make(dataset=forebay.Files(one), batch_size=1))) == len(paths)


def test_an_evaluation_has_no_batch_without_samples(make: Any, folder: Path, tmp_path: Path) -> None:
    paths = sorted(folder.glob("*/*.png"))
    (tmp_path / "empty.png").touch()
    files = forebay.Files([paths[0], tmp_path / "empty.png", *paths[2:6]])
    feeder = make(dataset=files, batch_size=1, eval=True)
    assert [len(batch) for batch in feeder] == [1] * 5 and feeder.summary()["left_out"] == 1
    assert feeder.summary()["bad_share"] == pytest.approx(1 / 6)


def test_what_a_class_raises_makes_a_bad_sample(make: Any) -> None:
    def read(index: int) -> Any:
        if index == 3:
            raise KeyError("no number three")
        return np.zeros((2, 2)) if index == 4 else png(index)

    assert {3, 4}.isdisjoint(ids_of(make(dataset=Made(COUNT, read))))
    with pytest.raises(forebay.Error, match="no number three|float64"):
        ids_of(make(dataset=Made(COUNT, read), on_bad="fail"))


def test_a_run_that_has_failed_says_so_again(make: Any, folder: Path) -> None:
    class Failing(Pictures):
        def __getitem__(self, index: int) -> Any:
            if index == 3:
                raise ValueError("no number three: \udcff")  # as in the name of a file that is not UTF-8
            return super().__getitem__(index)

    feeder = make(dataset=Failing(folder, "grey"), on_bad="fail")
    for attempt in (ids_of, forebay.Feeder.next, forebay.Feeder.next):
        with pytest.raises(forebay.Error, match=r"ValueError: no number three: \\udcff.*\(test_dataset\.py:") as caught:
            attempt(feeder)
        assert isinstance(caught.value.__cause__, ValueError)


def test_a_class_may_use_locks_of_python(make: Any) -> None:
    lock = threading.Lock()

    def read(index: int) -> bytes:
        with lock:
            return png(5 * index)

    assert sorted(ids_of(make(dataset=Made(COUNT, read), workers_io=4, workers_bytes=4096))) == list(range(COUNT))


def test_a_state_belongs_to_its_data(make: Any, folder: Path) -> None:
    files = paths_of(folder)
    state = make(dataset=forebay.Files(files)).state_dict()
    make(dataset=forebay.Files(files)).load_state_dict(state)
    with pytest.raises(ValueError, match="data"):
        make(dataset=forebay.Files(files[::-1])).load_state_dict(state)


def test_moved_files_are_the_same_data(make: Any, folder: Path, tmp_path: Path) -> None:
    state = make(dataset=forebay.Files(paths_of(folder))).state_dict()
    shutil.copytree(folder, tmp_path / "elsewhere")
    make(dataset=forebay.Files(paths_of(tmp_path / "elsewhere"))).load_state_dict(state)
    (tmp_path / "elsewhere" / "cat" / "000.png").rename(tmp_path / "elsewhere" / "cat" / "0000.png")
    with pytest.raises(ValueError, match="data"):
        make(dataset=forebay.Files(paths_of(tmp_path / "elsewhere"))).load_state_dict(state)


def test_names_need_not_be_utf8(make: Any, tmp_path: Path) -> None:
    paths = [os.path.join(os.fsencode(tmp_path), b"\xff%d.png" % number) for number in range(8)]
    for number, path in enumerate(paths):
        with open(path, "wb") as file:
            file.write(png(5 * number))
    names = [os.fsdecode(path) for path in paths]
    for given in (paths, names):
        feeder = make(dataset=forebay.Files(given, [names[0]] * 8))
        assert sorted(ids_of(feeder)) == list(range(8)) and feeder.classes == [names[0]]
    named = Made(8, lambda index: names[index] if index % 2 else Path(names[index]))
    assert sorted(ids_of(make(dataset=named))) == list(range(8))
    feeder = make(dataset=forebay.Files(paths))
    feeder.save(tmp_path / names[0])
    feeder.close()
    assert make(dataset=forebay.Files(paths)).restore_if_present(tmp_path / names[0])
    with pytest.raises(forebay.ConfigError, match=r"UTF-8.*forebay\.Files"):
        make(dataset="/x/\udcff")


@pytest.mark.parametrize("label", [0.7, float("nan"), float("inf"), -5, 2**70, None])
def test_labels_are_whole_numbers(label: Any) -> None:
    with pytest.raises(ValueError, match="no class number"):
        forebay.Files(["a"], [label])
    with pytest.raises(TypeError, match="pickle the lists"):
        pickle.dumps(forebay.Files(["a"], [2.0]))


def test_what_a_folder_would_call_is_not_ignored_silently(make: Any, folder: Path) -> None:
    samples = [(str(path), 0) for path in paths_of(folder)]
    with pytest.raises(ValueError, match="target_transform"):
        make(dataset=SimpleNamespace(samples=samples, classes=["a"], target_transform=lambda label: label))
    with pytest.warns(UserWarning, match="loader"):
        make(dataset=SimpleNamespace(samples=samples, classes=["a"], loader=lambda path: path))


@pytest.mark.parametrize("kind", ["files", "class", "folder"])
def test_what_says_how_to_read_a_path_is_refused_beside_other_data(
    make: Any, folder: Path, tmp_path: Path, kind: str
) -> None:
    paths = paths_of(folder)
    dataset: Any = {
        "files": forebay.Files(paths, [0] * COUNT, classes=["a"]),
        "class": Pictures(folder, "path"),
        "folder": SimpleNamespace(samples=[(str(path), 0) for path in paths], classes=["a"]),
    }[kind]
    for options in (
        {"classes": ["b", "a"]},
        {"dataset_classes": np.array(["b"])},
        {"labels": "labels.csv"},
        {"dataset_format": "folder"},
        {"path": folder},
        {"samples": "images"},
        {"difficult": False},
        {"index": tmp_path / "index"},
    ):
        (name,) = options
        with pytest.raises(forebay.ConfigError, match=f"^{name}=.* is for a dataset at a path"):
            make(dataset=dataset, **options)
    make(dataset=dataset, classes=[], dataset_index="", difficult=True)  # the defaults
    shared = tmp_path / "feed.toml"
    shared.write_text('[dataset]\nclasses = ["b", "a"]\n')
    assert make(config=shared, dataset=dataset).classes != ["b", "a"]


@pytest.mark.parametrize(
    ("labels", "expected", "classes"),
    [
        (["0", "1", "10", "2"], [0, 1, 10, 2], []),
        (["0.0", "+1", " 10 ", ""], [0, 1, 10, -1], []),
        (["b", " a", "", "b"], [1, 0, -1, 1], ["a", "b"]),
        (["1", "x", "y", "z"], [0, 1, 2, 3], ["1", "x", "y", "z"]),
        (np.array(["3", "2", "1", "0"]), [3, 2, 1, 0], []),
    ],
)
def test_labels_as_text_follow_the_rule_of_lists(folder: Path, labels: Any, expected: Any, classes: Any) -> None:
    from forebay._labels import numbers_of

    assert numbers_of(labels, None, 4) == (expected, classes)
    listed = forebay.Files(paths_of(folder)[:4], labels)
    assert listed.classes == classes


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ({"a": 0}, "labels are a dict"),
        ({0, 1}, "labels are a set"),
        ("0123", "labels are a str"),
        (["0", "1", "2", "nan"], "'nan' of sample 3 is no class number"),
        (["0", "1", "2", "-5"], "'-5' of sample 3 is not between -1 and 999999"),
    ],
)
def test_labels_without_an_order_or_a_meaning_are_refused(folder: Path, labels: Any, message: str) -> None:
    with pytest.raises(forebay.ConfigError, match=message):
        forebay.Files(paths_of(folder)[:4], labels)


def test_categories_in_another_order_are_refused(folder: Path) -> None:
    pandas = pytest.importorskip("pandas")
    ordered = pandas.Series(pandas.Categorical(["low", "high", "low", "mid"], ["low", "mid", "high"], ordered=True))
    with pytest.raises(forebay.ConfigError, match="the categories of the labels are in the order"):
        forebay.Files(paths_of(folder)[:4], ordered)
    assert forebay.Files(paths_of(folder)[:4], ordered, classes=["low", "mid", "high"]).classes[1] == "mid"


def test_classes_may_be_a_dictionary_and_nothing_without_an_order(folder: Path) -> None:
    paths = paths_of(folder)[:4]
    assert forebay.Files(paths, ["b", "a", "b", "a"], classes={"b": 0, "a": 1}).classes == ["b", "a"]
    assert forebay.Files(paths, [1, 0, 1, 0], classes={1: "a", 0: "b"}).classes == ["b", "a"]
    for classes in ({"a", "b"}, "ab", {"a": 1, "b": 2}):
        with pytest.raises(forebay.ConfigError, match="classes="):
            forebay.Files(paths, [0, 1, 0, 1], classes=classes)
    with pytest.raises(forebay.ConfigError, match="paths are a set"):
        forebay.Files(set(paths))
    for values in (dict.fromkeys(paths, 1), {1, 2, 3, 4}):
        with pytest.raises(forebay.ConfigError, match="values are a"):
            forebay.Files(paths, fields={"age": {"kind": "numbers", "values": values}})
