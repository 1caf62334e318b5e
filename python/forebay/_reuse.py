"""Batches made by another loader, served through Forebay's queue with the same policies, figures and watchdog.

The library's ring holds a number for each batch (forebay::SourceFeeder); this module holds the batches themselves. A
thread of the library takes them from the source, and the library decides what each step serves, fresh or again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from . import _options
from ._held import Held, copied, current_gpu, mapped, use_gpu
from ._ranks import SOLO, ranks_of
from .errors import ConfigError, Error
from .feeder import Feeder
from .policy import take_policy

_FEEDER = ("logger", "trace", "trace_s")  # arguments of a feeder that are no options
_DEFAULTS: dict[str, Any] = {"epochs": 1 << 40, "device": "host", "queue_capacity": 8, "queue_pool": 4}


class Intake:
    """The batches of a source that are ready or may be served again, numbered in the source's order. The library calls
    begin() on the trainer's thread and take() on one of its own. ``place``: a state of forebay::SourceFeeder, which
    skips ``passed_over`` batches of the source."""

    def __init__(self, source: Any, new_memory: bool, watches: bool, place: str, passed_over: int) -> None:
        self._source, self._new_memory, self._watches = source, new_memory, watches
        self.place, self._passed_over = place, passed_over
        self.batches: Iterator[Any] = iter(())
        self.begun_with: Any = None  # the generator's state
        self.begin_state: Any = None  # the source's, before the first batch of this epoch
        self.end_state: Any = None  # the same, after the last epoch
        self.failure: BaseException | None = None
        self._gpu: int | None = None  # the trainer's
        self._count = 0
        self.kept: dict[int, Held] = {}

    def begin(self) -> None:
        """Begins an epoch of the source, on the trainer's thread, so that its random numbers are drawn there."""
        self.begun_with, self._gpu = _generator_state(self._source), current_gpu()
        self.batches = iter(self._source)
        self.begin_state = self._state()

    def take(self) -> int | None:
        """The number of the next batch; None at the end of the epoch."""
        try:
            return self._take()
        except BaseException as error:  # for the step that asks for this batch
            self.failure = error
            raise

    def _take(self) -> int | None:
        passes, self._passed_over = self._passed_over, max(self._passed_over - 1, 0)
        use_gpu(self._gpu)
        try:
            batch = next(self.batches)
        except StopIteration:
            self.end_state = self._state()
            return None
        if passes > 1:  # the last skipped batch is kept, for this rank to repeat if only other ranks have more
            return 0
        self._count += 1
        kept = batch if self._new_memory else mapped(batch, copied)
        self.kept[self._count] = Held(kept, self._state(), self._watches)
        return self._count

    def _state(self) -> Any:
        return self._source.state_dict() if hasattr(self._source, "state_dict") else None


class Place(NamedTuple):
    """How far a rank has got."""

    epoch: int = 0
    served: int = 0  # batches of the epoch
    steps: int = 0  # of the run
    fresh: int = 0  # batches of the run


class Reuse:
    """Serves any iterable of batches through Forebay's queue: a loader of PyTorch or DALI, WebDataset, tf.data, a
    Hugging Face stream, rollouts. Batches are tensors or arrays, alone or in nested tuples, lists, dictionaries and
    dataclasses. Anything else in a batch that may be served again is copied at each step.

    A thread fills the queue, earlier batches are kept in a pool, and if the next batch is late, the policy serves one
    of those again. ::

        for images, labels in forebay.reuse(loader):
            train_step(images, labels)

    Each loop over it is an epoch.

    policy, and every key of the sections queue, policy, mpi and telemetry, are keywords. By default
    ``queue_capacity=8`` and ``queue_pool=4`` batches are held, besides the one being made.
    comm: as for forebay.Feeder. Ranks agree on their steps, and an epoch ends on all of them after the same step, once
    every source is exhausted; a rank whose source ends earlier reuses batches until then.
    copy: True: each step gets its own copy. False: a batch that may be served again must not be written to: arrays are
    read-only, and a changed tensor ends the run with an error.
    new_memory: True: the source allocates new memory for each batch, so batches need not be copied as they arrive.
    restart: True: a loop after ``break`` restarts the source; False: it continues.
    """

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
        if "resume" in options:
            raise ConfigError("resume: pass what state_dict() returned to load_state_dict() instead")
        for keyword in options:
            _options.require_known(keyword, ("policy", "comm", "copy", "new_memory", "restart", *_FEEDER))
        wrong = _options.only_native(options, _FEEDER)
        if wrong:
            raise ConfigError(f"{', '.join(wrong)}: for images or runs of Forebay's own; the source makes the batches")
        self._source, self._copy, self._new_memory, self._restart = source, copy, new_memory, restart
        self._ranks = ranks_of(comm)
        self._rank = (0, 1) if self._ranks is None else (self._ranks.rank, self._ranks.size)  # and of how many
        self._owner = self._rank  # the rank and the number of ranks that the state is from
        self._options = _options.overridden({**_DEFAULTS, "policy": policy}, options)
        self._place = Place()  # before this feeder
        # A state of the source and the number of batches served since: as of the last batch served, and of the one
        # before.
        self._state: tuple[Any, int] = (None, 0)
        self._before = self._state
        self._exhausted: Any = None
        self.feeder: Any = None  #: the feeder that serves the batches, with its figures; made by the first loop
        keys = {name: value for name, value in self._options.items() if name not in _FEEDER}
        take_policy(keys)
        self._settings = _options.load(None, keys).values()
        pool = self._settings["queue.pool"]
        self._pool = int(pool) if pool.isdigit() else 20
        self._renew()

    def _renew(self) -> None:
        if self.feeder is not None:
            self.feeder.close()
        self.feeder = None
        self._intake: Any = None
        self._newest = 0  # the highest number of a batch served
        self._is_open = False  # an epoch of the source has begun and has not ended
        self._failure: BaseException | None = None  # the source's exception, once it was raised

    def __len__(self) -> int:
        """The source's batches per epoch, if it knows their number; also the steps, unless the policy reuses."""
        return len(self._source)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Any]:
        if self._is_open and self._restart:
            self._place = self._at()._replace(served=0)
            self._renew()
            self._owner = self._rank
            self._before = self._state = (self._state[0], 0)
        if not self._is_open:
            if self._exhausted is self._source:  # a generator, which yields nothing more
                return iter(())
            if self.feeder is None:
                self._begin()
            self._is_open = self.feeder.next_epoch()
            if self._is_open and self._intake.begin_state is not None:
                self._before = self._state = (self._intake.begin_state, self._state[1])
        return self._steps()

    def _begin(self) -> None:
        """Makes the feeder, which waits for its first batch."""
        is_once = self._ranks is None and self._settings["policy.name"] == '"block"'
        passed = self._state[1]
        epoch, served, steps, fresh = self._place
        place = f"forebay.source 4 {self._owner[0]} {self._owner[1]} {epoch} {served} {passed} {steps} {fresh}\n"
        self._intake = Intake(self._source, self._new_memory, not is_once and not self._copy, place, passed)
        ranks = SOLO if self._ranks is None else self._ranks
        self.feeder = Feeder(_source=self._intake, comm=ranks, **self._options)
        self._newest = min(passed, 1)

    def _at(self) -> Place:
        if self.feeder is None:
            return self._place
        epoch, served, _, steps, fresh = map(int, self.feeder._place().split()[4:9])
        return Place(epoch, served, steps, fresh)

    def _steps(self) -> Iterator[Any]:
        epoch = self._at().epoch
        while self._is_open:
            token = self._next()
            if token is None:
                if epoch != self._at().epoch:  # otherwise the run was stopped
                    self._is_open, self._exhausted = False, self._intake.batches
                    self._before = self._state = (self._intake.end_state, 0)
                return
            number = token.numpy("number").item()
            token.release()
            held = self._intake.kept[number]
            if number > self._newest:
                self._newest = number
                self._intake.kept.pop(number - self._pool, None)
                self._before, self._state = (self._state[0], self._state[1] + 1), (held.state, 0)
            yield held.serve(self._copy)

    def _next(self) -> Any:
        if self._failure is not None:
            raise self._failure
        try:
            return self.feeder.next()
        except Error:
            self._failure = self._intake.failure
            if self._failure is None:
                raise
        raise self._failure

    def state_dict(self) -> dict[str, Any]:
        """This rank's state: that of the source, if it has one, as of the batches served, and their number. A source
        without a state is restarted and that many batches are skipped, so its order must be the same."""
        at, generator = self._at(), None
        # Another rank may have more batches of the epoch than this one, which then repeats its last one.
        source, passed = self._before if at.served and self._ranks is not None else self._state
        if source is None:
            passed, generator = at.served, self._intake.begun_with if self._is_open else _generator_state(self._source)
            is_random = type(getattr(self._source, "sampler", None)).__name__ == "RandomSampler"
            if is_random and generator is None and at.served:
                raise Error(
                    "the order of this loader is drawn from torch's global state, and cannot be drawn again: give it a "
                    "generator=torch.Generator(), or use torchdata's StatefulDataLoader"
                )
        state = {"format": "forebay.reuse", "version": 4, "rank": self._rank, **at._asdict()}
        return {**state, "source": source, "passed": passed, "generator": generator}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Makes the next loop continue from a state_dict() of the same rank in a job of the same size."""
        if not isinstance(state, Mapping) or state.get("format") != "forebay.reuse" or state.get("version") != 4:
            raise ConfigError("load_state_dict() takes what state_dict() of forebay.reuse() returned, of version 4")
        self._renew()
        self._owner = tuple(state["rank"])
        self._place = Place(*(state[name] for name in Place._fields))
        self._before = self._state = state["source"], state["passed"]
        if state["source"] is not None:
            self._source.load_state_dict(state["source"])  # type: ignore[attr-defined]
        elif state["generator"] is not None:
            _generator_of(self._source).set_state(state["generator"])

    def summary(self) -> dict[str, Any]:
        """The figures of this rank so far (docs/telemetry.md)."""
        return {} if self.feeder is None else dict(self.feeder.summary())

    def close(self) -> None:
        """Stops the threads as soon as the batch being made is complete; collective with several ranks."""
        if self.feeder is not None:
            self.feeder.close()

    def __repr__(self) -> str:
        policy = self._settings["policy.name"]
        return f"<forebay.reuse of {type(self._source).__name__}: policy {policy}>"


def _generator_of(source: Any) -> Any:
    sampler = getattr(source, "sampler", None)
    return getattr(sampler, "generator", None) or getattr(source, "generator", None)


def _generator_state(source: Any) -> Any:
    generator = _generator_of(source)
    return generator.get_state() if hasattr(generator, "get_state") else None


reuse = Reuse  # the name that programs use
