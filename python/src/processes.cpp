// A dataset whose samples are read by Python processes, so that Python code runs on several cores.
// Each process has a socket for requests and answers, and shared memory that holds the bytes;
// forebay/_processes.py starts and ends them.
//
// A reader thread takes a free worker, requests a sample and waits for the answer without the GIL.
// The worker remains taken until the last part of the answer has been copied, because its memory is
// reused for the next one. A process that has ended is replaced at the next request to its worker.
// If eight processes in a row end without reading a sample, the program is at fault, and no more
// are started.
//
// Closing: abandoned_ makes waiting threads leave (leave()); then the sockets are closed, which
// ends the processes.

#include "processes.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <forebay/error.hpp>

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include "worker.hpp"

namespace forebay::python {
namespace {

class ProcessDataset final : public AnsweringDataset {
 public:
  ProcessDataset(nb::object pool, std::uint64_t size, SampleList list, std::string identity)
      : AnsweringDataset(std::move(pool), size, std::move(list), std::move(identity)) {
    const auto count = nb::cast<unsigned>(program().attr("count"));
    for (unsigned number = 0; number < count; ++number) {
      workers_.push_back(std::make_unique<Worker>(number));
      connect(*workers_.back());
      free_.push_back(workers_.back().get());
    }
  }
  ProcessDataset(const ProcessDataset&) = delete;
  ProcessDataset& operator=(const ProcessDataset&) = delete;
  // Kept answers must be dropped first: they would return their workers to a dataset that no longer
  // exists.
  ~ProcessDataset() override {
    forget_answers();                         // their destruction returns workers
    if (is_closed_ || !is_running()) return;  // the pool may have been collected in part
    const nb::gil_scoped_acquire gil;
    const nb::error_scope outside;  // a feeder may be destroyed while an exception is in flight
    try {
      close();
    } catch (nb::python_error& error) {
      error.discard_as_unraisable("closing the processes of a dataset");
    }
  }

  [[nodiscard]] unsigned at_once() const noexcept override { return static_cast<unsigned>(workers_.size()); }
  void abandon() noexcept override {
    abandoned_.store(true, std::memory_order_relaxed);
    const std::scoped_lock lock(mutex_);
    changed_.notify_all();
  }
  // Waits for the readers without the GIL, which they may need.
  void close() override {
    abandon();
    {
      const nb::gil_scoped_release readers_may_need_it;
      disconnect_all();
    }
    failures().forget();
    is_closed_ = true;
    program().attr("close")();
  }

 private:
  static constexpr std::chrono::seconds kPatience{5};
  // If this many processes end in a row without reading a sample, the cause is not the samples.
  static constexpr unsigned kMostEnds = 8;

  // After abandon(), readers leave almost at once. The wait is limited, because a reader may hang
  // in the program's own code; what it holds ends with its process.
  void disconnect_all() noexcept {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    for (bool are_free = false; !are_free && std::chrono::steady_clock::now() < deadline;) {
      forget_answers();
      std::unique_lock lock(mutex_);
      are_free =
          changed_.wait_for(lock, std::chrono::milliseconds(10), [this] { return free_.size() == workers_.size(); });
    }
    const std::scoped_lock lock(mutex_);
    for (Worker* const worker : free_) worker->disconnect();
  }

  // Takes a free worker, which is returned when the last part of its answer has been copied. The
  // most recently freed one is preferred, because its memory is in the cache.
  std::shared_ptr<Worker> take(ReadTarget& target) const {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !free_.empty() || is_abandoned(); });
    if (is_abandoned()) {
      lock.unlock();
      leave(target);
    }
    Worker* const worker = free_.back();
    free_.pop_back();
    return {worker, [this](Worker* used) {
              const std::scoped_lock again(mutex_);
              free_.push_back(used);
              changed_.notify_all();
            }};
  }

  [[nodiscard]] bool is_abandoned() const noexcept { return abandoned_.load(std::memory_order_relaxed); }

  // The feeder is closing, and reserve() of a closing feeder throws, which ends the reader. Until
  // it does, try again.
  [[noreturn]] static void leave(ReadTarget& target) {
    for (;;) {
      static_cast<void>(target.reserve(1));
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  [[nodiscard]] std::vector<Part> ask(std::uint64_t id, ReadTarget& target) const override {
    if (ends_ >= kMostEnds)
      throw SampleError(
          "the processes of the dataset end instead of reading samples, so no more are started; the log says how");
    const std::shared_ptr<Worker> worker = take(target);
    if (!worker->is_there()) connect_again(*worker);
    std::optional<Worker::Reply> reply;
    if (worker->ask(id)) reply = worker->answer(abandoned_);
    if (is_abandoned()) leave(target);
    if (!reply) fail_by_end(*worker);
    ends_ = 0;
    if (reply->status != Worker::Reply::Status::read) fail_by_exception(*worker, *reply);
    const std::vector<std::span<const std::byte>> answered = worker->parts_of(*reply);
    std::vector<Part> parts;
    for (std::size_t number = 0; number < answered.size(); ++number) {
      const std::span<const std::byte> bytes = answered[number];
      if (reply->places[number].is_path != 0) {
        parts.push_back({.path = std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size())});
      } else {
        parts.push_back({.path = "", .bytes = bytes, .owner = worker});
      }
    }
    if (parts.size() != fields().size() + 1) throw SampleError("a process of the dataset answered in part");
    return parts;
  }

  // REQUIRES: the GIL.
  void connect(Worker& worker) const {
    const auto [socket, memory] = nb::cast<std::pair<int, int>>(program().attr("connect")(worker.number()));
    worker.connect(socket, memory);
  }

  template <typename Work>
  auto with_pool(Work&& work) const {
    if (!is_running()) throw SampleError("the interpreter has ended");
    const nb::gil_scoped_acquire gil;
    try {
      return work(program());
    } catch (const nb::python_error& raised) {
      throw failures().keep(raised);
    }
  }

  void connect_again(Worker& worker) const {
    worker.disconnect();
    try {
      with_pool([&](const nb::object&) { connect(worker); });
    } catch (const SampleError&) {
      ++ends_;
      throw;
    }
  }

  // The process has ended: Python raises an exception that names its exit code or signal.
  [[noreturn]] void fail_by_end(Worker& worker) const {
    worker.disconnect();
    const bool is_last = ++ends_ >= kMostEnds;
    with_pool([&](const nb::object& pool) { pool.attr("fail_by_end")(worker.number(), is_last); });
    throw SampleError("a process of the dataset ended");
  }

  // The process has sent its exception, as far as it can be pickled, with its traceback.
  [[noreturn]] void fail_by_exception(Worker& worker, const Worker::Reply& reply) const {
    const std::span<const std::byte> bytes = worker.parts_of(reply).at(0);
    with_pool([&](const nb::object& pool) {
      pool.attr("fail_by_exception")(nb::bytes(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    });
    throw SampleError("a process of the dataset failed");
  }

  std::vector<std::unique_ptr<Worker>> workers_;
  bool is_closed_ = false;
  std::atomic<bool> abandoned_{false};     // relaxed: no other data depends on it
  mutable std::atomic<unsigned> ends_{0};  // processes that ended since one last read a sample
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable std::vector<Worker*> free_;
};

}  // namespace

std::shared_ptr<AnsweringDataset> process_dataset(nb::object pool, std::uint64_t size, SampleList list,
                                                  std::string identity) {
  return std::make_shared<ProcessDataset>(std::move(pool), size, std::move(list), std::move(identity));
}

}  // namespace forebay::python
