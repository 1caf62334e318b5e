"""Processes that call a dataset's __getitem__, for datasets that hold the interpreter's lock."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import multiprocessing.spawn
import os
import pickle
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

from . import _worker
from ._samples import RemoteTraceback
from .errors import ConfigError, Error

_START_S = 300.0
_GRACE_S = 1.0
# With -c the current folder is first in sys.path, and nothing may be imported from there before that is replaced: sys
# is built into the interpreter.
_PROGRAM = (
    "import sys; sys.path[:] = sys.argv[3:]; from forebay._worker import run; run(int(sys.argv[1]), int(sys.argv[2]))"
)
# A process that reads samples is not a rank, even if the program's main module initialises MPI.
_LAUNCHERS = ("OMPI_COMM_WORLD_", "OMPI_MCA_ess", "OMPI_MCA_orte_", "PMIX_", "PMI_", "PMI2_", "MPI_LOCAL", "HYDI_")


def _payload(dataset: Any) -> bytes:
    try:
        return pickle.dumps(dataset, pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        raise ConfigError(
            f"processes: {type(dataset).__name__} cannot be sent to another process: {_culprit(dataset, error)}"
        ) from error


def _culprit(dataset: Any, error: Exception) -> str:
    """Says which part of the object cannot be pickled, and what to do."""
    for name, value in getattr(dataset, "__dict__", {}).items():
        try:
            pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
        except Exception as cause:
            return (
                f"its attribute {name!r} ({type(value).__name__}) cannot be pickled ({cause}). Make it in __getitem__ "
                "when it is first needed, or leave it out in __getstate__"
            )
    return f"{error}. Define its class at the top of a module"


def _main_module() -> bytes:
    """The data by which a process finds the program's main module. Leaves the program free to choose multiprocessing's
    start method."""
    is_chosen = multiprocessing.get_start_method(allow_none=True) is not None
    main = multiprocessing.spawn.get_preparation_data("forebay")
    if not is_chosen:
        multiprocessing.set_start_method(None, force=True)
    main.pop("authkey", None)  # must not be sent
    return pickle.dumps(main)


class Pool:
    """The processes of one feeder. The library's threads send requests over their sockets."""

    def __init__(self, dataset: Any, count: int, logger: logging.Logger) -> None:
        if _worker.is_worker:
            raise ConfigError(
                "a process that reads samples must not start others: the program makes its feeder when its main module "
                'is imported. Put that below `if __name__ == "__main__":`'
            )
        self.count = count
        self._logger = logger
        self._messages = _main_module(), _payload(dataset)
        self._parent = os.getpid()
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._ends: dict[int, tuple[socket.socket, int]] = {}  # of those that no thread of the library talks to
        try:
            for number in range(count):
                self._launch(number)
            self._greet(range(count))
        except BaseException:
            self.close()
            raise

    def connect(self, number: int) -> tuple[int, int]:
        """File descriptors of a process's socket and memory, which the caller must close. Replaces a process that has
        ended."""
        if number not in self._ends:
            text = self._ended(number)
            self._logger.warning("process %d of the dataset %s; starting another", number, text)
            self._launch(number)
            try:
                self._greet([number])
            except BaseException:
                self._ended(number)
                raise
        connection, memory = self._ends.pop(number)
        return connection.detach(), memory

    def fail_by_end(self, number: int, is_last: bool) -> None:
        """Raises the error for the sample that a process was reading when it ended. ``is_last``: the process will not
        be replaced."""
        text = self._ended(number)
        if is_last:
            self._logger.error(
                "process %d of the dataset %s, as did those before it: no more are started", number, text
            )
        kind: type[Exception] = RuntimeError
        advice = "Call __getitem__ for it in a program of its own, under python -X faulthandler, to see where"
        if number in self._processes and self._processes[number].returncode == -signal.SIGKILL:
            kind = ConnectionError  # another attempt may find enough memory
            advice = "The system does that when memory runs out: use fewer processes"
        error: Any = kind(f"process {number} of the dataset {text} while it read the sample. {advice}")
        error._forebay_told = str(error)  # complete by itself
        raise error

    def fail_by_exception(self, data: bytes) -> None:
        """Re-raises the exception of a process."""
        told, text, error = pickle.loads(data)
        error.__cause__ = RemoteTraceback(text)
        with contextlib.suppress(AttributeError):
            error._forebay_told = told
        raise error

    def close(self) -> None:
        """Ends the processes, killing those that take longer than a second. If interrupted, raises that once all have
        ended."""
        if os.getpid() != self._parent:
            return  # a fork has no processes
        for number in range(self.count):
            self._drop(number)
        deadline = time.monotonic() + _GRACE_S
        interrupted: BaseException | None = None
        for process in self._processes.values():
            patience: float | None = max(0.0, deadline - time.monotonic())
            while process.returncode is None:
                try:
                    process.wait(patience)
                except BaseException as error:
                    if not isinstance(error, subprocess.TimeoutExpired):
                        interrupted = error
                    process.kill()
                    patience = None
        self._processes.clear()
        if interrupted is not None:
            raise interrupted

    def _launch(self, number: int) -> None:
        ours, theirs = socket.socketpair()
        memory = os.memfd_create("forebay-samples")
        command = [sys.executable, *subprocess._args_from_interpreter_flags()]  # type: ignore[attr-defined]
        folders = [os.fsdecode(folder) for folder in sys.path]  # some programs put Path objects there
        command += ["-c", _PROGRAM, str(theirs.fileno()), str(memory), *folders]
        try:
            # In a session of its own, because Ctrl-C in a terminal is for this process, which ends the others.
            self._processes[number] = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(), memory),
                env={name: value for name, value in os.environ.items() if not name.startswith(_LAUNCHERS)},
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            os.close(memory)
            raise Error(f"processes: the system starts no process: {error}") from error
        finally:
            theirs.close()
        self._ends[number] = (ours, memory)

    def _greet(self, numbers: Sequence[int]) -> None:
        """Sends the dataset to the processes, which then start up in parallel, and waits until all have it."""
        for message in self._messages:
            for number in numbers:
                with self._talking(number) as connection, contextlib.suppress(ConnectionError):
                    _worker.send_message(connection, message)  # a process that has ended is reported below
        for number in numbers:
            with self._talking(number) as connection, connection.makefile("rb") as incoming:
                problem = _worker.receive_message(incoming)
            if problem:
                told, text, _ = pickle.loads(problem)
                raise Error(
                    f"process {number} of the dataset could not take it over: {told}. Its class and all that it refers "
                    "to are imported there anew: define it in a module, not in a notebook or on standard input"
                ) from RemoteTraceback(text)

    @contextlib.contextmanager
    def _talking(self, number: int) -> Iterator[socket.socket]:
        """The connection to a process that is starting. Raises Error if it ends or takes too long."""
        connection = self._ends[number][0]
        connection.settimeout(_START_S)
        try:
            yield connection
        except (EOFError, OSError) as error:
            late = isinstance(error, (TimeoutError, socket.timeout))  # one type since Python 3.10
            what = f"was not ready within {_START_S:.0f} s" if late else self._ended(number)
            raise Error(
                f"process {number} of the dataset {what} before it was ready; what it printed says why. It begins by "
                'importing the program\'s main module, which therefore needs `if __name__ == "__main__":`'
            ) from None
        connection.settimeout(None)

    def _drop(self, number: int) -> None:
        """Closes this side of the connection of a process that was not handed over."""
        if number in self._ends:
            connection, memory = self._ends.pop(number)
            connection.close()
            os.close(memory)

    def _ended(self, number: int) -> str:
        """How a process ended, as part of a sentence."""
        self._drop(number)
        process = self._processes.get(number)
        if process is None:
            return "had ended"
        try:
            code = process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return "stopped answering and was killed"
        if code >= 0:
            return f"ended with exit code {code}"
        with contextlib.suppress(ValueError):
            return f"was ended by signal {-code} ({signal.Signals(-code).name})"
        return f"was ended by signal {-code}"
