"""The feeder, which supplies a trainer with batches from C++ worker threads."""

from __future__ import annotations

import atexit
import contextlib
import json
import logging
import os
import re
import sys
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _core, _html, _options
from ._displays import display_for, require_way
from ._progress import Mark, View, Waiting
from ._ranks import ranks_of
from .dataset import given_dataset, is_configured
from .errors import ConfigError, Error, NotFoundError
from .policy import take_operations, take_policy

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._option_types import Options


class Field(NamedTuple):
    """A named field of every batch; the shape is that of one sample."""

    name: str
    kind: str
    dtype: str
    shape: tuple[int, ...]
    classes: list[str]


class Epoch:
    """The batches of one epoch, for a single loop, which releases each batch when it asks for the next one."""

    def __init__(self, feeder: Feeder, stream: Any = None, view: View | None = None) -> None:
        self._feeder = feeder
        self.number = feeder.epochs_completed  #: the epoch's number, from 0
        self._batches = feeder._batches(stream)
        self._view = view
        self._is_begun = False
        if view is not None:
            view.begin_epoch(self.number, feeder.batches_per_epoch, Mark.of(feeder))

    def __iter__(self) -> Iterator[_core.Batch]:
        self._is_begun = True
        return self._batches if self._view is None else self

    def __next__(self) -> _core.Batch:
        self._is_begun, view = True, self._view
        if view is None:
            return next(self._batches)
        view.asked()
        batch = next(self._batches, None)
        if batch is None:
            view.end_epoch(Mark.of(self._feeder))
            raise StopIteration
        view.served(batch.number, lambda: Mark.of(self._feeder))
        return batch

    def __repr__(self) -> str:
        return f"<forebay.Epoch {self.number}>"


# Their threads must end while there is still an interpreter to log to.
_open: weakref.WeakSet[Feeder] = weakref.WeakSet()


def _close_at_exit(feeder: Feeder, deadline: float) -> None:
    try:
        # A daemon thread may be inside a call and must leave it before the interpreter ends.
        while feeder._is_occupied and time.monotonic() < deadline:
            feeder.request_stop()
            time.sleep(0.001)
    finally:
        # A forked process has nothing to close. Any error that matters has already been raised.
        with contextlib.suppress(Error):
            feeder.close()


@atexit.register
def _close_all() -> None:
    deadline = time.monotonic() + 10
    with contextlib.ExitStack() as all_open:  # closes the others even if one is interrupted
        for feeder in list(_open):
            all_open.callback(_close_at_exit, feeder, deadline)


def _log_to(logger: logging.Logger) -> Any:
    return lambda level, text: getattr(logger, level)("%s", text)


def _told(problem: BaseException | None) -> str:
    """A rank's problem as the other ranks are told of it; "" for none."""
    if problem is None:
        return ""
    text, kind = str(problem), type(problem).__name__
    told = text if text and isinstance(problem, Error) else ": ".join(filter(None, (kind, text)))
    return told.encode("utf-8", "replace").decode()


class Feeder(_core.FeederBase):
    """Feeds batches to a trainer.

    ``config`` is a configuration file. Every key is also a keyword, by its own name (``batch_size=64``), prefixed by
    its section (``transform_size=(224, 224)``), or in a dictionary: ``transform={"size": (224, 224)}``. Keywords
    override the file. See docs/python.md.

    comm: the ranks of a job: ``MPI.COMM_WORLD`` of mpi4py, ``"torch"`` or a process group for those of
    torch.distributed, or a forebay.Communicator. Collective.
    dataset: the path of a dataset (the key dataset.path), forebay.Files, or a forebay.Dataset of your own.
    processes: how many processes call the __getitem__ of a forebay.Dataset; 0 = threads of this process.
    policy: the name of a policy, or a forebay.Policy of your own.
    operations: names of operations and functions of your own: ``f(pixels)`` or ``f(pixels, generator)``.
    resume: a file written by save(); if it exists, the job resumes from there.
    stream: the CUDA stream on which batches are used, unless next() or epochs() is given one.
    also_streams: other streams on which every batch is used; libraries that take batches by DLPack pass theirs
    themselves.
    trace, trace_s: where close() writes a Chrome trace of the first seconds.
    logger: a logging.Logger or its name; "forebay" by default.

    One thread creates and uses a feeder; only request_stop() may be called from any thread. Raises ConfigError (a
    ValueError) for options that cannot be honoured, NotFoundError (a FileNotFoundError) for files that do not exist,
    and Error.
    """

    def __init__(
        self,
        config: str | os.PathLike[str] | None = None,
        *,
        comm: Any = None,
        dataset: Any = None,
        processes: int = 0,
        resume: str | os.PathLike[str] | None = None,
        trace: str | os.PathLike[str] | None = None,
        trace_s: float = 10.0,
        stream: Any = None,
        also_streams: Iterable[Any] = (),
        logger: logging.Logger | str | None = None,
        _source: Any = None,
        **options: Unpack[Options],
    ) -> None:
        self._waiting = Waiting()
        ranks = ranks_of(comm)
        self.rank, self.ranks = (0, 1) if ranks is None else (ranks.rank, ranks.size)
        problem: BaseException | None = None
        with contextlib.ExitStack() as unless_it_runs:
            try:
                keys = _options.flat(options)
                policy, operations = take_policy(keys), take_operations(keys)
                if is_configured(dataset):
                    keys["dataset"], dataset = dataset, None
                if dataset is not None and "fields" in keys:
                    raise ConfigError(
                        "fields= describes a dataset at a path; the fields of forebay.Files are its own argument, and "
                        "those of a forebay.Dataset its attribute"
                    )
                if dataset is not None:
                    _options.refuse_of_paths(keys)
                settings = _options.load(config, keys)
                resumed, traced = (os.fsencode(file) if file is not None else b"" for file in (resume, trace))
                seconds = float(trace_s)
                self._logger = logger if isinstance(logger, logging.Logger) else logging.getLogger(logger or "forebay")
                others = list(also_streams)
                for each in (stream, *others):
                    _core.stream_number(each)
                given = given_dataset(dataset, processes, self._logger)
                if given is not None:
                    unless_it_runs.callback(given._close)  # its processes
            except BaseException as error:
                problem = error
            # If one rank left alone, the others would wait in their next collective call.
            first = "" if ranks is None else _core.first_error(ranks, _told(problem))
            if problem or first:
                raise problem or ConfigError(first)
            parts = (_log_to(self._logger), self._waiting, policy, operations, _source)
            try:
                super().__init__(settings, ranks, given, resumed, traced, seconds, *parts)
            except ConfigError as error:
                path = settings.dataset_path
                if given is None and path in str(error) and path and not ("://" in path or os.path.exists(path)):
                    raise NotFoundError(str(error), path) from None
                raise
            unless_it_runs.pop_all()
        self._use_streams(stream, others)
        _open.add(self)

    def epochs(self, stream: Any = None, *, progress: bool | str = False) -> Iterator[Epoch]:
        """The epochs of the run; each yields its batches, fresh or reused. A resumed run may begin in the middle of
        one; after a ``break`` the next one continues where the loop was left.

        stream: as for next().
        progress: True or "bar": rank 0 draws a progress bar on standard error; "live": more figures, if the package
        rich is installed; in a notebook both are a table. "lines", and the others without a terminal: a line every 10 s
        and at the end of each epoch. Raises ConfigError for any other value.
        """
        require_way(progress)
        return self._epochs(stream, progress if self.rank == 0 else False)

    def _epochs(self, stream: Any, progress: bool | str) -> Iterator[Epoch]:
        view = None
        if progress and sys.stderr is not None:
            of = f" (rank 0 of {self.ranks})" if self.ranks > 1 else ""
            view = self._waiting.view = View(display_for(progress), "forebay" + of, self._logger, Mark.of(self))
        try:
            while self.next_epoch():
                before = self.steps
                epoch = Epoch(self, stream, view)
                yield epoch
                if not epoch._is_begun and self.steps == before and self.epochs_completed == epoch.number:
                    raise Error(
                        f"nothing asked for a batch of epoch {epoch.number}, so the next one would be the same again: "
                        "loop over each epoch before you take the next one"
                    )
        finally:
            self._waiting.end()

    def __iter__(self) -> _core.Batches:
        """All batches of the run, across epochs."""
        return self._batches(None, True)

    def _warn_of_empty_loop(self) -> None:
        self._logger.warning(
            "this loop has no batches, because the run has ended: epochs=N makes it longer, and feeder.epochs() loops "
            "over them"
        )

    @property
    def fields(self) -> list[Field]:
        """The fields of every batch, by name."""
        return [Field(**field) for field in self._fields()]

    def summary(self) -> _html.Figures:
        """The figures of this rank so far (docs/telemetry.md); shown as a table in a notebook."""
        figures, text = self._summary()
        return _html.Figures(json.loads(figures), text)

    def profile(self) -> _html.Figures:
        """Where this rank's time has gone so far, and what limits it: ``["sentence"]`` (docs/telemetry.md). Too slow
        for every step. Shown as tables in a notebook."""
        return _html.Figures(json.loads(self._profile()))

    def state_dict(self) -> dict[str, Any]:
        """The position of the job after the steps made so far, for torch.save, json and pickle. Collective with several
        ranks, and equal on all of them. A job may resume from it on any number of ranks."""
        return {"format": "forebay", "version": 1, "state": self._state()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resumes from a state_dict(). Call it before the first batch. Collective."""
        if not isinstance(state, Mapping) or state.get("format") != "forebay" or "state" not in state:
            raise ConfigError("load_state_dict() takes what Feeder.state_dict() returned; this is something else")
        if state.get("version") != 1:
            raise ConfigError(
                f"this state has version {state.get('version')!r}, and forebay {_core.version} reads version 1: load "
                "it with the version of forebay that wrote it"
            )
        self._restore_state(state["state"])

    def save(self, file: str | os.PathLike[str]) -> None:
        """Saves the state to a file, atomically, while the run continues. Collective. The file is on disk once
        finish_saves() or close() has returned. Raises Error if an earlier save failed."""
        self._save(os.fsencode(file))

    def restore(self, file: str | os.PathLike[str]) -> None:
        """Resumes from a file written by save(). Call it before the first batch. Collective. Raises NotFoundError if
        there is no such file."""
        if not self.restore_if_present(file):
            raise NotFoundError(f"{os.fsdecode(file)}: there is no such file to resume from", file)

    def restore_if_present(self, file: str | os.PathLike[str]) -> bool:
        """The same, but returns False if there is no such file."""
        return self._restore_if_present(os.fsencode(file))

    def close(self) -> None:
        """Stops the threads and writes all pending files. Collective with several ranks. Batches stay valid."""
        self._close(self._waiting.end)

    def __enter__(self) -> Feeder:
        return self

    def __exit__(self, *args: object) -> None:
        self.close()

    def __reduce__(self) -> Any:
        raise TypeError(
            "a feeder cannot be pickled: it is threads and memory of this process. Make one in each process that "
            "needs it; state_dict() says where it is, and can be pickled"
        )

    def __repr__(self) -> str:
        try:
            return "<forebay.Feeder: " + re.sub(r"; (?![^(]*\))", "\n  ", self.describe()) + ">"  # none in brackets
        except Error as error:  # another thread is inside a call, or this is a fork
            return f"<forebay.Feeder: {error}>"

    def _repr_html_(self) -> str:
        """Configuration and figures, for notebooks."""
        return _html.feeder(self)
