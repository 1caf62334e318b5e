#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include <forebay/communicator.hpp>

#include "census.hpp"
#include "order/schedule.hpp"

namespace forebay::ranks {

// How far one rank is, counted since the run began.
struct RankCount {
  std::uint64_t fresh = 0;    // batches served fresh
  std::uint64_t offered = 0;  // steps at which it had a batch to serve, or to wait for
  std::uint64_t backlog = 0;  // batches planned and not served yet
};

// Lets the ranks of a job exchange how far they are, every few hundred steps and when one of them runs out of batches,
// and hand batches over from those that are behind to those that are ahead (order/rebalance.hpp).
//
// At step k each rank posts what it has planned of each range: its fence. Until step k + lag it plans nothing more,
// because others will count what lies beyond; it serves what it has planned, which is lag batches more than the queue
// can hold. At step k + lag all apply the same sums by the same rule. Nothing but decisions of the ranks goes into an
// exchange, no clock: a run that is replayed exchanges and hands over the same.
// Used by the thread that calls next().
class Rebalancer {
 public:
  // Steps between exchanges, while nobody runs out of batches and when somebody does.
  static constexpr std::uint64_t kPeriod = 256;
  static constexpr std::uint64_t kShortest = 32;
  // Where the schedule holds back: the first exchange, and the least steps from one to the next.
  static constexpr std::uint64_t kFirst = 8;
  static constexpr std::uint64_t kClosest = 4;
  // There, steps at which a rank must have had a batch to serve before its pace counts as seen.
  static constexpr std::uint64_t kTried = 4;
  // There, batches that a rank may have planned before it has served any.
  static constexpr std::uint64_t kUntried = 2;

  // References must outlive this. Uses the communicator's channel `channel`. `while_waiting`: as for wait_for()
  // (channel.hpp). `keep_epoch_order`: epochs are served one after the other, and the ranks that are done with one wait
  // for the others. Where they are long (Schedule::holds_back()) exchanges then come when half of what may be planned
  // is served, so that the last of an epoch is dealt out among those that have time; and until all keep pace a rank
  // plans few batches before it has shown its own, because what is planned stays with it.
  Rebalancer(Communicator& communicator, order::Schedule& schedule, std::size_t channel, std::size_t lag,
             bool keep_epoch_order, std::function<void()> while_waiting = {});

  // As `keep_epoch_order` in the constructor. Before the first step(), on all ranks.
  void keep_epoch_order() noexcept;

  // Once per step, after the census, alike on all ranks: `completed` epochs are agreed to be served. True when this
  // rank may have got something to plan.
  bool step(const JobReport* heard, std::uint64_t completed, const RankCount& mine);
  // Time that the last step() waited for other ranks.
  [[nodiscard]] std::chrono::nanoseconds last_wait() const noexcept { return waited_; }
  // A batch may be planned by this rank now, with so many planned and not served yet, and so many served since the run
  // began.
  [[nodiscard]] bool may_plan(std::uint64_t backlog, std::uint64_t fresh) const noexcept {
    return !is_open_ && (!schedule_.holds_back() || schedule_.all_keep_pace() || backlog < kUntried + fresh);
  }

 private:
  static constexpr std::size_t kCounts = 4;  // fresh, offered, backlog, frontier

  [[nodiscard]] bool is_due(const JobReport* heard) const noexcept;
  void post(const RankCount& mine);
  void apply();
  [[nodiscard]] std::vector<order::RankWork> works();
  [[nodiscard]] std::uint64_t steps_to_next() const noexcept;

  Communicator& communicator_;
  order::Schedule& schedule_;
  std::size_t channel_;
  std::size_t lag_;
  std::function<void()> while_waiting_;

  std::uint64_t step_ = 0;
  std::uint64_t posted_at_ = 0;
  std::uint64_t before_ = 0;  // posted_at_ of the exchange before
  std::uint64_t next_in_;     // steps after posted_at_; where the schedule holds back
  bool is_open_ = false;
  std::chrono::nanoseconds waited_{0};
  std::vector<std::int64_t> values_;  // by range what its owner planned, then kCounts of each rank
  // By rank: fresh and offered as of the last exchange, and both since, older exchanges counting less.
  struct Pace {
    std::uint64_t fresh_then = 0;
    std::uint64_t offered_then = 0;
    std::uint64_t fresh = 0;
    std::uint64_t offered = 0;
  };
  std::vector<Pace> paces_;
};

}  // namespace forebay::ranks
