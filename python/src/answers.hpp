#pragma once

#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include <forebay/error.hpp>

#include "listed_dataset.hpp"
#include "references.hpp"

namespace forebay::python {

// The name of its class in forebay/errors.py. The most derived types count, because the others are their bases.
[[nodiscard]] const char* class_of(const Error& error) noexcept;

// Keeps exceptions that Python code raised for samples, in case one of them ends the run. Any
// thread.
class Failures {
 public:
  // Keeps the exception, and returns the error for its sample. REQUIRES: the GIL, within the catch
  // of `raised`.
  [[nodiscard]] SampleError keep(const nb::python_error& raised);
  // Throws `error` with the Python exception that it is about as its cause; returns if there is
  // none. REQUIRES: the GIL, within the catch of `error`.
  void explain(const Error& error);
  // REQUIRES: the GIL.
  void forget();

 private:
  struct Kept {
    std::string text;
    std::exception_ptr raised;
  };
  static constexpr std::size_t kMost = 4;  // few, because tracebacks keep the program's objects alive

  std::mutex mutex_;
  std::deque<Kept> kept_;
};

// A part of a sample as Python returned it: its image, or a field.
struct Part {
  std::string path;  // path of a file, or "" if there are bytes
  std::span<const std::byte> bytes = {};
  std::shared_ptr<const void> owner = {};  // of the bytes
};

// Samples that Python code returns one at a time, each as a whole: the image and every field. A
// reader asks for the image and then for each field, so the remaining parts are kept for its thread
// until the last one has been read.
class AnsweringDataset : public ListedDataset {
 public:
  // `program`: what is asked. REQUIRES: the GIL.
  AnsweringDataset(nb::object program, std::uint64_t size, SampleList list, std::string identity)
      : ListedDataset(size, std::move(list)), program_(std::move(program)), identity_(std::move(identity)) {}

  [[nodiscard]] std::string_view format() const noexcept override { return "python"; }
  [[nodiscard]] std::string name(std::uint64_t id) const override { return "sample " + std::to_string(id); }
  [[nodiscard]] std::string field_name(std::uint64_t /*id*/, std::size_t /*field*/) const override { return {}; }
  [[nodiscard]] std::vector<std::byte> serialize() const override { return serialized(identity_); }
  void read(std::uint64_t id, ReadTarget& target) const override;
  void read_field(std::uint64_t id, std::size_t field, ReadTarget& target) const override;

  // REQUIRES: the GIL.
  [[nodiscard]] const nb::object& program() const noexcept { return program_.get(); }
  [[nodiscard]] Failures& failures() const noexcept { return *failures_; }
  // How many samples can be read at a time; 0: any number.
  [[nodiscard]] virtual unsigned at_once() const noexcept { return 0; }
  // Called when the feeder begins to close: samples being read are no longer needed. Any thread.
  virtual void abandon() noexcept {}
  // Called when the feeder is closed, or when an exception ended the wait for its readers; may be
  // called again. Closes everything, even if it throws nb::python_error because a signal arrived
  // meanwhile. REQUIRES: the GIL.
  virtual void close() {}

 protected:
  // Drops the remaining parts of samples that were not read to their end. Any thread.
  void forget_answers() noexcept;
  // Returns the image and every field. May wait; `target` then tells whether the feeder is closing.
  // Throws SampleError.
  [[nodiscard]] virtual std::vector<Part> ask(std::uint64_t id, ReadTarget& target) const = 0;

 private:
  struct Answer {
    std::uint64_t id = 0;
    std::vector<Part> parts;
  };
  [[nodiscard]] std::vector<Part> take_kept(std::uint64_t id) const;
  void keep(std::uint64_t id, std::vector<Part> parts) const;

  Held program_;
  std::string identity_;
  std::unique_ptr<Failures> failures_ = std::make_unique<Failures>();
  mutable std::mutex mutex_;
  mutable std::unordered_map<std::thread::id, Answer> kept_;
};

// Samples that a Python object in this process returns: read(id) returns the image, or a list of
// image and fields; each is the path of a file, or bytes. Each call takes the GIL. `identity`
// distinguishes the data from other data. REQUIRES: the GIL.
[[nodiscard]] std::shared_ptr<AnsweringDataset> object_dataset(nb::object read, std::uint64_t size, SampleList list,
                                                               std::string identity);

// The path in a Python str, as bytes. Throws nb::python_error. REQUIRES: the GIL.
[[nodiscard]] std::string path_of(nb::handle text);

}  // namespace forebay::python
