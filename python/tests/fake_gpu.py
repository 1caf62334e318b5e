"""A GPU that does not exist, for programs of tests whose forebay is linked to the fake CUDA runtime, and libraries that
take batches there as PyTorch, CuPy, JAX and TensorFlow do."""

from __future__ import annotations

import ctypes
import itertools
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import forebay._core

_library = ctypes.CDLL(forebay._core.__file__)
_library.fake_gpu_stream.restype = ctypes.c_void_p
_library.fake_gpu_look.restype = ctypes.c_int64
_library.fake_gpu_look.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
_library.fake_gpu_found.restype = ctypes.c_void_p
_library.fake_gpu_found.argtypes = _library.fake_gpu_is_done.argtypes = [ctypes.c_int64]
_library.fake_gpu_synchronize.argtypes = _library.fake_gpu_destroy.argtypes = [ctypes.c_void_p]
_library.fake_gpu_begin.argtypes = [ctypes.c_int, ctypes.c_uint64]

_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype = ctypes.c_void_p
_pointer_of.argtypes = [ctypes.py_object, ctypes.c_char_p]
_rename = ctypes.pythonapi.PyCapsule_SetName
_rename.argtypes = [ctypes.py_object, ctypes.c_char_p]


@contextmanager
def machine(gpus: int = 1, seed: int = 1) -> Iterator[None]:
    _library.fake_gpu_begin(gpus, seed)
    yield
    assert _library.fake_gpu_misuse() == 0
    _library.fake_gpu_end()


set_current = _library.fake_gpu_set_current
synchronize = _library.fake_gpu_synchronize


class Stream:
    """As CuPy has it: destroyed with its object."""

    def __init__(self) -> None:
        self.ptr = _library.fake_gpu_stream()

    def __del__(self) -> None:
        assert _library.fake_gpu_destroy(self.ptr) == 1


class _Managed(ctypes.Structure):
    """DLManagedTensor."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("kind", ctypes.c_int32),
        ("device", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )


class Look:
    """What a kernel finds, once it has run."""

    def __init__(self, stream: int | None, address: int, count: int) -> None:
        self.bytes = count
        self.number = _library.fake_gpu_look(stream, address, count)
        assert self.number >= 0

    def is_ready(self) -> bool:
        return bool(_library.fake_gpu_is_done(self.number))

    def __getitem__(self, part: slice) -> Look:
        return self

    def found(self) -> bytes:
        assert self.is_ready()
        return ctypes.string_at(_library.fake_gpu_found(self.number), self.bytes)


class Array:
    """A consumer's, which calls the deleter when nothing refers to it any more."""

    def __init__(self, capsule: Any) -> None:
        self._address = _pointer_of(capsule, b"dltensor")
        _rename(capsule, b"used_dltensor")
        self.tensor = _Managed.from_address(self._address)
        assert self.tensor.kind == 2
        self.shape = tuple(self.tensor.shape[: self.tensor.ndim])
        self.bytes = self.tensor.bits // 8
        for extent in self.shape:
            self.bytes *= extent

    def look(self, stream: int | None) -> Look:
        """A kernel that reads it."""
        return Look(stream, self.tensor.data, self.bytes)

    def __del__(self) -> None:
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.tensor.deleter)(self._address)


current: Stream | None = None  # PyTorch's and CuPy's; None = CUDA's default stream


def handle() -> int | None:
    return current.ptr if current is not None else None


def take_as_torch(given: Any) -> Array:
    return Array(given if type(given).__name__ == "PyCapsule" else given.__dlpack__(stream=handle() or 1))


def take_as_cupy(given: Any) -> Array:
    return Array(given.__dlpack__(stream=handle() or 1))


def take_as_tensorflow(given: Any) -> Array:
    return Array(given.__dlpack__())


class Torch:
    def __init__(self) -> None:
        torch = types.ModuleType("torch")
        torch.cuda = types.SimpleNamespace(  # type: ignore[attr-defined]
            current_stream=lambda gpu: types.SimpleNamespace(cuda_stream=handle() or 0)
        )
        torch.from_dlpack = take_as_torch  # type: ignore[attr-defined]
        sys.modules["torch"] = torch


class Cupy:
    def __init__(self) -> None:
        cupy = types.ModuleType("cupy")
        cupy.cuda = types.SimpleNamespace(get_current_stream=lambda: current)  # type: ignore[attr-defined]
        cupy.from_dlpack = take_as_cupy  # type: ignore[attr-defined]
        sys.modules["cupy"] = cupy


class Jax:
    """XLA: it names streams that it does not compute on."""

    def __init__(self, has_gpus: bool = True, is_full: bool = False) -> None:
        self.computes = Stream()
        self.streams = [Stream() for _ in range(4)]
        turns = itertools.cycle(self.streams)
        jax, dlpack, numpy = (types.ModuleType(name) for name in ("jax", "jax.dlpack", "jax.numpy"))

        def from_dlpack(given: Any) -> Array:
            if not has_gpus:
                raise RuntimeError("Unknown backend cuda")
            if is_full:
                raise RuntimeError("RESOURCE_EXHAUSTED")
            return Array(given.__dlpack__(stream=next(turns).ptr))

        def devices(backend: str) -> list[str]:
            if not has_gpus:
                raise RuntimeError("Unknown backend " + backend)
            return [backend]

        jax.devices = devices  # type: ignore[attr-defined]
        # Of a module of JAX's.
        scope = {"__name__": "jax._src.dlpack", "Array": Array, "Any": Any, "next": next, "RuntimeError": RuntimeError}
        dlpack.from_dlpack = types.FunctionType(  # type: ignore[attr-defined]
            from_dlpack.__code__, scope, closure=from_dlpack.__closure__
        )
        numpy.array = lambda array, copy: array.look(self.computes.ptr)  # type: ignore[attr-defined]
        numpy.asarray = lambda array: array  # type: ignore[attr-defined]
        numpy.ravel = lambda copy: copy  # type: ignore[attr-defined]
        sys.modules.update({"jax": jax, "jax.dlpack": dlpack, "jax.numpy": numpy})

    def end(self) -> None:
        """Nothing of it is left when the machine ends."""
        for name in ("jax", "jax.dlpack", "jax.numpy"):
            del sys.modules[name]
