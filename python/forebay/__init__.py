"""Forebay feeds data-parallel trainers so that the accelerator never waits for storage.

::

    feeder = forebay.Feeder(dataset="data/train", batch_size=64, size=(224, 224), epochs=90)
    for epoch in feeder.epochs():
        for batch in epoch:
            images, labels = batch.torch()
"""

from ._batch import BatchCopy, SampleView
from ._core import Batch, Tensor
from ._core import version as __version__
from ._options import Key, config_keys
from .communicator import Communicator
from .dataset import Dataset, Files
from .errors import ConfigError, Error, NotFoundError, SampleError, WatchdogError
from .feeder import SOLO, Epoch, Feeder, Field

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
    "SampleError",
    "SampleView",
    "Tensor",
    "WatchdogError",
    "__version__",
    "config_keys",
]
