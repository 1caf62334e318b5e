#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include <forebay/communicator.hpp>

#include "reports.hpp"

namespace forebay::ranks {

// Lagged agreement: every rank posts a report at each step and takes the job's report of step k at exactly step k +
// lag, so that all ranks act alike at the same step and a rank normally finds it complete without waiting. Posting
// never waits. A single rank has lag 0 and sends nothing. Used by the thread that calls next(). Allocates in the
// constructor only.
class Census {
 public:
  // The communicator's last channel is the Rebalancer's.
  static constexpr std::size_t kMostLag = Communicator::kChannels - 2;

  // The communicator must outlive the census, which uses its channels 0 ... lag. `while_waiting` is called about every
  // 50 us while waiting for a report; it must not block, and may end the wait by throwing. Throws ConfigError naming
  // mpi.lag if the lag needs more channels than there are.
  Census(Communicator& communicator, std::size_t lag, std::function<void()> while_waiting = {});

  // Called once per step. REQUIRES: has_room().
  void post(const RankReport& report);
  // Whether the report due at the previous step was taken.
  [[nodiscard]] bool has_room() const noexcept { return posted_ - taken_ <= lag_; }
  // After the last report of a rank that has left: whether every rank has posted its report of that step and at least
  // one of them has not left. Never blocks.
  [[nodiscard]] bool others_went_on();
  // After post() at step k: the report of all ranks for step k - lag, or null in the first `lag` steps. Waits, polling
  // with short sleeps, while another rank's trainer has not yet reached step k - lag. Valid until the next call.
  [[nodiscard]] const JobReport* due();
  // At an end agreed by all ranks: the oldest report not yet taken, or null if there is none. Waits likewise.
  [[nodiscard]] const JobReport* rest();

  // Time for which the last due() or rest() waited for other ranks; 0 if the report was complete.
  [[nodiscard]] std::chrono::nanoseconds last_wait() const noexcept { return last_wait_; }
  [[nodiscard]] std::size_t lag() const noexcept { return lag_; }

 private:
  // The figures of a report while in the all-reduce.
  struct Sent {
    std::array<std::int64_t, 14> values{};
    std::uint64_t epoch = 0;
    std::uint64_t bad_round = 0;
  };

  const JobReport* take_oldest();

  Communicator& communicator_;
  std::size_t lag_;
  std::function<void()> while_waiting_;
  std::vector<Sent> sent_;  // one per channel: lag + 1
  std::uint64_t posted_ = 0;
  std::uint64_t taken_ = 0;
  JobReport job_;
  std::chrono::nanoseconds last_wait_{0};
};

// Polls the operation of a channel, with short sleeps, until it is complete, and returns the time that took; 0 if it
// was already complete. `while_waiting` (may be empty) is called about every 50 us; it must not block, and may end the
// wait by throwing.
std::chrono::nanoseconds wait_for(Communicator& communicator, std::size_t channel,
                                  const std::function<void()>& while_waiting);

}  // namespace forebay::ranks
