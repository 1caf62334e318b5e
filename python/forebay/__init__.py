"""Forebay feeds data-parallel trainers so that slow storage does not hold up the accelerator.

::

    feeder = forebay.Feeder(dataset="data/train", batch_size=64, size=(224, 224), epochs=90)
    for epoch in feeder.epochs():
        for batch in epoch:
            images, labels = batch.torch()
"""

from importlib import import_module
from typing import Any

from ._batch import BatchCopy as BatchCopy, SampleView as SampleView
from ._core import Batch as Batch, Signals as Signals, Tensor as Tensor, version as __version__  # noqa: F401
from ._options import Key as Key, config_keys as config_keys
from ._ranks import SOLO as SOLO
from ._reuse import Reuse as Reuse, reuse as reuse
from ._simulation import Recommendation as Recommendation, recommend as recommend, simulate as simulate
from .communicator import Communicator as Communicator
from .dataset import Dataset as Dataset, Files as Files
from .errors import ConfigError as ConfigError, Error as Error, NotFoundError as NotFoundError
from .errors import SampleError as SampleError, WatchdogError as WatchdogError
from .feeder import Epoch as Epoch, Feeder as Feeder, Field as Field
from .policy import Policy as Policy


def __getattr__(name: str) -> Any:
    """Imports forebay.torch, forebay.lightning and forebay.mpi when first used, because they import the packages they
    serve."""
    if name in ("torch", "lightning", "mpi"):
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
