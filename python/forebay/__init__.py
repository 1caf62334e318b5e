"""Forebay feeds data-parallel trainers so that slow storage does not hold up the accelerator.

::

    feeder = forebay.Feeder(dataset="data/train", batch_size=64, size=(224, 224), epochs=90)
    for epoch in feeder.epochs():
        for batch in epoch:
            images, labels = batch.torch()
"""

from importlib import import_module
from typing import Any

from ._batch import BatchCopy, SampleView
from ._core import Batch, Signals, Tensor
from ._core import version as __version__
from ._options import Key, config_keys
from ._reuse import Reuse, reuse
from ._simulation import Recommendation, recommend, simulate
from ._ranks import SOLO
from .communicator import Communicator
from .dataset import Dataset, Files
from .errors import ConfigError, Error, NotFoundError, SampleError, WatchdogError
from .feeder import Epoch, Feeder, Field
from .policy import Policy

__all__ = [
    "SOLO",
    "Batch",
    "BatchCopy",
    "Communicator",
    "ConfigError",
    "Dataset",
    "Epoch",
    "Error",
    "Feeder",
    "Field",
    "Files",
    "Key",
    "NotFoundError",
    "Policy",
    "Recommendation",
    "Reuse",
    "SampleError",
    "SampleView",
    "Signals",
    "Tensor",
    "WatchdogError",
    "__version__",
    "config_keys",
    "recommend",
    "reuse",
    "simulate",
]


def __getattr__(name: str) -> Any:
    """forebay.torch, forebay.lightning and forebay.mpi, which import what they are for, when they are first used."""
    if name in ("torch", "lightning", "mpi"):
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
