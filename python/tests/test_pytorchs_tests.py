"""PyTorch's own tests of its loader, with Forebay's: test/test_dataloader.py of PyTorch's sources.

PyTorch's packages do not contain that file: FOREBAY_PYTORCH_TESTS names it, of the version that is installed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
FILE = os.environ.get("FOREBAY_PYTORCH_TESTS", "")
# What differs, and why. At most eight.
DIFFERENT: dict[str, str] = {}


@pytest.mark.skipif(not FILE, reason="FOREBAY_PYTORCH_TESTS does not name PyTorch's test_dataloader.py")
def test_its_loader(tmp_path: Path) -> None:
    text = Path(FILE).read_text()
    text, count = re.subn(r"(from torch\.utils\.data import \([^)]*?)\bDataLoader,", r"\1", text, count=1)
    assert count == 1
    whole = "from torch.utils.data import DataLoader, IterableDataset"  # in programs that it starts
    text = text.replace(whole, "from forebay.torch import DataLoader\nfrom torch.utils.data import IterableDataset")
    text, count = re.subn(
        r"^(from torch\.utils\.data\._utils)", r"from forebay.torch import DataLoader\n\1", text, count=1, flags=re.M
    )
    assert count == 1
    program = tmp_path / "test_dataloader.py"
    program.write_text(text)
    words = [sys.executable, "-m", "pytest", "-q", "-rfE", "-p", "no:cacheprovider", str(program)]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=3600, check=False)
    failed = {
        line.split("::")[-1].split(" ")[0] for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))
    }
    assert re.search(r"\b\d+ passed", done.stdout) and failed == set(DIFFERENT), done.stdout[-4000:]
