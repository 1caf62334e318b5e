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
// never waits for anything. One rank on its own has lag 0 and sends nothing.
// Used by the thread that calls next(). Allocates in the constructor only.
class Census {
 public:
  // The communicator's last channel is the Rebalancer's.
  static constexpr std::size_t kMostLag = Communicator::kChannels - 2;

  // The communicator must outlive the census; its channels 0 ... lag are the census's. `while_waiting` is called again
  // and again while a report is waited for, about every 50 us; it must not block, and may end the wait by throwing.
  // Throws ConfigError naming mpi.lag when the lag needs more channels than there are.
  Census(Communicator& communicator, std::size_t lag, std::function<void()> while_waiting = {});

  // Once per step. REQUIRES: has_room().
  void post(const RankReport& report);
  // The report due at the step before was taken.
  [[nodiscard]] bool has_room() const noexcept { return posted_ - taken_ <= lag_; }
  // After the report of a rank that has left, which is its last: every rank has posted its own of that step, and at
  // least one of them has not left. Never blocks.
  [[nodiscard]] bool others_went_on();
  // After post() at step k: what all said at step k - lag, or nothing in the first `lag` steps. Waits, polling with
  // short sleeps, while another rank's trainer has not come to step k - lag yet. Valid until the next call.
  [[nodiscard]] const JobReport* due();
  // At an end that all ranks agree on: the oldest report not taken yet, or nothing when there is none. Waits likewise.
  [[nodiscard]] const JobReport* rest();

  // Time that the last due() or rest() waited for other ranks; 0 when the report was there.
  [[nodiscard]] std::chrono::nanoseconds last_wait() const noexcept { return last_wait_; }
  [[nodiscard]] std::size_t lag() const noexcept { return lag_; }

 private:
  // The figures of a report on their way through the all-reduce.
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

// Polls the operation of a channel until it is complete, with short sleeps, and returns the time that took; 0 when it
// was complete already. `while_waiting` (may be empty) is called again and again, about every 50 us; it must not block,
// and may end the wait by throwing.
std::chrono::nanoseconds wait_for(Communicator& communicator, std::size_t channel,
                                  const std::function<void()>& while_waiting);

}  // namespace forebay::ranks
