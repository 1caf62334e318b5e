#pragma once

#include <cstdint>
#include <span>

#include <forebay/options.hpp>
#include <forebay/policy.hpp>

#include "ring/queue_slots.hpp"
#include "simulation.hpp"
#include "trace.hpp"

namespace forebay {

// What a recorded run would have been like with other settings.
struct Prediction {
  QueueOptions queue;
  PolicyOptions policy;
  Outcome outcome;

  // Batches held in memory.
  [[nodiscard]] std::int64_t slots() const noexcept { return slots_of(queue); }
};

struct Recommendation {
  Prediction configured;   // the settings that were asked about
  Prediction recommended;  // the smallest queue that does nearly as well as the best
  // `recommended` with policy.max_uses at twice its uses_p99: what a cap would cost. max_uses = 0: nothing to cap.
  Prediction capped;
};

// The scenario that repeats recorded runs, one rank each: their sources, step times, and number of steps.
[[nodiscard]] Scenario scenario_of(std::span<const Trace> traces);

// Tries the built-in policies that never wait, with queues and pools of several sizes, on the recording, and picks the
// fewest slots among the settings that
//  - never stall (at most 0.1 % of the time),
//  - deliver at least 0.995 of the most fresh batches that any of them delivers, those ready at the end included,
//  - are within 10 % of the lowest sum of uses^2.
// REQUIRES: !traces.empty(). The keys that are not varied come from `configured`.
[[nodiscard]] Recommendation recommend(std::span<const Trace> traces, const Options& configured,
                                       const PolicyRegistry& registry);

}  // namespace forebay
