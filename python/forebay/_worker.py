"""The program of a process that reads samples. _processes.py starts it; it ends when its socket closes."""

from __future__ import annotations

import contextlib
import mmap
import multiprocessing.process
import multiprocessing.spawn
import os
import pickle
import select
import signal
import socket
import struct
import sys
import threading
import time
import traceback
from typing import Any, BinaryIO

from ._fields import specs_of
from ._samples import answer_of, told

READ, FAILED = 0, 1
_ALIGNMENT = 64
_LEAST = 1 << 20
_GRACE_S = 2.0

# Set in a process that reads samples, which must not start others.
is_worker = False


def receive(incoming: BinaryIO, count: int) -> bytes:
    """Receives `count` bytes. Raises EOFError if the other side closes first."""
    data = incoming.read(count)
    if len(data) < count:
        raise EOFError
    return data


def receive_message(incoming: BinaryIO) -> bytes:
    return receive(incoming, int.from_bytes(receive(incoming, 8), sys.byteorder))


def send_message(connection: socket.socket, data: bytes) -> None:
    connection.sendall(len(data).to_bytes(8, sys.byteorder) + data)


def pickled(error: BaseException) -> bytes:
    """An exception with its text and traceback; one that cannot be pickled is replaced."""
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    with contextlib.suppress(Exception):
        data = pickle.dumps((told(error), text, error))
        pickle.loads(data)
        return data
    return pickle.dumps((told(error), text, RuntimeError(told(error))))


class _Memory:
    """Memory that the other process maps as well."""

    def __init__(self, file: int) -> None:
        os.ftruncate(file, _LEAST)
        self._map = mmap.mmap(file, _LEAST)

    def put(self, parts: list[tuple[bool, memoryview]]) -> list[int]:
        """Stores the parts; returns is_path, offset and size of each."""
        places: list[int] = []
        end = 0
        for is_path, part in parts:
            places += [int(is_path), end, len(part)]
            end += -(-len(part) // _ALIGNMENT) * _ALIGNMENT
        if end > len(self._map):
            self._map.resize(max(end, 2 * len(self._map)))  # and the file
        for (_, part), offset in zip(parts, places[1::3]):
            self._map[offset : offset + len(part)] = part
        return places


def _as_parts(answer: Any) -> list[tuple[bool, memoryview]]:
    parts = []
    for part in answer if isinstance(answer, list) else [answer]:
        is_path = isinstance(part, str)
        parts.append((is_path, memoryview(os.fsencode(part) if is_path else part).cast("B")))
    return parts


def _end_with_parent(connection: socket.socket) -> None:
    """Ends this process soon after its parent has gone, whatever it is busy with."""
    watch = select.poll()
    watch.register(connection, 0)  # poll() always reports a hang-up
    watch.poll()
    time.sleep(_GRACE_S)
    os._exit(1)


def _serve(incoming: BinaryIO, connection: socket.socket, memory: _Memory, dataset: Any, fields: Any) -> None:
    while True:
        index = int.from_bytes(receive(incoming, 8), sys.byteorder)
        try:
            status, parts = READ, _as_parts(answer_of(dataset[index], fields))
        except BaseException as error:
            status, parts = FAILED, [(False, memoryview(pickled(error)))]
        places = memory.put(parts)
        del parts
        connection.sendall(struct.pack(f"=2Q{len(places)}Q", status, len(places) // 3, *places))


def run(connection_file: int, memory_file: int) -> None:
    global is_worker
    is_worker = True
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    connection = socket.socket(fileno=connection_file)
    incoming = connection.makefile("rb")
    threading.Thread(target=_end_with_parent, args=(connection,), daemon=True).start()
    with contextlib.suppress(EOFError, ConnectionError):
        memory = _Memory(memory_file)
        try:
            # Imports the program's main module as in processes spawned by multiprocessing.
            multiprocessing.spawn.prepare(pickle.loads(receive_message(incoming)))
            dataset = pickle.loads(receive_message(incoming))
            fields = specs_of(dataset.fields)
            if sys.modules.get("torch"):  # one thread each, as PyTorch's own workers: the processes are the busy cores
                sys.modules["torch"].set_num_threads(1)
        except (EOFError, ConnectionError):
            raise
        except BaseException as error:
            send_message(connection, pickled(error))
            return
        send_message(connection, b"")
        _serve(incoming, connection, memory, dataset, fields)
