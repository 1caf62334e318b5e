#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include <forebay/options.hpp>
#include <forebay/policy.hpp>

#include "ring/queue_slots.hpp"
#include "simulation.hpp"
#include "source.hpp"

namespace forebay::simulate {

// What one rank of a real run did, from its telemetry.
struct Trace {
  std::uint64_t rank = 0;
  std::shared_ptr<const SourceSpec> source;  // the work of each batch, on a clock that stops while the queue is full
  std::vector<double> step_s;                // of each step, without waits for a batch
  double mean_step_s = 0;                    // step_s, averaged
  double mean_work_s = 0;                    // 1 / lambda
  std::uint64_t most_depth = 0;
  // As served, for comparison.
  std::uint64_t steps = 0;
  std::uint64_t fresh = 0;
  std::uint64_t uses_p99 = 0;
  std::uint64_t uses_max = 0;
  double stall_s = 0;
  double wall_s = 0;
};

// Reads steps.RANK.jsonl: one file, or all in a folder (telemetry.dir of a run with
// telemetry.per_step = true), in the order of ranks. Lines of steps.RANK.earlier.jsonl
// (telemetry.max_bytes) come first. Batches finished between the same two steps are spread evenly
// over that time. Gaps where telemetry dropped lines are bridged; a truncated last line is ignored.
// If a run was resumed, only the steps after the last resume count. Throws Error naming file, line
// and what to do.
[[nodiscard]] std::vector<Trace> read_traces(const std::filesystem::path& path);

// The predicted outcome of a recorded run with these settings.
struct Prediction {
  QueueOptions queue;
  PolicyOptions policy;
  Outcome outcome;

  // Batches held in memory.
  [[nodiscard]] std::int64_t slots() const noexcept { return ring::slots_of(queue); }
};

struct Recommendation {
  Prediction configured;   // the settings of the configuration
  Prediction recommended;  // the smallest queue that does nearly as well as the best
  Prediction uncapped;     // `recommended` with policy.max_uses = 0
};

// The scenario that repeats recorded runs, one rank each: their sources, step times, and number of steps.
[[nodiscard]] Scenario scenario_of(std::span<const Trace> traces);

// Predicts the recorded run for the built-in policies that never wait, with queues and pools of
// several sizes and no cap on uses. Among the settings that
//
// - never stall (at most 0.1 % of the time),
// - deliver at least 0.995 of the most fresh batches that any setting delivers, those ready at the
//   end included,
// - are within 10 % of the lowest sum of uses^2,
//
// it chooses the one with the fewest slots, and recommends that with policy.max_uses = "auto". Keys
// that are not varied come from `configured`. REQUIRES: !traces.empty().
[[nodiscard]] Recommendation recommend(std::span<const Trace> traces, const Options& configured,
                                       const PolicyRegistry& registry);

}  // namespace forebay::simulate
