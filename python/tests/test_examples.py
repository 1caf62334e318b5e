"""The programs of examples/python, started as they say, and the blocks of its pages."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import forebay
import pytest
from conftest import free_port, mpirun, require_ranks, run_command, run_program, torchrun

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "python"
if not EXAMPLES.is_dir():
    pytest.skip("the examples are not beside the package", allow_module_level=True)

MPI = (sys.executable, "-m", "mpi4py")


@pytest.fixture(scope="session")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """320 pictures of four kinds of shapes, in folders; a quarter of them is held out."""
    root = tmp_path_factory.mktemp("shapes")
    options = ["--layout=folder", "--images=320", "--classes=4", "--size=48x48", "--split=0.25", "--seed=5"]
    run_command(sys.executable, "-m", "forebay", "make-dataset", str(root), *options)
    return root


def accuracies(text: str) -> list[float]:
    return [float(share) for share in re.findall(r"held-out accuracy ([0-9.]+)", text)]


def test_pytorch_trains_under_every_launcher_and_resumes_on_other_ranks(shapes: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    file = tmp_path / "checkpoint.pt"
    program = str(EXAMPLES / "train_cnn.py")
    options = (str(shapes / "train"), str(shapes / "val"), "--checkpoint", str(file), "--epochs=16", "--policy=block")
    end = r"\d+ steps in [0-9.]+ s, [0-9.]+% of them on new data\n$"

    require_ranks(mpi=True)
    text = run_command(*mpirun(2), *MPI, program, *options, "--batch-size=16", "--stop-after=5")
    assert text.startswith("stopped after step 5\n") and re.search(end, text), text

    require_ranks(torch=True)
    text = run_command(*torchrun(2), program, *options, "--batch-size=16", "--stop-after=10")
    assert text.startswith("resumes after step 5\nepoch 1: loss") and "\nstopped after step 10\n" in text, text
    assert re.search(end, text), text

    text = run_command(sys.executable, program, *options, "--batch-size=16")
    assert text.startswith("resumes after step 10\n") and re.search(end, text), text
    assert "epoch 2: " in text and "epoch 16: " in text and "epoch 1: " not in text, text
    shares = accuracies(text)
    assert shares[-1] > 0.5, text  # 0.25 is chance


def test_pytorch_trains_in_a_single_process_behind_slow_storage(shapes: Path) -> None:
    pytest.importorskip("torch")
    program = str(EXAMPLES / "train_cnn.py")
    text = run_command(sys.executable, program, str(shapes / "train"), str(shapes / "val"), "--epochs=2")
    assert len(accuracies(text)) == 2 and "epoch 2: loss" in text, text


def test_mpi4py_alone_serves_everything_once_over_several_runs(shapes: Path, tmp_path: Path) -> None:
    require_ranks(mpi=True)
    file = tmp_path / "loop.npz"
    program = (*MPI, str(EXAMPLES / "mpi_loop.py"), str(shapes / "train"), "--state", str(file), "--epochs=3")
    once = "240 of 240 samples exactly once"
    # In the middle of an epoch, and after the last of its batches.
    # mpirun may join the lines of two ranks.
    text = run_command(*mpirun(2), *program, "--stop-after=3")
    assert "samples exactly once" not in text and len(re.findall(r"rank \d: 3 steps", text)) == 2, text
    text = run_command(*mpirun(3), *program, "--policy=block", "--stop-after=6")
    assert text.startswith("resumes after step 3 on 3 ranks"), text
    text += run_command(*mpirun(1), *program)
    assert text.count("exactly once") == text.count(once) == 3, text
    assert [int(number) for number in re.findall(r"epoch (\d):", text)] == [0, 1, 2], text


def test_jax_trains(shapes: Path) -> None:
    pytest.importorskip("jax")
    program, small = str(EXAMPLES / "jax_loop.py"), ("--policy=block", "--batch-size=16")
    text = run_command(sys.executable, program, str(shapes / "train"), str(shapes / "val"), "--epochs=6", *small)
    shares = accuracies(text)
    assert len(shares) == 6 and shares[-1] > 0.4, text  # 0.25 is chance
    assert re.search(r"\n\d+ steps in [0-9.]+ s, 100.0% of them on new data\n$", text), text


def test_a_net_learns_from_clips_how_things_move(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    made = ("--task=video", "--images=160", "--classes=4", "--size=64x48", "--split=0.25")
    run_command(sys.executable, "-m", "forebay", "make-dataset", str(tmp_path), *made)
    program = (str(EXAMPLES / "train_clips.py"), str(tmp_path / "train"), str(tmp_path / "val"))
    shares = accuracies(run_command(sys.executable, *program, "--epochs=12"))
    assert len(shares) == 12 and max(shares[-3:]) > 0.5, shares  # 0.25 is chance, and all that a frame tells


def test_the_notebook_is_kept_without_outputs() -> None:
    book = json.loads((EXAMPLES / "notebook.ipynb").read_text())
    for cell in book["cells"]:
        assert cell["cell_type"] == "markdown" or (cell["outputs"] == [] and cell["execution_count"] is None)


def test_the_notebook_runs(tmp_path: Path) -> None:
    for module in ("nbconvert", "ipykernel", "PIL"):
        pytest.importorskip(module)
    words = ("--to", "notebook", "--execute", "--output-dir", str(tmp_path), str(EXAMPLES / "notebook.ipynb"))
    run_command(sys.executable, "-m", "nbconvert", *words)
    cells = [cell for cell in json.loads((tmp_path / "notebook.ipynb").read_text())["cells"] if cell.get("outputs")]
    outputs = [output for cell in cells for output in cell["outputs"]]
    pages = ["".join(output["data"].get("text/html", "")) for output in outputs if "data" in output]
    text = "".join("".join(output.get("text", "")) for output in outputs)
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert any("epoch 1" in page and "queue" in page for page in pages), "the view of the loop"
    assert any("Options other than the defaults" in page for page in pages), "the feeder"
    assert re.search(r"^(storage-bound|decode-bound|trainer-bound|balanced)", text, re.M), text
    for said in ("192 samples of", "of them fresh", "adaptive"):
        assert said in text, text


# What the front pages take as given.
OF_README = """
import atexit, json, os, sys
import torch
def train_step(images, labels):
    assert images.shape == (64, 3, 224, 224) and images.dtype == torch.float32 and labels.shape == (64,)
    if batch.is_fresh:
        seen.extend((epoch.number, i) for i in batch.ids.tolist())
seen = []
atexit.register(lambda: open(f"seen.{sys.argv[1]}.{os.getpid()}", "w").write(json.dumps(seen)))
if "TORCHELASTIC_RUN_ID" in os.environ:
    torch.distributed.init_process_group("gloo")
    atexit.register(torch.distributed.destroy_process_group)
elif "mpi4py" in sys.modules:
    from mpi4py import MPI
"""


def test_the_front_pages_program_as_it_stands(shapes: Path, tmp_path: Path, monkeypatch: Any) -> None:
    """One epoch under each launcher, each resuming from the last."""
    require_ranks(torch=True, mpi=True)
    pages = [EXAMPLES.parents[1] / page for page in ("README.md", "python/README.md")]
    (block,), (same,) = (python_blocks(page) for page in pages)
    assert [re.sub(" *#.*", "", text) for text in (block, same)] == 2 * [re.sub(" *#.*", "", block)]
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "train").symlink_to(shapes / "train")
    monkeypatch.chdir(tmp_path)
    program = tmp_path / "program.py"
    for run, (launcher, comm) in enumerate(
        (((sys.executable,), ""), ((*mpirun(2), *MPI), ", comm=MPI.COMM_WORLD"), (torchrun(2), ', comm="torch"'))
    ):
        made = block.replace('epochs=90, resume="feed.state"', f'epochs={run + 1}, resume="feed.state"{comm}')
        assert made.count(f"epochs={run + 1}, ") == 1
        program.write_text(OF_README + made)
        run_command(*launcher, str(program), str(run))
        parts = [json.loads(file.read_text()) for file in tmp_path.glob(f"seen.{run}.*")]
        assert len(parts) == (1 if run == 0 else 2)
        served = [tuple(each) for part in parts for each in part]
        assert len(served) == len(set(served)) == 240 // 64 * 64 and {epoch for epoch, _ in served} == {run}


# What the page takes as given, for a small dataset.
GIVEN = """
import os, sys
import torch
from torchvision import datasets, transforms
import forebay
mean, std = (0.5, 0.4, 0.3), (0.2, 0.3, 0.4)
seen = []
def train_step(images, labels):
    assert images.shape[1:] == (3, 224, 224) and images.dtype == torch.float32 and len(labels) == len(images)
    seen.append(len(images))
"""


def python_blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.M | re.S)


def test_the_loop_of_the_recipes(tmp_path: Path, monkeypatch: Any) -> None:
    made = ("make-dataset", str(tmp_path), "--task=detection", "--images=40", "--size=64x64")
    run_command(sys.executable, "-m", "forebay", *made)
    monkeypatch.chdir(tmp_path)
    found: dict[str, Any] = {"forebay": forebay}
    exec(python_blocks(EXAMPLES.parents[1] / "docs" / "recipes.md")[0], found)
    assert found["images"].shape == (16, 3, 64, 64) and found["counts"].shape == (16,)
    assert found["boxes"].shape[::2] == (16, 4) and found["classes"].shape == found["boxes"].shape[:2]


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process group of one process."""
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MASTER_PORT", str(free_port()))


def test_the_page_for_users_of_dataloader(alone: None, shapes: Path, tmp_path: Path, monkeypatch: Any) -> None:
    require_ranks(torch=True)
    pytest.importorskip("torchvision")
    before, changed, after = python_blocks(EXAMPLES / "from_dataloader.md")
    (old,) = re.findall(r"^from torch.utils.data import DataLoader$", before, re.M)
    assert changed.count("\n") == 1 and "range(90)" in before and "epochs=90" in after
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "train").symlink_to(shapes / "train")
    monkeypatch.chdir(tmp_path)
    program = "\n".join(
        [
            GIVEN,
            before.replace(old, changed).replace("range(90)", "range(2)"),
            "assert type(loader).__module__ == 'forebay.torch' and seen == 2 * (3 * [64] + [48]), seen",
            "loader.close()",
            "seen.clear()",
            after.replace("epochs=90", "epochs=1"),
            "assert len(seen) >= 3, seen",
            "print('ran')",
        ]
    )
    assert run_program(program).endswith("ran\n")
