"""Batches that somebody else makes, behind Forebay's queue: the same policies, figures and watchdog.

The library's ring holds a token for each batch, and this module the batches themselves, in the order in which the
source gave them. A reader thread of the library takes them from the source; what next() serves, fresh or again, the
library decides.
"""

from __future__ import annotations

import array
import collections
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from . import _options
from ._intake import END, Held, Intake, Ring
from ._ranks import SOLO, ranks_of
from .errors import ConfigError, Error, WatchdogError
from .policy import take_policy

_OPTIONS: dict[str, Any] = {
    "batch_size": 1,
    "epochs": 1,
    "dataset_shuffle": False,
    "size": (1, 1),
    "crop": "none",
    "mirror": 0.0,
    "dtype": "uint8",
    "channels": 1,
    "device": "host",
    "workers_io": 1,
    "workers_decode": 1,
    "hedge": "off",
    "queue_capacity": 8,
    "queue_pool": 4,
}


class _Agreement:
    """Whether the epoch is over on all ranks, known on all at the same step, some steps later; no step waits for it
    unless another rank is further behind."""

    _LAG = 2

    def __init__(self, ranks: Any, patience_s: float) -> None:
        self._ranks, self._patience_s = ranks, patience_s
        self._posted: collections.deque[tuple[int, Any]] = collections.deque()
        self._step = 0

    def post(self, is_over: bool) -> None:
        values = array.array("q", [is_over])
        self._ranks.start_reduction(self._step % (self._LAG + 1), memoryview(values).cast("B"), 1)
        self._posted.append((self._step % (self._LAG + 1), values))
        self._step += 1

    def is_over(self) -> bool:
        if len(self._posted) < self._LAG:
            return False
        is_over = self._heard()
        while is_over and self._posted:
            self._heard()
        return is_over

    def _heard(self) -> bool:
        channel, values = self._posted.popleft()
        began = time.monotonic()
        while not self._ranks.test(channel):
            if 0 < self._patience_s < time.monotonic() - began:
                raise WatchdogError(f"another rank has made no step for {self._patience_s:g} s (policy.watchdog_s)")
            time.sleep(0.0001)
        return bool(values[0])


class Reuse:
    """Batches of any source behind Forebay's queue; ``forebay.reuse()`` makes it. Each loop over it is an epoch."""

    def __init__(
        self,
        source: Iterable[Any],
        policy: Any = "adaptive",
        *,
        comm: Any = None,
        copy: bool = False,
        new_memory: bool = False,
        restart: bool = False,
        **options: Any,
    ) -> None:
        options = _options.flat(options)
        for keyword in options:
            _options.require_known(keyword, ("policy", "comm", "copy", "new_memory", "restart", *_FEEDER))
        wrong = _options.only_native(options)
        if wrong:
            raise ConfigError(f"{', '.join(wrong)}: for images that Forebay decodes; the source makes these batches")
        self._source, self._copy, self._new_memory, self._restart = source, copy, new_memory, restart
        self._ranks = ranks = ranks_of(comm)
        self._options = _options.overridden({**_OPTIONS, "policy": policy}, options)
        self._passed_over = self._served = self._epoch = 0
        self._state: Any = None
        self._batches: Any = None
        self._exhausted: Any = None
        self._begun_with: Any = None
        self.feeder: Any = None  #: behind the batches, with its figures; made by the first loop
        keys = {name: value for name, value in self._options.items() if name not in _FEEDER}
        take_policy(keys)
        self._settings = _options.load(None, keys).values()
        pool = self._settings["queue.pool"]
        self._pool = int(pool) if pool.isdigit() else 20
        self._renew()
        self._agreement: Any = None
        if ranks is not None and ranks.size > 1:
            self._agreement = _Agreement(ranks.duplicate(), float(self._settings["policy.watchdog_s"]))

    def _renew(self) -> None:
        if self.feeder is not None:
            self.feeder.close()
        is_once = self._ranks is None and self._settings["policy.name"] == '"block"'
        self._intake = Intake(self._source, self._new_memory, not is_once and not self._copy)
        self.feeder = None
        weakref.finalize(self, self._intake.close)
        self._kept: collections.OrderedDict[Any, Any] = collections.OrderedDict()
        self._last: Any = None
        self._is_open = False  # an epoch of the source has begun and is not over

    def __len__(self) -> int:
        """Batches of the source in an epoch, if it knows: the steps unless the policy reuses."""
        return len(self._source)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Any]:
        if self._is_open and self._restart:
            self._renew()
        if not self._is_open:
            self._begun_with = _generator_state(self._source)
            batches = iter(self._source)
            if batches is self._exhausted:  # a generator, which gives nothing more
                return iter(())
            self._intake.begin(batches, self._passed_over)
            self._batches = batches
            self._served, self._passed_over, self._is_open, self._is_over = self._passed_over, 0, True, False
            if self.feeder is None:  # it waits for its first batch
                ranks = SOLO if self._ranks is None else self._ranks
                self.feeder = Ring(self._intake, comm=ranks, **self._options)
        return self._steps()

    def _steps(self) -> Iterator[Any]:
        while self._is_open:
            if self._agreement is not None and self._agreement.is_over():
                break
            held = self._step()
            if held is None:
                break
            if self._agreement is not None:
                self._agreement.post(self._is_over)
            yield held.serve(self._copy)
        self._is_open, self._exhausted = False, self._batches
        self._epoch += 1
        self._served = 0

    def _step(self) -> Any:
        """The next batch; None at the end."""
        token = self.feeder.next()
        if token is None:
            return None
        place = token.epoch, token.number
        is_fresh = token.is_fresh
        token.release()
        if not is_fresh:
            return self._again(self._kept[place])
        item = self._intake.taken()
        is_batch = isinstance(item, Held)
        self._kept[place] = item if is_batch else self._last
        if len(self._kept) > self._pool:
            self._kept.popitem(last=False)
        if is_batch:
            self._last, self._state = item, item.state
            self._served += 1
        elif item is not END:
            raise item
        elif self._agreement is None:
            return None
        else:
            self._is_over = self._intake.state.is_waiting = True
        return self._again(self._last)

    def _again(self, held: Any) -> Any:
        if held is None:
            raise Error("the source of this rank has no batch, and other ranks have: give each rank a part of the data")
        return held

    def state_dict(self) -> dict[str, Any]:
        """The source's state, if it has one, as of the batches that were served, and how many those are; of this rank.
        A source without a state begins again, and as many batches are passed over: its order must then be the same."""
        sampler = getattr(self._source, "sampler", None)
        if type(sampler).__name__ == "RandomSampler" and self._begun_with is None and self._served:
            raise Error(
                "the order of this loader is drawn from torch's global state, and cannot be drawn again: give it a "
                "generator=torch.Generator(), or use torchdata's StatefulDataLoader"
            )
        return {
            "format": "forebay.reuse",
            "version": 1,
            "epoch": self._epoch,
            "served": self._served,
            "source": self._state,
            "generator": self._begun_with,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The next loop continues from what state_dict() returned, on this rank."""
        if not isinstance(state, Mapping) or state.get("format") != "forebay.reuse" or state.get("version") != 1:
            raise ConfigError("load_state_dict() takes what state_dict() of forebay.reuse() returned, of version 1")
        self._renew()
        self._epoch, self._served, self._state = state["epoch"], state["served"], state["source"]
        if state["source"] is not None:
            self._source.load_state_dict(state["source"])  # type: ignore[attr-defined]
        else:
            self._passed_over = state["served"]
        if state["generator"] is not None and self._passed_over:
            _generator_of(self._source).set_state(state["generator"])

    def summary(self) -> dict[str, Any]:
        """The figures of this rank so far (docs/telemetry.md)."""
        return {} if self.feeder is None else dict(self.feeder.summary())

    def close(self) -> None:
        """Stops the threads, once the batch that is being made has come; collective with several ranks."""
        self._intake.close()
        if self.feeder is not None:
            self.feeder.close()

    def __repr__(self) -> str:
        policy = self._settings["policy.name"]
        return f"<forebay.reuse of {type(self._source).__name__}: policy {policy}, epoch {self._epoch}>"


def _generator_of(source: Any) -> Any:
    sampler = getattr(source, "sampler", None)
    return getattr(sampler, "generator", None) or getattr(source, "generator", None)


def _generator_state(source: Any) -> Any:
    generator = _generator_of(source)
    return generator.get_state() if hasattr(generator, "get_state") else None


_FEEDER = ("logger", "trace", "trace_s")


def reuse(source: Iterable[Any], policy: Any = "adaptive", **options: Any) -> Reuse:
    """Any iterable of batches behind Forebay's queue: a loader of PyTorch or DALI, WebDataset, tf.data, a stream of
    Hugging Face, rollouts. Batches are tensors or arrays, alone or in nested tuples, lists and dictionaries.

    A thread takes them into a queue, a pool of earlier ones is kept, and where the next one is late the policy serves
    one of those again. ::

        for images, labels in forebay.reuse(loader):
            train_step(images, labels)

    policy, and every key of the sections queue, policy, mpi and telemetry, are keywords. ``queue_capacity=8`` and
    ``queue_pool=4`` batches are held, besides one that is being made.
    comm: as for forebay.Feeder. Steps are agreed, and an epoch ends on all ranks after the same step, once each has
    served its source; one whose source ends earlier serves batches again until then.
    copy: True: each step gets a copy of its own. False: a batch that may be served again must not be written to:
    arrays are read-only, and a tensor that was changed ends the run with an error.
    new_memory: True: the source makes new memory for each batch, so that none need be copied when it comes.
    restart: True: a loop after ``break`` begins the source anew; False: it continues.
    """
    return Reuse(source, policy, **options)
