// `forebay simulate`: runs policies against synthetic or recorded sources in virtual time
// (tools/simulate), compares them with what the source allows, recommends a configuration, or
// writes the files of a run.
//
// For each ratio R (steps per batch of the source) and each seed, all policies get the same
// arrivals; `possible` and `optimum` depend only on the arrivals and are computed once. With a
// trace, the first repetition starts at its beginning, the others anywhere.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <forebay/config.hpp>
#include <forebay/dataset.hpp>
#include <forebay/error.hpp>
#include <forebay/policy.hpp>

#include <spdlog/fmt/fmt.h>
#include <CLI/CLI.hpp>

#include "base/text.hpp"
#include "commands.hpp"
#include "output.hpp"
#include "simulate/simulation.hpp"
#include "simulate/trace.hpp"
#include "simulate_report.hpp"
#include "simulated_files.hpp"

namespace forebay::cli {
namespace {

// For how many of the slow and of the other ranks the best possible result is computed; within a
// group, ranks differ only by chance.
constexpr std::uint64_t kRanksLookedAt = 4;

constexpr std::array kSynthetic{simulate::SourceKind::constant,  simulate::SourceKind::exponential,
                                simulate::SourceKind::lognormal, simulate::SourceKind::gamma,
                                simulate::SourceKind::outages,   simulate::SourceKind::contention};

struct SimulateArguments {
  std::string config;
  std::vector<std::string> overrides;
  std::vector<std::string> policies;
  std::string source_name = "exponential";
  simulate::SourceSpec source;
  std::vector<double> ratios{3};
  std::string trace;
  std::string mode;  // "" = that of the configuration
  std::uint64_t ranks = 1;
  std::uint64_t slow_ranks = 0;
  double slow_ratio = 0;
  std::uint64_t steps = 10'000;
  std::uint64_t seeds = 1;
  std::uint64_t seed = 1;
  bool no_optimum = false;
  bool recommend = false;
  std::string json;
  std::string record;
  double step_s = 1;
  CLI::Option* steps_given = nullptr;
  CLI::Option* ranks_given = nullptr;
  std::vector<std::pair<CLI::Option*, std::vector<std::string>>> of_sources;  // options that only some sources have
};

// "all" excludes replay, which needs a recording.
std::vector<std::string> policies_of(const SimulateArguments& arguments, const Options& options) {
  if (arguments.policies.empty()) return {options.policy.name};
  if (arguments.policies != std::vector<std::string>{"all"}) return arguments.policies;
  std::vector<std::string> names = PolicyRegistry::builtin().names();
  std::erase(names, "replay");
  return names;
}

// One scenario for each R, or a single one for a trace. Slow ranks come last; ranks of a kind share
// their source.
std::vector<std::pair<double, simulate::Scenario>> scenarios_of(const SimulateArguments& arguments,
                                                                const std::vector<simulate::Trace>& traces) {
  std::vector<std::pair<double, simulate::Scenario>> scenarios;
  if (!traces.empty()) {
    const simulate::Trace all = of_all_ranks(traces);
    scenarios.emplace_back(all.mean_work_s / all.mean_step_s, simulate::scenario_of(traces));
    if (arguments.steps_given->count() > 0) scenarios.back().second.steps = arguments.steps;
    if (arguments.ranks_given->count() > 0) scenarios.back().second.ranks = arguments.ranks;
    return scenarios;
  }
  for (const double ratio : arguments.ratios) {
    simulate::Scenario scenario;
    scenario.ranks = arguments.ranks;
    scenario.steps = arguments.steps;
    simulate::SourceSpec source = arguments.source;
    source.kind = *std::ranges::find(kSynthetic, arguments.source_name,
                                     [](simulate::SourceKind kind) { return simulate::to_string(kind); });
    source.mean_s = ratio;
    scenario.sources = {std::make_shared<const simulate::SourceSpec>(source)};
    if (arguments.slow_ranks > 0) {
      scenario.sources.resize(scenario.ranks - arguments.slow_ranks, scenario.sources.front());
      source.mean_s = arguments.slow_ratio;
      scenario.sources.resize(scenario.ranks, std::make_shared<const simulate::SourceSpec>(std::move(source)));
    }
    scenarios.emplace_back(ratio, std::move(scenario));
  }
  return scenarios;
}

// Repetitions of a trace start at random points of it.
void begin_anywhere(simulate::Scenario& scenario) {
  for (auto& source : scenario.sources) {
    if (source->kind != simulate::SourceKind::trace) continue;
    simulate::SourceSpec spec = *source;
    spec.anywhere = true;
    source = std::make_shared<const simulate::SourceSpec>(std::move(spec));
  }
}

// The best that any policy can achieve with the source.
struct Possible {
  double fresh = 0;
  double optimum = 0;
};

// Mean over the first few ranks of a group. A rank cannot serve more fresh batches than it makes
// steps.
Possible possible_of(const simulate::Scenario& scenario, std::uint64_t first, std::uint64_t ranks, bool with_optimum) {
  Possible possible;
  const std::uint64_t looked_at = std::min(ranks, kRanksLookedAt);
  for (std::uint64_t rank = first; rank < first + looked_at; ++rank) {
    const std::vector<std::uint64_t> arrived = simulate::arrivals(scenario, rank);
    const double steps = static_cast<double>(arrived.size()) * static_cast<double>(looked_at);
    possible.fresh += std::min(static_cast<double>(arrived.back()) / steps, 1.0 / static_cast<double>(looked_at));
    if (!with_optimum) continue;
    possible.optimum +=
        simulate::best_schedule(arrived, static_cast<std::uint64_t>(ring::capacity_of(scenario.queue))).squares / steps;
  }
  return possible;
}

Possible possible_in(const simulate::Scenario& scenario, std::uint64_t slow_ranks, bool with_optimum) {
  const std::uint64_t others = scenario.ranks - slow_ranks;
  const Possible most = possible_of(scenario, 0, others, with_optimum);
  const Possible slow = possible_of(scenario, others, slow_ranks, with_optimum);
  const double share = static_cast<double>(slow_ranks) / static_cast<double>(scenario.ranks);
  return {.fresh = std::lerp(most.fresh, slow.fresh, share), .optimum = std::lerp(most.optimum, slow.optimum, share)};
}

// Writes the files of simulated runs.
class RecordedRuns {
 public:
  // Opens the dataset, because a recording contains its fingerprint, which a replay compares.
  RecordedRuns(const SimulateArguments& arguments, const Options& options, bool several)
      : dir_(arguments.record), step_s_(arguments.step_s), several_(several), options_(options) {
    if (dir_.empty()) return;
    if (options.dataset.path.empty() && options.dataset.index.empty()) {
      throw ConfigError(
          "--record: a recording belongs to a dataset, which a replay compares: name a CONFIG that has "
          "dataset.path, or --set dataset.path=PATH");
    }
    if (options.dataset.order == SampleOrder::local && options.dataset.nodes == 0)
      throw ConfigError(R"(--record: dataset.order = "local" needs dataset.nodes, the number of nodes of the replay)");
    dataset_ = open_dataset(options.dataset);
  }

  // Simulates a scenario, and writes the run's files if --record is given.
  [[nodiscard]] simulate::Outcome simulate(const simulate::Scenario& scenario, const PolicyRegistry& registry,
                                           double ratio) const {
    if (!dataset_) return forebay::simulate::simulate(scenario, registry);
    Options options = options_;
    options.policy = scenario.policy;
    options.mpi = scenario.mpi;
    SimulatedFiles files(options, *dataset_, folder(scenario, ratio), scenario.ranks, step_s_);
    simulate::Outcome outcome = forebay::simulate::simulate(
        scenario, registry,
        [&](auto rank, double asked, const simulate::ServedStep& served) { files.add(rank, asked, served); });
    files.finish();
    return outcome;
  }

 private:
  // The folder itself for a single run; otherwise a folder below it for each run.
  [[nodiscard]] std::string folder(const simulate::Scenario& scenario, double ratio) const {
    if (!several_) return dir_;
    return fmt::format("{}/{}.R{:.4g}.seed{}", dir_, scenario.policy.name, ratio, scenario.seed);
  }

  std::string dir_;
  double step_s_;
  bool several_;
  const Options& options_;
  std::unique_ptr<Dataset> dataset_;
};

std::vector<SimulatedRun> run_all(const SimulateArguments& arguments, const Options& options,
                                  const std::vector<simulate::Trace>& traces) {
  const PolicyRegistry registry = PolicyRegistry::builtin();
  const auto scenarios = scenarios_of(arguments, traces);
  const RecordedRuns recorded(arguments, options,
                              scenarios.size() * arguments.seeds * policies_of(arguments, options).size() > 1);
  std::vector<SimulatedRun> runs;
  for (auto [ratio, scenario] : scenarios) {
    scenario.queue = options.queue;
    scenario.mpi = options.mpi;
    if (!arguments.mode.empty()) {
      scenario.mpi.mode = arguments.mode == "lockstep" ? MpiMode::lockstep : MpiMode::local;
    }
    for (std::uint64_t i = 0; i < arguments.seeds; ++i) {
      scenario.seed = arguments.seed + i;
      if (i > 0) begin_anywhere(scenario);
      scenario.policy = options.policy;
      const Possible possible = possible_in(scenario, arguments.slow_ranks, !arguments.no_optimum);
      for (const std::string& policy : policies_of(arguments, options)) {
        scenario.policy.name = policy;
        runs.push_back({.scenario = scenario,
                        .ratio = ratio,
                        .slow_ranks = arguments.slow_ranks,
                        .slow_ratio = arguments.slow_ratio,
                        .outcome = recorded.simulate(scenario, registry, ratio),
                        .possible = possible.fresh,
                        .optimum = possible.optimum});
      }
    }
  }
  return runs;
}

// Refuses options that would change nothing.
void refuse_without_effect(const SimulateArguments& arguments) {
  for (const auto& [option, sources] : arguments.of_sources) {
    if (option->count() == 0) continue;
    const bool is_traced = !arguments.trace.empty();
    if (!is_traced && std::ranges::find(sources, arguments.source_name) != sources.end()) continue;
    throw ConfigError(option->get_name() + " changes nothing with " +
                      (is_traced ? "--trace" : "--source " + arguments.source_name) +
                      ": leave it out, or give --source " + joined(sources, "|"));
  }
}

int run_simulation(const SimulateArguments& arguments) {
  refuse_without_effect(arguments);
  if (arguments.slow_ranks > arguments.ranks) {
    throw ConfigError("--slow-ranks " + std::to_string(arguments.slow_ranks) + " of --ranks " +
                      std::to_string(arguments.ranks) + ": there are fewer");
  }
  require_writable("--json", arguments.json);
  require_no_loss("--json", arguments.json, std::array{arguments.config, arguments.trace});
  const Options options = options_from(arguments.config, arguments.overrides);
  const std::vector<simulate::Trace> traces =
      arguments.trace.empty() ? std::vector<simulate::Trace>{} : simulate::read_traces(arguments.trace);
  if (arguments.recommend) {
    const simulate::Recommendation recommendation = simulate::recommend(traces, options, PolicyRegistry::builtin());
    std::fputs(recommendation_text(recommendation, traces).c_str(), stdout);
    return 0;
  }
  const std::vector<SimulatedRun> runs = run_all(arguments, options, traces);
  if (arguments.json != "-") std::fputs(simulation_table(runs).c_str(), stdout);
  if (!arguments.json.empty()) write_output("--json", arguments.json, simulation_json(runs));
  return 0;
}

void add_source_options(CLI::App& command, SimulateArguments& arguments) {
  std::vector<std::string> names;
  names.reserve(kSynthetic.size());
  for (const simulate::SourceKind kind : kSynthetic) names.emplace_back(simulate::to_string(kind));
  CLI::Option* source = command.add_option("--source", arguments.source_name, "how long batches take")
                            ->check(CLI::IsMember(names).description(""))
                            ->type_name(joined(names, "|"));
  CLI::Option* ratio = command.add_option("-R,--ratio", arguments.ratios, "steps per batch of the source; repeatable")
                           ->type_name("R")
                           ->check(CLI::Range(0.01, 10'000.0));
  const auto add_of = [&](const char* name, double& value, const char* what, const char* unit,
                          std::vector<std::string> sources) {
    CLI::Option* option = command.add_option(name, value, joined(sources, ", ") + ": " + what)->type_name(unit);
    arguments.of_sources.emplace_back(option, std::move(sources));
  };
  add_of("--sigma", arguments.source.sigma, "deviation of the logarithm", "X", {"lognormal"});
  add_of("--cv", arguments.source.cv, "coefficient of variation", "X", {"gamma"});
  add_of("--on", arguments.source.on_s, "steps of undisturbed production", "STEPS", {"outages", "contention"});
  add_of("--off", arguments.source.off_s, "steps of the disturbance", "STEPS", {"outages", "contention"});
  add_of("--slowdown", arguments.source.slowdown, "how many times slower", "X", {"contention"});
  command.add_option("--trace", arguments.trace, "a run's telemetry.dir, or one steps.RANK.jsonl, as the source")
      ->type_name("PATH")
      ->excludes(source)
      ->excludes(ratio);
}

}  // namespace

void add_simulate_command(CLI::App& app, Invocation& invocation) {
  auto arguments = std::make_shared<SimulateArguments>();
  CLI::App* command = app.add_subcommand("simulate", "Try policies on a simulated or recorded source, in virtual time");
  command->add_option("CONFIG", arguments->config, "configuration: [queue], [policy] and [mpi]; none = the defaults");
  add_set_option(*command, arguments->overrides);
  command->add_option("--policy", arguments->policies, "policies to compare, or all (default: that of the config)")
      ->delimiter(',')
      ->type_name("NAME,...");
  add_source_options(*command, *arguments);
  arguments->ranks_given = command->add_option("--ranks", arguments->ranks, "ranks that make every step together")
                               ->check(CLI::Range(1, 1'000'000))
                               ->type_name("P");
  CLI::Option* slow_ranks =
      positive(command->add_option("--slow-ranks", arguments->slow_ranks, "how many of them are slow"))
          ->type_name("K")
          ->excludes("--trace");
  CLI::Option* slow_ratio =
      command->add_option("--slow-ratio", arguments->slow_ratio, "steps per batch of the slow ranks' source")
          ->check(CLI::Range(0.01, 10'000.0))
          ->type_name("R")
          ->needs(slow_ranks);
  slow_ranks->needs(slow_ratio);
  command->add_option("--mode", arguments->mode, "how the ranks decide")
      ->check(CLI::IsMember({"local", "lockstep"}).description(""))
      ->type_name("local|lockstep");
  arguments->steps_given =
      positive(command->add_option("--steps", arguments->steps, "steps of each rank (default: 10000)"))->type_name("N");
  positive(command->add_option("--seeds", arguments->seeds, "repeat with this many seeds"))->type_name("S");
  not_negative(command->add_option("--seed", arguments->seed, "the first seed"))->type_name("X");
  command->add_flag("--no-optimum", arguments->no_optimum, "leave out the best possible schedule");
  command->add_option("--json", arguments->json, "write every run as JSON; - = standard output, without the table")
      ->type_name("FILE");
  command->add_option("--record", arguments->record, "write each run's decisions and steps, as a real run does")
      ->type_name("DIR");
  seconds(command->add_option("--step-s", arguments->step_s, "--record: seconds that a step takes (default: 1)"))
      ->needs("--record")
      ->excludes("--trace");
  command
      ->add_flag("--recommend", arguments->recommend, "print the [queue] and [policy] that would have suited the trace")
      ->needs("--trace")
      ->excludes("--policy", "--ranks", "--mode", "--steps", "--seeds", "--seed", "--no-optimum", "--json", "--record");
  command->footer(
      "Time is counted in steps, or in seconds with --trace.\n"
      "Examples:\n"
      "  forebay simulate --policy all -R 1.5 -R 3 -R 6\n"
      "  forebay simulate --policy adaptive,greedy --source outages --on 100 --off 60 --set queue.pool=8\n"
      "  forebay simulate --policy adaptive,block --ranks 1024 --mode lockstep\n"
      "  forebay simulate --policy adaptive,block -R 0.8 --ranks 512 --slow-ranks 1 --slow-ratio 20\n"
      "  forebay simulate feed.toml --trace run --recommend\n"
      "  forebay simulate feed.toml -R 3 --record virtual    # then: --set policy.name=replay --set "
      "policy.recording=virtual");
  on_call(*command, invocation, [arguments] { return run_simulation(*arguments); });
}

}  // namespace forebay::cli
