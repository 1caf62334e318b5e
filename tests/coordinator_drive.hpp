#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include <forebay/communicator.hpp>

#include "ranks/coordinator.hpp"

namespace forebay::testing {

inline const BadLimit kAnyBad{
    .allowed = std::numeric_limits<std::uint64_t>::max(), .skipped = 0, .samples = 100, .quarantine = ""};

// How a run of one rank ended.
struct Outcome {
  Verdict verdict = Verdict::proceed;
  std::uint64_t steps = 0;  // batches served
  std::uint64_t epochs = 0;
  std::uint64_t bad = 0;
  std::string cause;

  friend bool operator==(const Outcome&, const Outcome&) = default;
};

// Drives a coordinator the way a feeder does, for at most `kTooMany` steps: `serve(coordinator, step)` stands for the
// rest of next() and returns {stop requested, epochs served} for the step after it.
template <typename Serve>
Outcome drive(Communicator& communicator, const RunPlan& plan, const BadLimit& limit, Serve&& serve) {
  constexpr std::uint64_t kTooMany = 100'000;
  Coordinator coordinator(communicator, plan, limit);
  std::pair<bool, std::uint64_t> said{false, 0};
  for (std::uint64_t step = 0;; ++step) {
    const bool is_done = said.second > coordinator.epochs_completed();
    const Verdict verdict =
        coordinator.step({.served = is_done ? 1 : 0, .stop = said.first, .to_serve = communicator.size()});
    if (verdict != Verdict::proceed || step == kTooMany)
      return {verdict, step, coordinator.epochs_completed(), coordinator.bad_samples(), coordinator.cause()};
    said = serve(coordinator, step);
  }
}

}  // namespace forebay::testing
