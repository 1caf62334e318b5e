"""The C interface from another language: Python through ctypes, with nothing but the standard library.

    c_ctypes.py libforebay_c.so
"""
import ctypes
import importlib
import json
import re
import sys
from ctypes import POINTER, byref, c_bool, c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path

HEADERS = Path(__file__).resolve().parent.parent / "include/forebay"
OK, END_OF_RUN, ERROR_CONFIG = 0, 2, -3
UINT8, RAW_PIXELS = 3, 1


class Sample(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("label", c_int64), ("encoding", c_int32), ("width", c_int32),
                ("height", c_int32), ("channels", c_int32), ("planar", c_bool), ("bgr", c_bool), ("has_box", c_bool),
                ("left", c_int32), ("top", c_int32), ("right", c_int32), ("bottom", c_int32), ("reserved", c_int32)]


DESCRIBE = ctypes.CFUNCTYPE(c_int32, c_void_p, c_uint64, POINTER(Sample), c_void_p)
READ = ctypes.CFUNCTYPE(c_int32, c_void_p, c_uint64, c_void_p, c_void_p)
NAME = ctypes.CFUNCTYPE(None, c_void_p, c_uint64, c_void_p)
DESTROY = ctypes.CFUNCTYPE(None, c_void_p)


class Dataset(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("context", c_void_p), ("name", c_char_p), ("size", c_uint64),
                ("classes", POINTER(c_char_p)), ("class_count", c_size_t), ("identity", c_char_p),
                ("identity_size", c_size_t), ("sample", DESCRIBE), ("read", READ), ("fields", c_void_p),
                ("field_count", c_size_t), ("read_field", c_void_p), ("name_of", NAME), ("destroy", DESTROY)]


class Options(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("file", c_char_p), ("text", c_char_p), ("settings", POINTER(c_char_p)),
                ("setting_count", c_size_t), ("communicator", c_void_p), ("is_solo", c_bool),
                ("dataset", POINTER(Dataset)), ("policy", c_void_p), ("resume", c_char_p), ("trace", c_char_p),
                ("trace_s", c_double), ("while_waiting", c_void_p), ("waiting_context", c_void_p), ("log", c_void_p),
                ("log_context", c_void_p)]


class Tensor(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("data", c_void_p), ("bytes", c_uint64), ("dtype", c_int32),
                ("rank", c_int32), ("device", c_int32), ("device_index", c_int32), ("shape", c_int64 * 8),
                ("strides", c_int64 * 8)]


class View(ctypes.Structure):
    _fields_ = [(name, c_int32) for name in ("left", "top", "right", "bottom", "width", "height", "mirror")]


class Failed(Exception):
    pass


class Library:
    """The functions, with their types. What fails is raised."""

    def __init__(self, path):
        self.functions = ctypes.CDLL(path)
        for name, result, arguments in (
                ("version", c_char_p, []),
                ("c_version", c_int32, []),
                ("status_name", c_char_p, [c_int32]),
                ("error_message", c_char_p, [c_void_p]),
                ("error_status", c_int32, [c_void_p]),
                ("error_free", None, [c_void_p]),
                ("text_free", None, [c_void_p]),
                ("target_reserve", c_void_p, [c_void_p, c_size_t]),
                ("feeder_new", c_int32, [POINTER(Options), POINTER(c_void_p), POINTER(c_void_p)]),
                ("feeder_free", c_int32, [c_void_p]),
                ("feeder_next", c_int32, [c_void_p, c_double, c_void_p, POINTER(c_void_p), POINTER(c_void_p)]),
                ("feeder_summary", c_int32, [c_void_p, POINTER(c_void_p), POINTER(c_void_p)]),
                ("batch_size", c_uint32, [c_void_p]),
                ("batch_step", c_uint64, [c_void_p]),
                ("batch_is_fresh", c_bool, [c_void_p]),
                ("batch_ids", POINTER(c_uint64), [c_void_p]),
                ("batch_labels", POINTER(c_int64), [c_void_p]),
                ("batch_tensor", c_int32, [c_void_p, c_size_t, POINTER(Tensor), POINTER(c_void_p)]),
                ("batch_views", c_int32, [c_void_p, POINTER(View), c_size_t, c_size_t, POINTER(c_void_p)]),
                ("batch_dlpack", c_int32, [c_void_p, c_size_t, POINTER(c_void_p), POINTER(c_void_p)]),
                ("batch_dlpack_unversioned", c_int32, [c_void_p, c_size_t, POINTER(c_void_p), POINTER(c_void_p)]),
                ("batch_release", None, [c_void_p])):
            function = getattr(self.functions, "forebay_" + name)
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)

    def call(self, function, *arguments):
        error = c_void_p()
        status = function(*arguments, byref(error))
        if status >= 0:
            assert not error.value
            return status
        message = self.error_message(error).decode()
        assert self.error_status(error) == status
        self.error_free(error)
        raise Failed(message)

    def text(self, function, handle):
        text = c_void_p()
        self.call(function, handle, byref(text))
        copy = ctypes.string_at(text.value)
        self.text_free(text)
        return copy


class Feeder:
    """A feeder of samples that Python makes: 2 x 2 pixels, all of them the sample's number."""

    TEXT = b"""
device = "host"
[dataset]
batch_size = 4
shuffle = false
[transform]
crop = "none"
size = [2, 2]
mirror = 0
dtype = "uint8"
layout = "NHWC"
[workers]
io = 2
decode = 1
[policy]
name = "block"
[telemetry]
dir = ""
interval_s = 0
"""

    def __init__(self, library, size, settings=()):
        self.library = library
        self.ended = 0
        # ctypes keeps neither functions nor strings: this object does.
        self.kept = [DESCRIBE(self.describe), READ(self.read), DESTROY(self.end)]
        self.dataset = Dataset(struct_size=ctypes.sizeof(Dataset), name=b"python", size=size, identity=b"numbers",
                               identity_size=7, sample=self.kept[0], read=self.kept[1], destroy=self.kept[2])
        strings = (c_char_p * len(settings))(*settings)
        self.options = Options(struct_size=ctypes.sizeof(Options), text=self.TEXT, settings=strings,
                               setting_count=len(settings), dataset=ctypes.pointer(self.dataset))
        self.handle = c_void_p()
        library.call(library.feeder_new, byref(self.options), byref(self.handle))

    def describe(self, _context, id, sample, _message):
        said = sample.contents
        assert said.struct_size == ctypes.sizeof(Sample) and said.label == -1
        said.label, said.encoding, said.width, said.height, said.channels = id % 3, RAW_PIXELS, 2, 2, 1
        return OK

    def read(self, _context, id, target, _message):
        room = self.library.target_reserve(target, 4)
        if not room:
            return -1
        ctypes.memset(room, id % 256, 4)
        return OK

    def end(self, _context):
        self.ended += 1

    def next(self):
        batch = c_void_p()
        status = self.library.call(self.library.feeder_next, self.handle, -1.0, None, byref(batch))
        assert (status == OK) == bool(batch.value) and status in (OK, END_OF_RUN)
        return batch if status == OK else None

    def close(self):
        assert self.library.feeder_free(self.handle) == OK


def test_structs(library):
    """The structs above are the header's: each begins with its size, which the library compares."""
    header = (HEADERS / "c/base.h").read_text()
    major, minor = (int(re.search(rf"FOREBAY_C_VERSION_{part} (\d+)", header)[1]) for part in ("MAJOR", "MINOR"))
    assert library.c_version() == 1000 * major + minor
    assert re.fullmatch(rb"\d+\.\d+\.\d+", library.version())
    assert library.status_name(ERROR_CONFIG) == b"FOREBAY_ERROR_CONFIG"


def test_batches(library):
    feeder = Feeder(library, 10, [b"dataset.drop_last=false"])
    seen = []
    while batch := feeder.next():
        tensor = Tensor(struct_size=ctypes.sizeof(Tensor))
        library.call(library.batch_tensor, batch, 0, byref(tensor))
        size = library.batch_size(batch)
        assert tensor.dtype == UINT8 and list(tensor.shape[:tensor.rank]) == [size, 2, 2, 3]
        assert list(tensor.strides[:tensor.rank]) == [12, 6, 3, 1]
        ids = library.batch_ids(batch)[:size]
        assert ctypes.string_at(tensor.data, tensor.bytes) == b"".join(bytes([id]) * 12 for id in ids)
        assert library.batch_labels(batch)[:size] == [id % 3 for id in ids]
        assert library.batch_is_fresh(batch)
        views = (View * size)()
        library.call(library.batch_views, batch, views, ctypes.sizeof(View), size)
        assert all((view.left, view.right, view.width, view.mirror) == (0, 2, 2, 0) for view in views)
        seen += ids
        library.batch_release(batch)
    assert sorted(seen) == list(range(10))
    assert json.loads(library.text(library.feeder_summary, feeder.handle))["steps"] == 3
    feeder.close()
    assert feeder.ended == 1


class Capsules:
    """A field as array libraries ask for it: __dlpack__() of the array API."""

    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [c_void_p, c_char_p, c_void_p]

    def __init__(self, library, batch, field):
        self.library, self.batch, self.field = library, batch, field

    def __dlpack_device__(self):
        return 1, 0  # kDLCPU

    def __dlpack__(self, stream=None, max_version=None, **_):
        managed = c_void_p()
        if max_version and max_version >= (1, 0):
            function, name = self.library.batch_dlpack, b"dltensor_versioned"
        else:
            function, name = self.library.batch_dlpack_unversioned, b"dltensor"
        self.library.call(function, self.batch, self.field, byref(managed))
        return self.new(managed, name, None)  # who takes it calls the deleter


def test_consumer(name):
    """numpy or torch takes tensors and gives them back: the place is theirs until the last array has ended."""
    def test(library):
        try:
            consumer = importlib.import_module(name)
        except ImportError:
            return "skipped: there is none"
        if not hasattr(consumer, "from_dlpack"):
            return "skipped: it has no from_dlpack"
        feeder = Feeder(library, 8, [b"queue.max_leases=1"])
        for step in range(2):
            batch = feeder.next()
            assert library.batch_step(batch) == step
            images = consumer.from_dlpack(Capsules(library, batch, 0))
            labels = consumer.from_dlpack(Capsules(library, batch, 1))
            library.batch_release(batch)
            expected = list(range(4 * step, 4 * step + 4))
            assert images.shape == (4, 2, 2, 3) and images[:, 1, 1, 2].tolist() == expected
            assert labels.tolist() == [id % 3 for id in expected]
            for _ in range(2):
                try:
                    feeder.next()
                except Failed as error:
                    assert "lease" in str(error)
                else:
                    raise AssertionError("the arrays do not hold their place")
                images = None
            assert labels.tolist() == [id % 3 for id in expected]
            labels = None
        assert feeder.next() is None
        feeder.close()
        return "ok"
    test.__name__ = f"test_{name}"
    return test


def main():
    library = Library(sys.argv[1])
    for test in (test_structs, test_batches, test_consumer("numpy"), test_consumer("torch")):
        print(test.__name__, test(library) or "ok", flush=True)


if __name__ == "__main__":
    main()
