#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include <forebay/options.hpp>
#include <forebay/policy.hpp>

#include "source.hpp"
#include "use_tally.hpp"

namespace forebay {

// One rank's producer, queue and pool in virtual time, by the rules of the real feeder: a batch being made counts
// against the capacity, so work on the next one begins when fewer than `capacity` are ready; the pool holds the last
// `pool` fresh batches. Times must not decrease from call to call.
class RankModel {
 public:
  // How a step was served.
  struct Served {
    Decision decision = Decision::fresh;
    std::uint32_t depth = 0;  // when it was asked for
    double wait_s = 0;
  };

  // REQUIRES: capacity and pool >= 1. `tally` must outlive the object; ranks may share one.
  RankModel(const QueueOptions& queue, const PolicyOptions& rules, Source source, UseTally& tally);

  // When the first batch is ready.
  [[nodiscard]] double first_batch_s() const noexcept { return finished_; }
  // Serves a step requested at `now`, as `policy` decides. Throws what the policy throws, and Error if it waits for a
  // batch that cannot come.
  Served step(Policy& policy, double now);

  // What a policy sees at `now`, `waited` seconds into its step.
  [[nodiscard]] Signals observe(double now, double waited = 0);
  // Serves a fresh batch, waiting for it if need be, or a resident one. REQUIRES: a reuse has a batch to serve.
  Served serve(Decision decision, double asked, double now);

  // Ends the run: tallies the resident batches.
  void finish();

  [[nodiscard]] std::uint64_t produced() const noexcept { return produced_; }
  [[nodiscard]] std::uint64_t fresh() const noexcept { return fresh_; }
  [[nodiscard]] std::uint32_t depth() const noexcept { return depth_; }

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  // Publishes everything finished by `now`.
  void publish(double now);
  [[nodiscard]] double end_of_wait(double asked, double now) const;
  void served_from(std::uint64_t turn);

  UseTally& tally_;
  Source source_;
  std::vector<Resident> pool_;  // oldest first, the last is current
  double max_wait_s_;
  double start_s_ = -1;  // of the first step
  double finished_;      // when the batch being made is ready; kNever: the queue is full
  double full_since_ = 0;
  double blocked_s_ = 0;  // since the first step
  std::uint64_t produced_ = 0;
  std::uint64_t steps_ = 0;
  std::uint64_t fresh_ = 0;
  std::uint64_t last_turn_ = 0;
  std::uint64_t run_ = 0;  // steps in a row from the batch of last_turn_
  std::uint32_t capacity_;
  std::uint32_t pool_size_;
  std::uint32_t depth_ = 0;
  Pick pick_;
};

}  // namespace forebay
