#pragma once

#include <atomic>
#include <cstdint>

#include <forebay/options.hpp>
#include <forebay/random.hpp>

#include "job.hpp"

namespace forebay {

// In place of a trainer: each step sleeps for a random time, so that it takes no core from the decoders, and then joins
// the other ranks in an all-reduce.
class EmulatedTrainer {
 public:
  // `stop`: ends a sleep early. References must outlive the trainer.
  EmulatedTrainer(const TrainerOptions& options, std::uint64_t seed, Job& job, const std::atomic<bool>& stop);

  void step();

 private:
  [[nodiscard]] double draw_ms() noexcept;

  TrainerOptions options_;
  Random random_;
  Job& job_;
  const std::atomic<bool>& stop_;
};

}  // namespace forebay
