// What every policy must hold, checked over all registered ones in a simulation: one producer, one queue, a trainer
// whose steps take one second of virtual time. A new policy is covered by being registered.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <limits>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <forebay/detail/recording.hpp>
#include <forebay/policy.hpp>
#include <forebay/random.hpp>

#include "support.hpp"

namespace forebay {
namespace {

constexpr std::uint64_t kSteps = 10'000;
constexpr std::int64_t kInterval = 4;
constexpr std::array kCapacities{1U, 2U, 3U, 16U, 64U};
constexpr std::array kRatios{0.2, 0.5, 0.95, 1.0, 1.5, 3.0, 10.0, 50.0};  // R: seconds of work per batch

// These may wait for a batch by their own rule; every other policy must not.
const std::set<std::string> kBlocking{"block", "interval", "replay"};

enum class Source : std::uint8_t { constant, exponential, bursty, on_off };
constexpr std::array kSources{Source::constant, Source::exponential, Source::bursty, Source::on_off};

std::string name_of(Source source) {
  switch (source) {
    case Source::constant: return "constant";
    case Source::exponential: return "exponential";
    case Source::bursty: return "bursty";
    case Source::on_off: return "on-off";
  }
  return "?";
}

// When batches are finished, at `ratio` seconds each on average.
class Producer {
 public:
  Producer(Source source, double ratio, std::uint64_t seed) : source_(source), ratio_(ratio), random_(seed) {}

  // The end of the next batch when its work starts at `start`.
  double finish(double start) {
    switch (source_) {
      case Source::constant: return start + ratio_;
      case Source::exponential: return start - ratio_ * std::log1p(-random_.uniform());
      case Source::bursty: return start + (count_++ % kBurst == 0 ? ratio_ * kBurst : 0);
      case Source::on_off: return through_outages(start);
    }
    return start;
  }

 private:
  static constexpr int kBurst = 8;
  static constexpr double kCycle = 20;  // of on_off, in batches; twice the rate in its first half, then nothing

  [[nodiscard]] double through_outages(double start) const {
    const double cycle = kCycle * ratio_;
    const double begin = std::floor(start / cycle) * cycle;
    const double on = std::min(start, begin + cycle / 2);
    const double end = on + ratio_ / 2;
    return end <= begin + cycle / 2 ? end : end + cycle / 2;
  }

  Source source_;
  double ratio_;
  Random random_;
  std::uint64_t count_ = 0;
};

struct Outcome {
  std::uint64_t fresh = 0;
  std::uint64_t reused = 0;
  std::uint64_t late_reused = 0;  // in the second half of the run
  std::uint64_t produced = 0;
  std::uint64_t depth = 0;  // left in the queue
  std::uint64_t waited_although_resident = 0;
  std::uint64_t most_uses = 0;
  std::uint64_t disagreements = 0;  // between equal objects, or between askings within a step
  double waited_s = 0;
  double end_s = 0;  // when the last step was served
};

// A queue of `capacity` in front of a trainer, step by step. `batches` bounds what the source has.
class Simulation {
 public:
  Simulation(const PolicyOptions& options, Source source, double ratio, std::uint32_t capacity, std::uint64_t seed,
             std::uint64_t batches = UINT64_MAX)
      : policy_(make(options)),
        twin_(make(options)),
        producer_(source, ratio, seed),
        capacity_(capacity),
        batches_(batches),
        next_(producer_.finish(0)) {}

  Outcome run(std::uint64_t steps) {
    for (std::uint64_t step = 0; step < steps; ++step) {
      serve(step);
      outcome_.end_s = now_;
      if (step < steps / 2) outcome_.late_reused = 0;
      now_ += 1;
    }
    outcome_.depth = depth_;
    return outcome_;
  }

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  static std::unique_ptr<Policy> make(const PolicyOptions& options) {
    return with_rules(PolicyRegistry::builtin().make(options), options);
  }

  // Publishes everything finished by now. The work on a batch starts when there is room for it.
  void publish() {
    while (outcome_.produced < batches_ && next_ <= now_) {
      ++depth_;
      ++outcome_.produced;
      next_ = depth_ < capacity_ ? producer_.finish(next_) : kNever;
    }
  }

  void serve(std::uint64_t step) {
    constexpr double kTick = 0.001;
    const double asked = now_;
    for (;;) {
      publish();
      const Signals signals{step, depth_, capacity_, uses_, outcome_.produced, now_, 0, now_ - asked};
      const Decision decision = policy_->decide(signals);
      if (policy_->decide(signals) != decision || twin_->decide(signals) != decision) ++outcome_.disagreements;
      if (decision == Decision::wait) {
        now_ += kTick;
        continue;
      }
      policy_->served(decision, signals);
      twin_->served(decision, signals);
      decision == Decision::fresh ? serve_fresh() : serve_again();
      outcome_.waited_s += now_ - asked;
      return;
    }
  }

  void serve_fresh() {
    if (depth_ == 0 && uses_ > 0) ++outcome_.waited_although_resident;
    if (depth_ == 0) now_ = std::max(now_, next_);
    publish();
    if (depth_ == 0) throw std::logic_error("the policy waits for ever for a source that has ended");
    if (depth_ == capacity_) next_ = producer_.finish(now_);
    --depth_;
    uses_ = 1;
    ++outcome_.fresh;
    outcome_.most_uses = std::max<std::uint64_t>(outcome_.most_uses, 1);
  }

  void serve_again() {
    ++uses_;
    ++outcome_.reused;
    ++outcome_.late_reused;
    outcome_.most_uses = std::max(outcome_.most_uses, uses_);
  }

  std::unique_ptr<Policy> policy_;
  std::unique_ptr<Policy> twin_;
  Producer producer_;
  std::uint32_t capacity_;
  std::uint64_t batches_;
  double next_;  // when the batch in the making is finished
  double now_ = 0;
  std::uint32_t depth_ = 0;
  std::uint64_t uses_ = 0;
  Outcome outcome_;
};

// What replay follows here: greedy's decisions behind a source at half the trainer's speed.
const std::string& recording() {
  static const testing::TemporaryDirectory dir;
  static const std::string file = [] {
    const auto greedy = PolicyRegistry::builtin().make({.name = "greedy"});
    std::vector<std::uint64_t> runs;
    for (std::uint64_t step = 0; step < kSteps; ++step) {
      const Signals signals{.step = step, .depth = static_cast<std::uint32_t>(1 - step % 2), .uses = 1};
      runs.push_back(1);
      REQUIRE(greedy->decide(signals) == (step % 2 == 0 ? Decision::fresh : Decision::reuse));
    }
    std::ofstream(dir / "decisions") << header_line({}) << decisions_line(0, runs);
    return (dir / "decisions").string();
  }();
  return file;
}

PolicyOptions options_for(const std::string& name) {
  PolicyOptions options;
  options.name = name;
  options.interval = kInterval;
  if (name == "replay") options.recording = recording();
  return options;
}

std::vector<std::string> reusing_policies() {
  std::vector<std::string> names;
  for (const std::string& name : PolicyRegistry::builtin().names()) {
    if (!kBlocking.contains(name)) names.push_back(name);
  }
  return names;
}

// Runs `check(source, ratio, capacity, seed)` over the whole grid.
template <typename Check>
void over_grid(Check check) {
  std::uint64_t seed = 2024;
  for (const Source source : kSources) {
    for (const double ratio : kRatios) {
      for (const std::uint32_t capacity : kCapacities) {
        ++seed;
        CAPTURE(name_of(source));
        CAPTURE(ratio);
        CAPTURE(capacity);
        CAPTURE(seed);
        check(source, ratio, capacity, seed);
      }
    }
  }
}

TEST_CASE("every policy: equal objects agree, asking changes nothing, and what is consumed is what was produced") {
  for (const std::string& name : PolicyRegistry::builtin().names()) {
    CAPTURE(name);
    over_grid([&](Source source, double ratio, std::uint32_t capacity, std::uint64_t seed) {
      const Outcome outcome = Simulation(options_for(name), source, ratio, capacity, seed).run(kSteps);
      CHECK(outcome.disagreements == 0);
      CHECK(outcome.fresh + outcome.reused == kSteps);
      CHECK(outcome.fresh + outcome.depth == outcome.produced);
      if (!kBlocking.contains(name)) CHECK(outcome.waited_although_resident == 0);
      if (name == "block") CHECK(outcome.reused == 0);
    });
  }
}

TEST_CASE("reusing policies hardly reuse when the source is fast enough") {
  for (const std::string& name : reusing_policies()) {
    CAPTURE(name);
    over_grid([&](Source source, double ratio, std::uint32_t capacity, std::uint64_t seed) {
      const bool fast = source == Source::constant ? ratio < 1 : ratio <= 0.5 && capacity >= 16;
      if (!fast) return;
      const Outcome outcome = Simulation(options_for(name), source, ratio, capacity, seed).run(kSteps);
      CHECK(static_cast<double>(outcome.late_reused) < 0.001 * kSteps);
    });
  }
}

// Batches the source would have finished by `end_s` had the queue never been full.
double unimpeded(Source source, double ratio, std::uint64_t seed, double end_s) {
  Producer producer(source, ratio, seed);
  double count = 0;
  double at = producer.finish(0);
  while (at <= end_s) {
    ++count;
    at = producer.finish(at);
  }
  return count;
}

// Served or still in the queue, per step: the change of depth is not lost.
double delivered(const Outcome& outcome) { return static_cast<double>(outcome.fresh + outcome.depth) / kSteps; }

TEST_CASE("greedy and proportional lose no batch that the source could have delivered") {
  for (const std::string name : {"greedy", "proportional"}) {
    CAPTURE(name);
    over_grid([&](Source source, double ratio, std::uint32_t capacity, std::uint64_t seed) {
      // A queue of one batch stops the source at every batch. An uneven source overflows a small queue, and near
      // R = 1 any queue. All that is so whatever the policy does.
      const bool overflows =
          capacity == 1 || (source != Source::constant && (capacity < 16 || std::abs(ratio - 1) < 0.1));
      if (overflows) return;
      const Outcome outcome = Simulation(options_for(name), source, ratio, capacity, seed).run(kSteps);
      const double arrivals = unimpeded(source, ratio, seed, outcome.end_s);
      CHECK(delivered(outcome) >= 0.98 * std::min(1.0, arrivals / kSteps));
    });
  }
}

TEST_CASE("proportional delivers what greedy does, which no policy that never waits can exceed") {
  over_grid([&](Source source, double ratio, std::uint32_t capacity, std::uint64_t seed) {
    // A batch that waits for its turn takes a large part of a small queue's room for the next burst.
    if (source != Source::constant && capacity < 16) return;
    const Outcome best = Simulation(options_for("greedy"), source, ratio, capacity, seed).run(kSteps);
    const Outcome even = Simulation(options_for("proportional"), source, ratio, capacity, seed).run(kSteps);
    CHECK(delivered(even) >= 0.98 * delivered(best));
  });
}

TEST_CASE("every policy: max_uses is never exceeded under on_max_uses = wait") {
  for (const std::string& name : PolicyRegistry::builtin().names()) {
    CAPTURE(name);
    for (const std::int64_t cap : {1, 2, 3, 10}) {
      CAPTURE(cap);
      over_grid([&](Source source, double ratio, std::uint32_t capacity, std::uint64_t seed) {
        PolicyOptions options = options_for(name);
        options.max_uses = cap;
        const Outcome outcome = Simulation(options, source, ratio, capacity, seed).run(1000);
        CHECK(outcome.most_uses <= static_cast<std::uint64_t>(cap));
        CHECK(outcome.disagreements == 0);
      });
    }
  }
}

TEST_CASE("every policy: batches that stay ready are served, at any depth") {
  constexpr std::uint64_t kPatience = 256;  // steps in which a ready batch must be taken
  for (const std::string& name : PolicyRegistry::builtin().names()) {
    CAPTURE(name);
    for (const std::uint32_t capacity : kCapacities) {
      CAPTURE(capacity);
      for (std::uint32_t depth = 1; depth <= capacity; ++depth) {
        const PolicyOptions options = options_for(name);
        const auto policy = with_rules(PolicyRegistry::builtin().make(options), options);
        std::uint64_t in_a_row = 0;
        std::uint64_t most = 0;
        std::uint64_t uses = 0;
        for (std::uint64_t step = 0; step < 4 * kPatience; ++step) {
          const Signals signals{step, depth, capacity, uses, step + depth, static_cast<double>(step), 0, 0};
          const Decision decision = policy->decide(signals);
          policy->served(decision, signals);
          in_a_row = decision == Decision::fresh ? 0 : in_a_row + 1;
          uses = in_a_row + 1;
          most = std::max(most, in_a_row);
        }
        CAPTURE(depth);
        CHECK(most < kPatience);
      }
    }
  }
}

TEST_CASE("reusing policies serve the last batch of a source that ends, and then go on without waiting") {
  for (const std::string& name : reusing_policies()) {
    CAPTURE(name);
    over_grid([&](Source source, double ratio, std::uint32_t capacity, std::uint64_t seed) {
      for (const std::uint64_t batches : {1U, 2U, 3U, 17U}) {
        CAPTURE(batches);
        const Outcome outcome = Simulation(options_for(name), source, ratio, capacity, seed, batches).run(kSteps);
        CHECK(outcome.fresh == batches);
      }
    });
  }
}

TEST_CASE("reusing policies: max_wait_ms prefers a short wait to a reuse, and waits no longer") {
  for (const std::string& name : reusing_policies()) {
    CAPTURE(name);
    for (const std::uint32_t capacity : kCapacities) {
      CAPTURE(capacity);
      PolicyOptions options = options_for(name);
      options.max_wait_ms = 100;
      // A batch takes 1.05 steps: waiting 50 ms for it is always enough.
      const Outcome patient = Simulation(options, Source::constant, 1.05, capacity, 1).run(1000);
      if (name == "greedy") CHECK(patient.reused == 0);
      CHECK(patient.waited_s <= 0.102 * 1000);
      // Without room for patience, the wait is cut off and the batch reused.
      const Outcome hopeless = Simulation(options, Source::constant, 50, capacity, 1).run(1000);
      CHECK(hopeless.reused > 900);
      CHECK(hopeless.waited_s <= 0.102 * 1000 + 50);
    }
  }
}

}  // namespace
}  // namespace forebay
