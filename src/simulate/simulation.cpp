#include "simulation.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <string>

#include <forebay/error.hpp>

#include "rank_model.hpp"

namespace forebay {
namespace {

void require(bool holds, const std::string& what) {
  if (!holds) throw ConfigError("simulation: " + what);
}

void check(const Scenario& scenario) {
  require(scenario.ranks >= 1 && scenario.steps >= 1, "there must be at least one rank and one step");
  require(!scenario.sources.empty() && !scenario.step_s.empty(), "there must be a source and a step time");
  require(std::ranges::all_of(scenario.step_s, [](double s) { return std::isfinite(s) && s > 0; }),
          "steps must take time");
  require(scenario.queue.capacity >= 1 && scenario.queue.pool >= 1, "queue.capacity and queue.pool must be at least 1");
  require(scenario.mpi.mode == MpiMode::local || scenario.queue.capacity > scenario.mpi.lag,
          "mpi.mode = \"lockstep\" needs queue.capacity > mpi.lag = " + std::to_string(scenario.mpi.lag));
}

Source source_of(const Scenario& scenario, std::uint64_t rank) {
  return {scenario.sources[rank % scenario.sources.size()], key64(scenario.seed, rank)};
}

// All ranks and their totals.
class Job {
 public:
  explicit Job(const Scenario& scenario) : scenario_(scenario) {
    check(scenario);
    ranks_.reserve(scenario.ranks);
    for (std::uint64_t rank = 0; rank < scenario.ranks; ++rank) {
      ranks_.emplace_back(scenario.queue, scenario.policy, source_of(scenario, rank), tally_);
      now_ = std::max(now_, ranks_.back().first_batch_s());
    }
    start_ = now_;
  }

  [[nodiscard]] std::vector<RankModel>& ranks() noexcept { return ranks_; }
  // When the next step is requested, on all ranks.
  [[nodiscard]] double now() const noexcept { return now_; }

  void served(const RankModel::Served& served) noexcept {
    outcome_.fresh += served.decision == Decision::fresh ? 1 : 0;
    outcome_.reused += served.decision == Decision::reuse ? 1 : 0;
    outcome_.exhausted_steps += served.depth == 0 ? 1 : 0;
    depth_ += served.depth;
    wait_ = std::max(wait_, served.wait_s);
  }

  // The all-reduce: all ranks wait for the last.
  void end_step() noexcept {
    outcome_.stall_s += wait_;
    now_ += wait_ + scenario_.step_s[outcome_.steps % scenario_.step_s.size()];
    wait_ = 0;
    ++outcome_.steps;
  }

  [[nodiscard]] Outcome finish() {
    for (RankModel& rank : ranks_) {
      outcome_.produced += rank.produced();
      outcome_.left += rank.depth();
      outcome_.fresh_of.push_back(rank.fresh());
      rank.finish();
    }
    const auto served = static_cast<double>(outcome_.fresh + outcome_.reused);
    outcome_.fresh_fraction = static_cast<double>(outcome_.fresh) / served;
    outcome_.wall_s = now_ - start_;
    outcome_.mean_depth = depth_ / served;
    outcome_.evenness = tally_.squares() / served;
    outcome_.uses_p50 = tally_.percentile(0.5);
    outcome_.uses_p99 = tally_.percentile(0.99);
    outcome_.uses_max = tally_.max();
    outcome_.longest_run = tally_.longest_run();
    return outcome_;
  }

 private:
  const Scenario& scenario_;
  UseTally tally_;
  std::vector<RankModel> ranks_;
  double start_ = 0;
  double now_ = 0;
  double wait_ = 0;
  double depth_ = 0;
  Outcome outcome_;
};

Outcome simulate_local(const Scenario& scenario, const PolicyRegistry& registry) {
  Job job(scenario);
  std::vector<std::unique_ptr<Policy>> policies;
  policies.reserve(scenario.ranks);
  for (std::uint64_t rank = 0; rank < scenario.ranks; ++rank) {
    policies.push_back(with_rules(registry.make(scenario.policy), scenario.policy));
  }
  for (std::uint64_t step = 0; step < scenario.steps; ++step) {
    for (std::size_t rank = 0; rank < policies.size(); ++rank) {
      job.served(job.ranks()[rank].step(*policies[rank], job.now()));
    }
    job.end_step();
  }
  return job.finish();
}

// What the ranks reported before one step: the minimum of each figure.
struct Census {
  Signals signals;
  std::uint64_t fresh_before = 0;  // fresh decisions of all steps before that one
};

// Every rank decides by census k at step k + lag, so one policy decides for all. If it serves fresh only while the rank
// with the fewest batches still has one, no rank waits.
Outcome simulate_lockstep(const Scenario& scenario, const PolicyRegistry& registry) {
  Job job(scenario);
  const auto policy = with_rules(registry.make(scenario.policy), scenario.policy);
  const auto lag = static_cast<std::uint64_t>(scenario.mpi.lag);
  std::deque<Census> censuses;
  std::uint64_t fresh = 0;
  for (std::uint64_t step = 0; step < scenario.steps; ++step) {
    Census census{.signals = job.ranks().front().observe(job.now()), .fresh_before = fresh};
    for (RankModel& rank : job.ranks()) {
      const Signals said = rank.observe(job.now());
      census.signals.depth = std::min(census.signals.depth, said.depth);
      census.signals.produced = std::min(census.signals.produced, said.produced);
      census.signals.blocked_s = std::min(census.signals.blocked_s, said.blocked_s);
    }
    censuses.push_back(census);
    // Nothing is known of the first steps, except of the very first, whose batch every rank has.
    Signals known{.step = step, .depth = step == 0 ? 1U : 0U, .capacity = census.signals.capacity, .produced = 1};
    if (step > 0 && step >= lag) {
      known = censuses.front().signals;
      known.step = step;
      known.depth -=
          static_cast<std::uint32_t>(std::min<std::uint64_t>(known.depth, fresh - censuses.front().fresh_before));
    }
    known.uses = census.signals.uses;  // the same on all ranks
    const Decision decision = policy->decide(known) == Decision::fresh ? Decision::fresh : Decision::reuse;
    policy->served(decision, known);
    fresh += decision == Decision::fresh ? 1 : 0;
    for (RankModel& rank : job.ranks()) job.served(rank.serve(decision, job.now(), job.now()));
    job.end_step();
    if (censuses.size() > lag) censuses.pop_front();
  }
  return job.finish();
}

}  // namespace

Outcome simulate(const Scenario& scenario, const PolicyRegistry& registry) {
  return scenario.mpi.mode == MpiMode::lockstep ? simulate_lockstep(scenario, registry)
                                                : simulate_local(scenario, registry);
}

std::vector<std::uint64_t> arrivals(const Scenario& scenario, std::uint64_t rank) {
  check(scenario);
  UseTally tally;
  RankModel model(scenario.queue, scenario.policy, source_of(scenario, rank), tally);
  double now = model.first_batch_s();
  std::vector<std::uint64_t> arrived;
  arrived.reserve(scenario.steps);
  for (std::uint64_t step = 0; step < scenario.steps; ++step) {
    const bool ready = model.observe(now).depth > 0;
    arrived.push_back(model.produced());
    model.serve(ready ? Decision::fresh : Decision::reuse, now, now);
    now += scenario.step_s[step % scenario.step_s.size()];
  }
  return arrived;
}

}  // namespace forebay
