#include <doctest/doctest.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <forebay/feeder.hpp>

#include "memory_dataset.hpp"
#include "memory_parts.hpp"

namespace forebay {
namespace {

using testing::memory_options;
using testing::parts;

// Throws in a step: when it is asked, or when it is told.
class Throwing final : public Policy {
 public:
  Throwing(std::uint64_t step, bool is_told) : step_(step), is_told_(is_told) {}
  [[nodiscard]] Decision decide(const Signals& signals) override { return at(signals, false); }
  void served(Decision, const Signals& signals) override { (void)at(signals, true); }

 private:
  [[nodiscard]] Decision at(const Signals& signals, bool is_told) const {
    if (signals.step == step_ && is_told == is_told_) throw std::runtime_error("the policy lost count");
    return Decision::fresh;
  }
  std::uint64_t step_;
  bool is_told_;
};

TEST_CASE("what a policy throws ends a single rank in the step that it was thrown in, and no sample is lost") {
  struct Case {
    std::uint64_t step;
    bool is_told;
  };
  for (const Case given : {Case{1, false}, Case{3, false}, Case{0, true}, Case{3, true}}) {
    CAPTURE(given.step);
    CAPTURE(given.is_told);
    Options options = memory_options(2);
    options.policy.name = "throwing";
    Parts made = parts(20);
    made.policies.add("throwing",
                      [given](const PolicyOptions&) { return std::make_unique<Throwing>(given.step, given.is_told); });
    Feeder feeder(options, std::move(made));
    for (std::uint64_t step = 0; step < given.step; ++step) CHECK(feeder.next()->is_fresh());
    CHECK_THROWS_WITH_AS((void)feeder.next(), "the policy lost count", std::runtime_error);
    CHECK_THROWS_WITH_AS((void)feeder.next(), "the policy lost count", Error);
    const std::string state = feeder.state();
    options.policy.name = "block";
    Feeder resumed(options, parts(20));
    resumed.restore_state(state);
    std::uint64_t fresh = 0;
    while (const auto batch = resumed.next()) fresh += batch->is_fresh() ? 1 : 0;
    CHECK(fresh == 10 - given.step);
  }
}

TEST_CASE("run.steps ends an evaluation early, says so, and makes no batch of an evaluation empty") {
  for (const std::int64_t steps : {0, 2, 3, 4, 1000}) {
    CAPTURE(steps);
    Options options = memory_options(8);
    options.run.eval = true;
    options.run.steps = steps;
    Parts given = parts(20);
    std::string said;
    given.log = [&said](LogLevel level, std::string_view line) {
      if (level == LogLevel::warning) said += line;
    };
    Feeder feeder(options, std::move(given));
    std::uint64_t next = 0;
    std::uint64_t batches = 0;
    while (auto batch = feeder.next()) {
      ++batches;
      CHECK(batch->size() > 0);
      for (const std::uint64_t id : batch->ids()) CHECK(id == next++);
    }
    CHECK(batches == (steps == 2 ? 2 : 3));
    CHECK(next == (steps == 2 ? 16 : 20));
    CHECK((said.find("run.steps = 2 ends the evaluation after 2 of the 3 batches") != std::string::npos) ==
          (steps == 2));
  }
}

}  // namespace
}  // namespace forebay
