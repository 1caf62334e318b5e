#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include <forebay/dataset.hpp>
#include <forebay/options.hpp>
#include <forebay/order.hpp>

#include "base/thread.hpp"
#include "measure/console_log.hpp"
#include "measure/quarantine_log.hpp"
#include "read/queues.hpp"
#include "read/requests.hpp"

namespace forebay::produce {

// Handles samples that cannot be served: each is quarantined once, and its position gets another sample or, in
// evaluation, none; under `on_bad = "fail"` the run ends. Any worker thread reports; the trainer's thread collects them
// for the budget.
class BadSamples final : public read::WorkerErrors {
 public:
  // This many bad samples in a row at one position mean that hardly any sample of the dataset can be served.
  static constexpr std::uint32_t kMostAttempts = 1000;
  // The number of retries that are logged.
  static constexpr std::uint64_t kRetriesTold = 3;

  using LeaveOut = std::function<void(const read::ReadRequest& request)>;

  // `leave_out` is called in evaluation for each bad sample, which is then not replaced; empty = replace. `failed` is
  // called after a failure was raised, to end waits. All references must outlive this object.
  BadSamples(const Dataset& dataset, const Order& order, OnBad on_bad, read::ReadQueue& requests,
             measure::QuarantineLog& quarantine, measure::ConsoleLog& console, Failure& failure, LeaveOut leave_out,
             std::function<void()> failed);

  void bad_sample(const read::ReadRequest& request, std::string_view reason) noexcept override;
  // Logs the first few; all are counted in the telemetry.
  void will_retry(const read::ReadRequest& request, std::string_view reason) noexcept override;
  void worker_failed(std::exception_ptr error) noexcept override;

  // Calls report(id, reason) for each bad sample found since the last call. Trainer's thread; costs one load if there
  // is none.
  template <typename Report>
  void collect(Report&& report) {
    if (found_.load(std::memory_order_acquire) == collected_) return;
    const std::scoped_lock lock(mutex_);
    for (; collected_ < in_order_.size(); ++collected_) {
      report(in_order_[collected_].sample, in_order_[collected_].reason);
    }
  }

 private:
  void settle(const read::ReadRequest& request, std::string_view reason);
  // Logs the sample, the first time only.
  void quarantine(const read::ReadRequest& request, const std::string& path, std::string_view reason,
                  std::optional<std::uint64_t> replacement);

  const Dataset& dataset_;
  const Order& order_;
  OnBad on_bad_;
  read::ReadQueue& requests_;
  measure::QuarantineLog& quarantine_;
  measure::ConsoleLog& console_;
  Failure& failure_;
  LeaveOut leave_out_;
  std::function<void()> failed_;

  std::atomic<std::uint64_t> retries_{0};
  std::mutex mutex_;
  std::unordered_set<std::uint64_t> known_;
  struct Found {
    std::uint64_t sample = 0;
    std::string reason;
  };
  std::vector<Found> in_order_;        // of discovery
  std::atomic<std::size_t> found_{0};  // in_order_.size()
  std::size_t collected_ = 0;          // trainer's thread only
};

}  // namespace forebay::produce
