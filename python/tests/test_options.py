"""Keyword options, errors and the log."""

from __future__ import annotations

import errno
import logging
import os
import pickle
from pathlib import Path
from typing import Any

import forebay
import numpy as np
import pytest
from conftest import COUNT, SMALL, ids_of
from forebay import _options


def test_every_key_has_a_keyword_that_takes_its_default() -> None:
    import ast

    for key in forebay.config_keys():
        keyword = f"{key.section}_{key.name}" if key.section else key.name
        value = {"true": True, "false": False}.get(key.default)
        if value is None:
            value = float(key.default) if key.default in ("inf", "nan") else ast.literal_eval(key.default)
        assert _options.load(None, {keyword: value}).to_toml() == _options.load(None, {}).to_toml(), keyword


def test_ways_to_say_a_key(make: Any) -> None:
    for way in ({"capacity": 5}, {"queue_capacity": 5}, {"queue": {"capacity": 5}}, {"capacity": np.int64(5)}):
        options = {name: value for name, value in SMALL.items() if name != "capacity"}
        assert "capacity = 5 " in _options.load(None, {**options, **way}).to_toml()


def test_keywords_overrule_the_file(tmp_path: Path, folder: Path) -> None:
    file = tmp_path / "feed.toml"
    file.write_text(f'[dataset]\npath = "{folder}"\nbatch_size = 8\n[transform]\nsize = [8, 8]\n')
    with forebay.Feeder(
        file, batch_size=2, telemetry_dir="", **{k: v for k, v in SMALL.items() if k != "batch_size"}
    ) as f:
        assert "batch_size = 2 " in f.to_toml()
        assert sorted(ids_of(f)) == list(range(COUNT))


def test_values_that_toml_would_misread() -> None:
    for path in ('a "quoted" \\ name', "2024", "true", "line\nbreak", "ünï", "\x7f"):
        assert _options.load(None, {"dataset": path}).dataset_path == path


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, r"batch_size=0: dataset\.batch_size: .*1 "),
        ({"batch_size": "four"}, r"batch_size='four': dataset\.batch_size: expected a whole number"),
        ({"policy": "gredy"}, "policy.name"),
        ({"batchsize": 3}, "no option 'batchsize'; did you mean batch_size"),
        ({"decode": 2}, "transform_decode or workers_decode"),
        ({"queue": {"capcity": 3}}, "no option 'queue_capcity'; did you mean queue_capacity"),
        ({"batch_size": object()}, "batch_size=<object"),
        ({"dataset": 7}, "dataset=int"),
        ({"run": 8}, "run={'epochs': 8} or dataset_run=8"),
        ({"comm": 7}, "comm=7 is no communicator"),
        ({"fields": {"mask": 1}}, "fields={'mask': {'kind'"),
        ({"path": "data"}, r"path='data' and dataset=.* are the same key, dataset\.path: give one"),
        ({"dataset_batch_size": 8}, r"batch_size=4 and dataset_batch_size=8 are the same key, dataset\.batch_size"),
        ({"cache": "nvme", "bytes": "1GB"}, "'bytes' may mean several keys: write workers_bytes or cache_bytes"),
        ({"dtype": np.float32}, "dtype=<class 'numpy.float32'>: a value is"),
        ({"config": {"batch_size": 4}}, "first argument is a configuration file; give options as keywords"),
    ],
)
def test_wrong_options_are_value_errors(make: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        make(**options)
    assert isinstance(caught.value, forebay.ConfigError)


def test_what_is_not_there_is_a_file_not_found_error(make: Any, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere.toml"):
        forebay.Feeder(tmp_path / "nowhere.toml")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        make(dataset=tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match="nowhere.state"):
        make().restore(tmp_path / "nowhere.state")


def test_a_missing_data_set_has_its_name_and_number(make: Any, tmp_path: Path) -> None:
    nowhere = str(tmp_path / "nowhere")
    file = tmp_path / "feed.toml"
    file.write_text(f'[dataset]\npath = "{nowhere}"\nbatch_size = 4\n')
    for call in (
        lambda: forebay.Feeder(file),
        lambda: make(dataset={"path": nowhere}),
        lambda: make(dataset=nowhere),
        lambda: forebay.Feeder(nowhere),
        lambda: make().restore(nowhere),
    ):
        with pytest.raises(FileNotFoundError, match="nowhere") as caught:
            call()
        for error in (caught.value, pickle.loads(pickle.dumps(caught.value))):
            assert (error.errno, error.filename) == (errno.ENOENT, nowhere) and not str(error).startswith("[Errno")


def test_streams_are_numbers_or_objects(make: Any) -> None:
    feeder = make()
    for call in (feeder.next, lambda stream: next(feeder.epochs(stream)), lambda stream: make(stream=stream)):
        with pytest.raises(TypeError, match="CUDA stream"):
            call(stream="x")
        with pytest.raises(ValueError, match="0 or more"):
            call(stream=-1)
    assert np.from_dlpack(feeder.next()).shape[0] == 4


def test_a_store_that_stops_is_a_timeout_error(make: Any) -> None:
    with pytest.raises(TimeoutError, match="watchdog_s"):
        for _ in make(storage_latency_ms=100_000, watchdog_s=0.5):
            pass


def test_a_feeder_shows_itself_in_a_few_lines(make: Any) -> None:
    lines = repr(make()).splitlines()
    assert 4 <= len(lines) <= 8 and lines[0].startswith("<forebay.Feeder: 40 samples") and lines[-1].endswith(">")
    assert all(line.count("(") == line.count(")") for line in lines)


def test_errors_have_one_base() -> None:
    for error in (forebay.ConfigError, forebay.NotFoundError, forebay.SampleError, forebay.WatchdogError):
        assert issubclass(error, forebay.Error)


def test_lines_for_people_go_to_logging(make: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "a").mkdir()
    from conftest import png

    for number in range(8):
        (tmp_path / "a" / f"{number}.png").write_bytes(png(number))
    (tmp_path / "a" / "bad.png").write_bytes(b"not a picture")
    with caplog.at_level(logging.INFO, "forebay"):
        ids_of(make(dataset=tmp_path, batch_size=3))
    assert any("bad.png" in record.getMessage() for record in caplog.records), caplog.text


TYPES = {
    "true": "bool",
    "one of": "str",
    "a string": "str | os.PathLike[str]",
    "a number of bytes": "int | str",
    "a number": "float",
    "a whole number": "int",
    '"auto"': "float | str",
}


def options_as_types() -> str:
    """What type checkers know of a feeder's options."""
    lines = [
        "# Written by python/tests/test_options.py with FOREBAY_WRITE_PAGES=1, from the table of keys.",
        "import os\nfrom collections.abc import Mapping\nfrom typing import Any, TypedDict\n",
        "class Options(TypedDict, total=False):",
        '    """The options of forebay.Feeder: each key by its name, and with its section before it."""\n',
    ]
    for name, keys in _options._NAMES.items():
        if name == "dataset" or len(keys) > 1:  # an argument of its own, and what may mean several keys
            continue
        found = next((kind for start, kind in TYPES.items() if keys[0].expected.startswith(start)), "Any")
        lines.append(f"    {name}: {'Any' if name in ('seed', 'policy', 'policy_name') else found}")
    sections = [section for section in _options._SECTIONS if section not in _options._NAMES]
    lines += [f"    {section}: Mapping[str, Any]" for section in (*sections, "fields")]
    return "\n".join(lines) + "\n"


def test_type_checkers_know_the_options() -> None:
    file = Path(__file__).parent.parent / "forebay" / "_option_types.pyi"
    if "FOREBAY_WRITE_PAGES" in os.environ:
        file.write_text(options_as_types())
    assert file.read_text() == options_as_types(), "run this test once with FOREBAY_WRITE_PAGES=1"
