"""What the package says of itself, and what its source distribution holds: docstrings, types, files."""

from __future__ import annotations

import ast
import importlib
import inspect
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import forebay
import pytest

MODULES = ["forebay", "forebay.communicator", "forebay.dataset", "forebay.errors", "forebay.policy", "forebay.sockets"]
OPTIONAL = {"forebay.mpi": "mpi4py", "forebay.torch": "torch"}
FOLDER = Path(forebay.__file__).parent


def public_names(module: Any) -> Iterator[tuple[str, Any]]:
    """What the module itself has; of the package, what it brings together."""
    for name, value in vars(module).items():
        is_own = module is forebay or getattr(value, "__module__", "") == module.__name__
        if name.startswith("_") or inspect.ismodule(value) or not is_own:
            continue
        yield f"{module.__name__}.{name}", value


def members(owner: str, kind: type) -> Iterator[tuple[str, Any]]:
    for base in kind.__mro__:
        if base.__module__.split(".")[0] != "forebay":
            continue
        for name, value in vars(base).items():
            is_documented = isinstance(value, property) or inspect.isroutine(value) or isinstance(value, classmethod)
            if not name.startswith("_") and is_documented:
                yield f"{owner}.{name}", getattr(kind, name)


def undocumented(name: str) -> list[str]:
    module = importlib.import_module(name)
    missing = [] if (module.__doc__ or "").strip() else [name]
    for path, value in public_names(module):
        if not inspect.isclass(value) and not callable(value):
            continue
        found = [(path, value), *(members(path, value) if inspect.isclass(value) else ())]
        missing += [path for path, value in found if not (inspect.getdoc(value) or "").strip()]
    return missing


@pytest.mark.parametrize("name", [*MODULES, *OPTIONAL])
def test_everything_public_says_what_it_is(name: str) -> None:
    if name in OPTIONAL:
        pytest.importorskip(OPTIONAL[name])
    assert undocumented(name) == []


def test_types_are_installed_with_the_package() -> None:
    assert (FOLDER / "py.typed").exists()
    stub = ast.parse((FOLDER / "_core.pyi").read_text())
    classes = {node.name: node for node in stub.body if isinstance(node, ast.ClassDef)}
    module = importlib.import_module("forebay._core")
    for name, kind in vars(module).items():
        if not inspect.isclass(kind):
            continue
        declared = {node.name for node in classes[name].body if isinstance(node, ast.FunctionDef)}
        missing = {member for member in vars(kind) if not member.startswith("_")} - declared
        assert not missing, f"{name}: the stub lacks {sorted(missing)}"


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


TYPED = """
import forebay
found = forebay.recommend("run")
forebay.Feeder(dataset="data", **found.options)
forebay.simulate(ratios=(ratio for ratio in (1.0, 2.0)))
"""


def test_type_checkers_accept_what_the_pages_say(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    (tmp_path / "program.py").write_text(TYPED)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), "program.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
