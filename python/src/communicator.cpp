// A Communicator made of a Python object: forebay/mpi.py, forebay/sockets.py, or the program's own.
//
// Each call takes the GIL, calls a method and converts the result. Waiting is a loop here that
// tests, calls the library's hook and sleeps without the GIL, so that signal handlers and other
// Python threads get to run. Python exceptions are kept in Raised and reach the Python caller
// unchanged.

#include "communicator.hpp"

#include <chrono>
#include <cstring>
#include <utility>

#include <nanobind/stl/string.h>

#include "base/clock.hpp"

namespace forebay::python {
namespace {

nb::bytes to_bytes(std::string_view text) { return nb::bytes(text.data(), text.size()); }

std::string to_string(nb::handle bytes) {
  const Buffer buffer(bytes, PyBUF_SIMPLE);
  return {reinterpret_cast<const char*>(buffer.bytes().data()), buffer.bytes().size()};
}

// Memory shared by the node's ranks, mapped by a Python object. After the interpreter has ended, no
// Python object may be touched; the mapping then ends with the process.
class PythonMemory final : public SharedMemory {
 public:
  explicit PythonMemory(nb::object mapped) : buffer_(new Buffer(mapped, PyBUF_WRITABLE)) {}
  ~PythonMemory() override {
    if (!is_running()) {
      buffer_->forget();
      return;
    }
    const nb::gil_scoped_acquire gil;
    buffer_.reset();
  }
  PythonMemory(const PythonMemory&) = delete;
  PythonMemory& operator=(const PythonMemory&) = delete;

  [[nodiscard]] std::span<std::byte> bytes() noexcept override { return buffer_->bytes(); }

 private:
  std::unique_ptr<Buffer> buffer_;
};

}  // namespace

// Methods that are called in every step are looked up only once.
PythonCommunicator::PythonCommunicator(nb::object python, std::shared_ptr<Raised> raised)
    : raised_(std::move(raised)),
      object_(python),
      start_reduction_(python.attr("start_reduction")),
      test_(python.attr("test")),
      listen_(python.attr("listen")),
      rank_(nb::cast<std::uint32_t>(python.attr("rank"))),
      size_(nb::cast<std::uint32_t>(python.attr("size"))) {}

std::unique_ptr<Communicator> PythonCommunicator::duplicate() const {
  return python([&]() -> std::unique_ptr<Communicator> {
    return std::make_unique<PythonCommunicator>(object_.get().attr("duplicate")(), raised_);
  });
}

// The view is writable, because the result is written to the same memory.
void PythonCommunicator::start_reduction(std::size_t channel, std::span<std::int64_t> values, std::size_t minima) {
  python([&] {
    PyObject* const view = PyMemoryView_FromMemory(reinterpret_cast<char*>(values.data()),
                                                   static_cast<Py_ssize_t>(values.size_bytes()), PyBUF_WRITE);
    if (view == nullptr) throw nb::python_error();
    start_reduction_.get()(channel, nb::steal(view), minima);
  });
}

bool PythonCommunicator::test(std::size_t channel) {
  return python([&] { return nb::cast<bool>(test_.get()(channel)); });
}

std::vector<std::byte> PythonCommunicator::broadcast(std::vector<std::byte> bytes, std::uint32_t root) {
  return python([&] {
    const std::string_view mine(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const nb::object got = object_.get().attr("broadcast")(to_bytes(mine), root);
    const Buffer buffer(got, PyBUF_SIMPLE);
    return std::vector<std::byte>(buffer.bytes().begin(), buffer.bytes().end());
  });
}

// After an exchange that did not end, the ranks are out of step, so no other may begin.
std::vector<std::string> PythonCommunicator::all_gather(std::string_view text) {
  if (is_gathering_) {
    throw Error("the ranks cannot communicate any more: an earlier exchange between them did not end");
  }
  is_gathering_ = true;
  python([&] { object_.get().attr("start_gather")(to_bytes(text)); });
  for (int looks = 0;; ++looks) {
    std::optional<std::vector<std::string>> all = python([&]() -> std::optional<std::vector<std::string>> {
      const nb::object gathered = object_.get().attr("gathered")();
      if (gathered.is_none()) return std::nullopt;
      std::vector<std::string> texts;
      for (const nb::handle theirs : gathered) texts.push_back(to_string(theirs));
      return texts;
    });
    if (all) {
      is_gathering_ = false;
      ++gathers_;
      return *std::move(all);
    }
    if (hook_) hook_();
    pause_before_look(looks);
  }
}

std::unique_ptr<SharedMemory> PythonCommunicator::share_on_node(std::size_t bytes) {
  return python([&]() -> std::unique_ptr<SharedMemory> {
    return std::make_unique<PythonMemory>(object_.get().attr("share_on_node")(bytes));
  });
}

void PythonCommunicator::tell(std::string_view text) {
  if (size_ == 1) return;
  python([&] { object_.get().attr("tell")(to_bytes(text)); });
}

std::optional<Notice> PythonCommunicator::listen() {
  if (size_ == 1) return std::nullopt;
  return python([&]() -> std::optional<Notice> {
    const nb::object notice = listen_.get()();
    if (notice.is_none()) return std::nullopt;
    return Notice{.rank = nb::cast<std::uint32_t>(notice[0]), .text = to_string(notice[1])};
  });
}

void PythonCommunicator::abort(std::string_view cause) {
  python([&] { object_.get().attr("abort")(nb::str(cause.data(), cause.size())); });
}

// Calls start_close() once, and closed() until it is true or the time is up.
bool PythonCommunicator::close(double timeout_s) {
  if (is_closed_) return true;
  if (!is_running()) return false;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(timeout_s);
  if (!is_closing_) {
    is_closing_ = true;
    python([&] { object_.get().attr("start_close")(); });
  }
  for (int looks = 0;; ++looks) {
    is_closed_ = python([&] { return nb::cast<bool>(object_.get().attr("closed")()); });
    if (is_closed_) return true;
    if (std::chrono::steady_clock::now() >= deadline) return false;
    if (hook_) hook_();
    pause_before_look(looks);
  }
}

// All ranks get the same answer, so either all raise or none does.
std::optional<std::string> first_error(const Communicator& communicator, const std::string& mine) {
  constexpr double kTimeout = 5;
  const std::unique_ptr<Communicator> own = communicator.duplicate();
  const std::vector<std::string> all = own->all_gather(mine);
  own->close(kTimeout);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].empty()) continue;
    return all.size() == 1 ? all[rank] : "rank " + std::to_string(rank) + ": " + all[rank];
  }
  return std::nullopt;
}

}  // namespace forebay::python
