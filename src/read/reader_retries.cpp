#include "reader.hpp"

#include <algorithm>
#include <chrono>
#include <span>
#include <string>

#include <forebay/error.hpp>

#include "base/file_io.hpp"

namespace forebay::read {

// Reads one sample until a read succeeds, on a reader's thread. A store that fails is waited for
// like one that is slow (StoreOutage, docs/decisions/0025-a-store-that-fails-is-slow.md). A file
// that is cut short is damaged unless it is complete within moments, as when it was still being
// written. Coalesced reads are tried once: if they fail, their samples come back as single
// requests.
void Reader::serve(const ReadRequest& request) {
  if (request.coalesced != 0) return try_once(request, 0);
  StoreOutage::Trial trial(*links_.outage);
  // Reads that found the file cut short. A decoder's quick read, of which nothing but its failure
  // is known, counts as one.
  std::uint32_t truncated = std::min(request.failed, options_.attempts - 1);
  for (std::uint32_t retry = request.failed;; ++retry) {
    if (retry > 0 && !wait_to_retry(request, retry)) return trial.succeeded();
    try {
      read(request, retry);
      return trial.succeeded();
    } catch (const SampleError& error) {
      if (!may_pass(error, truncated)) {
        trial.succeeded();  // the store answers
        const std::string times = " (read " + std::to_string(retry + 1) + " times)";
        return give_up(request, error.is_transient() ? error.what() + times : error.what());
      }
      if (!is_truncated(error)) {
        trial.failed(links_.dataset.name(request.sample), error.what(),
                     links_.totals.reads.load(std::memory_order_relaxed));
      }
      links_.sink.will_retry(request, error.what());
    }
  }
}

bool Reader::may_pass(const SampleError& error, std::uint32_t& truncated) const noexcept {
  return is_truncated(error) ? ++truncated < options_.attempts : error.is_transient();
}

// Exponential backoff from options_.backoff to a second. The number of doublings is bounded before
// the shift, which would otherwise overflow.
bool Reader::wait_to_retry(const ReadRequest& request, std::uint32_t retry) {
  links_.totals.retries.fetch_add(1, std::memory_order_relaxed);
  status_is_of_last_read_ = false;
  workload_.pause();
  hand_over();
  // The remaining requests need not wait for this sample.
  links_.requests.push_urgent(std::span(requests_).first(workload_.take_rest(requests_)));
  status_.set(WorkerStatus::Activity::retrying, request.sample);
  constexpr std::uint32_t kMostDoublings = 20;
  constexpr std::chrono::nanoseconds kLongestBackoff = std::chrono::seconds(1);
  const auto doubled = options_.backoff * (1U << std::min(retry - 1, kMostDoublings));
  stop_.sleep_until(
      std::chrono::steady_clock::now() +
      std::clamp<std::chrono::nanoseconds>(doubled, options_.backoff, std::max(options_.backoff, kLongestBackoff)));
  if (workload_.is_lost()) {
    static_cast<void>(workload_.end());
    return false;
  }
  workload_.resume(retry);
  return true;
}

}  // namespace forebay::read
