#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "simulate/simulation.hpp"
#include "simulate/trace.hpp"

namespace forebay::cli {

// One simulated run, and what would have been possible with its source.
struct SimulatedRun {
  simulate::Scenario scenario;
  double ratio = 0;              // R; for a trace the recorded ratio
  std::uint64_t slow_ranks = 0;  // the last ranks, whose R is slow_ratio
  double slow_ratio = 0;
  simulate::Outcome outcome;
  double possible = 0;  // fresh fraction of a policy that takes every batch at once
  double optimum = 0;   // least sum of uses^2 / steps with one resident batch and without a stall; 0: not computed
};

// A line per policy and R. If some ranks are slow, a second table compares what they and the others
// served. Several seeds are averaged; for the ratio to the optimum, the worst value is shown as
// well.
[[nodiscard]] std::string simulation_table(const std::vector<SimulatedRun>& runs);
// Every run with its scenario, as one JSON document.
[[nodiscard]] std::string simulation_json(const std::vector<SimulatedRun>& runs);

// What all ranks recorded: times averaged, steps, stalls and fresh batches added up, and of uses the most, as in a
// job's summary. Without sources and steps.
[[nodiscard]] simulate::Trace of_all_ranks(const std::vector<simulate::Trace>& traces);

// [queue] and [policy] to paste into a configuration, and their predicted effect.
[[nodiscard]] std::string recommendation_text(const simulate::Recommendation& recommendation,
                                              const std::vector<simulate::Trace>& traces);

}  // namespace forebay::cli
