"""A source distribution holds all that its wheel is compiled of."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1]


def test_a_source_distribution_can_be_compiled(tmp_path: Path) -> None:
    pytest.importorskip("scikit_build_core")
    text = "import sys; sys.path.insert(0, 'backend'); import forebay_build; forebay_build.build_sdist(sys.argv[1])"
    subprocess.run(
        [sys.executable, "-c", text, str(tmp_path)], cwd=PACKAGE, check=True, capture_output=True, timeout=120
    )
    (file,) = tmp_path.glob("*.tar.gz")
    root = file.name[: -len(".tar.gz")]
    with tarfile.open(file) as archive:
        names = set(archive.getnames())
        archive.extractall(tmp_path)
    for part in (
        "CMakeLists.txt",
        "PKG-INFO",
        "src/feeder/feeder.cpp",
        "python/forebay/torch.py",
        "python/src/module.cpp",
    ):
        assert f"{root}/{part}" in names
    assert not any("python/tests" in name or "__pycache__" in name for name in names)
    text = "import scikit_build_core.build as b, sys; print(b.prepare_metadata_for_build_wheel(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", text, str(tmp_path)], cwd=tmp_path / root, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0 and done.stdout.strip().endswith(f"{root}.dist-info"), done.stderr
