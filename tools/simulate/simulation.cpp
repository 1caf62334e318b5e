// Simulates a job: all ranks step by step in virtual time, deciding locally or in lockstep. Also
// computes the best schedule that a source allows, as a reference for policies.
//
// A step ends when the slowest rank has been served, because of the trainer's all-reduce
// (end_step). simulate_local() gives each rank its own policy. simulate_lockstep() has one policy,
// which sees the minimum of all ranks' figures from mpi.lag steps before, as a run gets them from
// the census.
//
// best_schedule() is dynamic programming over batches. It chooses the step at which each batch is
// served first so that the sum of squared uses is least. Each choice lies in the batch's window of
// steps, so that no step waits and the queue never overflows. Because costs are convex, the best
// predecessor moves in one direction only, and a stage of n steps is solved by divide and conquer
// in O(n log n) instead of O(n^2). Everything runs on one thread, and the result depends only on
// seeds.

#include "simulation.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <deque>
#include <limits>
#include <string>

#include <forebay/error.hpp>

#include "rank_model.hpp"

namespace forebay::simulate {
namespace {

void require(bool holds, const std::string& what) {
  if (!holds) throw ConfigError("simulation: " + what);
}

// Validates scenarios from callers of the library as well as from the command line.
void check(const Scenario& scenario) {
  require(scenario.ranks >= 1 && scenario.steps >= 1, "there must be at least one rank and one step");
  require(!scenario.sources.empty() && !scenario.step_s.empty(), "there must be a source and a step time");
  require(std::ranges::all_of(scenario.step_s, [](double s) { return std::isfinite(s) && s > 0; }),
          "steps must take time");
  require(scenario.queue.capacity >= 0 && ring::pool_of(scenario.queue) >= 1,
          "queue.capacity and queue.pool must be at least 1");
  require(scenario.mpi.mode == MpiMode::local || ring::capacity_of(scenario.queue) > scenario.mpi.lag,
          "mpi.mode = \"lockstep\" needs queue.capacity > mpi.lag = " + std::to_string(scenario.mpi.lag));
}

Source source_of(const Scenario& scenario, std::uint64_t rank) {
  return {scenario.sources[rank % scenario.sources.size()], key64(scenario.seed, rank)};
}

// All ranks, the job's clock and the totals.
class Job {
 public:
  Job(const Scenario& scenario, const StepObserver& observer) : scenario_(scenario), observer_(observer) {
    check(scenario);
    ranks_.reserve(scenario.ranks);
    QueueOptions queue = scenario.queue;
    queue.pool = ring::pool_of(queue);
    if (scenario.mpi.mode == MpiMode::lockstep) queue.capacity = ring::capacity_of(queue);  // does not grow in lockstep
    for (std::uint64_t rank = 0; rank < scenario.ranks; ++rank) {
      ranks_.emplace_back(queue, scenario.policy, source_of(scenario, rank), tally_);
      now_ = std::max(now_, ranks_.back().first_batch_s());
    }
    start_ = now_;
  }

  [[nodiscard]] std::vector<RankModel>& ranks() noexcept { return ranks_; }
  // When the next step is requested, on all ranks.
  [[nodiscard]] double now() const noexcept { return now_; }

  // Counts one rank's step; the longest wait of any rank delays all of them in end_step().
  void served(std::uint64_t rank, const ServedStep& served) {
    if (observer_) observer_(rank, now_ - start_, served);
    outcome_.fresh += served.decision == Decision::fresh ? 1 : 0;
    outcome_.reused += served.decision == Decision::reuse ? 1 : 0;
    outcome_.exhausted_steps += served.depth == 0 ? 1 : 0;
    depth_ += served.depth;
    wait_ = std::max(wait_, served.wait_s);
  }

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
      outcome_.could_serve += std::min<std::uint64_t>(rank.fresh() + rank.depth(), outcome_.steps);
      outcome_.capacity = std::max(outcome_.capacity, rank.capacity());
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
  const StepObserver& observer_;
  UseTally tally_;
  std::vector<RankModel> ranks_;
  double start_ = 0;
  double now_ = 0;
  double wait_ = 0;
  double depth_ = 0;
  Outcome outcome_;
};

// How many ranks said that they are at their cap. They say it before the next step, and hear it mpi.lag steps after
// that.
class RanksAtCap {
 public:
  explicit RanksAtCap(const Scenario& scenario)
      : ranks_(scenario.ranks), said_(static_cast<std::size_t>(scenario.mpi.lag) + 1) {}

  [[nodiscard]] bool are_most() const noexcept { return ranks_ == 1 || 2 * said_.front() > ranks_; }
  void add(std::uint64_t at_cap) {
    said_.pop_front();
    said_.push_back(at_cap);
  }

 private:
  std::uint64_t ranks_;
  std::deque<std::uint64_t> said_;  // oldest first
};

// Ranks learn whether most of them are at their cap mpi.lag steps late, as in a run.
Outcome simulate_local(const Scenario& scenario, const PolicyRegistry& registry, const StepObserver& observer) {
  Job job(scenario, observer);
  std::vector<std::unique_ptr<RuledPolicy>> policies;
  policies.reserve(scenario.ranks);
  for (std::uint64_t rank = 0; rank < scenario.ranks; ++rank) {
    policies.push_back(with_rules(registry.make(scenario.policy), scenario.policy));
  }
  RanksAtCap at_cap(scenario);
  for (std::uint64_t step = 0; step < scenario.steps; ++step) {
    const bool are_most_at_cap = at_cap.are_most();
    std::uint64_t now_at_cap = 0;
    for (std::size_t rank = 0; rank < policies.size(); ++rank) {
      policies[rank]->begin_step(are_most_at_cap);
      job.served(rank, job.ranks()[rank].step(*policies[rank], job.now()));
      now_at_cap += policies[rank]->is_at_cap() ? 1 : 0;
    }
    at_cap.add(now_at_cap);
    job.end_step();
  }
  return job.finish();
}

// What the ranks reported at one step: the minimum of each figure.
struct Census {
  Signals signals;
  std::uint64_t fresh_before = 0;  // fresh decisions of all steps before that one
};

// Every rank decides by the census of step k at step k + lag, so one policy decides for all. If it
// serves fresh only while the rank with the fewest batches has one left, no rank waits. known.depth
// is reduced by the fresh decisions made since the census: those batches are gone.
Outcome simulate_lockstep(const Scenario& scenario, const PolicyRegistry& registry, const StepObserver& observer) {
  Job job(scenario, observer);
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
    // Nothing is known before the first census arrives, except at step 0: every rank has its first
    // batch.
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
    for (std::uint64_t rank = 0; rank < scenario.ranks; ++rank) {
      job.served(rank, job.ranks()[rank].serve(decision, job.now(), job.now()));
    }
    job.end_step();
    if (censuses.size() > lag) censuses.pop_front();
  }
  return job.finish();
}

constexpr double kImpossible = std::numeric_limits<double>::infinity();

// The steps at which a batch may first be served, [first, last].
struct Window {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  bool pressed = false;  // must be served by `last`, because a later batch needs its place in the queue

  [[nodiscard]] std::size_t size() const noexcept { return last - first + 1; }
};

// One window per batch that can be served before the end. A batch must be served before the one
// that needs its place arrives. As a step serves at most one fresh batch, earlier ones must leave
// steps for later ones.
std::vector<Window> windows_of(std::span<const std::uint64_t> arrived, std::uint64_t capacity) {
  const std::uint64_t steps = arrived.size();
  std::vector<std::uint64_t> earliest;  // [j]: first step for which batch j has arrived
  for (std::uint64_t step = 0; step < steps; ++step) {
    while (earliest.size() < arrived[step]) earliest.push_back(step);
  }
  std::vector<Window> windows;
  for (std::size_t batch = 0; batch < earliest.size(); ++batch) {
    // Batch j + capacity has a place only if batch j was served before the step at which it
    // arrives.
    const std::size_t pressing = batch + capacity;
    Window window{.first = earliest[batch], .last = steps - 1, .pressed = pressing < earliest.size()};
    if (window.pressed) window.last = earliest[pressing] - 1;
    if (!windows.empty()) window.first = std::max(window.first, windows.back().first + 1);
    if (batch == 0) window.last = 0;  // the first step can serve nothing else
    if (window.first >= steps) break;
    windows.push_back(window);
  }
  // A step serves at most one fresh batch, so a batch must be early enough for those after it.
  for (std::size_t batch = windows.size(); batch-- > 1;) {
    if (windows[batch].pressed) windows[batch - 1].last = std::min(windows[batch - 1].last, windows[batch].last - 1);
  }
  return windows;
}

// The least cost of first serving a batch at each step of its window, from the costs of the batch before it.
class Stage {
 public:
  Stage(const Window& before, std::span<const double> costs, const Window& window)
      : before_(before), costs_(costs), window_(window), best_(window.size(), kImpossible), from_(window.size()) {
    solve(0, window_.size(), 0, before_.size());
  }

  [[nodiscard]] const std::vector<double>& best() const noexcept { return best_; }
  // Index into the previous batch's window.
  [[nodiscard]] const std::vector<std::uint32_t>& from() const noexcept { return from_; }

 private:
  // Solves [low, high) of the window, knowing that the best predecessors lie in [from_low, from_high).
  void solve(std::size_t low, std::size_t high, std::size_t from_low, std::size_t from_high) {
    if (low >= high) return;
    const std::size_t middle = low + (high - low) / 2;
    const std::uint64_t step = window_.first + middle;
    std::size_t choice = from_low;
    for (std::size_t from = from_low; from < from_high && before_.first + from < step; ++from) {
      const auto uses = static_cast<double>(step - before_.first - from);
      const double cost = costs_[from] + uses * uses;
      if (cost >= best_[middle]) continue;
      best_[middle] = cost;
      choice = from;
    }
    from_[middle] = static_cast<std::uint32_t>(choice);
    solve(low, middle, from_low, choice + 1);
    solve(middle + 1, high, choice, from_high);
  }

  Window before_;
  std::span<const double> costs_;
  Window window_;
  std::vector<double> best_;
  std::vector<std::uint32_t> from_;
};

}  // namespace

Outcome simulate(const Scenario& scenario, const PolicyRegistry& registry, const StepObserver& observer) {
  return scenario.mpi.mode == MpiMode::lockstep ? simulate_lockstep(scenario, registry, observer)
                                                : simulate_local(scenario, registry, observer);
}

// Every batch is served as soon as possible, so that the queue is never full longer than necessary.
std::vector<std::uint64_t> arrivals(const Scenario& scenario, std::uint64_t rank) {
  check(scenario);
  UseTally tally;
  QueueOptions queue = scenario.queue;
  queue.pool = ring::pool_of(queue);
  queue.capacity = ring::capacity_of(queue);
  RankModel model(queue, scenario.policy, source_of(scenario, rank), tally);
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

// Batches that are not pressed may stay unserved at the end, so the schedule may end with the last
// pressed batch or with any batch after it.
BestSchedule best_schedule(std::span<const std::uint64_t> arrived, std::uint64_t capacity) {
  if (arrived.empty() || arrived[0] == 0 || capacity == 0) {
    throw Error("best_schedule: the first step needs a batch and the queue room for one");
  }
  const std::uint64_t steps = arrived.size();
  const std::vector<Window> windows = windows_of(arrived, capacity);
  std::vector<std::vector<std::uint32_t>> from(windows.size());
  std::vector<double> costs{0};
  BestSchedule schedule{.fresh_steps = {}, .squares = kImpossible};
  std::size_t last_batch = 0;
  std::uint64_t last_step = 0;
  for (std::size_t batch = 0;; ++batch) {
    if (batch + 1 == windows.size() || !windows[batch + 1].pressed) {
      for (std::size_t at = 0; at < costs.size(); ++at) {
        const auto uses = static_cast<double>(steps - windows[batch].first - at);
        if (costs[at] + uses * uses >= schedule.squares) continue;
        schedule.squares = costs[at] + uses * uses;
        last_batch = batch;
        last_step = windows[batch].first + at;
      }
    }
    if (batch + 1 == windows.size()) break;
    const Window& next = windows[batch + 1];
    if (next.last < next.first) throw Error("best_schedule: more batches arrive than steps can take");
    Stage stage(windows[batch], costs, next);
    from[batch + 1] = stage.from();
    costs = stage.best();
  }
  schedule.fresh_steps.resize(last_batch + 1);
  for (std::size_t batch = last_batch + 1; batch-- > 0;) {
    schedule.fresh_steps[batch] = last_step;
    if (batch > 0) last_step = windows[batch - 1].first + from[batch][last_step - windows[batch].first];
  }
  return schedule;
}

}  // namespace forebay::simulate
