// The tables and JSON of `forebay simulate`.

#include "simulate_report.hpp"

#include <spdlog/fmt/fmt.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <numeric>
#include <utility>

#include "base/text.hpp"
#include "ring/queue_slots.hpp"

namespace forebay::cli {
namespace {

// Chosen: with fewer batches, the recommendation says that it rests on little data.
constexpr std::uint64_t kFewBatches = 500;

// Lines of text, formatted one by one.
class Lines {
 public:
  template <typename... Args>
  void operator()(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
    text_ += '\n';
  }
  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

// Runs that differ only in their seed.
using Seeds = std::vector<const SimulatedRun*>;

// Groups in the order of the runs, which is that of the options.
std::vector<Seeds> by_scenario(const std::vector<SimulatedRun>& runs) {
  std::vector<Seeds> groups;
  std::map<std::pair<double, std::string>, std::size_t> known;
  for (const SimulatedRun& run : runs) {
    const auto [at, is_new] = known.try_emplace({run.ratio, run.scenario.policy.name}, groups.size());
    if (is_new) groups.emplace_back();
    groups[at->second].push_back(&run);
  }
  return groups;
}

template <typename Value>
double mean(const Seeds& seeds, Value value) {
  double sum = 0;
  for (const SimulatedRun* run : seeds) sum += static_cast<double>(value(*run));
  return sum / static_cast<double>(seeds.size());
}

template <typename Value>
double most(const Seeds& seeds, Value value) {
  double most = 0;
  for (const SimulatedRun* run : seeds) most = std::max(most, static_cast<double>(value(*run)));
  return most;
}

double stall_share(const simulate::Outcome& outcome) { return outcome.stall_s / outcome.wall_s; }

// Sum of squared uses relative to the best schedule without stalls. A policy that stalls is more
// even because it waits, so it is not comparable; then the result is 0.
double ratio_to_optimum(const SimulatedRun& run) {
  const bool comparable = run.optimum > 0 && stall_share(run.outcome) < 1e-3;
  return comparable ? run.outcome.evenness / run.optimum : 0;
}

void add_row(Lines& line, const Seeds& seeds) {
  const auto outcome = [](auto member) { return [member](const SimulatedRun& run) { return run.outcome.*member; }; };
  const bool comparable =
      std::ranges::all_of(seeds, [](const SimulatedRun* run) { return ratio_to_optimum(*run) > 0; });
  const double ratio = comparable ? mean(seeds, ratio_to_optimum) : 0;
  const std::string evenness =
      ratio > 0 ? fmt::format("{:9.3f} {:7.3f}", ratio, most(seeds, ratio_to_optimum)) : fmt::format("{:>17}", "-");
  line("{:<13} {:>6.2f} {:>7.2f} {:>8.2f} {:>7.3f} {:>8.3f} {} {:>5.0f} {:>5.0f} {:>6.0f} {:>6.0f} {:>7.1f}",
       seeds.front()->scenario.policy.name, seeds.front()->ratio,
       100 * mean(seeds, outcome(&simulate::Outcome::fresh_fraction)),
       100 * mean(seeds, [](const SimulatedRun& run) { return run.outcome.fresh_fraction / run.possible; }),
       100 * mean(seeds, [](const SimulatedRun& run) { return stall_share(run.outcome); }),
       mean(seeds, outcome(&simulate::Outcome::evenness)), evenness, mean(seeds, outcome(&simulate::Outcome::uses_p50)),
       mean(seeds, outcome(&simulate::Outcome::uses_p99)), most(seeds, outcome(&simulate::Outcome::uses_max)),
       most(seeds, outcome(&simulate::Outcome::longest_run)), mean(seeds, outcome(&simulate::Outcome::mean_depth)));
}

// Of the slow ranks, or of the others.
double fresh_fraction(const SimulatedRun& run, bool slow) {
  const std::vector<std::uint64_t>& fresh = run.outcome.fresh_of;
  const auto first_slow = fresh.end() - static_cast<std::ptrdiff_t>(run.slow_ranks);
  const auto [begin, end] = slow ? std::pair(first_slow, fresh.end()) : std::pair(fresh.begin(), first_slow);
  const double steps = static_cast<double>(end - begin) * static_cast<double>(run.outcome.steps);
  return steps > 0 ? static_cast<double>(std::reduce(begin, end)) / steps : 0;
}

double mean_step_s(const SimulatedRun& run) { return run.outcome.wall_s / static_cast<double>(run.outcome.steps); }

void add_slow_row(Lines& line, const Seeds& seeds) {
  line("{:<13} {:>6.2f} {:>9.2f} {:>9.2f} {:>9.3f}", seeds.front()->scenario.policy.name, seeds.front()->ratio,
       100 * mean(seeds, [](const SimulatedRun& run) { return fresh_fraction(run, false); }),
       100 * mean(seeds, [](const SimulatedRun& run) { return fresh_fraction(run, true); }), mean(seeds, mean_step_s));
}

// As written in a configuration.
nlohmann::json max_uses(const PolicyOptions& policy) {
  return policy.max_uses == kAutomatic ? nlohmann::json("auto") : nlohmann::json(policy.max_uses);
}

nlohmann::json to_json(const SimulatedRun& run) {
  const simulate::Scenario& scenario = run.scenario;
  const simulate::Outcome& outcome = run.outcome;
  nlohmann::json json{{"policy", scenario.policy.name},
                      {"source", simulate::to_string(scenario.sources.front()->kind)},
                      {"R", run.ratio},
                      {"capacity", outcome.capacity},
                      {"pool", ring::pool_of(scenario.queue)},
                      {"pick", scenario.policy.pick == Pick::current ? "current" : "least_used"},
                      {"max_uses", max_uses(scenario.policy)},
                      {"mode", scenario.mpi.mode == MpiMode::local ? "local" : "lockstep"},
                      {"ranks", scenario.ranks},
                      {"seed", scenario.seed},
                      {"steps", outcome.steps},
                      {"fresh", outcome.fresh},
                      {"reused", outcome.reused},
                      {"fresh_fraction", outcome.fresh_fraction},
                      {"possible_fresh_fraction", run.possible},
                      {"stall_s", outcome.stall_s},
                      {"wall_s", outcome.wall_s},
                      {"exhausted_steps", outcome.exhausted_steps},
                      {"produced", outcome.produced},
                      {"left", outcome.left},
                      {"mean_depth", outcome.mean_depth},
                      {"evenness", outcome.evenness},
                      {"uses_p50", outcome.uses_p50},
                      {"uses_p99", outcome.uses_p99},
                      {"uses_max", outcome.uses_max},
                      {"longest_run", outcome.longest_run}};
  if (run.slow_ranks > 0) {
    json["slow_ranks"] = run.slow_ranks;
    json["slow_R"] = run.slow_ratio;
    json["slow_fresh_fraction"] = fresh_fraction(run, true);
    json["other_fresh_fraction"] = fresh_fraction(run, false);
  }
  if (run.optimum > 0) json["optimum"] = run.optimum;
  if (ratio_to_optimum(run) > 0) json["ratio_to_optimum"] = ratio_to_optimum(run);
  return json;
}

void add_prediction(Lines& line, const char* what, const simulate::Prediction& prediction) {
  const simulate::Outcome& outcome = prediction.outcome;
  line("# {:<12} {:>7.1f} {:>7.2f} {:>9.2f} {:>5} {:>5} {:>6} {:>6}", what, 100 * outcome.fresh_fraction,
       100 * stall_share(outcome), outcome.evenness, outcome.uses_p99, outcome.uses_max, outcome.longest_run,
       prediction.slots());
}

// Nothing if the ranks had the same R, or there is one.
std::string range_of_ratios(const std::vector<simulate::Trace>& traces) {
  const auto ratio = [](const simulate::Trace& trace) { return trace.mean_work_s / trace.mean_step_s; };
  const auto [least, most] = std::ranges::minmax_element(traces, {}, ratio);
  return ratio(*least) == ratio(*most) ? "" : fmt::format(" ({:.2f} to {:.2f} by rank)", ratio(*least), ratio(*most));
}

}  // namespace

std::string simulation_table(const std::vector<SimulatedRun>& runs) {
  Lines line;
  line("{:<13} {:>6} {:>7} {:>8} {:>7} {:>8} {:>17} {:>17} {:>6} {:>7}", "", "", "fresh", "of the", "stall", "sum of",
       "to the optimum", "uses per batch", "in a", "");
  line("{:<13} {:>6} {:>7} {:>8} {:>7} {:>8} {:>9} {:>7} {:>5} {:>5} {:>6} {:>6} {:>7}", "policy", "R", "%", "arrived",
       "%", "u^2/step", "mean", "worst", "p50", "p99", "most", "row", "depth");
  const std::vector<Seeds> groups = by_scenario(runs);
  for (const Seeds& seeds : groups) add_row(line, seeds);
  if (runs.empty() || runs.front().slow_ranks == 0) return line.take();
  const SimulatedRun& run = runs.front();
  line("\n{} of {} ranks at R {:.2f}", run.slow_ranks, run.scenario.ranks, run.slow_ratio);
  line("{:<13} {:>6} {:>9} {:>9} {:>9}", "", "others", "fresh %,", "fresh %,", "time of");
  line("{:<13} {:>6} {:>9} {:>9} {:>9}", "policy", "R", "others", "slow", "a step");
  for (const Seeds& seeds : groups) add_slow_row(line, seeds);
  return line.take();
}

std::string simulation_json(const std::vector<SimulatedRun>& runs) {
  auto json = nlohmann::json::array();
  for (const SimulatedRun& run : runs) json.push_back(to_json(run));
  return json.dump(1);
}

simulate::Trace of_all_ranks(const std::vector<simulate::Trace>& traces) {
  simulate::Trace all;
  const auto ranks = static_cast<double>(traces.size());
  for (const simulate::Trace& trace : traces) {
    all.mean_step_s += trace.mean_step_s / ranks;
    all.mean_work_s += trace.mean_work_s / ranks;
    all.steps += trace.steps;
    all.fresh += trace.fresh;
    all.stall_s += trace.stall_s;
    all.wall_s += trace.wall_s;
    all.uses_p99 = std::max(all.uses_p99, trace.uses_p99);
    all.uses_max = std::max(all.uses_max, trace.uses_max);
  }
  return all;
}

// Everything but the sections is a comment, so that the text can be pasted into a configuration.
std::string recommendation_text(const simulate::Recommendation& recommendation,
                                const std::vector<simulate::Trace>& traces) {
  Lines line;
  const simulate::Prediction& best = recommendation.recommended;
  const simulate::Trace trace = of_all_ranks(traces);
  const double stall = trace.wall_s > 0 ? trace.stall_s / trace.wall_s : 0;
  line("# From {} steps of {}: lambda {:.2f} batches/s, mu {:.2f} steps/s, R {:.2f}{}.", traces.front().steps,
       counted(traces.size(), "rank"), 1 / trace.mean_work_s, 1 / trace.mean_step_s,
       trace.mean_work_s / trace.mean_step_s, range_of_ratios(traces));
  const std::uint64_t fewest = std::ranges::min(traces, {}, &simulate::Trace::fresh).fresh;
  if (fewest < kFewBatches) line("# Only {} fresh batches were recorded; a longer run says more.", fewest);
  line("[queue]\ncapacity = {}\npool = {}\n", best.queue.capacity, best.queue.pool);
  line("[policy]\nname = \"{}\"\npick = \"{}\"\nmax_uses = {}\n", best.policy.name,
       best.policy.pick == Pick::current ? "current" : "least_used", max_uses(best.policy).dump());
  line("# predicted    fresh %  stall %  u^2/step   p99  most in row  slots");
  line("# {:<12} {:>7.1f} {:>7.2f} {:>9} {:>5} {:>5} {:>6} {:>6}", "recorded",
       100 * static_cast<double>(trace.fresh) / static_cast<double>(trace.steps), 100 * stall, "-", trace.uses_p99,
       trace.uses_max, "-", "-");
  add_prediction(line, "configured", recommendation.configured);
  add_prediction(line, "recommended", best);
  const simulate::Prediction& uncapped = recommendation.uncapped;
  if (uncapped.outcome.uses_max != best.outcome.uses_max || uncapped.outcome.stall_s != best.outcome.stall_s)
    add_prediction(line, "max_uses = 0", uncapped);
  return line.take();
}

}  // namespace forebay::cli
