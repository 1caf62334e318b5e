// Keeps track of reads that fail and are retried: for how long, of which file, and whether others
// succeed in the meantime. Every reader calls it on its thread, through one Trial per sample; reads
// that succeed take no lock. An outage is logged once, after a second, and once more when reads
// succeed again. Whether it ends the run is decided per sample, by policy.watchdog_s of time in
// which the process ran.

#include "store_outage.hpp"

#include <array>
#include <cstdio>
#include <ctime>
#include <exception>
#include <utility>

#include <forebay/error.hpp>

#include "base/text.hpp"

namespace forebay::read {
namespace {

using Clock = std::chrono::steady_clock;

// Shorter outages only count as retries and are not logged.
constexpr std::chrono::seconds kToldAfter{1};

std::string limit_in_words(double limit_s) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%g s", limit_s);
  return text.data();
}

std::string local_date(std::chrono::system_clock::time_point time) {
  const std::time_t second = std::chrono::system_clock::to_time_t(time);
  std::tm parts{};
  std::array<char, 32> text{};
  if (::localtime_r(&second, &parts) == nullptr) return "an unknown time";
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &parts);
  return text.data();
}

}  // namespace

StoreOutage::StoreOutage(double limit_s, const RunningTime* time, Tell tell)
    : limit_s_(limit_s), time_(time), tell_(std::move(tell)) {}

// Two clocks: the wall clock for the message, and RunningTime for the limit, so that a run does not
// end because the machine was suspended.
void StoreOutage::Trial::failed(const std::string& name, std::string_view reason, std::uint64_t reads) {
  const auto now = Clock::now();
  if (failures_++ == 0) {
    since_ = now;
    date_ = std::chrono::system_clock::now();
    reads_before_ = reads;
    if (outage_.time_ != nullptr) mark_ = outage_.time_->now();
    outage_.enter(now, reads);
  }
  outage_.note(name, reason, since_, reads);
  if (outage_.limit_s_ <= 0 || outage_.time_ == nullptr) return;
  if (seconds(outage_.time_->since(mark_)) < outage_.limit_s_) return;
  throw WatchdogError(name + ": " + std::string(reason) + "; its reads have failed for " +
                      in_seconds(seconds(now - since_)) + " (policy.watchdog_s), " + std::to_string(failures_) +
                      " times since " + local_date(date_) +
                      (reads > reads_before_ ? "; others succeed, so this file or what it lies on fails" : ""));
}

void StoreOutage::Trial::succeeded() noexcept {
  if (failures_ == 0) return;
  failures_ = 0;
  outage_.leave();
  try {
    outage_.recovered();
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): no memory for the line
  }
}

// The first failing sample starts the outage. Once it has been logged, only recovered() ends it.
void StoreOutage::enter(Clock::time_point since, std::uint64_t reads) {
  const std::lock_guard lock(mutex_);
  if (failing_++ > 0) return;
  if (is_told_) return;  // the logged outage has not been seen to end yet
  since_ = since;
  reads_before_ = reads;
  failures_ = 0;
}

void StoreOutage::leave() noexcept {
  const std::lock_guard lock(mutex_);
  --failing_;
}

// Where some reads always fail and others succeed, "reads have failed" holds no longer than for this sample. Logs
// outside the lock, because `tell` may write to a slow terminal.
void StoreOutage::note(const std::string& name, std::string_view reason, Clock::time_point since, std::uint64_t reads) {
  std::string line;
  {
    const std::lock_guard lock(mutex_);
    ++failures_;
    last_ = printable(name) + ": " + printable(reason);
    if (is_told_) return;
    const auto now = Clock::now();
    if (2 * (now - since_) < kToldAfter) reads_before_ = reads;  // reads that were under way when it began may succeed
    const bool others_succeed = reads > reads_before_;
    if (others_succeed) since_ = since;
    if (now - since_ < kToldAfter) return;
    is_told_ = true;
    line = "reads have failed for " + in_seconds(seconds(now - since_)) +
           (others_succeed ? ", while others succeeded: " : ": ") + last_ + "; they are repeated until they " +
           (limit_s_ > 0 ? "succeed, for " + limit_in_words(limit_s_) + " at most (policy.watchdog_s)"
                         : "succeed (policy.watchdog_s = 0)");
  }
  if (tell_) tell_(line);
}

void StoreOutage::recovered() {
  std::string line;
  {
    const std::lock_guard lock(mutex_);
    if (failing_ > 0 || !std::exchange(is_told_, false)) return;
    line = "reads succeed again, after " + in_seconds(seconds(Clock::now() - since_)) + "; " +
           std::to_string(failures_) + " failed meanwhile and were repeated";
  }
  if (tell_) tell_(line);
}

std::string StoreOutage::report() const {
  const std::lock_guard lock(mutex_);
  if (failing_ == 0 && !is_told_) return {};
  return "reads have failed for " + in_seconds(seconds(Clock::now() - since_)) + ": " + last_;
}

}  // namespace forebay::read
