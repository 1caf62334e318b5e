#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "simulate/simulation.hpp"
#include "simulate/trace.hpp"

namespace forebay::cli {

// One simulated run, and what would have been possible.
struct SimulatedRun {
  simulate::Scenario scenario;
  double ratio = 0;              // R; for a trace as recorded
  std::uint64_t slow_ranks = 0;  // the last ones, whose R is slow_ratio
  double slow_ratio = 0;
  simulate::Outcome outcome;
  double possible = 0;  // fresh fraction of a policy that takes every batch at once
  double optimum = 0;   // least sum of uses^2 / steps with one resident batch and without a stall; 0: not computed
};

// A line per policy and R, and a second table if some ranks are slow, with what they and the others served. Several
// seeds are averaged, with the worst ratio to the optimum beside the mean.
[[nodiscard]] std::string simulation_table(const std::vector<SimulatedRun>& runs);
// Every run with its scenario, as one JSON document.
[[nodiscard]] std::string simulation_json(const std::vector<SimulatedRun>& runs);

// [queue] and [policy] to paste into a configuration, and what they would change.
[[nodiscard]] std::string recommendation_text(const simulate::Recommendation& recommendation,
                                              const std::vector<simulate::Trace>& traces);

}  // namespace forebay::cli
