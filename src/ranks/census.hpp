#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include <forebay/communicator.hpp>

namespace forebay {

// How far one rank is, or the least that any rank said.
struct Progress {
  // Said of `ready` and `produced` by a rank that has nothing left to produce: it keeps nobody waiting.
  static constexpr std::int64_t kDrained = std::numeric_limits<std::int64_t>::max();
  // Said of `ready`, with kDrained of `produced`, by a rank that has served all of the epochs that are open: until the
  // next one opens it keeps nobody waiting either.
  static constexpr std::int64_t kIdle = kDrained - 1;

  std::int64_t ready = kDrained;     // batches ready before the step is served
  std::int64_t produced = kDrained;  // batches published since the start
  std::int64_t now_ns = 0;           // since the first step
  std::int64_t blocked_ns = 0;       // of it, producer blocked by a full ring
};

// What one rank says at one step.
struct Ballot {
  bool stop = false;         // wants to stop
  bool error = false;        // cannot go on
  bool left = false;         // makes neither this step nor any other
  bool idle = false;         // has no batch left that it could plan
  bool worn = false;         // would reuse a batch that was served policy.max_uses times
  std::int64_t served = 0;   // batches of the epoch `epoch` that it has served fresh
  std::int64_t samples = 0;  // samples that it has served fresh
  std::int64_t new_bad = 0;  // distinct bad samples that the job has not agreed on yet
  std::int64_t fresh = 0;    // lockstep: fresh decisions so far
  std::int64_t uses = 0;     // of the batch it has served most often of those it may reuse
  Progress progress{};

  // What the job had agreed on when the ballot was posted. Equal on all ranks at the same step, so it is kept beside
  // the ballot and not sent.
  std::uint64_t epoch = 0;
  std::uint64_t bad_round = 0;
};

// All ranks' ballots of one step: how many said so, the sums, the least of each progress, and the most uses.
struct Tally {
  std::uint64_t step = 0;  // the step at which they were posted
  std::int64_t stops = 0;
  std::int64_t errors = 0;
  std::int64_t left = 0;
  std::int64_t idle = 0;
  std::int64_t worn = 0;
  std::int64_t served = 0;
  std::int64_t samples = 0;
  std::int64_t new_bad = 0;
  std::int64_t fresh = 0;
  std::int64_t uses = 0;
  Progress least;
  std::uint64_t epoch = 0;
  std::uint64_t bad_round = 0;
};

// Lagged agreement: every rank posts a ballot at each step and takes the tally of step k at exactly step k + lag, so
// that all ranks act alike at the same step and a rank normally finds its tally complete without waiting. Posting
// never waits for anything. One rank on its own has lag 0 and sends nothing.
// Used by the thread that calls next(). Allocates in the constructor only.
class Census {
 public:
  // The communicator's last channel is the exchange's.
  static constexpr std::size_t kMostLag = Communicator::kChannels - 2;

  // The communicator must outlive the census; its channels 0 ... lag are the census's. `while_waiting` is called again
  // and again while a tally is waited for, about every 50 us; it must not block, and may end the wait by throwing.
  // Throws ConfigError naming mpi.lag when the lag needs more channels than there are.
  Census(Communicator& communicator, std::size_t lag, std::function<void()> while_waiting = {});

  // Once per step. REQUIRES: has_room().
  void post(const Ballot& ballot);
  // The tally due at the step before was taken.
  [[nodiscard]] bool has_room() const noexcept { return posted_ - taken_ <= lag_; }
  // After a ballot of a rank that has left, which is its last: every rank has posted its own of that step, and at least
  // one of them has not left. Never blocks.
  [[nodiscard]] bool others_went_on();
  // After post() at step k: the tally of step k - lag, or nothing in the first `lag` steps. Waits, polling with
  // short sleeps, while another rank's trainer has not come to step k - lag yet. Valid until the next call.
  [[nodiscard]] const Tally* due();
  // At an end that all ranks agree on: the oldest tally not taken yet, or nothing when there is none. Waits likewise.
  [[nodiscard]] const Tally* rest();

  // Time that the last due() or rest() waited for other ranks; 0 when the tally was there.
  [[nodiscard]] std::chrono::nanoseconds last_wait() const noexcept { return last_wait_; }
  [[nodiscard]] std::size_t lag() const noexcept { return lag_; }

 private:
  static constexpr std::size_t kMinima = 5;
  static constexpr std::size_t kLeft = 2;  // where `left` stands

  struct Place {
    // stops, errors, left, idle, worn, served, samples, new_bad, fresh, and then the minima: ready, produced, now_ns,
    // blocked_ns, and uses with the sign turned
    std::array<std::int64_t, 9 + kMinima> values{};
    std::uint64_t epoch = 0;
    std::uint64_t bad_round = 0;
  };

  const Tally* take_oldest();

  Communicator& communicator_;
  std::size_t lag_;
  std::function<void()> while_waiting_;
  std::vector<Place> places_;  // one per channel: lag + 1
  std::uint64_t posted_ = 0;
  std::uint64_t taken_ = 0;
  Tally tally_;
  std::chrono::nanoseconds last_wait_{0};
};

// Polls the operation of a channel until it is complete, with short sleeps, and returns the time that took; 0 when it
// was complete already. `while_waiting` (may be empty) is called again and again, about every 50 us; it must not block,
// and may end the wait by throwing.
std::chrono::nanoseconds wait_for(Communicator& communicator, std::size_t channel,
                                  const std::function<void()>& while_waiting);

}  // namespace forebay
