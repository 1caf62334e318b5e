#include "reader_pool.hpp"

#include <algorithm>
#include <exception>
#include <forebay/error.hpp>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

namespace forebay {
namespace {

using Activity = WorkerStatus::Activity;
using Clock = std::chrono::steady_clock;

// Takes the sample's memory from the budget and gives it back unless the sample was handed on.
class BudgetedTarget final : public ReadTarget {
 public:
  BudgetedTarget(ByteBudget& budget, const ReadRequest& request, WorkerStatus& status)
      : budget_(budget), request_(request), status_(status) {}
  ~BudgetedTarget() override { give_back(); }
  BudgetedTarget(const BudgetedTarget&) = delete;
  BudgetedTarget& operator=(const BudgetedTarget&) = delete;

  std::span<std::byte> reserve(std::size_t bytes) override {
    give_back();  // a thread that waits must hold nothing
    const auto begin = Clock::now();
    status_.set(Activity::waiting_budget, request_.sample);
    try {
      buffer_ = budget_.take(request_.order, bytes);
    } catch (const std::bad_alloc&) {
      throw SampleError("there is no memory for its " + std::to_string(bytes) + " bytes");
    } catch (const std::length_error&) {
      throw SampleError("no memory could hold its " + std::to_string(bytes) + " bytes");
    }
    status_.set(Activity::reading, request_.sample);
    waited_ += Clock::now() - begin;
    return buffer_;
  }

  [[nodiscard]] Clock::duration waited() const noexcept { return waited_; }
  [[nodiscard]] std::size_t size() const noexcept { return buffer_.size(); }
  [[nodiscard]] std::vector<std::byte> release() noexcept { return std::exchange(buffer_, {}); }

 private:
  void give_back() noexcept {
    if (buffer_.capacity() != 0) budget_.give_back(std::exchange(buffer_, {}));
  }

  ByteBudget& budget_;
  const ReadRequest& request_;
  WorkerStatus& status_;
  std::vector<std::byte> buffer_;
  Clock::duration waited_{0};
};

void add_ns(std::atomic<std::uint64_t>& total, Clock::duration duration) noexcept {
  const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count();
  total.fetch_add(static_cast<std::uint64_t>(ns), std::memory_order_relaxed);
}

}  // namespace

ReaderPool::ReaderPool(const ReaderLinks& links, const ReaderOptions& options)
    : links_(links), options_(options), statuses_(std::max(1U, options.threads)) {
  if (links_.throttle != nullptr && !links_.throttle->is_active()) links_.throttle = nullptr;
  threads_.reserve(statuses_.size());
  try {
    for (WorkerStatus& status : statuses_) threads_.emplace_back([this, &status] { run(status); });
  } catch (...) {
    stop();
    throw;
  }
}

void ReaderPool::stop() {
  stop_.raise();
  links_.requests.close();
  links_.budget.close();
  threads_.clear();  // joins
}

void ReaderPool::run(WorkerStatus& status) noexcept {
  try {
    status.set(Activity::idle);
    while (const auto request = links_.requests.take()) {
      serve(*request, status);
      status.set(Activity::idle);
    }
  } catch (const Stopped&) {  // NOLINT(bugprone-empty-catch): not an error, the thread ends as it was asked to
  } catch (...) {
    links_.sink.worker_failed(std::current_exception());
  }
  status.set(Activity::stopped);
}

void ReaderPool::serve(const ReadRequest& request, WorkerStatus& status) {
  auto backoff = options_.backoff;
  for (std::uint32_t retry = 0;; ++retry, backoff *= 2) {
    try {
      return read(request, retry, status);
    } catch (const SampleError& error) {
      if (!error.is_transient()) return links_.sink.bad_sample(request, error.what());
      if (retry + 1 >= options_.attempts) {
        const std::string tries = " (read " + std::to_string(retry + 1) + " times)";
        return links_.sink.bad_sample(request, error.what() + tries);
      }
      links_.sink.will_retry(request, error.what());
    }
    links_.totals.retries.fetch_add(1, std::memory_order_relaxed);
    status.set(Activity::retrying, request.sample);
    stop_.sleep_until(Clock::now() + backoff);
  }
}

void ReaderPool::read(const ReadRequest& request, std::uint32_t retry, WorkerStatus& status) {
  const auto begin = Clock::now();
  status.set(Activity::reading, request.sample);
  BudgetedTarget target(links_.budget, request, status);
  if (links_.throttle != nullptr) links_.throttle->before_read(request, retry, stop_);
  links_.dataset.read(request.sample, target);
  if (links_.throttle != nullptr) links_.throttle->after_read(target.size(), stop_);
  add_ns(links_.totals.read_ns, Clock::now() - begin - target.waited());
  links_.totals.bytes_read.fetch_add(target.size(), std::memory_order_relaxed);
  links_.encoded.push({.request = request, .bytes = target.release()});
}

}  // namespace forebay
