#include <cstdint>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>

#include "commands.hpp"
#include "feed.hpp"

namespace forebay {
namespace {

// The shortcut flags as given; each sets a key of [run].
struct Shortcuts {
  std::int64_t steps = 0;
  std::int64_t epochs = 0;
  bool eval = false;
};

void apply(const Shortcuts& shortcuts, FeedArguments& arguments) {
  if (shortcuts.steps > 0) arguments.overrides.push_back("run.steps=" + std::to_string(shortcuts.steps));
  if (shortcuts.epochs > 0) {
    arguments.overrides.emplace_back("run.steps=0");
    arguments.overrides.push_back("run.epochs=" + std::to_string(shortcuts.epochs));
  }
  if (shortcuts.eval) arguments.overrides.emplace_back("run.eval=true");
}

}  // namespace

void add_feed_command(CLI::App& app, Invocation& invocation) {
  auto arguments = std::make_shared<FeedArguments>();
  auto shortcuts = std::make_shared<Shortcuts>();
  CLI::App* command = app.add_subcommand("feed", "Run the feeder against an emulated trainer and print a summary");
  command->add_option("CONFIG", arguments->config, "configuration file")->required();
  add_set_option(*command, arguments->overrides);
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
  positive(command->add_option("--trace-seconds", arguments->trace_s,
                               "how much of the beginning of the run the trace covers (10)"))
      ->type_name("S")
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

}  // namespace forebay
