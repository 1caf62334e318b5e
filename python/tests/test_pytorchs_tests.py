"""Tests of others with Forebay's loader: test/test_dataloader.py of PyTorch's sources, and
test/stateful_dataloader/test_state_dict.py of torchdata's with forebay.reuse() around its loader.

Their packages do not contain those files: FOREBAY_PYTORCH_TESTS and FOREBAY_TORCHDATA_TESTS name them, of the versions
that are installed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
# What fails, and why. At most eight of each.
OF_PYTORCH = {
    f"{each}::test_segfault": "PyTorch 2.6's own: marked as an expected failure, and does not fail"
    for each in ("TestDataLoader", "TestDataLoaderPersistentWorkers")
}
OF_TORCHDATA = {
    "TestNumWorkersMismatch_shard3::test_num_workers_mismatch": "before the first loop a state is not an empty one",
    "TestDatasetIteratorStateDuplication_shard3::test": "looks for keys of torchdata's state, here a part",
    "TestTorchDataLazyImport_shard3::test_lazy_imports": "torchdata 0.11 itself: it has no datapipes any more",
}
REUSE = """import torchdata.stateful_dataloader
import forebay
from torchdata.stateful_dataloader import Stateful
def StatefulDataLoader(*args, **options):
    return forebay.reuse(torchdata.stateful_dataloader.StatefulDataLoader(*args, **options), policy="block")
"""


def given(variable: str) -> str:
    if variable not in os.environ:
        pytest.skip(f"{variable} names no file")
    return Path(os.environ[variable]).read_text()


def replaced(pattern: str, by: str, text: str) -> str:
    text, count = re.subn(pattern, by, text, count=1, flags=re.M)
    assert count == 1, pattern
    return text


def failing(text: str, folder: Path) -> set[str]:
    """The tests of this program that fail, by class and name."""
    program = folder / "test_theirs.py"
    program.write_text(text)
    words = [sys.executable, "-m", "pytest", "-q", "-rfE", "-p", "no:cacheprovider", str(program)]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=3600, check=False)
    assert re.search(r"\b\d+ passed", done.stdout), done.stdout[-4000:]
    print(done.stdout[-4000:])
    failed = (line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR")))
    return {line.partition("::")[2].split(" ")[0] for line in failed}


def test_pytorchs_loader(tmp_path: Path) -> None:
    text = replaced(r"(from torch\.utils\.data import \([^)]*?)\bDataLoader,", r"\1", given("FOREBAY_PYTORCH_TESTS"))
    whole = "from torch.utils.data import DataLoader, IterableDataset"  # in programs that it starts
    text = text.replace(whole, "from forebay.torch import DataLoader\nfrom torch.utils.data import IterableDataset")
    ours = r"from forebay.torch import DataLoader\n\1"
    assert failing(replaced(r"^(from torch\.utils\.data\._utils)", ours, text), tmp_path) <= set(OF_PYTORCH)


def test_torchdatas_states(tmp_path: Path) -> None:
    pytest.importorskip("torchdata.stateful_dataloader")
    theirs = "^from torchdata.stateful_dataloader import Stateful, StatefulDataLoader\n"
    assert failing(replaced(theirs, REUSE, given("FOREBAY_TORCHDATA_TESTS")), tmp_path) <= set(OF_TORCHDATA)
