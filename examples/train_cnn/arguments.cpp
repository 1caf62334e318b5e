#include "arguments.hpp"

#include <CLI/CLI.hpp>
#include <iostream>
#include <sstream>

namespace train_cnn {

std::variant<Arguments, int> parse(int argc, char** argv, bool print) {
  Arguments arguments;
  CLI::App app("Trains a small CNN on all ranks of an MPI job, fed by Forebay", "train_cnn");
  app.add_option("CONFIG", arguments.config, "Forebay's configuration file (TOML)")->required();
  app.add_option("--set", arguments.overrides, "override a key of it: section.key=value (repeatable)")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  app.add_option("--val", arguments.val, "held-out data, evaluated at the end of each epoch, or as --curve says");
  app.add_option("--lr", arguments.lr, "learning rate at the start; it falls to 0 at the end of the run")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--momentum", arguments.momentum, "of SGD")->check(CLI::Range(0.0, 0.999))->capture_default_str();
  app.add_option("--summary", arguments.summary, "write accuracies and the job's figures to this JSON file");
  app.add_option(
      "--checkpoint", arguments.checkpoint,
      "go on from this file when it exists; save to it after each epoch and at the end, a signal's included");
  app.add_option("--wall-seconds", arguments.wall_seconds,
                 "train this long (evaluations not counted) instead of run.epochs or run.steps")
      ->check(CLI::NonNegativeNumber);
  app.add_option(
         "--curve", arguments.curve,
         "keep the weights of so many times spread evenly over the run, and evaluate them on --val after it, so "
         "that no evaluation gives the store time to catch up")
      ->check(CLI::Range(1, 1000));
  app.add_option("--step-ms", arguments.step_ms,
                 "emulate an accelerator: a step takes at least this long, the rest of it slept")
      ->check(CLI::NonNegativeNumber);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::ostringstream out;
    std::ostringstream err;
    const bool wrong = app.exit(error, out, err) != 0;
    if (print) {
      std::cout << out.str();
      std::cerr << err.str();
    }
    return wrong ? 2 : 0;
  }
  return arguments;
}

}  // namespace train_cnn
