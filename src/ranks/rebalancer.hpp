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

// The progress of one rank, counted since the run began.
struct RankCount {
  std::uint64_t fresh = 0;    // batches served fresh
  std::uint64_t offered = 0;  // steps at which it had a batch to serve, or to wait for
  std::uint64_t backlog = 0;  // batches planned and not served yet
};

// Lets the ranks of a job exchange their progress, every few hundred steps and when one of them runs out of batches,
// and hand batches over from those that are behind to those that are ahead (order/rebalance.hpp).
//
// At step k each rank posts how far it has planned in each range. Until step k + lag it plans nothing more,
// because what lies beyond may be handed over; it serves what it has planned, which is lag batches more than
// the queue can hold. At step k + lag all ranks apply the same rule to the same sums. An exchange depends only on
// decisions of the ranks and on no clock, so a replayed run hands over the same batches. Used by the thread that calls
// next().
class Rebalancer {
 public:
  // Steps between exchanges, while nobody runs out of batches, and if somebody does.
  static constexpr std::uint64_t kPeriod = 256;
  static constexpr std::uint64_t kShortest = 32;
  // If the schedule holds back: the step of the first exchange, and the fewest steps between two.
  static constexpr std::uint64_t kFirst = 8;
  static constexpr std::uint64_t kClosest = 4;
  // Likewise: steps at which a rank must have had a batch to serve before its pace is considered known.
  static constexpr std::uint64_t kTried = 4;
  // Likewise: batches that a rank may plan before it has served any.
  static constexpr std::uint64_t kUntried = 2;

  // References must outlive this. Uses the communicator's channel `channel`. `while_waiting`: as for wait_for()
  // (census.hpp).
  Rebalancer(Communicator& communicator, order::Schedule& schedule, std::size_t channel, std::size_t lag,
             std::function<void()> while_waiting = {});

  // Epochs are served one after the other, and ranks that have finished one wait for the others. If epochs are long
  // (Schedule::holds_back()), exchanges then take place whenever half of what may be planned is served, so that the
  // last batches of an epoch go to ranks that have time; and until the paces are known a rank plans only a few batches,
  // because planned batches stay with it. Before the first step(), on all ranks.
  void keep_epoch_order() noexcept;

  // Called once per step, after the census, alike on all ranks. `completed`: the agreed number of epochs served.
  // Returns whether this rank may now have something to plan.
  bool step(const JobReport* heard, std::uint64_t completed, const RankCount& mine);
  // Time for which the last step() waited for other ranks.
  [[nodiscard]] std::chrono::nanoseconds last_wait() const noexcept { return waited_; }
  // Whether this rank may plan a batch now, given the numbers of batches planned but not served and of those served
  // since the run began.
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
