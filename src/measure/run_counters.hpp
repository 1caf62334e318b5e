#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <forebay/summary.hpp>

#include "step_record.hpp"

namespace forebay {

// How often each batch was served. Exact up to kExact serves; all above share one bucket that remembers the largest.
// Allocates at construction only.
class UsesHistogram {
 public:
  static constexpr std::uint64_t kExact = 4096;

  UsesHistogram() : counts_(kExact + 1) {}

  // A batch that was never served (0) does not count.
  void add(std::uint64_t uses) noexcept;
  // The nearest-rank percentile: the smallest u such that at least `share` of the batches were served at most u
  // times; max() when that is above kExact, 0 when there are no batches. REQUIRES: 0 < share <= 1.
  [[nodiscard]] std::uint64_t percentile(double share) const noexcept;
  [[nodiscard]] std::uint64_t max() const noexcept { return max_; }

 private:
  std::vector<std::uint64_t> counts_;  // [u - 1]: batches served u times; [kExact]: more often
  std::uint64_t batches_ = 0;
  std::uint64_t max_ = 0;
};

// Adds up a run for its Summary. One thread, the trainer's; step(), finished() and batch_retired() neither allocate
// nor enter the kernel.
//
// wall_s is compute_s + stall_s: after the first return the trainer is always either outside next() or inside it.
// It therefore ends with the last call of next(), and the time since then belongs to nothing yet.
//
// produce_rate (lambda) is taken between the first step and the last one that found new batches published:
//   (produced_last - produced_first) / ((t_last - t_first) - (blocked_last - blocked_first))
// so that neither the filling of an empty pipeline nor the time after its last batch counts. When everything was
// published before the first step it is produced_first / (startup_s - blocked_first).
//
// consume_rate (mu) is the number of compute times known / compute_s; steps / compute_s once finished().
class RunCounters {
 public:
  // After each step.
  void step(const StepRecord& record) noexcept;
  // After a call of next() that ended the run instead of serving: the trainer's compute before it and the time
  // inside it, in seconds.
  void finished(double step_s, double wait_s) noexcept;
  // A batch left the ring after `uses` serves.
  void batch_retired(std::uint64_t uses) noexcept { uses_.add(uses); }

  // The figures so far. `facts`: those that are counted elsewhere (startup_s, blocked_s, bytes_read, ...), the others
  // 0. `resident_uses`: serves of each batch that was served and has not retired.
  [[nodiscard]] Summary summary(const Summary& facts, std::span<const std::uint64_t> resident_uses) const;

 private:
  // What the producer had done when the trainer was served.
  struct Produced {
    double t_s = 0;
    std::uint64_t batches = 0;
    double blocked_s = 0;
  };

  [[nodiscard]] double produce_rate(double startup_s) const noexcept;

  Summary counted_;  // what step() and finished() add up
  UsesHistogram uses_;
  std::uint64_t fresh_samples_ = 0;
  std::uint64_t adjacent_ = 0;
  std::uint64_t compute_times_ = 0;
  Produced first_;
  Produced last_;
};

}  // namespace forebay
