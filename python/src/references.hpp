#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <forebay/error.hpp>

#include <nanobind/nanobind.h>

// References to Python objects for C++ code that does not hold the interpreter's lock (the GIL).
namespace forebay::python {

namespace nb = nanobind;

// False once the interpreter has ended; then no reference may be touched any more.
[[nodiscard]] inline bool is_running() noexcept { return nb::is_alive() && Py_IsInitialized() != 0; }

// A Python object that any thread may copy and drop without the GIL: copies share one reference.
class Held {
 public:
  Held() = default;
  // REQUIRES: the GIL.
  explicit Held(nb::object object)
      : object_(new nb::object(std::move(object)), [](nb::object* last) {
          if (!is_running()) {
            static_cast<void>(last->release());  // the object no longer exists
            delete last;
            return;
          }
          const nb::gil_scoped_acquire gil;
          delete last;
        }) {}

  [[nodiscard]] explicit operator bool() const noexcept { return object_ && object_->is_valid(); }
  // REQUIRES: the GIL.
  [[nodiscard]] const nb::object& get() const noexcept { return *object_; }

 private:
  std::shared_ptr<nb::object> object_;
};

// The bytes of anything with the buffer protocol. REQUIRES: the GIL, to construct and to destroy.
class Buffer {
 public:
  Buffer(nb::handle object, int flags) {
    if (PyObject_GetBuffer(object.ptr(), &view_, flags) != 0) throw nb::python_error();
  }
  ~Buffer() { PyBuffer_Release(&view_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  // Gives up the reference, so that this may be destroyed without the GIL. REQUIRES: the
  // interpreter has ended, and the memory with it.
  void forget() noexcept { view_.obj = nullptr; }

  [[nodiscard]] std::span<std::byte> bytes() const noexcept {
    return {static_cast<std::byte*>(view_.buf), static_cast<std::size_t>(view_.len)};
  }

 private:
  Py_buffer view_{};
};

// A str as UTF-8; characters that UTF-8 cannot represent, such as parts of file names, are escaped.
// REQUIRES: the GIL.
[[nodiscard]] inline std::string utf8_of(nb::handle text) {
  const nb::object encoded = nb::steal(PyUnicode_AsEncodedString(text.ptr(), "utf-8", "backslashreplace"));
  if (!encoded.is_valid()) throw nb::python_error();
  const nb::bytes bytes = nb::borrow<nb::bytes>(encoded);
  return {bytes.c_str(), bytes.size()};
}

// A str from a file name. REQUIRES: the GIL.
[[nodiscard]] inline nb::str to_path(const std::string& text) {
  return nb::steal<nb::str>(PyUnicode_DecodeFSDefaultAndSize(text.data(), static_cast<Py_ssize_t>(text.size())));
}

[[nodiscard]] inline nb::list to_paths(const std::vector<std::string>& texts) {
  nb::list all;
  for (const std::string& text : texts) all.append(to_path(text));
  return all;
}

// "ValueError: the message". REQUIRES: the GIL.
[[nodiscard]] inline std::string text_of(const nb::python_error& error) {
  const std::string type = utf8_of(error.type().attr("__name__"));
  const std::string message = utf8_of(nb::str(error.value()));
  return message.empty() ? type : type + ": " + message;
}

class Failures;

// The Python code that a feeder calls: the objects, and the exceptions that they raised inside a call of the library.
// The library carries their text to all ranks; then the call raises the exception itself. REQUIRES, for all members:
// the GIL.
class Raised {
 public:
  // Starts a call: the calling thread is now the trainer's.
  void begin() noexcept {
    first_ = nullptr;
    trainer_ = std::this_thread::get_id();
  }
  [[nodiscard]] bool is_by_trainer() const noexcept { return trainer_ == std::this_thread::get_id(); }
  // Keeps the first exception on the trainer's thread in this call. REQUIRES, like the two below:
  // called within a catch of nb::python_error.
  void keep() noexcept {
    if (!first_) first_ = std::current_exception();
  }
  // Keeps what a policy raised: it ends the run, in this call or a later one.
  void keep_of_policy() noexcept {
    if (!policy_) policy_ = std::current_exception();
  }
  // Keeps the first exception on another thread, for the case that it ends the run.
  void keep_elsewhere() noexcept {
    if (!elsewhere_) elsewhere_ = std::current_exception();
  }
  [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(first_); }
  // Throws what was kept in this call, if anything.
  void rethrow() {
    if (first_) std::rethrow_exception(std::exchange(first_, nullptr));
  }
  // Holds an object for a part of the feeder, and shows it to Python's collector: a program's object may refer to the
  // feeder that calls it.
  [[nodiscard]] Held hold(nb::object object) { return held_.emplace_back(std::move(object)); }
  // For tp_traverse: each reference once, however many copies of a Held share it.
  int show_references(visitproc visit, void* arg) const {
    for (const Held& held : held_) Py_VISIT(held.get().ptr());
    return 0;
  }
  // Also look for exceptions of code that reads samples; see Failures. `failures` must outlive
  // this.
  void ask(Failures* failures) noexcept { failures_ = failures; }
  // Throws what a policy raised, or `error` with an exception from samples or another thread as its
  // cause; returns if there is neither. REQUIRES: called within the catch of `error`.
  void explain(const Error& error);

 private:
  std::exception_ptr first_;
  std::exception_ptr policy_;
  std::exception_ptr elsewhere_;
  Failures* failures_ = nullptr;
  std::vector<Held> held_;
  std::thread::id trainer_ = std::this_thread::get_id();
};

// Calls work() with the GIL. A Python exception is kept, and an Error with its text is thrown
// instead.
template <typename Work>
auto with_python(Raised& raised, Work&& work) {
  const nb::gil_scoped_acquire gil;
  const nb::error_scope outside;  // a feeder may be destroyed while an exception is in flight
  try {
    return work();
  } catch (const nb::python_error& error) {
    raised.keep();
    throw Error(text_of(error));
  }
}

}  // namespace forebay::python
