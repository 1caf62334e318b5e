"""What the package says of itself: docstrings, types, files."""

from __future__ import annotations

import ast
import importlib
import inspect
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
