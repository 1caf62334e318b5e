"""A job from its first line to its last: the loop of the manual under each launcher, one after another."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from pathlib import Path

import forebay
import pytest
from conftest import mpirun, require_ranks, run_command, torchrun

pytest.importorskip("torch")

PROGRAM = """
import json, os, sys
import forebay, torch
comm = None
if "TORCHELASTIC_RUN_ID" in os.environ:
    torch.distributed.init_process_group("gloo")
    comm = "torch"
elif "mpi4py" in sys.modules:
    from mpi4py import MPI
    comm = MPI.COMM_WORLD
data, place, last = sys.argv[1], sys.argv[2], int(sys.argv[3])

feeder = forebay.Feeder(dataset=data, batch_size=10, size=(64, 64), epochs=2, comm=comm, device="host")
if os.path.exists(place + "/checkpoint.pt"):
    feeder.load_state_dict(torch.load(place + "/checkpoint.pt")["data"])
seen = []
for epoch in feeder.epochs():
    for batch in epoch:
        images, labels = batch.torch()
        assert images.shape == (10, 3, 64, 64) and labels.shape == (10,) and bool(images.isfinite().all())
        if batch.is_fresh:
            seen.extend((epoch.number, i) for i in batch.ids.tolist())
        if feeder.steps == last:
            break
    if feeder.steps == last:
        break
state = feeder.state_dict()
if feeder.rank == 0:
    torch.save({"data": state}, place + "/checkpoint.pt")
print(json.dumps(seen), file=open(f"{place}/seen.{last}.{feeder.rank}", "w"))
feeder.close()
if comm == "torch":
    torch.distributed.destroy_process_group()
"""


@pytest.fixture(scope="module")
def photographs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """400 photographs, or as many generated pictures where there are none."""
    data = Path(os.environ.get("FOREBAY_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
    if (data / "photos").is_dir():
        return data / "photos"
    root = tmp_path_factory.mktemp("photographs")
    words = ["--layout", "folder", "--images", "400", "--size", "160x120"]
    run_command(sys.executable, "-m", "forebay", "make-dataset", str(root), *words)
    return root


def test_every_sample_once_per_epoch_under_three_launchers(photographs: Path, tmp_path: Path) -> None:
    require_ranks(torch=True, mpi=True)
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    with forebay.Feeder(dataset=photographs, batch_size=10, size=(64, 64), device="host") as feeder:
        count = feeder.dataset_size
    assert count == 400
    for command, last in (
        ((*mpirun(2), sys.executable, "-m", "mpi4py"), 9),  # of 20 or more
        ((sys.executable,), 30),
        (torchrun(2), 0),
    ):
        run_command(*command, str(program), str(photographs), str(tmp_path), str(last))
    parts = [json.loads(file.read_text()) for file in tmp_path.glob("seen.*")]
    assert len(parts) == 2 + 1 + 2
    served = Counter((epoch, i) for part in parts for epoch, i in part)
    assert set(served) == {(epoch, i) for epoch in range(2) for i in range(count)}
    assert set(served.values()) == {1}
