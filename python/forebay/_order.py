"""The order of a loader's epochs if Forebay makes the batches: the library's own, or that of PyTorch's sampler."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils import data

from . import _options
from ._native import require_plain
from ._ranks import SOLO, group_size
from ._transforms import Unlike


class Order(NamedTuple):
    """What determines the order of the samples, and the ranks that share them: the sampler, asked before each epoch, or
    else the library."""

    shuffle: bool = False
    generator: Any = None
    sampler: Any = None
    seed: int | None = None
    ranks: Any = None


ORDER_KEYS = [f"dataset.{name}" for name in ("shuffle", "order", "split", "part", "fraction", "weights")]
_SAMPLERS = (
    *(data.SequentialSampler, data.RandomSampler, data.SubsetRandomSampler, data.WeightedRandomSampler),
    data.distributed.DistributedSampler,
)


def order_of(sampler: Any, length: int | None, comm: Any, is_job: bool) -> Order:
    """The order that a sampler stands for. ``is_job``: the library itself divides and orders the samples, according to
    the sampler's kind."""
    require_plain(sampler, ("__iter__", "__len__"))
    kind = type(sampler)
    if kind not in _SAMPLERS:
        raise Unlike(f"the order of a {kind.__name__} is not known")
    is_divided = kind is data.distributed.DistributedSampler
    alone = SOLO if comm is None and (is_divided or group_size() > 1) else comm
    own = getattr(sampler, "dataset" if is_divided else "data_source", ())
    is_whole = length is None or len(own) == length
    if kind is data.SequentialSampler and is_whole:
        return Order(ranks=alone)
    if not is_job:
        is_shuffled = getattr(sampler, "shuffle", kind is not data.SequentialSampler)
        generator, seed = getattr(sampler, "generator", None), getattr(sampler, "seed", None)
        return Order(is_shuffled, generator, sampler, seed, alone)
    if is_divided and is_whole:
        if comm is None and sampler.num_replicas > 1:
            if group_size() != sampler.num_replicas or torch.distributed.get_rank() != sampler.rank:
                raise Unlike("the DistributedSampler's ranks are not those of torch.distributed")
            if not sampler.shuffle:
                raise Unlike(
                    "the sampler repeats samples on some ranks, and the library would repeat batches: give comm= for "
                    "the ranks in its place, and eval=True for an evaluation that serves each sample once"
                )
            alone = "torch"
        return Order(sampler.shuffle, seed=sampler.seed, ranks=alone)
    if kind is data.RandomSampler and is_whole and not sampler.replacement and sampler.num_samples == length:
        return Order(True, sampler.generator, ranks=alone)
    raise Unlike(f"the {kind.__name__} does not draw each sample once, and comm= or an option asks for that")


def _is_random(settings: Mapping[str, str]) -> bool:
    """Whether what a batch shows of its samples depends on the seed."""
    if settings["run.eval"] == "true":
        return False
    shares = ("transform.mirror", "mixup.probability", "cutmix.probability")
    is_cropped = settings["transform.crop"] in ('"random"', '"random_resized"')
    return is_cropped or settings["transform.operations"] != "[]" or any(float(settings[each]) > 0 for each in shares)


def awaits_seed(order: Order, settings: Mapping[str, str], options: Mapping[str, Any]) -> bool:
    """Whether the seed is the one that the first loop draws, so that two loaders augment differently, as PyTorch's do:
    unless the program, a saved state or the ranks together determine it, or nothing depends on it."""
    if order.ranks not in (None, SOLO) or {"seed", "resume"} & {_options.full_name_of(name) for name in options}:
        return False
    if order.sampler is not None:
        return _is_random(settings)
    return order.seed is None and (order.shuffle or _is_random(settings))


def draw_base_seed(generator: Any) -> int:
    """Draws the number that PyTorch's loader draws for its workers when a loop begins."""
    return int(torch.empty((), dtype=torch.int64).random_(generator=generator).item())


def next_base_seed(generator: Any) -> int:
    """The number that will be drawn next, which stays to be drawn."""
    source = torch.default_generator if generator is None else generator
    before = source.get_state()
    try:
        return draw_base_seed(generator)
    finally:
        source.set_state(before)


class Asked:
    """A sampler, asked for the order of each epoch when PyTorch's loader would ask, and after a state is loaded for the
    same order again. ``generator``: the loader's."""

    def __init__(self, sampler: Any, generator: Any) -> None:
        self._sampler, self._generator = sampler, generator
        self._random = getattr(sampler, "generator", None) or torch.default_generator
        # The random states from which the order of this epoch was drawn and that of the next will be drawn.
        self._drawn_from: Mapping[str, Any] = {}
        self.resumed: Mapping[str, Any] | None = None  # a loaded state from which no order has been drawn yet
        self._given: Iterator[int] = iter(())
        self._asked = 0  # how many of these PyTorch's loader would have asked for

    def __len__(self) -> int:
        return len(self._sampler)

    def order(self, samples: int) -> Any:
        """The samples of the next epoch; in a resumed epoch, those that the sampler gave originally."""
        before, resumed, self.resumed = self._random.get_state(), self.resumed, None
        now: dict[str, Any] = {"random": before.numpy().tobytes().hex()}
        if hasattr(self._sampler, "epoch"):
            now["epoch"] = self._sampler.epoch
        self._drawn_from = resumed or now
        if resumed is not None:
            self._random.set_state(torch.frombuffer(bytearray.fromhex(resumed["random"]), dtype=torch.uint8))
            if "epoch" in resumed:
                self._sampler.epoch = resumed["epoch"]
        # Only as many as there are: at its end a sampler may draw once more, which a loop that is left does not reach.
        begin = self._random.get_state()
        self._given, self._asked = iter(self._sampler), len(self._sampler)
        places = np.array(list(islice(self._given, self._asked)), np.int64)
        if self._random is not torch.default_generator:  # drawn again in parts, as it is asked: a loop may be left
            self._random.set_state(begin)
            self._given, self._asked = iter(self._sampler), 0
        if resumed is not None and self._random is torch.default_generator and resumed["random"] != now["random"]:
            self._random.set_state(before)  # it belongs to the program, which has not restored it
        return np.where(places < 0, places + samples, places).astype("uint32")

    def ask(self, count: int) -> None:
        """PyTorch's loader would have asked the sampler for this many samples; for more than there are, to its end."""
        list(islice(self._given, max(count - self._asked, 0)))
        self._asked = max(count, self._asked)

    def state(self, is_in_epoch: bool, is_to_draw: bool) -> Mapping[str, Any]:
        """The random states to save. ``is_to_draw``: no loop has begun for which the sampler has still to be asked."""
        if is_in_epoch:
            return self._drawn_from
        before = self._random.get_state()
        if is_to_draw and (self._generator or torch.default_generator) is self._random:
            draw_base_seed(self._generator)
        found = {"random": self._random.get_state().numpy().tobytes().hex()}
        self._random.set_state(before)
        return found
