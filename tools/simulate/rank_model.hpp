#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include <forebay/options.hpp>
#include <forebay/policy.hpp>

#include "ring/queue_growth.hpp"
#include "simulation.hpp"
#include "source.hpp"

namespace forebay::simulate {

// Counts how often batches were served, and how many times in a row.
class UseTally {
 public:
  // A batch left the pool after `uses` serves.
  void left_pool(std::uint64_t uses) {
    if (uses >= counts_.size()) counts_.resize(uses + 1);
    ++counts_[uses];
    ++batches_;
    squares_ += static_cast<double>(uses) * static_cast<double>(uses);
  }
  // The same batch was served `steps` times in a row.
  void run(std::uint64_t steps) noexcept { longest_run_ = std::max(longest_run_, steps); }

  // The nearest-rank percentile over batches: the smallest u such that at least `share` of them were served at most u
  // times; 0 if there are none.
  [[nodiscard]] std::uint64_t percentile(double share) const noexcept {
    std::uint64_t below = 0;
    for (std::size_t uses = 0; uses < counts_.size(); ++uses) {
      below += counts_[uses];
      if (below > 0 && static_cast<double>(below) >= share * static_cast<double>(batches_)) return uses;
    }
    return 0;
  }
  [[nodiscard]] std::uint64_t max() const noexcept { return counts_.empty() ? 0 : counts_.size() - 1; }
  // Sum of uses^2 over batches.
  [[nodiscard]] double squares() const noexcept { return squares_; }
  [[nodiscard]] std::uint64_t longest_run() const noexcept { return longest_run_; }

 private:
  std::vector<std::uint64_t> counts_;  // [u]: batches served u times
  std::uint64_t batches_ = 0;
  std::uint64_t longest_run_ = 0;
  double squares_ = 0;
};

// One rank's producer, queue and pool in virtual time, by the rules of the real feeder. A batch in
// production counts against the capacity, so work on the next one begins when fewer than `capacity`
// are ready. The pool holds the last `pool` fresh batches. Times must not decrease from call to
// call.
class RankModel {
 public:
  using Served = ServedStep;

  // REQUIRES: capacity and pool >= 1, or a capacity of "auto", which grows only in step(). `tally`
  // must outlive the object; ranks may share one.
  RankModel(const QueueOptions& queue, const PolicyOptions& rules, Source source, UseTally& tally);

  // When the first batch is ready.
  [[nodiscard]] double first_batch_s() const noexcept { return finished_; }
  // Serves a step requested at `now`, as `policy` decides. Throws what the policy throws, and Error
  // if the policy waits for a batch that cannot come.
  Served step(Policy& policy, double now);

  // What a policy sees at `now`, `waited` seconds into its step.
  [[nodiscard]] Signals observe(double now, double waited = 0);
  // Serves a fresh batch, waiting for it if need be, or a resident one. `asked`: when the step was
  // requested. REQUIRES: for a reuse, a batch is resident.
  Served serve(Decision decision, double asked, double now);

  // Ends the run: tallies the resident batches.
  void finish();

  [[nodiscard]] std::uint64_t produced() const noexcept { return produced_; }
  [[nodiscard]] std::uint64_t fresh() const noexcept { return fresh_; }
  [[nodiscard]] std::uint32_t depth() const noexcept { return depth_; }
  [[nodiscard]] std::uint32_t capacity() const noexcept { return growth_.capacity(); }

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  // Publishes everything finished by `now`.
  void publish(double now);
  [[nodiscard]] double end_of_wait(double asked, double now) const;
  void served_from(std::uint64_t turn);
  // The queue has room again: production continues at `now`.
  void resume(double now);

  UseTally& tally_;
  Source source_;
  std::vector<Resident> pool_;  // oldest first, the last is current
  double max_wait_s_;
  double start_s_ = -1;  // of the first step
  double finished_;      // when the batch in production is ready; kNever: the queue is full
  double full_since_ = 0;
  double blocked_s_ = 0;  // since the first step
  std::uint64_t produced_ = 0;
  std::uint64_t steps_ = 0;
  std::uint64_t fresh_ = 0;
  std::uint64_t last_turn_ = 0;
  std::uint64_t run_ = 0;  // steps in a row that served the batch of last_turn_
  ring::QueueGrowth growth_;
  std::uint32_t pool_size_;
  std::uint32_t depth_ = 0;
  Pick pick_;
};

}  // namespace forebay::simulate
