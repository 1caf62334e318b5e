// `forebay feed`: runs the feeder against an emulated trainer, as one process or as one rank of an
// MPI job.
//
// Every rank does the same in the same order: start MPI and the signal handlers, read the options,
// agree that all ranks could (prepare), make the feeder, serve steps until the end or a signal,
// save the state, close, report. Feeder, save and gather are collective: all ranks must call them
// in the same order. So a rank that fails alone must not leave early. Either the ranks agree on the
// failure, as in prepare(), or it ends the job through MPI (see feed()).
//
// Exit codes: 0; 1 for a failed run; 2 for a refused configuration; --stop-exit-code after a
// signal, which tells a job script that the run is to be resumed later.

#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <forebay/config.hpp>
#include <forebay/feeder.hpp>
#include <forebay/profile.hpp>
#include <forebay/summary.hpp>

#include <CLI/CLI.hpp>

#include "base/text.hpp"
#include "commands.hpp"
#include "feed_parts.hpp"
#include "job.hpp"
#include "output.hpp"
#include "ranks/coordinator.hpp"

namespace forebay::cli {
namespace {

// The arguments of `forebay feed`.
struct FeedArguments {
  std::string config;
  std::vector<std::string> overrides;  // --set, and what the shortcut flags set
  std::string summary;                 // --summary FILE
  std::string log_ids;                 // --log-ids DIR
  std::string state;                   // --state FILE
  std::int64_t save_every = 0;         // --save-every N, 0 = at the end only
  bool stop_on_signal = false;         // --stop-on-signal
  int stop_exit_code = 0;              // --stop-exit-code C
  bool quiet = false;
  bool profile = false;  // --profile
  std::string trace;     // --trace FILE
  double trace_s = 10;   // --trace-seconds S
};

// Gathers each rank's report on every rank. Collective.
template <typename Report>
std::vector<Report> gather(Communicator& communicator, const Report& mine, Report (*from_json)(const std::string&)) {
  std::vector<Report> ranks;
  for (const std::string& json : communicator.all_gather(to_json(mine))) ranks.push_back(from_json(json));
  return ranks;
}

// Collective: all ranks gather, rank 0 prints.
void report(const FeedArguments& arguments, const Feeder& feeder, Communicator& communicator) {
  const std::vector<Summary> ranks = gather(communicator, feeder.summary(), summary_from_json);
  const std::vector<Profile> profiles = gather(communicator, feeder.profile(), profile_from_json);
  if (communicator.rank() != 0) return;
  const Summary job = combine(ranks);
  const bool for_people = arguments.summary != "-";
  if (for_people && !arguments.quiet) {
    std::fputs(summary_table(feeder.options().policy.name, job, ranks).c_str(), stdout);
  }
  if (for_people && arguments.profile) std::printf("\n%s", profile_table(profiles).c_str());
  std::fflush(stdout);
  if (!arguments.summary.empty()) {
    write_output("--summary", arguments.summary, add_profiles(forebay::to_json(job, ranks), profiles));
  }
}

// Serves until the end and saves the state. Returns the failure that ended the run, if there was
// one. An Error thrown by next() or save() is the same on all ranks, so all of them leave the loop
// at the same step.
std::optional<std::string> run_to_the_end(const FeedArguments& arguments, Feeder& feeder, EmulatedTrainer& trainer,
                                          IdLog* ids) {
  std::optional<std::string> failure;
  // Any other exception concerns this rank alone, and is not caught here.
  const auto alike = [&failure](auto&& collective) {
    try {
      collective();
    } catch (const Error& error) {
      failure = error.what();
    }
  };
  const auto save = [&] { feeder.save(arguments.state); };
  std::optional<Lease> batch;
  for (;;) {
    alike([&] { batch = feeder.next(); });
    if (failure) return failure;
    if (!batch) break;
    if (ids != nullptr) ids->write(*batch);
    trainer.step();
    const std::uint64_t steps = batch->step() + 1;
    if (arguments.save_every > 0 && steps % static_cast<std::uint64_t>(arguments.save_every) == 0) alike(save);
    batch.reset();
    if (failure) return failure;
  }
  if (!arguments.state.empty()) alike(save);
  return failure;
}

// Printed by rank 0 only, since all ranks have the same message.
int say_failure(const Communicator& communicator, const std::string& failure, int exit_code) {
  if (communicator.rank() == 0) {
    std::fprintf(stderr, "forebay: error: %s\n", printable_lines(failure).c_str());
  }
  return exit_code;
}

// Runs something that each rank does on its own. Returns nothing if it succeeded on all ranks;
// otherwise all ranks get the failure of one of them.
template <typename Preparation>
std::optional<std::string> prepare(Communicator& communicator, Preparation&& preparation) {
  std::string failure;
  try {
    preparation();
  } catch (const std::exception& error) {
    failure = error.what();
  }
  return ranks::agreed_failure(communicator, failure);
}

// An evaluation with --state would resume in the middle and skip samples.
Options options_of(const FeedArguments& arguments) {
  Options options = load_options(arguments.config, arguments.overrides, command_defaults());
  if (options.run.eval && !arguments.state.empty()) {
    throw ConfigError(
        "--state: an evaluation (run.eval = true) starts from the beginning each time; leave out --state");
  }
  return options;
}

// Checks the files that rank 0 writes for the job.
void require_writable_results(const FeedArguments& arguments, const Options& options) {
  require_writable("--summary", arguments.summary);
  const DatasetOptions& data = options.dataset;
  const std::array inputs{arguments.config, data.path, data.labels, data.weights, data.index};
  require_no_loss("--summary", arguments.summary, inputs);
  require_no_loss("--trace", arguments.trace, inputs);
  require_writable("--state", arguments.state, true);
}

// Saving is collective, so all ranks must have the same --state and --save-every.
void require_same_saves(const FeedArguments& arguments, Communicator& communicator) {
  const std::string saves =
      arguments.state.empty() ? "no --state"
                              : "--state " + arguments.state + " --save-every " + std::to_string(arguments.save_every);
  const std::vector<std::string> ranks = communicator.all_gather(saves);
  for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
    if (ranks[rank] == ranks[0]) continue;
    throw ConfigError("rank " + std::to_string(rank) + " was started with " + ranks[rank] + " and rank 0 with " +
                      ranks[0] + ": give all ranks the same");
  }
}

// One rank's run. `start` limits how long the start may take after a signal; it is reset before the
// first step.
int feed_as(Job& job, Communicator& communicator, const FeedArguments& arguments, const std::atomic<bool>& stop) {
  std::optional<BoundedStart> start(std::in_place, arguments.stop_exit_code);
  Options options;
  const auto refused = prepare(communicator, [&] {
    options = options_of(arguments);
    if (communicator.rank() == 0) require_writable_results(arguments, options);
  });
  if (refused) return say_failure(communicator, *refused, 2);
  std::optional<Feeder> feeder;
  try {
    require_same_saves(arguments, communicator);
    Parts parts;
    parts.stop = &stop;
    parts.resume = arguments.state;
    parts.trace = arguments.trace;
    parts.trace_s = arguments.trace_s;
    feeder.emplace(options, job.world(), std::move(parts));
  } catch (const ConfigError& error) {
    return say_failure(communicator, error.what(), 2);
  } catch (const Error& error) {
    return say_failure(communicator, error.what(), stop ? arguments.stop_exit_code : 1);
  }
  if (communicator.rank() == 0 && !arguments.quiet) std::fprintf(stderr, "[forebay] %s\n", feeder->describe().c_str());
  std::optional<IdLog> ids;
  const auto unwritable = prepare(communicator, [&] {
    if (!arguments.log_ids.empty()) ids.emplace(arguments.log_ids, communicator.rank(), feeder->steps() > 0);
  });
  if (unwritable) return say_failure(communicator, *unwritable, 2);
  start.reset();
  EmulatedTrainer trainer(options.trainer, options.seed, job, stop);

  auto failure = run_to_the_end(arguments, *feeder, trainer, ids ? &*ids : nullptr);
  try {
    feeder->close();
  } catch (const Error& error) {
    // A save failed, on rank 0 only. Either the run has failed already, or the last save reported
    // it.
    if (!failure) failure = error.what();
  }
  report(arguments, *feeder, communicator);
  if (failure) return say_failure(communicator, *failure, 1);
  if (!feeder->was_stopped()) return 0;
  StopOnSignal::note_stop();
  return arguments.stop_exit_code;
}

// Shortcut flags; each sets a key of [run].
struct Shortcuts {
  std::int64_t steps = 0;
  std::int64_t epochs = 0;
  bool eval = false;
};

// --epochs also clears run.steps, which would limit the run as well.
void apply(const Shortcuts& shortcuts, FeedArguments& arguments) {
  if (shortcuts.steps > 0) arguments.overrides.push_back("run.steps=" + std::to_string(shortcuts.steps));
  if (shortcuts.epochs > 0) {
    arguments.overrides.emplace_back("run.steps=0");
    arguments.overrides.push_back("run.epochs=" + std::to_string(shortcuts.epochs));
  }
  if (shortcuts.eval) arguments.overrides.emplace_back("run.eval=true");
}

// Runs the feeder against an emulated trainer, as a single process or as one rank of an MPI job,
// and prints a summary on rank 0. SIGTERM and SIGINT (and SIGUSR1 with --stop-on-signal) end the
// run on all ranks at the same step; the state is saved and the summary printed. Returns the exit
// code; throws ConfigError and Error.
int feed(const FeedArguments& arguments, int& argc, char**& argv) {
  constexpr std::array kSignals{SIGTERM, SIGINT, SIGUSR1};
  // After a signal MPI_Finalize may never return. If mpirun itself is ending the job, it no longer
  // answers MPI_Finalize and kills the ranks a second later, so this process must leave before that
  // (200 ms is chosen). Otherwise finalising gets time, because mpirun takes a rank that exits
  // without it for a failed one.
  constexpr auto kWayOut = std::chrono::milliseconds(200);
  constexpr auto kWayOutOfFinalize = std::chrono::seconds(30);
  const auto job = Job::start(argc, argv);
  const StopOnSignal signals{std::span{kSignals}.first(arguments.stop_on_signal ? 3 : 2)};
  const auto communicator = job->world().duplicate();
  // A failure that all ranks share becomes an exit code. One that a single rank meets (the disk of
  // its id log is full, say) must end the other ranks too: the exception leaves through the MPI
  // session, which aborts the job.
  try {
    const int exit_code = feed_as(*job, *communicator, arguments, StopOnSignal::flag());
    if (StopOnSignal::flag() && communicator->size() > 1) {
      exit_at_the_latest(StopOnSignal::launcher_ends_the_job() ? kWayOut : kWayOutOfFinalize, exit_code);
    }
    return exit_code;
  } catch (const std::exception& error) {
    communicator->note_failure("rank " + std::to_string(communicator->rank()) + ": " + error.what());
    throw;
  }
}

}  // namespace

void add_feed_command(CLI::App& app, Invocation& invocation) {
  auto arguments = std::make_shared<FeedArguments>();
  auto shortcuts = std::make_shared<Shortcuts>();
  CLI::App* command = app.add_subcommand("feed", "Run the feeder against an emulated trainer and print a summary");
  command->add_option("CONFIG", arguments->config, "configuration file")->required();
  add_set_option(*command, arguments->overrides);
  // A job script passes its own arguments on, behind the options that it gives itself. Whoever starts
  // it means these.
  command->option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  CLI::Option* steps =
      positive(command->add_option("--steps", shortcuts->steps, "end after N steps of each rank"))->type_name("N");
  positive(command->add_option("--epochs", shortcuts->epochs, "end after E epochs"))->type_name("E")->excludes(steps);
  command->add_flag("--eval", shortcuts->eval, "evaluate: every sample once, in order, without reuse");
  command
      ->add_option("--summary", arguments->summary, "write the summary as JSON; - = standard output, without the table")
      ->type_name("FILE");
  command->add_option("--log-ids", arguments->log_ids, "record what was served in DIR/ids.RANK.jsonl")
      ->type_name("DIR");
  CLI::Option* state = command
                           ->add_option("--state", arguments->state,
                                        "resume from FILE if it exists, and save the state to it at the end")
                           ->type_name("FILE");
  positive(command->add_option("--save-every", arguments->save_every, "also save the state every N steps"))
      ->type_name("N")
      ->needs(state);
  command->add_flag("--stop-on-signal", arguments->stop_on_signal,
                    "stop on SIGUSR1, too; SIGTERM and SIGINT always stop the run");
  command->add_option("--stop-exit-code", arguments->stop_exit_code, "exit code after a requested stop")
      ->check(CLI::Range(0, 255))
      ->type_name("C");
  command->add_flag("--profile", arguments->profile, "say where the time went, stage by stage, and what to change");
  CLI::Option* trace =
      command
          ->add_option("--trace", arguments->trace,
                       "write what each thread did, for Perfetto or chrome://tracing (one file per rank)")
          ->type_name("FILE");
  seconds(command->add_option("--trace-seconds", arguments->trace_s,
                              "how much of the beginning of the run the trace covers (10)"))
      ->needs(trace);
  command->add_flag("--quiet", arguments->quiet, "print no summary");
  command->footer(
      "Examples:\n"
      "  forebay feed feed.toml                                       one rank\n"
      "  mpirun -n 4 forebay feed feed.toml --epochs 2                four ranks that share the data\n"
      "  forebay feed feed.toml --profile --trace trace.json          where the time goes\n"
      "  forebay feed feed.toml --state run/feed.state --stop-on-signal --stop-exit-code 85\n"
      "                                                               resumable: see docs/slurm.md\n"
      "  forebay feed feed.toml --set policy.name=block --set trainer.step_ms=0 --summary rate.json\n"
      "                                                               the highest rate that the data can be read at");
  on_call(*command, invocation, [arguments, shortcuts, &invocation] {
    apply(*shortcuts, *arguments);
    return feed(*arguments, invocation.argc, invocation.argv);
  });
}

}  // namespace forebay::cli
