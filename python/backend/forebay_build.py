"""scikit-build-core, and a source distribution that holds the whole library: this folder alone cannot be compiled."""

from __future__ import annotations

import io
import os
import re
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from scikit_build_core import build as _core
from scikit_build_core.build import *  # noqa: F403

_PARTS = (
    *("CMakeLists.txt", "LICENSE", "README.md", "cmake", "include", "mpi", "policies", "src", "tools", "c", "python"),
)
_LEFT_OUT = re.compile(r"__pycache__|/python/(tests|backend|pyproject\.toml)|\.(so|pyc)$")
# From paths of python/pyproject.toml to those of a file beside CMakeLists.txt.
_MOVED = {
    'build-backend = "forebay_build"': 'build-backend = "scikit_build_core.build"',
    'backend-path = ["backend"]\n': "",
    'readme = "README.md"': 'readme = "python/README.md"',
    'cmake.source-dir = ".."': 'cmake.source-dir = "."',
    'wheel.packages = ["forebay"]': 'wheel.packages = ["python/forebay"]',
    'input = "../CMakeLists.txt"': 'input = "CMakeLists.txt"',
}


def build_wheel(wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    # pip shows this with -v, and in any case when the build fails.
    print("Forebay: compiling the library, which takes a few minutes", file=sys.stderr, flush=True)
    return _core.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_sdist(sdist_directory: str, config_settings: Any = None) -> str:
    settings = Path("pyproject.toml").read_text()
    for here, there in _MOVED.items():
        if here not in settings:
            raise RuntimeError(f"python/pyproject.toml has no line {here!r}, which a source distribution changes")
        settings = settings.replace(here, there)
    with tempfile.TemporaryDirectory() as folder:
        metadata = _core.prepare_metadata_for_build_wheel(folder, config_settings)
        about = (Path(folder) / metadata / "METADATA").read_text()
    name = "forebay-" + re.findall(r"^Version: (.+)$", about, re.M)[0]
    with tarfile.open(os.path.join(sdist_directory, f"{name}.tar.gz"), "w:gz", format=tarfile.PAX_FORMAT) as archive:
        for part in _PARTS:
            archive.add(Path("..") / part, f"{name}/{part}", filter=_kept)
        for file, text in (("pyproject.toml", settings), ("PKG-INFO", about)):
            member = tarfile.TarInfo(f"{name}/{file}")
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    return f"{name}.tar.gz"


def _kept(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if _LEFT_OUT.search(member.name) else member
