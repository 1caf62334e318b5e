// The work that one reader currently holds, so that another thread can detect a slow read and take
// the rest away. Without hedging no other thread accesses it and no lock is taken (lock()). All
// members of the read under way change together under the lock; whether the bytes are handed on is
// decided by the HedgedRead, which both sides share.

#include "workload.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace forebay::read {
namespace {

// The time between the two looks that identify a slow read.
constexpr std::chrono::milliseconds kSecondLook{1};

}  // namespace

void Workload::assign(std::span<const ReadRequest> requests) {
  const auto guard = lock();
  std::ranges::copy(requests, requests_.begin());
  first_ = 0;
  last_ = requests.size();
}

std::optional<ReadRequest> Workload::next() {
  const auto guard = lock();
  if (first_ == last_) return std::nullopt;
  request_ = requests_[first_++];
  begin(0);
  return request_;
}

std::size_t Workload::take_rest(std::span<ReadRequest> out) {
  const auto guard = lock();
  const auto left = std::span(requests_).subspan(first_, last_ - first_);
  std::ranges::copy(left, out.begin());
  first_ = last_;
  return left.size();
}

void Workload::begin(std::uint32_t retry) {
  retry_ = retry;
  suspected_ = false;
  in_store_ = true;
  if (watched_) since_ = Clock::now();
}

void Workload::pause() {
  const auto guard = lock();
  in_store_ = false;
}

void Workload::resume(std::uint32_t retry) {
  const auto guard = lock();
  begin(retry);
}

void Workload::join(std::shared_ptr<HedgedRead> hedged) {
  const auto guard = lock();
  hedged_ = std::move(hedged);
}

bool Workload::is_lost() const {
  const auto guard = lock();
  return hedged_ && hedged_->is_won();
}

std::shared_ptr<HedgedRead> Workload::finish() noexcept {
  in_store_ = false;
  return std::exchange(hedged_, nullptr);
}

std::shared_ptr<HedgedRead> Workload::end(EncodedSample& sample) {
  const auto guard = lock();
  std::shared_ptr<HedgedRead> hedged = finish();
  if (!hedged) read_.push_back(std::move(sample));
  return hedged;
}

std::shared_ptr<HedgedRead> Workload::end() {
  const auto guard = lock();
  return finish();
}

void Workload::keep(EncodedSample sample) {
  const auto guard = lock();
  read_.push_back(std::move(sample));
}

void Workload::take_read(std::vector<EncodedSample>& out) {
  const auto guard = lock();
  read_.swap(out);
}

// The first look that finds the read slow only suspects it. The second, a millisecond later, knows
// that the watching thread did not simply oversleep.
Workload::Watch Workload::watch(Clock::time_point now, std::chrono::nanoseconds slow_after) {
  const auto guard = lock();
  if (!in_store_) return {};
  if (now < since_ + slow_after) return {.look_again = since_ + slow_after};
  if (!std::exchange(suspected_, true)) return {.look_again = now + kSecondLook};
  return {.is_slow = true, .may_hedge = !hedged_ && request_.hedge == 0, .order = request_.order};
}

void Workload::take_waiting(std::vector<ReadRequest>& requests, std::vector<EncodedSample>& samples) {
  const auto guard = lock();
  const auto left = std::span(requests_).subspan(first_, last_ - first_);
  requests.insert(requests.end(), left.begin(), left.end());
  first_ = last_;
  samples.insert(samples.end(), std::move_iterator(read_.begin()), std::move_iterator(read_.end()));
  read_.clear();
}

// Everything is checked again, because the read may have ended between watch() and this call.
std::optional<Workload::Hedge> Workload::hedge() {
  const auto guard = lock();
  if (!in_store_ || !suspected_ || hedged_ || request_.hedge != 0) return std::nullopt;
  hedged_ = std::make_shared<HedgedRead>(retry_);
  return Hedge{.request = request_, .hedged = hedged_};
}

}  // namespace forebay::read
