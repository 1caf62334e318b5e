"""For PyTorch programs: a DataLoader with PyTorch's arguments, and the ranks of torch.distributed without MPI."""

from __future__ import annotations

import contextlib
import inspect
import logging
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import torch
from torch.utils import data

from . import _native, _options
from ._loop import DIVIDED, LEFT, Loop, Served, Way, Workers
from ._order import ORDER_KEYS, Asked, Order, awaits_seed, draw_base_seed, next_base_seed, order_of
from ._ranks import SOLO, group_size, refuse_launched
from ._ranks import ProcessGroupCommunicator as ProcessGroupCommunicator
from ._reuse import Reuse
from ._transforms import Unlike
from .dataset import given_dataset, is_configured
from .errors import ConfigError
from .feeder import Feeder

_Item = TypeVar("_Item")
_Plan = tuple[_native.Source, Order, int, bool]  # the last two: batch_size and drop_last


class DataLoader(data.DataLoader[_Item]):
    """PyTorch's DataLoader, with the same arguments and semantics; each loop over it is one epoch.

    *Native*: if Forebay knows every part exactly (ImageFolder and the like with torchvision's transforms, PyTorch's own
    samplers and collate function), its threads read, decode and augment. The same holds for a path, forebay.Files and a
    forebay.Dataset; batches are then images and labels, or a dictionary of all fields if there are more. Every option
    of forebay.Feeder is also a keyword and overrides the transforms. *Otherwise* PyTorch's own workers make the
    batches, and with policy="adaptive" or another option for the queue they pass through Forebay's ring
    (forebay.reuse). A log line says which of the two applies, and why. ``native="require"`` refuses the second,
    ``native="off"`` the first.

    Like PyTorch's, it serves every sample once per epoch and waits for storage (``policy="block"``). With
    ``policy="adaptive"`` steps never wait, and an epoch has more of them. The order is also PyTorch's, unless Forebay
    reads a path or divides the samples among ranks (comm=). After a ``break`` the next loop starts a new epoch; with
    ``restart=False`` it continues the old one, so that no sample is lost.

    Native batches are tensors on the host, not copied if each batch is served only once; with ``pin_memory=True`` they
    are on PyTorch's current GPU if Forebay was built with CUDA, else in pinned memory. While the program keeps more of
    them than the queue lends, further ones are copies. ``copy=True`` always copies, ``copy=False`` never does: then do
    not write to images that a reuse may serve. One thread creates and uses a loader.
    """

    def __init__(
        self,
        dataset: Any,
        *positional: Any,
        native: str = "auto",
        comm: Any = None,
        copy: bool | None = None,
        restart: bool = True,
        **options: Any,
    ) -> None:
        keywords = {name: options.pop(name) for name in _THEIRS if name in options}
        bound = _SIGNATURE.bind(self, dataset, *positional, **keywords)
        bound.apply_defaults()
        arguments = {**bound.arguments, "native": native, "comm": comm, "copy": copy, "restart": restart}
        del arguments["self"]
        way = Way.of(native, options)
        options = _options.flat(way.options)
        for keyword in options:
            _options.require_known(keyword, [*arguments, *_FEEDER])
        if native not in ("auto", "require", "off"):
            raise ConfigError(f'native={native!r}: it is "auto", "require" or "off"')
        dataset = arguments["dataset"] = dataset.source if isinstance(dataset, Served) else dataset
        self._arguments = {**arguments, **options}
        self.native, self.comm, self.copy, self.restart = way, comm, copy, restart
        self._feeder: Any = None
        self._reuse: Any = None
        self._is_left = False  # the last loop ended in the middle of an epoch
        self._is_drawn = False  # the sampler has given the order of an epoch that has not ended
        self._has_base_seed = False  # the next loop draws none: workers persist, or the epoch had begun before a state
        self._loop: Callable[[], Loop | None] = lambda: None
        logger = options.get("logger") or "forebay"
        self._log: logging.Logger = logging.getLogger(logger) if isinstance(logger, str) else logger
        image_options = _options.only_native(options)
        is_library = _native.is_of_library(dataset, bool(image_options))
        shown: Any = Served(dataset) if is_library else dataset
        given = {name: value for name, value in arguments.items() if name in _THEIRS and value != _THEIRS[name]}
        self._given = given
        with warnings.catch_warnings(record=True) as told:  # that there are too many workers
            warnings.simplefilter("always")
            super().__init__(shown, **given)
        try:
            if native == "off" and not is_library:
                raise Unlike('native="off" was said')
            plan = self._plan(dataset, None if is_library else shown)
        except ConfigError as why:
            for warning in told:
                warnings.warn(warning.message, warning.category, stacklevel=2)
            self._take_general_way(why, is_library, image_options, options)
        else:
            self._take_native_way(shown, plan, options)

    def _plan(self, dataset: Any, sized: Any) -> _Plan:
        """The arguments of a feeder that does the same. Raises Unlike if there is none."""
        of = self._arguments
        batch_size, drop_last, sampler, by = of["batch_size"], of["drop_last"], of["sampler"], of["batch_sampler"]
        if isinstance(dataset, data.IterableDataset):
            raise Unlike("the dataset is an iterable one")
        if of["collate_fn"] not in (None, data.default_collate):
            raise Unlike("collate_fn is yours")
        if by is not None:
            if type(by) is not data.BatchSampler:
                raise Unlike("batch_sampler is yours")
            batch_size, drop_last, sampler = by.batch_size, by.drop_last, by.sampler
        if batch_size is None:
            raise Unlike("batch_size=None means samples without batches")
        if sampler is None and sized is None:
            alone = SOLO if self.comm is None and group_size() > 1 else self.comm
            order = Order(bool(of["shuffle"]), of["generator"], ranks=alone)
        else:
            is_job = self.comm not in (None, SOLO) or is_configured(dataset) or self._orders_itself(sampler)
            length = None if sized is None else len(sized)
            order = order_of(self.sampler if sampler is None else sampler, length, self.comm, is_job)
        source = _native.source_of(dataset, sized is None)
        count = source.length if order.sampler is None else len(order.sampler)
        if count is not None and count < (batch_size if drop_last else 1):
            raise Unlike("there is no whole batch")
        return source, order, batch_size, bool(drop_last)

    def _orders_itself(self, sampler: Any) -> bool:
        """Whether Forebay determines the order: an option concerns it, or ranks that divide the samples, and so must
        agree on their steps, have a policy that reuses."""
        keys = (*ORDER_KEYS, *(("policy.name",) if getattr(sampler, "num_replicas", 1) > 1 else ()))
        return any(
            _options.full_name_of(name) in keys and value != "block" for name, value in self.native.options.items()
        )

    def _take_native_way(self, shown: Any, plan: _Plan, options: Mapping[str, Any]) -> None:
        source, order, batch_size, drop_last = plan
        if order.ranks is SOLO and self.comm is None:
            _native.refuse_shared_files(options)
        gpu = self._gpu()
        self._pins = gpu is not None
        given: dict[str, Any] = {"policy": "block", "epochs": 1 << 40, "max_leases": _LEASES}  # a loader never ends
        given.update(drop_last=drop_last, batch_size=batch_size, dataset_shuffle=order.shuffle)
        given["device"] = "auto" if self._pins else "host"
        if not order.shuffle and not isinstance(shown, Served):
            given["on_bad"] = "fail"  # as in PyTorch: an evaluation counts what it was given
        if self.timeout > 0:
            given["watchdog_s"] = self.timeout
        if order.seed is not None or order.ranks not in (None, SOLO):
            given["seed"] = 17 if order.seed is None else order.seed
        elif isinstance(shown, Served):
            given["seed"] = draw_base_seed(order.generator)
        else:  # drawn by the first loop, as by PyTorch's; until then the one that it would draw now
            given["seed"] = next_base_seed(self.generator)
        given = _options.overridden(_options.overridden(given, source.options), options)
        self._seed = int(given.pop("seed"))
        log = self._log

        def make(seed: int, **once: Any) -> tuple[Feeder, Any]:  # no reference to the loader: threads end with its last
            options, samples, orders = {**given, **once}, source.dataset, None
            if order.sampler is not None:
                samples = given_dataset(source.dataset, options.pop("processes", 0), log)
                orders = samples._order_of(len(order.sampler))  # type: ignore[union-attr]
            with _current(gpu):
                return Feeder(dataset=samples, comm=order.ranks, seed=seed, **options), orders

        self._make = make
        self._asked = None if order.sampler is None else Asked(order.sampler, self.generator)
        self._parts = _native.parts_of_loader(self)
        self._renew()
        settings = self._feeder._values()
        self._is_eval = settings["run.eval"] == "true"
        self._is_once = self._is_eval or settings["policy.name"] == '"block"'
        if self._feeder.ranks > 1 and not (order.shuffle or order.sampler is not None or self._is_eval):
            self._say(logging.WARNING, DIVIDED)
        self._leases = max(_LEASES, int(settings["queue.max_leases"]))
        self._awaits_seed = not isinstance(shown, Served) and awaits_seed(order, settings, options)
        self._fields = [field.name for field in self._feeder.fields]
        self._ragged = [field.name for field in self._feeder.fields if field.kind in ("boxes", "bytes")]
        if isinstance(shown, Served):
            shown.size, shown.classes = self._feeder.dataset_size, self._feeder.classes
        meant = (*_MEANT, *(_PINNING if self._pins else ()))
        ignored = [
            f"{name}={value!r}" if isinstance(value, (int, float, str)) else f"{name}={type(value).__name__}"
            for name, value in self._given.items()
            if name not in meant
        ]
        text = f"; {', '.join(ignored)}: no meaning there" if ignored else ""
        self._say(logging.WARNING if ignored else logging.INFO, f"Forebay's own threads make the batches{text}")

    def _gpu(self) -> Any:
        """The GPU that pin_memory=True refers to; None without it, or without a GPU, when PyTorch ignores it too."""
        if not self.pin_memory or not torch.cuda.is_available():
            return None
        named = torch.device(self._arguments["pin_memory_device"] or "cuda")
        return named.index if named.index is not None else torch.cuda.current_device()

    def _take_general_way(
        self, why: ConfigError, is_library: bool, image_options: list[str], options: Mapping[str, Any]
    ) -> None:
        if is_library or self.native == "require" or not isinstance(why, Unlike):
            raise why
        if image_options:
            raise ConfigError(
                f"{', '.join(image_options)}: for images that Forebay decodes itself, and here PyTorch's workers make "
                f"the batches: {why}"
            ) from None
        if self.comm is None and group_size() == 1 and not {"sampler", "batch_sampler"} & self._given.keys():
            refuse_launched()
        if options or self.comm is not None:
            if self.comm is None:
                _native.refuse_shared_files(options)
            way = {"policy": "block", **({"watchdog_s": self.timeout} if self.timeout > 0 else {})}
            ring = _options.overridden(way, options)
            ranks = SOLO if self.comm is None else self.comm
            ring.update(comm=ranks, copy=bool(self.copy), new_memory=self.num_workers > 0, restart=self.restart)
            self._reuse = Reuse(Workers(self), **ring)
        self._say(logging.WARNING, f"PyTorch's own workers make the batches: {why}")

    def _say(self, level: int, text: str) -> None:
        if text not in _said:
            _said.add(text)
            self._log.log(level, "DataLoader: %s", text)

    @property
    def feeder(self) -> Any:
        """The feeder, with its figures; None if PyTorch works alone, and before the first loop with reuse."""
        return self._feeder if self._reuse is None else self._reuse.feeder

    @property
    def is_native(self) -> bool:
        """Whether Forebay's own threads make the batches, rather than PyTorch's workers."""
        return self._feeder is not None

    def __len__(self) -> int:
        """This rank's fresh batches per epoch; also its steps, unless the policy reuses."""
        return self._length if self.is_native and not self._has_other_length() else super().__len__()

    def _has_other_length(self) -> bool:
        """Whether the sampler's length has changed since the feeder was made."""
        return self._asked is not None and len(self._asked) != self._places

    def _must_renew(self) -> bool:
        # What was loaded for other places is not dropped here: the library refuses them.
        return self._asked is not None and self._asked.resumed is None and self._has_other_length()

    def __iter__(self) -> Any:
        if self._reuse is not None:
            if self.restart and self._reuse._is_open and self._reuse._settings["policy.name"] != '"block"':
                self._say(logging.WARNING, LEFT)
            return iter(self._reuse)
        if not self.is_native:
            return super().__iter__()
        _native.require_same(self._parts, _native.parts_of_loader(self))
        last = self._loop()
        is_open = last is not None and not last.is_over and last.feeder is self._feeder
        if self._is_eval and self._feeder.epochs_completed > 0:  # an evaluation is one epoch
            self._begin_anew(is_open)
        elif (self.restart and (self._is_left or is_open)) or (not self._is_left and self._must_renew()):
            if self._is_left and not self._is_once:
                self._say(logging.WARNING, LEFT)
            self._seed = (self._seed + 1) % 2**63
            self._begin_anew(is_open)
        if not isinstance(self.dataset, Served):
            if not self._has_base_seed:
                self._take_seed(draw_base_seed(self.generator))
            self._has_base_seed = self.persistent_workers
        loop = Loop(self, self._feeder, self._orders)
        if self.num_workers > 0:  # workers ask the sampler at once
            loop.give_order()
        self._loop = weakref.ref(loop)
        return loop

    def _begin_anew(self, is_used: bool) -> None:
        if not is_used:  # otherwise its loop closes it
            self._feeder.close()
        self._renew(resume=None, trace=None)
        self._is_left = self._is_drawn = False

    def _renew(self, **once: Any) -> None:
        self._feeder, self._orders = self._make(self._seed, **once)
        self._length = self._feeder.steps_per_epoch
        if self._asked is not None:
            self._places = len(self._asked)

    def _take_seed(self, seed: int) -> None:
        if self._awaits_seed and seed != self._seed:  # random numbers were drawn since the loader was made
            self._seed = seed
            self._feeder.close()
            self._renew()
        self._awaits_seed = False

    def _handed_over(self, feeder: Feeder, batch: Any) -> Any:
        copy = self.copy
        if copy is None and feeder._leases >= self._leases:
            copy = True
            self._say(
                logging.WARNING,
                f"{feeder._leases - 1} earlier batches are still in use, which is as many as the queue lends: while "
                "that is so, further ones are copies (copy=True makes each a copy, queue_max_leases= lends more)",
            )
        tensors = batch.torch(*self._fields, copy=copy)
        found = dict(zip(self._fields, tensors))
        found.update((f"{name}.counts", torch.from_numpy(batch.counts(name))) for name in self._ragged)
        if self._pins and not tensors[0].is_cuda:
            found = {name: tensor.pin_memory() for name, tensor in found.items()}
        batch.release()
        return list(found.values()) if len(found) == 2 else found

    def _stateful(self) -> Any:
        if self._feeder is None and self._reuse is None:
            raise AttributeError(
                "PyTorch's loader has no state: give a policy (even \"block\"), and Forebay's ring has one"
            )
        return self._reuse

    @property
    def state_dict(self) -> Callable[[], dict[str, Any]]:
        """state_dict(): the position of the run, to save with the model. Collective with several ranks."""
        ring = self._stateful()
        return ring.state_dict if ring is not None else self._state

    def _state(self) -> dict[str, Any]:
        if self._awaits_seed:
            self._take_seed(next_base_seed(self.generator))
        loop, is_within = self._loop(), self._is_left or self._is_drawn
        is_drawn = self._has_base_seed or is_within or (loop is not None and loop.orders is not None)
        state = {**self._feeder.state_dict(), "seed": self._seed, "has_base_seed": is_drawn}
        if self._asked is not None:
            state["order"] = self._asked.state(is_within, not is_drawn)
        return state

    @property
    def load_state_dict(self) -> Callable[[Mapping[str, Any]], None]:
        """load_state_dict(state): the next loop continues from what state_dict() returned. Collective."""
        ring = self._stateful()
        return ring.load_state_dict if ring is not None else self._resume

    def _resume(self, state: Mapping[str, Any]) -> None:
        seed = int(state["seed"]) if isinstance(state, Mapping) and "seed" in state else self._seed
        if isinstance(state, Mapping) and ("order" in state) != (self._asked is not None):
            there, here = ("sampler", "library")[:: 1 if "order" in state else -1]
            raise ConfigError(f"this state is of a run in which the {there} said the order, and here the {here} does")
        self._awaits_seed = False
        is_used = self._feeder.steps > 0 or self._is_left or self._is_drawn
        if seed != self._seed or is_used or self._has_other_length():
            self._seed = seed
            self._begin_anew(False)
            self._loop = lambda: None
        self._feeder.load_state_dict(state)
        self._has_base_seed = bool(state.get("has_base_seed"))
        if self._asked is not None:
            self._asked.resumed = state["order"]

    def close(self) -> None:
        """Stops the threads; collective with several ranks. Also done at the end of the program."""
        ring = self._feeder if self._reuse is None else self._reuse  # whose length an iterable dataset need not have
        if ring is not None:
            ring.close()

    def __reduce__(self) -> Any:
        return _remade, (type(self), self._arguments)

    def __repr__(self) -> str:
        if self.is_native:
            return f"<forebay.torch.DataLoader: {self._feeder!r}>"
        return f"<forebay.torch.DataLoader: {'PyTorch alone' if self._reuse is None else self._reuse}>"


@contextlib.contextmanager
def _current(gpu: int | None) -> Iterator[None]:
    """Makes a GPU current on this thread, so that device = "auto" takes it."""
    if gpu is None:
        yield
        return
    with torch.cuda.device(gpu):
        torch.empty(1, device="cuda")  # it becomes current only once something is allocated on it
        yield


def _remade(kind: type[DataLoader[Any]], arguments: Mapping[str, Any]) -> DataLoader[Any]:
    loader = kind.__new__(kind)
    DataLoader.__init__(loader, **arguments)
    return loader


_LEASES = 3  # a loop needs two; a third in use shows that the program keeps batches
_said: set[str] = set()  # lines already logged
# The arguments of PyTorch's loader with their defaults, and those of a feeder that are not options.
_SIGNATURE = inspect.signature(data.DataLoader.__init__)
_THEIRS = {name: each.default for name, each in list(_SIGNATURE.parameters.items())[2:]}
_MEANT = ("batch_size", "shuffle", "sampler", "batch_sampler", "collate_fn", "drop_last", "timeout", "generator")
_PINNING = ("pin_memory", "pin_memory_device")
_FEEDER = ("config", "processes", "resume", "trace", "trace_s", "stream", "logger")
