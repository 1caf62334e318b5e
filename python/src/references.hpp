#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <thread>
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
// its text to all ranks; the call then raises the exception itself. REQUIRES, for all members: the GIL.
class Raised {
 public:
  // The calling thread is the trainer's now.
  void begin() noexcept {
    first_ = nullptr;
    trainer_ = std::this_thread::get_id();
  }
  [[nodiscard]] bool is_by_trainer() const noexcept { return trainer_ == std::this_thread::get_id(); }
  // REQUIRES: within a catch of nb::python_error.
  void keep() noexcept {
    if (!first_) first_ = std::current_exception();
  }
  [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(first_); }
  // Throws what was kept, if anything.
  void rethrow() {
    if (first_) std::rethrow_exception(std::exchange(first_, nullptr));
  }

 private:
  std::exception_ptr first_;
  std::thread::id trainer_ = std::this_thread::get_id();
};

// Calls work() with the GIL. A Python exception is kept, and rethrown as an Error of the library with its text.
template <typename Work>
auto with_python(Raised& raised, Work&& work) {
  const nb::gil_scoped_acquire gil;
  const nb::error_scope outside;  // a feeder may be destroyed while an exception is on its way
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
