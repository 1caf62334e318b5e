#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "machine.hpp"
#include "scenario.hpp"
#include "sites.hpp"

namespace forebay::model {

struct Limits {
  unsigned deviations = 2;           // all executions with at most so many
  std::uint64_t executions = 20000;  // of those at most so many
  std::uint64_t walks = 2000;        // then so many at random
  std::uint64_t seed = 1;
  bool traces = true;  // a failure says how it came about
};

struct Result {
  std::uint64_t executions = 0;
  std::uint64_t steps = 0;
  unsigned deviations = 0;  // all executions with at most so many were looked at
  std::string failure;      // "" = none; with how it came about
  std::set<std::string> outcomes;
};

// Runs a scenario in every way within the limits, until one fails.
class Explorer {
 public:
  Explorer() : machine_(std::make_unique<Machine>(*sites_)) {}

  Result explore(const Scenario& scenario, const Limits& limits);
  [[nodiscard]] Sites& sites() noexcept { return *sites_; }

 private:
  static constexpr std::size_t kTraced = 60;

  std::unique_ptr<Sites> sites_ = std::make_unique<Sites>();
  std::unique_ptr<Machine> machine_;
};

}  // namespace forebay::model
