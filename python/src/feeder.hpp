#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <forebay/feeder.hpp>
#include <forebay/source_feeder.hpp>

#include "answers.hpp"
#include "batch.hpp"
#include "references.hpp"

namespace forebay::python {

// The arguments from Python that a feeder is made from.
struct Ingredients {
  Options options;
  nb::object communicator;  // a forebay.Communicator; None = a single rank
  std::shared_ptr<Dataset> dataset;
  std::string resume;
  std::string trace;
  double trace_s = 10;
  nb::object log;         // called with level and text, on any thread; None: standard error
  nb::object waiting;     // called without arguments on the trainer's thread while it waits, or None
  nb::object policy;      // a GivenPolicy of forebay/policy.py; None = one of the library's
  nb::object operations;  // GivenOperations
  nb::object source;      // a source of batches instead of a dataset (an Intake of forebay/_reuse.py), or None
};

// A feeder that no Python code can misuse: it refuses other threads while one is inside, and forked
// processes. Each call lets other Python threads run, and handles signals while it waits.
class PythonFeeder {
 public:
  explicit PythonFeeder(Ingredients ingredients);
  ~PythonFeeder();
  PythonFeeder(const PythonFeeder&) = delete;
  PythonFeeder& operator=(const PythonFeeder&) = delete;

  // Sets the stream for calls of next() that give none, and other streams on which every batch is
  // used. REQUIRES: the GIL.
  void use_streams(GivenStream stream, std::vector<GivenStream> also) {
    stream_ = std::move(stream);
    also_ = std::move(also);
  }
  // The next step's batch; nothing at the end of the run.
  [[nodiscard]] std::optional<Batch> next() { return next(stream_); }
  [[nodiscard]] std::optional<Batch> next(const GivenStream& stream);
  [[nodiscard]] bool next_epoch();
  // SourceFeeder::state(). REQUIRES: the feeder has a source.
  [[nodiscard]] std::string place();
  // Stops the threads, and the processes that read samples. Before that calls begin(), unless it is
  // null or the call is refused.
  void close(nb::handle begin);
  // The same, once, for a feeder that nothing refers to any more; what it raises is reported. REQUIRES: the GIL.
  void end() noexcept;
  // Whether this thread was the last that called it.
  [[nodiscard]] bool is_by_trainer() const noexcept { return raised_->is_by_trainer(); }
  // Shows Python's collector what it refers to.
  int show_references(visitproc visit, void* arg) const;
  void request_stop() noexcept { source_ ? source_->request_stop() : own_->request_stop(); }
  // Whether a thread of this process is inside a call.
  [[nodiscard]] bool is_occupied() const noexcept { return !feeder_->is_forked() && is_occupied_.load(); }
  // How many batches the program holds.
  [[nodiscard]] std::uint32_t leases() const noexcept { return leases_->count(); }
  [[nodiscard]] const std::shared_ptr<const Fields>& fields() const noexcept { return fields_; }

  [[nodiscard]] Summary summary() const { return source_ ? source_->summary() : own_->summary(); }
  // For the profile.
  [[nodiscard]] const Feeder& feeder() const noexcept { return *feeder_; }
  // The feeder of a dataset. Throws Error if batches come from a source.
  [[nodiscard]] Feeder& own() const;

  // Runs work() without the GIL, as a call of the feeder. REQUIRES: the GIL.
  template <typename Work>
  auto call(Work&& work) {
    feeder_->require_own_process();
    const Occupied occupied(*this);
    return run(std::forward<Work>(work));
  }
  // Runs work(feeder) with the GIL, for what neither waits nor takes long.
  template <typename Work>
  auto ask(Work&& work) {
    feeder_->require_own_process();
    const Occupied occupied(*this);
    return work(*feeder_);
  }

 private:
  // Runs work() without the GIL. REQUIRES: the GIL, and that this thread occupies the feeder.
  template <typename Work>
  auto run(Work&& work) {
    raised_->begin();
    const auto with_others = [&] {
      const nb::gil_scoped_release others_may_run;
      return work();
    };
    try {
      if constexpr (std::is_void_v<decltype(with_others())>) {
        with_others();
        raised_->rethrow();
      } else {
        auto result = with_others();
        raised_->rethrow();  // a signal handled while the library logged
        return result;
      }
    } catch (const Error& error) {
      raised_->rethrow();
      raised_->explain(error);
      throw;
    } catch (...) {
      raised_->rethrow();
      throw;
    }
  }

  // Marks the feeder as occupied by this thread.
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

  [[noreturn]] void refuse() const;
  // Waits, for a limited time, until a lease is free or no lease is held only by computations.
  void wait_for_computations();

  Batch::Reuse reuse_;
  std::shared_ptr<Raised> raised_ = std::make_shared<Raised>();
  // Acquire and release: the previous thread's use of the feeder happens before the next one's.
  std::atomic<bool> is_occupied_{false};
  bool is_ended_ = false;
  std::shared_ptr<AnsweringDataset> asked_;  // null if no Python code reads samples
  std::unique_ptr<SourceFeeder> source_;     // null if batches come from a dataset
  std::unique_ptr<Feeder> own_;              // null if batches come from a source
  const Feeder* feeder_;                     // the one of these two
  std::shared_ptr<const Fields> fields_;
  std::shared_ptr<Leases> leases_ = std::make_shared<Leases>();
  GivenStream stream_{nb::none()};
  std::vector<GivenStream> also_;
};

void bind_feeder(nb::module_& module);

}  // namespace forebay::python
