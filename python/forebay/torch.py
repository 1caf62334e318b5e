"""For programs of PyTorch: its DataLoader's arguments, and the ranks of torch.distributed without MPI."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from . import _links, _options, _transforms
from .dataset import Dataset, Files
from .errors import ConfigError
from .feeder import SOLO, Epoch, Feeder
from .sockets import SocketCommunicator

_ENDLESS = 1 << 40  # epochs; a loader has no last one


class ProcessGroupCommunicator(SocketCommunicator):
    """The ranks of a process group of torch.distributed, whatever its backend. Collective.

    The group is used once, to tell each other where they are; Forebay's traffic has connections of its own (TCP), so
    neither meets the other's, and a step of the feeder never waits for a collective of the trainer. ``group``: None is
    the group of all processes.
    """

    def __init__(self, group: Any = None) -> None:
        distributed = torch.distributed
        if not distributed.is_available() or not distributed.is_initialized():
            raise ConfigError(
                'comm="torch" takes the ranks of torch.distributed: call torch.distributed.init_process_group("gloo") '
                "(or nccl) before the feeder is made"
            )
        rank, size = distributed.get_rank(group), distributed.get_world_size(group)
        if rank < 0:
            raise ConfigError("this process is not in the process group that comm is")

        def exchange(data: bytes) -> list[bytes]:
            everything: list[Any] = [None] * size
            distributed.all_gather_object(everything, data, group=group)
            return everything

        nodes = [text.decode() for text in exchange(_links.node().encode())]
        hosts = [text.decode() for text in exchange(_links.host(nodes).encode())]
        super().__init__(rank, hosts, nodes, exchange)


def _described(value: Any) -> str:
    return type(value).__name__ if not isinstance(value, (int, float, str, bool)) else repr(value)


def _warn_of_ignored(given: Mapping[str, tuple[Any, Any]]) -> None:
    """One warning for all arguments that change nothing here."""
    ignored = [f"{name}={_described(value)}" for name, (value, default) in given.items() if value != default]
    if ignored:
        warnings.warn(
            f"{', '.join(ignored)}: no meaning in forebay.torch.DataLoader, which reads and decodes in threads of its "
            "own and sizes them itself; workers_decode=, workers_io= and capacity= are the keys for it",
            stacklevel=3,
        )


def _refuse_own(given: Any, methods: tuple[str, ...], advice: str) -> None:
    """What a class of the program overrides would not be called: its samples or their order would be others."""
    for method in methods:
        owner = next((each for each in type(given).__mro__ if method in vars(each)), object)
        if owner.__module__.partition(".")[0] not in ("torch", "torchvision", "builtins", "typing"):
            raise ConfigError(
                f"{type(given).__name__} has a {method}() of its own, which Forebay does not call: {advice}"
            )


_SAMPLES = ("__getitem__", "__getitems__")
_ADVICE = (
    "give forebay.Files(paths, labels) with the labels that it makes, or a subclass of forebay.Dataset that returns "
    "the bytes of files"
)


def _listed(dataset: Any) -> tuple[Any, Any]:
    """What the feeder takes, and the transform. ImageFolder and its like, and subsets of them, list their files."""
    if isinstance(dataset, (Dataset, Files)):
        return dataset, None
    chosen = None
    while hasattr(dataset, "indices") and hasattr(dataset, "dataset"):  # torch.utils.data.Subset
        _refuse_own(dataset, _SAMPLES, _ADVICE)
        picked = [int(i) for i in dataset.indices]
        chosen = picked if chosen is None else [picked[i] for i in chosen]
        dataset = dataset.dataset
    if not hasattr(dataset, "samples") and not hasattr(dataset, "imgs"):
        if chosen is not None:
            raise ConfigError(
                f"the subset of a {type(dataset).__name__} does not list files: give forebay.Files(paths, labels) of "
                "the ones that are wanted"
            )
        if getattr(dataset, "transform", None) is not None:
            raise ConfigError(
                f"{type(dataset).__name__} does not list its files (`samples`), as ImageFolder does: give "
                "forebay.Files(paths, labels), or make it a subclass of forebay.Dataset that returns bytes of files"
            )
        return dataset, None
    _refuse_own(dataset, _SAMPLES, _ADVICE)
    loader = getattr(dataset, "loader", None)
    if loader is not None and not getattr(loader, "__module__", "").startswith("torchvision."):
        raise ConfigError(
            f"{type(dataset).__name__} reads files by a function of its own ({getattr(loader, '__name__', loader)!r}); "
            "Forebay reads image files itself: leave out loader=, or make a subclass of forebay.Dataset"
        )
    samples = getattr(dataset, "samples", None) or dataset.imgs
    if hasattr(dataset, "__len__") and len(dataset) != len(samples):
        raise ConfigError(
            f"{type(dataset).__name__} lists {len(samples)} files and has a length of {len(dataset)}: {_ADVICE}"
        )
    if chosen is not None:
        samples = [samples[i] for i in chosen]
    labels = [label for _, label in samples]
    rename = getattr(dataset, "target_transform", None)
    classes = None if rename is not None else dataset.classes
    if rename is not None:
        labels = [rename(label) for label in labels]
    return Files([path for path, _ in samples], labels, classes=classes), getattr(dataset, "transform", None)


def _order(sampler: Any, shuffle: bool | None, drop_last: bool, comm: Any) -> tuple[dict[str, Any], Any]:
    """The options of a sampler's order, and the ranks it divides the samples among."""
    if sampler is None:
        return {"dataset_shuffle": bool(shuffle), "drop_last": drop_last}, SOLO if comm is None else comm
    if shuffle:
        raise ValueError("sampler option is mutually exclusive with shuffle")
    data = torch.utils.data
    _refuse_own(sampler, ("__iter__", "__len__"), "sort the samples of a Subset instead, or leave the sampler out")
    if isinstance(sampler, data.SequentialSampler):
        return {"dataset_shuffle": False, "drop_last": drop_last}, SOLO if comm is None else comm
    if isinstance(sampler, data.RandomSampler) and not sampler.replacement:
        if sampler.num_samples == len(sampler.data_source):
            return {"dataset_shuffle": True, "drop_last": drop_last}, SOLO if comm is None else comm
    elif isinstance(sampler, data.distributed.DistributedSampler):
        if comm is None and sampler.num_replicas > 1:
            comm = "torch"
            world = torch.distributed
            if world.is_initialized() and (world.get_world_size(), world.get_rank()) != (
                sampler.num_replicas,
                sampler.rank,
            ):
                raise ConfigError(
                    "the DistributedSampler's ranks are not those of torch.distributed: give the group as comm="
                )
        order = {"dataset_shuffle": sampler.shuffle, "seed": sampler.seed, "drop_last": drop_last or sampler.drop_last}
        return order, SOLO if comm is None else comm
    raise ConfigError(
        f"sampler: {type(sampler).__name__} has no counterpart here: leave it out and say shuffle=True or False, "
        'dataset_weights="balanced" or a file of weights, dataset_fraction=, or give a Subset as the dataset'
    )


class DataLoader:
    """PyTorch's DataLoader for image files, by Forebay: each loop over it is one epoch of (images, labels).

    ``dataset`` is an ImageFolder of torchvision or another dataset that lists its files (`samples`), a Subset of one,
    a path, forebay.Files or a forebay.Dataset. Its chain of transforms becomes options; one that has no counterpart
    is refused with the remedy. Every option of forebay.Feeder is a keyword too, and overrules the chain.

    As PyTorch's it serves every sample once in an epoch and waits for storage (``policy="block"``). Say
    ``policy="adaptive"`` for steps that never wait; an epoch then has more of them. A DistributedSampler divides the
    samples over the ranks of torch.distributed; set_epoch() is not needed. The photographs of an ImageFolder and its
    like are not turned by their EXIF orientation, as torchvision's loader does not: ``exif=True`` turns them.

    Images are tensors on the host, without a copy where a batch is served once only: with one rank and
    ``policy="block"``, and in evaluation. Then clone() those that you keep for longer than the next batch, or say
    ``copy=True`` for a copy of each. ``copy=False`` never copies: do not write to images that a reuse may serve. An
    epoch that was left by ``break`` continues in the next loop. One thread makes and uses a loader.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int = 1,
        shuffle: bool | None = None,
        sampler: Any = None,
        batch_sampler: Any = None,
        num_workers: int = 0,
        collate_fn: Any = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Any = None,
        multiprocessing_context: Any = None,
        generator: Any = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
        comm: Any = None,
        copy: bool | None = None,
        **options: Any,
    ) -> None:
        for name, value in (("batch_sampler", batch_sampler), ("collate_fn", collate_fn)):
            if value is not None:
                raise ConfigError(
                    f"{name} has no counterpart here: batches are (images, labels) of batch_size samples. Leave it "
                    "out; what it does to a batch goes into the training loop"
                )
        _warn_of_ignored(
            {
                "num_workers": (num_workers, 0),
                "pin_memory": (pin_memory, False),
                "worker_init_fn": (worker_init_fn, None),
                "multiprocessing_context": (multiprocessing_context, None),
                "prefetch_factor": (prefetch_factor, None),
                "persistent_workers": (persistent_workers, False),
                "pin_memory_device": (pin_memory_device, ""),
                "in_order": (in_order, True),
            }
        )
        order, ranks = _order(sampler, shuffle, drop_last, comm)
        files, transform = _listed(dataset)
        given: dict[str, Any] = {"device": "host", "policy": "block", "epochs": _ENDLESS, **order}
        if files is not dataset and not isinstance(dataset, (Dataset, Files)):
            given["exif"] = False  # torchvision's loaders show photographs as they are stored
        if generator is not None:
            given["seed"] = generator.initial_seed()
        if timeout > 0:
            given["watchdog_s"] = timeout
        if transform is not None:
            given = _options.overridden(given, _transforms.options_of(transform))
        given = _options.overridden(given, options)
        self.dataset = dataset
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = bool(order["drop_last"])
        self.num_workers = 0
        self._copy = copy
        self._make: Callable[[], Feeder] = lambda: Feeder(dataset=files, comm=ranks, batch_size=batch_size, **given)
        self.feeder = self._make()
        self._is_eval = re.search(r"^eval = true", self.feeder.to_toml(), re.M) is not None
        self._length = -(-self.feeder.batches_per_epoch // self.feeder.ranks)

    def __len__(self) -> int:
        """Fresh batches of this rank in an epoch: the steps of an epoch unless the policy reuses."""
        return self._length

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        if self._is_eval and self.feeder.epochs_completed > 0:  # an evaluation is one epoch
            self.feeder.close()
            self.feeder = self._make()
        is_empty = True
        # What a loop that was left after the last batch leaves of its epoch is nothing: the next one then begins.
        while is_empty and self.feeder.next_epoch():
            for batch in Epoch(self.feeder):
                is_empty = False
                images, labels = batch.torch(copy=self._copy)
                yield images, labels

    def state_dict(self) -> dict[str, Any]:
        """Where the run is, to save with the model. Collective with several ranks."""
        return self.feeder.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues from what state_dict() returned: before the first loop."""
        self.feeder.load_state_dict(state)

    def close(self) -> None:
        """Stops the threads; collective with several ranks. The end of the program does it too."""
        self.feeder.close()

    def __repr__(self) -> str:
        return f"<forebay.torch.DataLoader: {self.feeder.describe()}>"
