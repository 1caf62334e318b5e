#pragma once

#include <cstddef>

#include <forebay/tensor.hpp>

#include <nanobind/nanobind.h>

#include "references.hpp"

namespace forebay::python {

// The handle of a CUDA stream, given as a number or as a stream object of PyTorch, CuPy or Numba
// (whose handle is a ctypes pointer). None gives a null handle. Raises TypeError and ValueError.
inline StreamView stream_of(nb::handle stream) {
  if (stream.is_none()) return {};
  nb::object number = nb::borrow(stream);
  for (const char* const name : {"cuda_stream", "ptr", "handle", "value"}) {
    if (nb::hasattr(number, name)) number = number.attr(name);
    if (number.is_none()) return {};
  }
  if (PyIndex_Check(number.ptr()) == 0) {
    throw nb::type_error("stream= is a CUDA stream: its number, or an object of PyTorch, CuPy or Numba");
  }
  const nb::object index = nb::steal(PyNumber_Index(number.ptr()));
  if (!index.is_valid()) throw nb::python_error();
  const std::size_t value = PyLong_AsSize_t(index.ptr());
  if (value == static_cast<std::size_t>(-1) && PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    throw nb::value_error("stream= is the number of a CUDA stream, which is an address: 0 or more");
  }
  return {reinterpret_cast<void*>(value)};
}

// A stream of the program, whose object is kept alive as long as this.
struct GivenStream {
  // Raises as stream_of() does. REQUIRES: the GIL.
  explicit GivenStream(nb::handle stream) : view(stream_of(stream)) {
    if (!stream.is_none()) object = Held(nb::borrow(stream));
  }

  StreamView view;
  Held object;
};

}  // namespace forebay::python
