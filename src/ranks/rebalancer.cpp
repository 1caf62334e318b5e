// Exchanges how far each rank is, on one channel of its own, and applies what follows from it.
// step() is called at each step after the census, alike on all ranks, and is in one of two states:
// no exchange open, then it may post one; or one open, then nothing is planned until step
// posted_at_ + lag, where all ranks apply the same sums by the same integer rule
// (order/rebalance.hpp).
//
// What is posted is one array: for each range of the ledger how far its owner has planned, which
// only the owner fills in, so that the sum is the owner's number; and four counts of each rank,
// likewise. Ranges must lie alike on all ranks while the exchange is open, which is why epochs are
// completed only in between. No clock enters, so a replayed run exchanges the same.

#include "rebalancer.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace forebay::ranks {

Rebalancer::Rebalancer(Communicator& communicator, order::Schedule& schedule, std::size_t channel, std::size_t lag,
                       std::function<void()> while_waiting)
    : communicator_(communicator),
      schedule_(schedule),
      channel_(channel),
      lag_(lag),
      while_waiting_(std::move(while_waiting)),
      next_in_(std::max<std::uint64_t>(kFirst, lag)),
      paces_(communicator.size()) {}

void Rebalancer::keep_epoch_order() noexcept {
  schedule_.keep_epoch_order();
  if (!schedule_.holds_back()) return;
  // The first batch was ready when the run began, so it says nothing about the pace.
  std::ranges::fill(paces_, Pace{.fresh_then = 1, .offered_then = 1});
}

bool Rebalancer::step(const JobReport* heard, std::uint64_t completed, const RankCount& mine) {
  const std::uint64_t step = step_++;
  waited_ = {};
  if (is_open_) {
    if (step < posted_at_ + lag_) {
      (void)communicator_.test(channel_);  // lets it progress
      return false;
    }
    apply();
    schedule_.complete(completed);
    return true;
  }
  // The posted array must have the same layout on all ranks until it is applied, so epochs are
  // completed only in between.
  const bool is_new = completed != schedule_.ledger().completed();
  schedule_.complete(completed);
  if (!is_due(heard)) return is_new;
  before_ = std::exchange(posted_at_, step);
  post(mine);
  return false;
}

// Nothing is left to hand over once everything is planned. Idle ranks bring an exchange forward,
// but not below kShortest, because each exchange forbids the others to plan for `lag` steps.
bool Rebalancer::is_due(const JobReport* heard) const noexcept {
  const order::Ledger& ledger = schedule_.ledger();
  if (ledger.is_all_open() && ledger.ranges().empty()) return false;
  const std::uint64_t steps = step_ - 1 - posted_at_;
  return steps >= (schedule_.holds_back() ? next_in_ : kPeriod) ||
         (steps >= kShortest && heard != nullptr && heard->idle > 0);
}

// The order of the counts is that of works().
void Rebalancer::post(const RankCount& mine) {
  const std::size_t ranges = schedule_.ledger().ranges().size();
  values_.assign(ranges + kCounts * communicator_.size(), 0);
  schedule_.post(std::span(values_).first(ranges));
  std::int64_t* const counts = values_.data() + ranges + kCounts * communicator_.rank();
  counts[0] = static_cast<std::int64_t>(mine.fresh);
  counts[1] = static_cast<std::int64_t>(mine.offered);
  counts[2] = static_cast<std::int64_t>(mine.backlog);
  counts[3] = static_cast<std::int64_t>(schedule_.frontier());
  communicator_.start_reduction(channel_, values_);
  is_open_ = true;
}

void Rebalancer::apply() {
  // Every rank posts at the same step as the census that is now complete, so nobody can be far
  // behind.
  waited_ = wait_for(communicator_, channel_, while_waiting_);
  is_open_ = false;
  const std::vector<order::RankWork> ranks = works();
  const std::size_t ranges = schedule_.ledger().ranges().size();
  schedule_.apply(std::span<const std::int64_t>(values_).first(ranges), ranks);
  next_in_ = steps_to_next();
}

// Half of the steps in which what is left to plan can be served: the less is left, the better each rank's share is
// known. No pace is taken into account, because a rank that was slow may be fast by now.
std::uint64_t Rebalancer::steps_to_next() const noexcept {
  const std::uint64_t left = schedule_.unplanned();
  const std::uint64_t closest = std::max<std::uint64_t>(kClosest, lag_ + 1);
  return left == 0 ? std::max(kShortest, closest) : std::clamp(left / paces_.size() / 2, closest, kPeriod);
}

std::vector<order::RankWork> Rebalancer::works() {
  // A quarter is forgotten in kPeriod steps.
  const bool holds_back = schedule_.holds_back();
  const std::uint64_t passed = holds_back ? std::min(posted_at_ - before_, 4 * kPeriod) : kPeriod;
  const std::uint64_t kept = 4 * kPeriod - passed;
  // A rank whose pace is not yet known is given little if the others may have to wait for it.
  const std::uint64_t untried = holds_back ? order::RankWork::kOne / 8 : order::RankWork::kOne;
  const auto since = [](std::uint64_t& then, std::uint64_t now) {
    const std::uint64_t before = std::exchange(then, std::max(then, now));
    return then - before;
  };
  std::vector<order::RankWork> ranks(paces_.size());
  const std::int64_t* counts = values_.data() + schedule_.ledger().ranges().size();
  for (std::size_t rank = 0; rank < ranks.size(); ++rank, counts += kCounts) {
    const auto fresh = static_cast<std::uint64_t>(counts[0]);
    const auto offered = static_cast<std::uint64_t>(counts[1]);
    Pace& pace = paces_[rank];
    pace.fresh = pace.fresh * kept / (4 * kPeriod) + since(pace.fresh_then, fresh) * order::RankWork::kOne;
    pace.offered = pace.offered * kept / (4 * kPeriod) + since(pace.offered_then, offered) * order::RankWork::kOne;
    ranks[rank].pace = pace.offered == 0 ? untried : pace.fresh * order::RankWork::kOne / pace.offered;
    ranks[rank].is_tried = pace.offered >= kTried * order::RankWork::kOne;
    ranks[rank].backlog = static_cast<std::uint64_t>(counts[2]);
    ranks[rank].frontier = static_cast<std::uint64_t>(counts[3]);
  }
  return ranks;
}

}  // namespace forebay::ranks
