#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include <forebay/communicator.hpp>

namespace forebay {

// What one rank says at one step.
struct Ballot {
  bool stop = false;         // wants to stop
  bool error = false;        // cannot go on
  bool epoch_done = false;   // has served the epoch `epoch` completely
  std::int64_t new_bad = 0;  // distinct bad samples that the job has not agreed on yet

  // What the job had agreed on when the ballot was posted. Equal on all ranks at the same step, so it is kept beside
  // the ballot and not sent.
  std::uint64_t epoch = 0;
  std::uint64_t bad_round = 0;
};

// All ranks' ballots of one step added up: how many said so.
struct Tally {
  std::uint64_t step = 0;  // the step at which they were posted
  std::int64_t stops = 0;
  std::int64_t errors = 0;
  std::int64_t epochs_done = 0;
  std::int64_t new_bad = 0;
  std::uint64_t epoch = 0;
  std::uint64_t bad_round = 0;
};

// Lagged agreement: every rank posts a ballot at each step and takes the tally of step k at exactly step k + lag, so
// that all ranks act alike at the same step and a rank normally finds its tally complete without waiting. Posting
// never waits for anything. One rank on its own has lag 0 and sends nothing.
// Used by the thread that calls next(). Allocates in the constructor only.
class Census {
 public:
  // The communicator must outlive the census; its lanes 0 ... lag are the census's. `while_waiting` is called again and
  // again while a tally is waited for, about every 50 us; it must not block.
  // Throws ConfigError naming mpi.lag when the lag needs more lanes than there are.
  Census(Communicator& communicator, std::size_t lag, std::function<void()> while_waiting = {});

  // Once per step. REQUIRES: the tally due at the step before was taken.
  void post(const Ballot& ballot);
  // After post() at step k: the tally of step k - lag, or nothing in the first `lag` steps. Waits, polling with
  // short sleeps, while another rank's trainer has not come to step k - lag yet. Valid until the next call.
  [[nodiscard]] const Tally* due();
  // At an end that all ranks agree on: the oldest tally not taken yet, or nothing when there is none. Waits likewise.
  [[nodiscard]] const Tally* rest();

  // Time that the last due() or rest() waited for other ranks; 0 when the tally was there.
  [[nodiscard]] std::chrono::nanoseconds last_wait() const noexcept { return last_wait_; }
  [[nodiscard]] std::size_t lag() const noexcept { return lag_; }

 private:
  struct Place {
    std::array<std::int64_t, 4> counts{};  // stops, errors, epochs_done, new_bad
    std::uint64_t epoch = 0;
    std::uint64_t bad_round = 0;
  };

  const Tally* take_oldest();
  void wait_for(std::size_t lane);

  Communicator& communicator_;
  std::size_t lag_;
  std::function<void()> while_waiting_;
  std::vector<Place> places_;  // one per lane: lag + 1
  std::uint64_t posted_ = 0;
  std::uint64_t taken_ = 0;
  Tally tally_;
  std::chrono::nanoseconds last_wait_{0};
};

}  // namespace forebay
