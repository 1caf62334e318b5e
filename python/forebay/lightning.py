"""A data module for Lightning: ``trainer.fit(model, forebay.lightning.DataModule("data/train", "data/val"))``."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any


from . import _options
from ._native import whole
from ._ranks import SOLO, group_size
from .errors import ConfigError
from .feeder import Feeder
from .torch import DataLoader

if TYPE_CHECKING:
    LightningDataModule: Any = object
elif "pytorch_lightning" in sys.modules and "lightning" not in sys.modules:
    from pytorch_lightning import LightningDataModule
else:
    # Each of the two packages accepts only its own class.
    try:
        from lightning.pytorch import LightningDataModule
    except ImportError:
        from pytorch_lightning import LightningDataModule


class _Training:
    """Training data: each loop is an epoch, or the rest of one."""

    def __init__(self, loader: DataLoader[Any], length: int | None = None) -> None:
        self._loader, self._length = loader, length

    def __len__(self) -> int:
        if self._length is None:
            raise TypeError("the epochs of a policy that reuses have no number of steps that is known before")
        return self._length

    def __iter__(self) -> Iterator[Any]:
        return iter(self._loader)

    def state(self) -> dict[str, Any]:
        return self._loader.state_dict()


class _TrainingAhead(_Training):
    """The same for a Trainer that fetches each batch one step ahead, to find the end of an epoch.

    A checkpoint must not count the batch that was only fetched, so the state is the one before that. If Lightning
    leaves an epoch early, that batch is the first of the next loop.
    """

    def __init__(self, loader: DataLoader[Any]) -> None:
        super().__init__(loader)
        self._ahead: Any = None
        self._state: dict[str, Any] | None = None

    def __iter__(self) -> Iterator[Any]:
        if self._ahead is not None:
            yield self._ahead
        batches = iter(self._loader)
        while True:
            self._state = self._loader.state_dict()
            self._ahead = next(batches, None)
            if self._ahead is None:
                return
            yield self._ahead

    def state(self) -> dict[str, Any]:
        return self._state or super().state()


class _Evaluation:
    """Held-out data, in order and each sample once, with a new feeder for each pass."""

    def __init__(self, dataset: Any, options: Mapping[str, Any]) -> None:
        self._make: Callable[[], DataLoader[Any]] = lambda: DataLoader(dataset, native="require", **options)
        self._loader: DataLoader[Any] | None = self._make()
        self._length, feeder = len(self._loader), self._loader.feeder
        self.classes = feeder.classes
        if feeder.batches_per_epoch < feeder.ranks:
            raise ConfigError(
                f"{feeder.batches_per_epoch} batches of held-out data for {feeder.ranks} ranks: make batch_size smaller"
            )

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Any]:
        loader, self._loader = self._loader or self._make(), None
        last: Any = None
        try:
            for batch in loader:
                if len(batch["label"] if isinstance(batch, dict) else batch[1]) > 0:
                    last = batch
                elif last is None or loader.feeder.ranks == 1:
                    continue
                # All ranks must make the same number of steps. A rank with nothing left repeats its last batch.
                yield last
        finally:
            loader.close()


def _is_path(dataset: Any) -> bool:
    return isinstance(dataset, (str, os.PathLike))


class DataModule(LightningDataModule):
    """Training and held-out data for a Lightning Trainer.

    ``train``, ``val``, ``test`` and ``predict`` each take what forebay.torch.DataLoader takes: torchvision's
    ImageFolder, a path, forebay.Files or a forebay.Dataset. Every option of forebay.Feeder is a keyword. Held-out data
    are served in order, centre-cropped and not mirrored, unless ``evaluation={...}`` says otherwise.

    Ranks are those of the Trainer's strategy; ``comm`` is needed only for others. An epoch serves every sample once
    (``policy="block"``); with ``policy="adaptive"`` no step waits for storage, and an epoch has more of them. The
    Trainer's checkpoints hold the state of the training data, even in the middle of an epoch, for any number of ranks.
    """

    def __init__(
        self,
        train: Any = None,
        val: Any = None,
        test: Any = None,
        predict: Any = None,
        *,
        batch_size: int = 64,
        evaluation: Mapping[str, Any] | None = None,
        comm: Any = None,
        **options: Any,
    ) -> None:
        super().__init__()
        self._datasets = {"train": train, "val": val, "test": test, "predict": predict}
        self._options = {"shuffle": True, "batch_size": batch_size, **options}
        self._evaluation = evaluation or {}
        self._comm = comm
        self._loader: DataLoader[Any] | None = None
        self._classes: list[str] = []  # of the training data
        self._training: _Training | None = None
        self._resumed: Mapping[str, Any] | None = None

    @property
    def feeder(self) -> Feeder | None:
        """The feeder of the training data, with its figures, while there is one."""
        return None if self._loader is None else self._loader.feeder

    def train_dataloader(self) -> Any:
        if self._training is None:
            if self._datasets["train"] is None:
                raise ConfigError("this data module has no train data: DataModule(train=...)")
            # The library's own order, which resumes on any number of ranks.
            options = {"dataset_shuffle": self._options["shuffle"], **self._options_for("train")}
            self._loader = DataLoader(
                self._datasets["train"], comm=self._ranks(), native="require", restart=False, **options
            )
            feeder = self._loader.feeder
            self._classes = feeder.classes
            is_sized = feeder._values()["policy.name"] == '"block"'
            if self._resumed is not None:
                self._loader.load_state_dict(self._resumed["train"])
                # The Trainer counts the steps of an epoch, and this epoch may have begun on another number of ranks.
                is_sized = is_sized and self._resumed["ranks"] == feeder.ranks
            if is_sized:
                self._training = _Training(self._loader, len(self._loader))
            elif self.trainer is None or isinstance(self.trainer.limit_train_batches, int):
                self._training = _Training(self._loader)  # the Trainer knows where an epoch ends
            else:
                self._training = _TrainingAhead(self._loader)
        return self._training

    def val_dataloader(self) -> Any:
        return self._held_out("val")

    def test_dataloader(self) -> Any:
        return self._held_out("test")

    def predict_dataloader(self) -> Any:
        return self._held_out("predict")

    def state_dict(self) -> dict[str, Any]:
        """The position in the training data, for the Trainer's checkpoints. Collective with several ranks."""
        if self._training is None or self._loader is None:
            return dict(self._resumed or {})
        return {"train": self._training.state(), "ranks": self._loader.feeder.ranks}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Takes the state that the Trainer found in a checkpoint; the training data then resume there."""
        if state_dict:
            self._close()
            self._resumed = state_dict

    def teardown(self, stage: str) -> None:
        """The next fit() resumes where this one ended. Collective with several ranks."""
        if stage == "fit":
            self._resumed = self.state_dict() or None
            self._close()

    def _close(self) -> None:
        if self._loader is not None:
            self._loader.close()
        self._loader = self._training = None

    def _held_out(self, name: str) -> Any:
        dataset = self._datasets[name]
        if dataset is None:
            return []  # the Trainer skips what has no batches
        own = {"eval": True, "epochs": 1, "shuffle": False, "dataset_index": ""}
        own.update(telemetry_dir="", telemetry_prometheus="", trace=None, resume=None)  # these belong to the training
        if getattr(whole(dataset)[0], "transform", None) is None:
            own["mirror"] = 0
            crops = [way for name, way in _options.flat(self._options).items() if name in ("crop", "transform_crop")]
            if crops != ["random"]:  # an evaluation crops the centre instead
                own["crop"] = "center"
        if self._datasets["train"] is not None and self.trainer is not None and self.trainer.state.fn == "fit":
            self.train_dataloader()  # it says the classes
        classes = self._classes if name != "predict" else []
        if _is_path(dataset) and classes:
            own["dataset_classes"] = classes  # the same numbers for the same names
        options = _options.overridden(_options.overridden(self._options_for(name), own), self._evaluation)
        held_out = _Evaluation(dataset, {**options, "comm": self._ranks()})
        if any(mine != theirs for mine, theirs in zip(held_out.classes, classes)):
            raise ConfigError(
                f"{name} has the classes {held_out.classes}, and the training data {classes}: equal names would have "
                "different numbers. Give both the same classes="
            )
        return held_out

    def _options_for(self, name: str) -> dict[str, Any]:
        """The options for one of the datasets. If others are at a path, what says how to read those is not for it."""
        options = _options.flat(self._options)
        if not _is_path(self._datasets[name]) and any(map(_is_path, self._datasets.values())):
            for key in _options.of_paths(options):
                del options[key]
        return options

    def _ranks(self) -> Any:
        if self._comm is not None:
            return self._comm
        return "torch" if group_size() > 1 else SOLO
