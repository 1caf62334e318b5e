"""Lightning: its trainer with the data module, resumed from its checkpoints."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import forebay
import pytest
from conftest import COUNT, pairs, require_ranks, run_command

torch = pytest.importorskip("torch")
try:
    import lightning.pytorch as lightning
except ImportError:
    lightning = pytest.importorskip("pytorch_lightning")

# PyTorch 1.13 cannot import its sharded tensors under Python 3.11. Lightning imports them for every model.
SHARDS = "torch.distributed._shard.sharded_tensor"
try:
    importlib.import_module(SHARDS)
except ValueError:
    hooks = dict.fromkeys(("pre_load_state_dict_hook", "state_dict_hook"), lambda *_: None)
    sys.modules[SHARDS] = cast(Any, SimpleNamespace(**hooks))

PLAIN: dict[str, Any] = {
    "size": (8, 8),
    "crop": "none",
    "mirror": 0,
    "dtype": "uint8",
    "device": "host",
    "batch_size": 4,
    "workers_io": 1,
    "workers_decode": 1,
    "capacity": 4,
    "evaluation": {"crop": "none"},
}


class Model(lightning.LightningModule):  # type: ignore[misc,name-defined]
    """Remembers which pictures it saw: number n has the grey 5 n."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1, 2)
        self.seen: list[list[int]] = []
        self.validated: list[int] = []

    def on_train_epoch_start(self) -> None:
        self.seen.append([])

    def numbers(self, images: Any) -> list[int]:
        return [int(value) // 5 for value in images[:, 0, 0, 0]]

    def training_step(self, batch: Any, step: int) -> Any:
        images, labels = batch
        if not self.seen:  # Lightning from 2.5 on does not say that an epoch begins in which it resumes
            self.seen.append([])
        self.seen[-1].extend(self.numbers(images))
        return torch.nn.functional.cross_entropy(self.layer(images[:, 0, 0, :1].float() / 255), labels)

    def validation_step(self, batch: Any, step: int) -> None:
        self.validated.extend(self.numbers(batch[0]))

    test_step = validation_step

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.01)


def trainer(tmp_path: Path, **options: Any) -> Any:
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False}
    return lightning.Trainer(
        accelerator="cpu", devices=1, logger=False, default_root_dir=tmp_path, **{**quiet, **options}
    )


@pytest.fixture
def module(folder: Path) -> Any:
    made = []

    def one(**options: Any) -> Any:
        data = {"train": folder, "val": folder, "test": folder}
        made.append(forebay.lightning.DataModule(**{**data, **PLAIN, **options}))
        return made[-1]

    yield one
    for each in made:
        each.teardown("fit")


EVERYTHING = list(range(COUNT))
INTERVAL = {"name": "interval", "interval": 2}


@pytest.mark.parametrize("policy", ["block", INTERVAL])
def test_epochs_and_evaluations(module: Any, tmp_path: Path, policy: Any) -> None:
    model, data = Model(), module(policy=policy)
    trained = trainer(tmp_path, max_epochs=3)
    trained.fit(model, data)
    assert len(model.seen) == 3
    for epoch in model.seen:
        assert sorted(set(epoch)) == EVERYTHING and (len(epoch) == COUNT) == (policy == "block")
    assert model.validated == list(range(8)) + 3 * EVERYTHING  # 8 in the trainer's sanity check
    model.validated.clear()
    trained.test(model, data)
    assert model.validated == EVERYTHING


def test_what_watches_the_training_is_not_for_the_evaluations(module: Any, tmp_path: Path) -> None:
    figures = tmp_path / "forebay.prom"
    data = module(prometheus=str(figures), resume=tmp_path / "some.state", transform={"exif": True})
    trained = trainer(tmp_path, max_epochs=2)
    trained.fit(Model(), data)
    assert f'forebay_steps_total{{rank="0"}} {2 * len(data.train_dataloader())}' in figures.read_text()


class Save(lightning.Callback):  # type: ignore[misc,name-defined]
    """Saves a checkpoint after a step, in the middle of whatever is going on."""

    def __init__(self, step: int, file: Any) -> None:
        self.step, self.file = step, file

    def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
        if trainer.global_step == self.step:
            trainer.save_checkpoint(self.file)


@pytest.mark.parametrize(("policy", "steps"), [("block", 3), ("block", 10), (INTERVAL, 4), (INTERVAL, 24)])
def test_a_checkpoint_resumes_where_it_was_taken(module: Any, tmp_path: Path, policy: Any, steps: int) -> None:
    first, file = Model(), tmp_path / "some.ckpt"
    # Some steps more than are saved, as before a crash.
    stopped = trainer(tmp_path, max_steps=steps + 2, limit_val_batches=0, callbacks=[Save(steps, file)])
    stopped.fit(first, module(policy=policy))
    whole = sum(first.seen, [])[: 4 * steps]
    second = Model()
    trainer(tmp_path, max_epochs=3).fit(second, module(policy=policy), ckpt_path=file)
    whole += sum(second.seen, [])
    if policy == "block":
        assert [sorted(whole[at : at + COUNT]) for at in range(0, len(whole), COUNT)] == 3 * [EVERYTHING]
    else:
        epoch = len(first.seen) - 1
        begun = sum(first.seen[:-1], [])
        assert sorted(set(whole[len(begun) : len(begun) + len(second.seen[0]) + 4 * steps - len(begun)])) == EVERYTHING
        assert len(second.seen) == 3 - epoch and all(sorted(set(each)) == EVERYTHING for each in second.seen[1:])
    assert second.validated[-COUNT:] == EVERYTHING


@pytest.mark.parametrize("policy", ["block", INTERVAL])
def test_epochs_that_are_cut_short_lose_nothing(module: Any, tmp_path: Path, policy: Any) -> None:
    model = Model()
    count = 2 if policy == "block" else 4
    trainer(tmp_path, max_epochs=5, limit_train_batches=count, limit_val_batches=0).fit(model, module(policy=policy))
    whole = sum(model.seen, [])
    assert sorted(set(whole)) == EVERYTHING  # five of these make an epoch of the data
    assert policy != "block" or len(whole) == COUNT


def test_held_out_data_of_a_padded_crop_are_the_middle(module: Any) -> None:
    padded = module(crop="random", padding=[3], fill=[255], evaluation={})
    seen = [images for images, _ in padded.val_dataloader()]
    assert sorted(int(value) // 5 for images in seen for value in images[:, 0, 0, 0]) == EVERYTHING
    assert all((images == images[:, :, :1, :1]).all() for images in seen)


@pytest.mark.parametrize("stage", ["fit", "test"])
def test_held_out_data_number_the_classes_as_the_training_does(
    module: Any, folder: Path, tmp_path: Path, stage: str
) -> None:
    paths = sorted(folder.glob("*/*.png"))
    kinds = [path.parent.name for path in paths]
    dogs = [path for path, kind in zip(paths, kinds) if kind == "dog"]

    class Labels(Model):
        def validation_step(self, batch: Any, step: int) -> None:
            assert set(batch[1].tolist()) == {1}

        test_step = validation_step

    def run(train: Any, held_out: Any, **options: Any) -> None:
        data = module(train=train, val=held_out, test=held_out, **options)
        trained = trainer(tmp_path, max_epochs=1, limit_val_batches=1.0 if stage == "fit" else 0)
        trained.fit(Labels(), data)
        if stage == "test":
            trained.test(Labels(), data)

    (tmp_path / "held out" / "dog").mkdir(parents=True)
    for path in dogs:
        (tmp_path / "held out" / "dog" / path.name).write_bytes(path.read_bytes())
    alike = forebay.Files(dogs, ["dog"] * len(dogs), classes=["cat", "dog"])
    run(forebay.Files(paths, kinds), alike)
    run(forebay.Files(paths, kinds), tmp_path / "held out")
    run(folder, alike, dataset={"format": "folder", "classes": ["cat", "dog"]})
    with pytest.raises(forebay.ConfigError, match=r"has the classes \['dog'\], and the training data \['cat', 'dog'\]"):
        run(folder, forebay.Files(dogs, ["dog"] * len(dogs)))
    with pytest.raises(forebay.ConfigError, match="classes=.* is for a dataset at a path"):
        run(forebay.Files(paths, kinds), alike, classes=["cat", "dog"])


PROGRAM = """
import json, sys, forebay
from test_lightning import PLAIN, Model, Save, lightning
folder, place = sys.argv[1:]
model = Model()
trainer = lightning.Trainer(accelerator="cpu", devices=2, strategy="ddp", max_steps=3, logger=False,
                            default_root_dir=place, enable_progress_bar=False, enable_model_summary=False,
                            enable_checkpointing=False, callbacks=[Save(3, place + "/some.ckpt")])
trainer.fit(model, forebay.lightning.DataModule(folder, folder, **PLAIN))
with open(f"{place}/seen.{trainer.global_rank}", "w") as file:
    json.dump([sum(model.seen, []), model.validated], file)
"""


def test_the_ranks_of_ddp_and_a_checkpoint_of_theirs(folder: Path, tmp_path: Path, module: Any) -> None:
    require_ranks(torch=True)
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    run_command(sys.executable, str(program), str(folder), str(tmp_path))
    seen, validated = pairs(*(json.loads(file.read_text()) for file in sorted(tmp_path.glob("seen.*"))))
    assert [len(part) for part in seen] == [12, 12] and sorted(validated[0] + validated[1]) == list(range(16))
    model = Model()
    trainer(tmp_path, max_epochs=2).fit(model, module(), ckpt_path=tmp_path / "some.ckpt")
    assert sorted(seen[0] + seen[1] + model.seen[0]) == EVERYTHING and sorted(model.seen[1]) == EVERYTHING
    assert model.validated[-2 * COUNT :] == 2 * EVERYTHING
