"""Fields of a program's own data: boxes, numbers, masks and arrays."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import forebay
import numpy as np
import pytest
from conftest import COUNT, SIDE, Made, ids_of, pairs, png


@pytest.fixture
def paths(folder: Path) -> list[Path]:
    return sorted(folder.glob("*/*.png"), key=lambda path: path.name)


def sides_of(number: int) -> np.ndarray[Any, Any]:
    """Zero to two boxes."""
    return np.array([[0, 1, 4, 5.5], [2, 2, 8, 8]][: number % 3], np.float64).reshape(-1, 4)


def labels_of(number: int) -> list[str]:
    return ["head", "arm"][: number % 3]


def with_boxes(paths: list[Path], how: str) -> forebay.Files:
    numbers = range(len(paths))
    if how == "dictionaries":
        boxes = [{"boxes": sides_of(number), "labels": [1, 0][: number % 3]} for number in numbers]
        return forebay.Files(paths, boxes=boxes, classes=["arm", "head"])
    if how == "names":
        return forebay.Files(paths, boxes=[{"boxes": sides_of(n).tolist(), "labels": labels_of(n)} for n in numbers])
    columns = {"values": [sides_of(n) for n in numbers], "labels": [labels_of(n) for n in numbers]}
    return forebay.Files(paths, fields={"boxes": {"kind": "boxes", "most": 5, **columns}})


@pytest.mark.parametrize("how", ["dictionaries", "names", "columns"])
def test_boxes_arrive_with_their_classes(make: Any, paths: list[Path], how: str) -> None:
    feeder = make(dataset=with_boxes(paths, how))
    boxes = next(field for field in feeder.fields if field.name == "boxes")
    assert boxes.classes == ["arm", "head"] and boxes.shape == (5 if how == "columns" else 2, 4)
    seen = []
    for batch in feeder:
        for place, number in enumerate(batch.ids.tolist()):
            count = number % 3
            assert batch.counts("boxes")[place] == count
            assert (batch["boxes"][place, :count] == sides_of(number)).all() and not batch["boxes"][place, count:].any()
            assert batch["boxes.class"][place].tolist()[:2] == [1, 0][:count] + [-1] * (2 - count)
        seen.extend(batch.ids)
    assert sorted(seen) == list(range(COUNT))


@pytest.mark.parametrize(
    ("form", "sides"),
    [("XYXY", [1, 2, 5, 6]), ("XYWH", [1, 2, 4, 4]), ("CXCYWH", [3, 4, 4, 4]), ("XYXYR", [1, 2, 5, 6])],
)
def test_boxes_of_torchvision_say_their_format(make: Any, paths: list[Path], form: str, sides: list[int]) -> None:
    class Boxes(np.ndarray[Any, Any]):
        format = SimpleNamespace(name=form)

    boxes = [np.array([sides], np.float32).view(Boxes) for _ in paths]
    if form == "XYXYR":
        with pytest.raises(ValueError, match="boxes in the format XYXYR"):
            make(dataset=forebay.Files(paths, boxes=boxes))
        return
    batch = next(iter(make(dataset=forebay.Files(paths, boxes=boxes))))
    assert (batch["boxes"][:, 0] == [1, 2, 5, 6]).all()


def test_boxes_follow_the_view(make: Any, paths: list[Path]) -> None:
    feeder = make(dataset=with_boxes(paths, "names"), mirror=1.0, size=(2 * SIDE, 2 * SIDE))
    for batch in feeder:
        for place, number in enumerate(batch.ids.tolist()):
            if number % 3:
                assert batch["boxes"][place, 0].tolist() == [8, 2, 16, 11]


@pytest.mark.parametrize(
    ("box", "label", "message"),
    [
        ([1, 1, 1, 2], 0, r"003\.png.*box 1 \(1, 1, 1, 2\) has no area; boxes are left, top, right, bottom"),
        ([3, 1, 1, 2], 0, r"003\.png.*box 1 .* has no area"),
        ([0, 0, float("nan"), 2], 0, r"003\.png.*box 1 .* is not finite"),
        ([0, 0, 1], 0, r"003\.png"),
        ([1, 1, 2, 2], "leg", r"003\.png.*label of box 1.*'leg' is none of the classes"),
        ([1, 1, 2, 2], 7, r"003\.png.*label of box 1.*no class number"),
        ([1, 1, 2, 2], None, r"003\.png.*2 boxes and 1 labels"),
    ],
)
def test_a_bad_box_is_named(paths: list[Path], box: list[float], label: Any, message: str) -> None:
    good = {"boxes": [[0, 0, 2, 2]], "labels": [0]}
    labels = [0] if label is None else [0, label]
    boxes = [good] * 3 + [{"boxes": [[0, 0, 2, 2], box], "labels": labels}] + [good] * (COUNT - 4)
    with pytest.raises(forebay.ConfigError, match=message):
        forebay.Files(paths, boxes=boxes, classes=["arm", "head"])


def test_what_does_not_fit_the_files_is_refused(paths: list[Path]) -> None:
    def refused(message: str, **arguments: Any) -> None:
        with pytest.raises(forebay.ConfigError, match=message):
            forebay.Files(paths, **arguments)

    refused("40 samples and 1 values", boxes=[sides_of(1)])
    refused("shares of the image", boxes=[[[0.1, 0.1, 0.5, 1.0]]] * COUNT)
    refused(r"sample 2 \(.*002\.png\): it has 2 boxes, and 'most' is 1", fields={"b": {
        "kind": "boxes", "most": 1, "values": [sides_of(n) for n in range(COUNT)]}})  # fmt: skip
    refused(
        r"fields\['b'\]\['kind'\]: .*expected one of \"image\", \"mask\"",
        fields={"b": {"kind": "box", "values": [0] * COUNT}},
    )
    refused("unknown key fields.b.colour", fields={"b": {"kind": "mask", "colour": 1, "values": paths}})
    refused("b.shape: only arrays and numbers", fields={"b": {"kind": "mask", "shape": 1, "values": paths}})
    refused("b.classes: only classes", fields={"b": {"kind": "numbers", "classes": ["a"], "values": [0] * COUNT}})
    refused("give its 'values'", fields={"b": {"kind": "mask"}})
    refused(r"001\.png.*not finite", fields={"age": [1.0, float("nan")] * (COUNT // 2)})
    refused("does not hold", fields={"age": {"kind": "numbers", "dtype": "uint8", "values": [300] * COUNT}})
    refused("the same field", boxes=[[]] * COUNT, fields={"boxes": {"kind": "boxes", "values": [[]] * COUNT}})
    refused("others are values", fields={"depth": {"kind": "array", "shape": [1], "values": [
        "a.npy", *[np.zeros(1)] * (COUNT - 1)]}})  # fmt: skip


@pytest.mark.parametrize(
    "value", [[0], [1, 0], [0, 2], [0, 1, 1, 0], [0, 1, 2], ["a", 1], [0, 1, "a"], [float("nan")] * 3]
)
def test_what_says_nothing_of_each_class_is_refused(paths: list[Path], value: Any) -> None:
    found = {"kind": "multilabel", "classes": ["a", "b", "c"], "values": [["a"], value, *[[1, 0, 1]] * (COUNT - 2)]}
    with pytest.raises(forebay.ConfigError, match=r"sample 1 .*neither a zero or one for each of the 3 classes nor"):
        forebay.Files(paths, fields={"found": found})


def test_a_text_of_several_classes_is_divided_as_in_tables(make: Any, paths: list[Path]) -> None:
    texts = ["mass|edema", "mass", "", " edema |"] * (COUNT // 4)
    fields = {"found": {"kind": "multilabel", "classes": ["edema", "mass"]}}
    listed = Made(COUNT, lambda index: {"image": paths[index], "found": texts[index]}, fields=fields)
    expected = np.array([[1, 1], [0, 1], [0, 0], [1, 0]])
    for values in (texts, np.array(texts)):
        for data in (forebay.Files(paths, fields={"found": {"kind": "multilabel", "values": values}}), listed):
            feeder = make(dataset=data, on_bad="fail")
            assert feeder.fields[-1].classes == ["edema", "mass"]
            assert all((batch["found"] == expected[batch.ids.astype(int) % 4]).all() for batch in feeder)
    one = forebay.Files(paths, boxes=[{"boxes": [[0, 0, 4, 4]], "labels": "dog"}] * COUNT)
    assert ["dog"] in [field.classes for field in make(dataset=one).fields]


def test_boxes_have_classes_beside_those_of_images(make: Any, paths: list[Path]) -> None:
    kinds = ["cat", "dog"] * (COUNT // 2)
    boxes = [{"boxes": sides_of(number), "labels": labels_of(number)} for number in range(COUNT)]
    feeder = make(dataset=forebay.Files(paths, kinds, boxes=boxes))
    assert feeder.classes == ["cat", "dog"] and ["arm", "head"] in [field.classes for field in feeder.fields]
    for batch in feeder:
        assert (batch.labels == batch.ids % 2).all()
        for place, number in enumerate(batch.ids.tolist()):
            assert batch["boxes.class"][place].tolist() == [1, 0][: number % 3] + [-1] * (2 - number % 3)


def test_other_fields_of_files(make: Any, paths: list[Path], tmp_path: Path) -> None:
    numbers = np.arange(COUNT)
    masks, arrays = [], []
    found = [["a", "c"][: number % 3] for number in numbers]
    for number in numbers:
        masks.append(tmp_path / f"{number}.png")
        masks[-1].write_bytes(png(number % 7))
        arrays.append(str(tmp_path / f"{number}.npy"))
        np.save(arrays[-1], np.full((2, 3), number, np.float64))
    files = forebay.Files(
        paths,
        numbers % 2,
        fields={
            "age": numbers / 2,
            "at": {"kind": "numbers", "values": np.stack([numbers, -numbers], 1), "dtype": "int32"},
            "findings": {"kind": "multilabel", "classes": ["a", "b", "c"], "values": found},
            "bits": {"kind": "multilabel", "values": np.stack([numbers % 2, numbers % 3 == 0], 1)},
            "site": {"kind": "class", "values": ["north" if n % 2 else "east" for n in numbers]},
            "mask": {"kind": "mask", "values": masks},
            "depth": {"kind": "array", "shape": [2, 3], "values": arrays},
            "inline": {"kind": "array", "values": [np.full(2, n) for n in numbers]},
            "caption": {"kind": "bytes", "values": [f"number {n}" for n in numbers]},
        },
    )
    seen = []
    for batch in make(dataset=files):
        ids = batch.ids.astype(int)
        assert (batch["age"] == (ids / 2).astype("f4")).all()
        assert (batch["at"] == np.stack([ids, -ids], 1)).all() and batch["at"].dtype == np.int32
        assert (batch["findings"] == np.stack([ids % 3 > 0, ids < 0, ids % 3 > 1], 1)).all()
        assert (batch["bits"] == np.stack([ids % 2, ids % 3 == 0], 1)).all()
        assert (batch["site"] == ids % 2).all()
        assert (batch["mask"] == (ids % 7)[:, None, None]).all()
        assert (batch["depth"] == ids[:, None, None]).all() and (batch["inline"] == ids[:, None]).all()
        text = [bytes(row[:count]) for row, count in pairs(batch["caption"], batch.counts("caption"))]
        assert text == [b"number %d" % number for number in ids]
        seen.extend(ids)
    assert sorted(seen) == list(range(COUNT))


def test_columns_of_pandas(make: Any, paths: list[Path]) -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"path": [str(path) for path in paths], "age": np.arange(COUNT) / 2})[::-1]
    files = forebay.Files(table["path"], fields={"age": table["age"]})
    for batch in make(dataset=files):
        assert (batch["age"] == ((COUNT - 1 - batch.ids.astype(int)) / 2).astype("f4")).all()


def test_a_state_knows_the_fields(make: Any, paths: list[Path]) -> None:
    state = make(dataset=forebay.Files(paths, fields={"age": np.arange(COUNT)})).state_dict()
    make(dataset=forebay.Files(paths, fields={"age": np.arange(COUNT)})).load_state_dict(state)
    with pytest.raises(ValueError, match="data"):
        make(dataset=forebay.Files(paths, fields={"age": np.arange(COUNT) + 1})).load_state_dict(state)


def test_a_missing_field_file_is_a_bad_sample(make: Any, paths: list[Path], tmp_path: Path) -> None:
    masks = [*paths[:-1], tmp_path / "gone.png"]
    files = forebay.Files(paths, fields={"mask": {"kind": "mask", "values": masks}})
    assert COUNT - 1 not in ids_of(make(dataset=files, batch_size=1))
    with pytest.raises(forebay.Error, match=r'field "mask" .*gone\.png'):
        ids_of(make(dataset=files, batch_size=1, on_bad="fail"))


class Scenes(forebay.Dataset):
    """Everything from one call."""

    fields = {
        "mask": {"kind": "mask", "dtype": "int32"},
        "boxes": {"kind": "boxes", "most": 3, "classes": ["arm", "head"]},
        "depth": {"kind": "image", "channels": 1},
        "flow": {"kind": "array", "shape": [2, 2]},
        "weight": {"kind": "numbers"},
        "kinds": {"kind": "multilabel", "classes": ["a", "b"]},
        "text": {"kind": "bytes", "most": 20},
    }

    def __init__(self, left_out: str = "") -> None:
        self.labels = [number % 2 for number in range(COUNT)]
        self.left_out = left_out
        self.calls: list[int] = []

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> Any:
        self.calls.append(index)
        scene = {
            "image": np.full((SIDE, SIDE, 3), 256 * 5 * index, np.uint16),
            "mask": np.full((SIDE, SIDE), 1000 + index, np.int64),
            "boxes": (sides_of(index), labels_of(index)),
            "depth": np.full((SIDE, SIDE), index / 8, np.float32),
            "flow": np.full((2, 2), -index, np.float64),
            "weight": index,
            "kinds": ["b"] if index % 2 else [],
            "text": f"scene {index}",
        }
        if index == 7:
            scene.pop(self.left_out, None)
        return scene


def check_scenes(feeder: forebay.Feeder) -> list[int]:
    seen = []
    for batch in feeder:
        ids = batch.ids.astype(int)
        assert (batch.images[:, 0, 0, 0] == 5 * ids).all() and (batch.labels == ids % 2).all()
        assert (batch["mask"] == (1000 + ids)[:, None, None]).all()
        assert (batch.counts("boxes") == ids % 3).all()
        assert all((batch["boxes"][i, : n % 3] == sides_of(n)).all() for i, n in enumerate(ids))
        assert (batch["depth"][:, 0, 0, 0] == (ids / 8).astype("f4")).all()
        assert (batch["flow"] == -ids[:, None, None]).all() and (batch["weight"] == ids).all()
        assert (batch["kinds"] == np.stack([ids < 0, ids % 2 == 1], 1)).all()
        assert [bytes(t[:c]) for t, c in pairs(batch["text"], batch.counts("text"))] == [b"scene %d" % n for n in ids]
        seen.extend(int(n) for n in ids)
    return sorted(seen)


@pytest.mark.parametrize("processes", [0, 2])
def test_a_dictionary_fills_the_fields(make: Any, processes: int) -> None:
    scenes = Scenes()
    options = {"workers_io": "auto" if processes else 3}
    assert check_scenes(make(dataset=scenes, processes=processes, **options)) == list(range(COUNT))
    if processes == 0:
        assert sorted(set(scenes.calls)) == list(range(COUNT)) and len(scenes.calls) <= COUNT + 4  # second reads


@pytest.mark.parametrize("processes", [0, 2])
@pytest.mark.parametrize("name", ["image", "flow"])
def test_what_a_dictionary_lacks_makes_a_bad_sample(make: Any, processes: int, name: str) -> None:
    assert 7 not in check_scenes(make(dataset=Scenes(name), processes=processes))
    with pytest.raises(forebay.Error, match=f"sample 7.*__getitem__ returned no '{name}'"):
        check_scenes(make(dataset=Scenes(name), processes=processes, on_bad="fail"))


def test_wrong_answers_say_what_to_do(make: Any) -> None:
    class Plain(Scenes):
        fields = None

        def __getitem__(self, index: int) -> Any:
            return np.zeros((SIDE, SIDE), np.float32) if self.left_out else {"image": png(0)}

    for left_out, message in (("", "declares no fields"), ("x", "float32.*Other numbers belong into a field")):
        with pytest.raises(forebay.Error, match=message):
            ids_of(make(dataset=Plain(left_out), on_bad="fail"))

    class Shapeless(Scenes):
        fields = {"flow": {"kind": "array", "shape": [3]}}

    with pytest.raises(forebay.Error, match=r'field "flow": it has the shape \[2, 2\], and \[3\] is declared'):
        ids_of(make(dataset=Shapeless(), on_bad="fail"))

    class Labelled(Scenes):
        def __getitem__(self, index: int) -> Any:
            return {**super().__getitem__(index), self.left_out: 3}

    class Pair(Scenes):
        fields = None

        def __getitem__(self, index: int) -> Any:
            return [np.zeros((SIDE, SIDE), np.uint8), 3] if self.left_out == "list" else (png(0), 3)

    for data, message in (
        (Labelled("label"), r"returned 'label', which nothing reads: labels are the dataset's `labels`"),
        (Labelled("labels"), r"returned 'labels', which nothing reads"),
        (Pair("tuple"), r"__getitem__ returned a tuple: it returns the image alone; the labels of all samples are"),
        (Pair("list"), r"__getitem__ returned a list: it returns the image alone"),
    ):
        with pytest.raises(forebay.Error, match=message):
            ids_of(make(dataset=data, on_bad="fail"))
    with pytest.raises(forebay.ConfigError, match="its attribute"):
        make(dataset=Scenes(), fields={"mask": {"kind": "mask"}})


def test_whole_numbers_keep_their_type_and_value() -> None:
    from forebay._columns import columns_of

    large = np.array([9007199254740993, -(2**63), 2**63 - 1])
    column = columns_of({"uid": large}, [b"a", b"b", b"c"], [])[0]
    assert column.field.dtype == "int64" and (np.frombuffer(column.values, np.int64) == large).all()
    listed = {"uid": {"kind": "numbers", "dtype": "int64", "values": large.tolist()}}
    assert columns_of(listed, [b"a", b"b", b"c"], [])[0].values == column.values
    assert columns_of({"n": [1, 2, 3]}, [b"a", b"b", b"c"], [])[0].field.dtype == "float32"
    short = {"n": {"kind": "numbers", "dtype": np.int32, "values": [1, 2, 3]}}
    assert columns_of(short, [b"a", b"b", b"c"], [])[0].field.dtype == "int32"
    wide = {"text": {"kind": "bytes", "values": [np.zeros(2, np.uint16), b"", b"x"]}}
    assert columns_of(wide, [b"a", b"b", b"c"], [])[0].field.shape == (4,)
    for unusable in (
        {"kind": "numbers", "dtype": "float33", "values": [1, 2, 3]},
        {"kind": "boxes", "values": [{}] * 3},
    ):
        with pytest.raises(forebay.ConfigError, match="float33|sample 0"):
            columns_of({"n": unusable}, [b"a", b"b", b"c"], [])
    for values in ([16777217, 1, 2], [9007199254740993, 1, 2]):
        with pytest.raises(forebay.ConfigError, match="float32 does not hold"):
            columns_of({"n": values}, [b"a", b"b", b"c"], [])
    for values in ([9007199254740993, 1.0, 2], np.array([2**64 - 1, 1, 2], np.uint64), [1.5, 1, 2], [300.0, 1, 1e19]):
        with pytest.raises(forebay.ConfigError):
            columns_of({"n": {"kind": "numbers", "dtype": "int64", "values": values}}, [b"a", b"b", b"c"], [])


def test_classes_of_fields_follow_the_rule_of_lists() -> None:
    from forebay._columns import columns_of

    site = columns_of({"site": {"kind": "class", "values": ["0", "10", "2.0"]}}, [b"a", b"b", b"c"], [])[0]
    assert np.frombuffer(site.values, np.int64).tolist() == [0, 10, 2] and site.field.classes == []
    found = columns_of({"f": {"kind": "multilabel", "values": [["0"], ["10", "2"], []]}}, [b"a", b"b", b"c"], [])[0]
    bits = np.frombuffer(found.values, np.float32).reshape(3, 11)
    assert [np.flatnonzero(each).tolist() for each in bits] == [[0], [2, 10], []]
    boxes = {"kind": "boxes", "values": [[[1, 1, 9, 9]]] * 3, "labels": [["0"], ["10"], ["2"]]}
    column = columns_of({"boxes": boxes}, [b"a", b"b", b"c"], [])[0]
    assert np.frombuffer(column.values, np.int32)[4::5].tolist() == [0, 10, 2]
    assert column.field.min_visible == 0.25


def test_class_numbers_are_not_wrapped(paths: list[Path]) -> None:
    with pytest.raises(forebay.ConfigError, match="a class is int32 or int64"):
        forebay.Files(paths, fields={"site": {"kind": "class", "dtype": "uint8", "values": [300] * COUNT}})
    with pytest.raises(forebay.ConfigError, match="no class number"):
        forebay.Files(paths, boxes=[{"boxes": [[0, 0, 4, 4]], "labels": [2**31]}] * COUNT)


def test_a_box_of_which_little_shows_is_dropped_alike(make: Any, paths: list[Path], tmp_path: Path) -> None:
    (tmp_path / "one.png").write_bytes(paths[1].read_bytes())
    (tmp_path / "boxes.csv").write_text("image,xmin,ymin,xmax,ymax,class\none.png,1,1,7,7,x\n")
    sample = {"image": paths[1].read_bytes(), "boxes": ([[1, 1, 7, 7]], [0])}
    fields = {"boxes": {"kind": "boxes", "most": 1, "classes": ["x"]}}
    one = Made(1, lambda index: sample, classes=("x",), fields=fields)

    def shown(**arguments: Any) -> list[int]:
        feeder = make(batch_size=1, epochs=60, crop="random_resized", scale=[0.05, 0.6], policy="block", **arguments)
        return [int(batch.counts("boxes")[0]) for batch in feeder]

    table = {"path": str(tmp_path / "boxes.csv"), "format": "table", "samples": "images"}
    expected = shown(dataset=table, fields={"boxes": {"kind": "boxes", "most": 1}})
    assert 0 < sum(expected) < 60
    assert shown(dataset=forebay.Files([paths[1]], boxes=[{"boxes": [[1, 1, 7, 7]], "labels": [0]}])) == expected
    assert shown(dataset=one) == expected
