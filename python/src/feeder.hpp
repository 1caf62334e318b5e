#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <forebay/feeder.hpp>

#include "batch.hpp"
#include "references.hpp"

namespace forebay::python {

// What a feeder is made of, from Python.
struct Ingredients {
  Options options;
  nb::object communicator;  // a forebay.Communicator; None = a single rank
  bool is_solo = false;     // a single rank although a launcher started several
  std::shared_ptr<Dataset> dataset;
  std::string resume;
  std::string trace;
  double trace_s = 10;
  nb::object log;  // called with level and text, on any thread; None = standard error
};

// A feeder that Python code may use as it likes: it refuses other threads while one is inside, and processes that were
// forked from its own. Each call lets other threads of Python run, and signals are heard while it waits.
class PythonFeeder {
 public:
  explicit PythonFeeder(Ingredients ingredients);
  ~PythonFeeder();
  PythonFeeder(const PythonFeeder&) = delete;
  PythonFeeder& operator=(const PythonFeeder&) = delete;

  // Nothing at the end.
  [[nodiscard]] std::optional<Batch> next(StreamView stream);
  void request_stop() noexcept { feeder_->request_stop(); }
  // A thread of this process is inside a call.
  [[nodiscard]] bool is_occupied() const noexcept { return forks() == forks_ && is_occupied_.load(); }
  [[nodiscard]] const std::shared_ptr<const Fields>& fields() const noexcept { return fields_; }

  // work(feeder) without the GIL. REQUIRES: the GIL.
  template <typename Work>
  auto call(Work&& work) {
    require_own_process();
    const Occupied occupied(*this);
    raised_->first = nullptr;
    try {
      const nb::gil_scoped_release others_may_run;
      return work(*feeder_);
    } catch (...) {
      if (raised_->first) std::rethrow_exception(std::exchange(raised_->first, nullptr));
      throw;
    }
  }
  // The same for what neither waits nor takes long.
  template <typename Work>
  auto ask(Work&& work) {
    require_own_process();
    const Occupied occupied(*this);
    return work(*feeder_);
  }

 private:
  // While a thread is inside.
  class Occupied {
   public:
    explicit Occupied(PythonFeeder& feeder) : feeder_(feeder) {
      if (feeder_.is_occupied_.exchange(true, std::memory_order_acquire)) feeder_.refuse();
    }
    ~Occupied() { feeder_.is_occupied_.store(false, std::memory_order_release); }
    Occupied(const Occupied&) = delete;
    Occupied& operator=(const Occupied&) = delete;

   private:
    PythonFeeder& feeder_;
  };

  void require_own_process() const;
  [[noreturn]] void refuse() const;

  std::shared_ptr<Raised> raised_ = std::make_shared<Raised>();
  std::uint64_t forks_ = forks();
  std::int64_t process_;
  // Acquire and release: what the thread before did to the feeder happens before what the next one does.
  std::atomic<bool> is_occupied_{false};
  std::unique_ptr<Feeder> feeder_;
  std::shared_ptr<const Fields> fields_;
};

void bind_feeder(nb::module_& module);

}  // namespace forebay::python
