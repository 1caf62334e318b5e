#include "emulated_trainer.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numbers>
#include <thread>

namespace forebay {

using Clock = std::chrono::steady_clock;

EmulatedTrainer::EmulatedTrainer(const TrainerOptions& options, std::uint64_t seed, Job& job,
                                 const std::atomic<bool>& stop)
    : options_(options), random_(key64(seed, 0x7472616eU, job.world().rank())), job_(job), stop_(stop) {}

double EmulatedTrainer::draw_ms() noexcept {
  switch (options_.step_distribution) {
    case StepDistribution::constant: break;
    case StepDistribution::normal: {
      // Box and Muller; 1 - u keeps the logarithm finite.
      const double radius = std::sqrt(-2 * std::log(1 - random_.uniform()));
      const double normal = radius * std::cos(2 * std::numbers::pi * random_.uniform());
      return std::max(0.0, options_.step_ms * (1 + 0.1 * normal));
    }
    case StepDistribution::exponential: return -options_.step_ms * std::log(1 - random_.uniform());
  }
  return options_.step_ms;
}

void EmulatedTrainer::step() {
  // Short, so that a signal ends the step soon, whichever thread it interrupts.
  constexpr auto kSlice = std::chrono::milliseconds(50);
  const auto length = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double, std::milli>(draw_ms()));
  const auto end = Clock::now() + length;
  while (!stop_.load(std::memory_order_relaxed)) {
    const auto left = end - Clock::now();
    if (left <= Clock::duration::zero()) break;
    std::this_thread::sleep_for(std::min<Clock::duration>(left, kSlice));
  }
  if (options_.allreduce_bytes > 0) job_.all_reduce(static_cast<std::size_t>(options_.allreduce_bytes));
}

}  // namespace forebay
