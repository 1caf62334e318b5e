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
  unsigned deviations = 2;           // explore all executions with at most this many,
  std::uint64_t executions = 20000;  // but no more of them than this,
  std::uint64_t walks = 2000;        // and then this many random ones
  std::uint64_t seed = 1;
  bool traces = true;  // a failure includes a trace
};

struct Result {
  std::uint64_t executions = 0;
  std::uint64_t steps = 0;
  unsigned deviations = 0;  // all executions with at most this many were explored
  std::string failure;      // "" = none; includes a trace
  std::set<std::string> outcomes;
};

// Runs a scenario in every way that the limits allow, until one execution fails.
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
