#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include <forebay/error.hpp>

#include <nanobind/nanobind.h>

// References to Python objects for C++ code that does not hold the interpreter's lock (GIL).
namespace forebay::python {

namespace nb = nanobind;

// False once the interpreter has ended, when no reference may be touched any more.
[[nodiscard]] inline bool is_running() noexcept { return nb::is_alive() && Py_IsInitialized() != 0; }

// A Python object that any thread may copy and drop without the GIL: copies share one reference.
class Held {
 public:
  Held() = default;
  // REQUIRES: the GIL.
  explicit Held(nb::object object)
      : object_(new nb::object(std::move(object)), [](nb::object* last) {
          if (!is_running()) return;  // what it refers to is gone
          const nb::gil_scoped_acquire gil;
          delete last;
        }) {}

  [[nodiscard]] explicit operator bool() const noexcept { return object_ && object_->is_valid(); }
  // REQUIRES: the GIL.
  [[nodiscard]] const nb::object& get() const noexcept { return *object_; }

 private:
  std::shared_ptr<nb::object> object_;
};

// "ValueError: the message". REQUIRES: the GIL.
[[nodiscard]] inline std::string text_of(const nb::python_error& error) {
  const std::string type = nb::cast<std::string>(error.type().attr("__name__"));
  const std::string message = nb::cast<std::string>(nb::str(error.value()));
  return message.empty() ? type : type + ": " + message;
}

// The first Python exception that was raised on the trainer's thread inside a call of the library. The library carries
// its text to all ranks; the call then raises the exception itself. Used by the trainer's thread.
struct Raised {
  std::exception_ptr first;

  // REQUIRES: within a catch of nb::python_error.
  void keep() noexcept {
    if (!first) first = std::current_exception();
  }
};

// Calls work() with the GIL. A Python exception is kept, and rethrown as an Error of the library with its text.
template <typename Work>
auto with_python(Raised& raised, Work&& work) {
  const nb::gil_scoped_acquire gil;
  try {
    return work();
  } catch (const nb::python_error& error) {
    raised.keep();
    throw Error(text_of(error));
  }
}

// The number of forks between the process that imported the module and this one. A plain load.
[[nodiscard]] std::uint64_t forks() noexcept;

}  // namespace forebay::python
