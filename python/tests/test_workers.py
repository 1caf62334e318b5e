"""Processes that call a dataset's __getitem__."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import forebay
import numpy as np
import pytest
from conftest import COUNT, SIDE, ids_of, png, run_program


class Own(forebay.Dataset):
    """Pictures that tell who made them: red is the sample, green differs between processes."""

    def __init__(self, kind: str = "array", folder: Path | None = None) -> None:
        self.kind = kind
        self.folder = folder
        self.labels = [number % 3 for number in range(COUNT)]

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> Any:
        if self.kind == "bytes":
            return png(5 * index)
        if self.kind == "path":
            assert self.folder is not None
            return sorted(self.folder.glob("*/*.png"), key=lambda path: path.name)[index]
        picture = np.zeros((SIDE, SIDE, 3), np.uint8)
        picture[:] = (5 * index, os.getpid() % 251, os.getppid() % 251)
        return picture


def status(process: int | str) -> list[str]:
    """State, parent and so on; nothing if there is no such process."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def children() -> set[int]:
    """The processes that this one started and has not waited for, zombies too."""
    mine = str(os.getpid())
    return {int(process) for process in os.listdir("/proc") if process.isdigit() and status(process)[1:2] == [mine]}


@pytest.mark.parametrize("kind", ["array", "bytes", "path"])
def test_processes_read_every_sample(make: Any, folder: Path, kind: str) -> None:
    before = children()
    feeder = make(dataset=Own(kind, folder), processes=2, workers_io="auto")
    assert len(children() - before) == 2
    seen, makers = [], set()
    for batch in feeder:
        assert (batch.images[:, 0, 0, 0] == 5 * batch.ids).all() and (batch.labels == batch.ids % 3).all()
        seen.extend(batch.ids)
        makers |= set(batch.images[:, 1, 0, 0].tolist())
        assert kind != "array" or (batch.images[:, 2, 0, 0] == os.getpid() % 251).all()
    assert sorted(seen) == list(range(COUNT)) and (kind != "array" or os.getpid() % 251 not in makers)
    feeder.close()
    assert children() == before


class Large(Own):
    def __getitem__(self, index: int) -> Any:
        return np.full((700, 900 + 40 * index, 3), 5 * index, np.uint8)


def test_answers_of_any_size(make: Any) -> None:
    for batch in make(dataset=Large(), processes=2, workers_io="auto", workers_bytes=8 << 20):
        assert (batch.images[:, 0, 0, 0] == 5 * batch.ids).all()


class Growing(Own):
    """Small images beside texts that outgrow the shared memory."""

    fields = {"text": {"kind": "bytes", "most": 40_000 * COUNT}}

    def __getitem__(self, index: int) -> Any:
        return {"image": super().__getitem__(index), "text": bytes([index]) * (40_000 * index)}


def test_the_first_parts_of_an_answer_stay_where_they_are(make: Any) -> None:
    feeder = make(dataset=Growing(), processes=1, shuffle=False, hedge="off", batch_size=1)
    seen = []
    for batch in feeder:
        index = int(batch.ids[0])
        assert (batch.images[0, 0] == 5 * index).all() and (batch.images[0, 2] == os.getpid() % 251).all()
        assert batch.counts("text")[0] == 40_000 * index and (batch["text"][0, : 40_000 * index] == index).all()
        seen.append(index)
    assert seen == list(range(COUNT)) and feeder.summary()["bad_samples"] == 0


class Strange(Exception):
    """It cannot be pickled."""

    def __init__(self, number: int, *, why: str) -> None:
        super().__init__(f"number {number} {why}")
        self.lock = threading.Lock()


class Failing(Own):
    def __init__(self, marks: Path | None = None, failures: int = 6) -> None:
        super().__init__("bytes")
        self.marks, self.failures = marks, failures

    def __getitem__(self, index: int) -> Any:
        if index == 3:
            raise KeyError("no number three")
        if index == 4:
            raise Strange(4, why="is strange")
        if index == 5 and self.marks is not None:
            tries = len(list(self.marks.iterdir()))
            (self.marks / f"tried {tries}").touch()
            if tries < self.failures:
                raise TimeoutError("busy")
        return super().__getitem__(index)


@pytest.mark.parametrize("processes", [0, 2])
def test_exceptions_make_bad_samples(make: Any, processes: int, tmp_path: Path, caplog: Any) -> None:
    with caplog.at_level(logging.WARNING, "forebay"):
        feeder = make(dataset=Failing(tmp_path), processes=processes, hedge="off")
        ids = ids_of(feeder)
        assert {3, 4}.isdisjoint(ids) and 5 in ids and feeder.summary()["bad_samples"] == 2
    assert len(list(tmp_path.iterdir())) >= 7  # a store that fails is asked again
    log = " ".join(record.getMessage() for record in caplog.records)
    assert "KeyError: no number three (test_workers.py:" in log and "in __getitem__)" in log
    assert "Strange: number 4 is strange (test_workers.py:" in log and "TimeoutError: busy" in log


def test_a_store_that_fails_for_too_long_ends_the_run(make: Any, tmp_path: Path) -> None:
    with pytest.raises(forebay.WatchdogError, match="sample 5.*busy"):
        ids_of(make(dataset=Failing(tmp_path, 10**6), watchdog_s=0.5))


@pytest.mark.parametrize("processes", [0, 2])
def test_an_exception_that_ends_the_run_is_its_cause(make: Any, processes: int) -> None:
    import traceback

    with pytest.raises(forebay.Error, match="KeyError: no number three|Strange: number 4") as caught:
        ids_of(make(dataset=Failing(), processes=processes, on_bad="fail"))
    cause = caught.value.__cause__
    assert isinstance(cause, (KeyError, Strange) if processes == 0 else (KeyError, RuntimeError))
    text = "".join(traceback.format_exception(caught.type, caught.value, caught.tb))
    assert 'raise KeyError("no number three")' in text or "raise Strange" in text


class Ending(Own):
    """Ends its process at one sample; the first time only, if there is a mark."""

    def __init__(self, how: str, mark: Path | None = None) -> None:
        super().__init__("bytes")
        self.how, self.mark = how, mark

    def __getitem__(self, index: int) -> Any:
        if index == 9 and not (self.mark is not None and self.mark.exists()):
            if self.mark is not None:
                self.mark.touch()
            if self.how == "exit":
                os._exit(7)
            os.kill(os.getpid(), getattr(signal, self.how))
        return super().__getitem__(index)


@pytest.mark.parametrize(
    ("how", "message"), [("exit", "ended with exit code 7"), ("SIGSEGV", r"was ended by signal 11 \(SIGSEGV\)")]
)
def test_a_process_that_ends_costs_one_sample(make: Any, how: str, message: str) -> None:
    feeder = make(dataset=Ending(how), processes=2, hedge="off")
    ids = ids_of(feeder)
    assert 9 not in ids and len(set(ids)) == COUNT - 1
    with pytest.raises(forebay.Error, match=f"sample 9: process [01] of the dataset {message} while it read"):
        ids_of(make(dataset=Ending(how), processes=2, on_bad="fail", hedge="off"))


def test_a_killed_process_is_replaced_and_the_sample_read_again(make: Any, tmp_path: Path) -> None:
    feeder = make(dataset=Ending("SIGKILL", tmp_path / "mark"), processes=1, hedge="off")
    assert sorted(ids_of(feeder)) == list(range(COUNT)) and feeder.summary()["bad_samples"] == 0


def test_a_process_that_ends_idle_costs_nothing(make: Any) -> None:
    before = children()
    feeder = make(dataset=Own(), processes=1, capacity=1, epochs=2)
    seen = []
    for batch in feeder:
        seen.extend(int(number) for number in batch.ids)
        if len(seen) == COUNT // 2:
            for process in children() - before:
                os.kill(process, signal.SIGTERM)
    assert len(set(seen)) == COUNT and feeder.summary()["bad_samples"] <= 1


class Starved(Own):
    def __getitem__(self, index: int) -> Any:
        os._exit(3)


def test_a_run_whose_processes_all_end_ends(make: Any, caplog: Any) -> None:
    with caplog.at_level(logging.ERROR, "diary"), pytest.raises(forebay.Error, match="in a row are bad.*processes"):
        make(dataset=Starved(), processes=2, max_bad=COUNT, logger="diary")
    text = "ended with exit code 3, as did those before it"
    assert {record.name for record in caplog.records if text in record.getMessage()} == {"diary"}


class Unpicklable(Own):
    def __init__(self) -> None:
        super().__init__()
        self.store = threading.Lock()


class Homeless(Own):
    def __reduce__(self) -> Any:
        return _refuse, ()


def _refuse() -> None:
    raise OSError("the store is not there")


def test_a_dataset_that_cannot_be_sent_is_refused(make: Any) -> None:
    before = children()
    with pytest.raises(forebay.ConfigError, match=r"its attribute 'store' \(lock\) cannot be pickled.*__getstate__"):
        make(dataset=Unpicklable(), processes=1)

    class Local(Own):
        pass

    with pytest.raises(forebay.ConfigError, match="Local.*at the top of a module"):
        make(dataset=Local(), processes=1)
    files = len(os.listdir("/proc/self/fd"))
    with pytest.raises(forebay.Error, match="could not take it over: OSError: the store is not there") as failed:
        make(dataset=Homeless(), processes=1)
    assert failed.tb is not None and len(os.listdir("/proc/self/fd")) == files
    assert children() == before


def test_processes_are_for_a_class_of_its_own(make: Any, folder: Path) -> None:
    for given in (folder, forebay.Files(sorted(folder.glob("*/*.png")))):
        with pytest.raises(forebay.ConfigError, match="processes= is for a subclass"):
            make(dataset=given, processes=2)
    with pytest.raises(forebay.ConfigError, match="a number of processes"):
        make(dataset=Own(), processes=-1)


def test_nothing_is_left_when_the_feeder_is_refused(make: Any) -> None:
    before = children()
    for wrong in ({"batch_size": 0}, {"resume": "/proc/self"}, {"policy": {"name": "none"}}):
        with pytest.raises(forebay.Error):
            make(dataset=Own(), processes=1, **wrong)
        assert children() == before


def test_two_feeders_have_processes_of_their_own(make: Any) -> None:
    feeders = [make(dataset=Own(), processes=1) for _ in range(2)]
    assert all(sorted(ids_of(feeder)) == list(range(COUNT)) for feeder in feeders)


def test_how_multiprocessing_starts_processes_stays_open() -> None:
    body = """
import multiprocessing, pathlib, sys, forebay
from conftest import SMALL
from test_workers import Own
sys.path.append(pathlib.Path("/nowhere"))
forebay.Feeder(dataset=Own(), processes=1, **SMALL).close()
print(multiprocessing.get_start_method(allow_none=True))
multiprocessing.set_start_method("spawn")
forebay.Feeder(dataset=Own(), processes=1, **SMALL).close()
print(multiprocessing.get_start_method())
"""
    assert run_program(body) == "None\nspawn\n"


def test_the_main_module_is_known_to_the_processes(tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    head = "import forebay\nfrom conftest import SMALL, png\nclass Mine(forebay.Dataset):\n"
    body = "  def __len__(self): return 8\n  def __getitem__(self, i): return png(i)\n"
    call = "print(sum(b.is_fresh for b in forebay.Feeder(dataset=Mine(), processes=1, **SMALL)))\n"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}

    def run(text: str) -> subprocess.CompletedProcess[str]:
        program.write_text(text)
        return subprocess.run(
            [sys.executable, program], capture_output=True, text=True, timeout=120, env=environment, check=False
        )

    guarded = run(head + body + 'if __name__ == "__main__":\n  ' + call)
    assert (guarded.returncode, guarded.stdout) == (0, "2\n"), guarded.stderr
    bare = run(head + body + call)
    assert bare.returncode != 0 and 'if __name__ == "__main__":' in bare.stderr


def test_a_problem_of_another_rank_leaves_no_process() -> None:
    pytest.importorskip("mpi4py")
    from test_mpi import ranks

    body = """
from test_workers import Own, children
before = len(children())
try:
    forebay.Feeder(dataset=Own(), processes=1, comm=world, **SMALL, **({} if world.rank else {"nonsense": 1}))
except forebay.ConfigError as error:
    say((str(error), len(children()) - before))
"""
    for text, left in ranks(2, body):
        assert "nonsense" in text and left == 0


def test_ranks_have_processes_of_their_own() -> None:
    pytest.importorskip("mpi4py")
    from test_mpi import ranks

    body = """
from test_workers import Own, children
feeder = forebay.Feeder(dataset=Own(), processes=1, comm=world, **SMALL)
before = len(children())
ids = [int(i) for batch in feeder if batch.is_fresh for i in batch.ids]
feeder.close()
say((ids, before - len(children())))
"""
    both = ranks(2, body)
    assert sorted(number for ids, _ in both for number in ids) == list(range(COUNT))
    assert [ended for _, ended in both] == [1, 1]


FOREIGN = """
import forebay, numpy as np
class Mine(forebay.Dataset):
    def __len__(self): return 8
    def __getitem__(self, index): return np.full((8, 8, 3), index, np.uint8)
if __name__ == "__main__":
    options = dict(batch_size=2, size=(8, 8), crop="none", device="host", telemetry_interval_s=0)
    with forebay.Feeder(dataset=Mine(), processes=2, steps=2, **options) as feeder:
        print(sum(batch.size for batch in feeder))
"""


def test_processes_import_nothing_from_the_current_folder(tmp_path: Path) -> None:
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    for module in ("json", "socket", "pickle", "numpy", "forebay", "mmap", "contextlib", "multiprocessing"):
        (foreign / f"{module}.py").write_text(f"import os; open('ran', 'a').write('{module} '); os._exit(66)\n")
    program = tmp_path / "train.py"
    program.write_text(FOREIGN)
    done = subprocess.run([sys.executable, str(program)], cwd=foreign, capture_output=True, text=True, timeout=120)
    assert not (foreign / "ran").exists(), (foreign / "ran").read_text()
    assert (done.returncode, done.stdout) == (0, "4\n"), done.stderr
