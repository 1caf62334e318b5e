#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <forebay/dataset.hpp>
#include <forebay/options.hpp>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace forebay::cli {

// What a command line asks for. Parsing only sets `run`; the work is done afterwards, so that usage
// errors can be told from failures of the work.
struct Invocation {
  int& argc;  // as passed to main(); MPI needs them
  char**& argv;
  std::function<int()> run;  // set by the command's callback; returns the exit code, throws ConfigError and Error
};

// Each function adds one command with its options, help and examples. `invocation` must outlive
// `app`.
void add_cache_command(CLI::App& app, Invocation& invocation);
void add_config_command(CLI::App& app, Invocation& invocation);
void add_feed_command(CLI::App& app, Invocation& invocation);
void add_help_commands(CLI::App& app, Invocation& invocation);
void add_index_command(CLI::App& app, Invocation& invocation);
void add_make_dataset_command(CLI::App& app, Invocation& invocation);
void add_pack_command(CLI::App& app, Invocation& invocation);
void add_report_command(CLI::App& app, Invocation& invocation);
void add_simulate_command(CLI::App& app, Invocation& invocation);
void add_top_command(CLI::App& app, Invocation& invocation);
void add_unpack_command(CLI::App& app, Invocation& invocation);

// Sets what the command does when it is called.
void on_call(CLI::App& command, Invocation& invocation, std::function<int()> work);

// The option accepts only numbers above 0, `most` at most.
CLI::Option* positive(CLI::Option* option, double most = std::numeric_limits<double>::infinity());
// The option is 0 or more: CLI11 alone reads -1 into an unsigned variable as the largest number.
CLI::Option* not_negative(CLI::Option* option);
// The option is a time in seconds, above 0 and at most a million, which every clock can represent.
CLI::Option* seconds(CLI::Option* option);

// Adds --set to a command; it may be repeated and takes one override each time.
void add_set_option(CLI::App& command, std::vector<std::string>& overrides);

// The defaults of the command: those of the library, plus a folder for a run's files, which
// programs must ask for.
[[nodiscard]] Options command_defaults();

// Reads a configuration file, or takes the defaults if `file` is empty, and applies overrides.
// Throws ConfigError.
[[nodiscard]] Options options_from(const std::string& file, const std::vector<std::string>& overrides,
                                   const Options& defaults = {});

// The validated options for a dataset that a command was given as data, as a configuration (.toml)
// or as a saved index; `format` may be "". Throws ConfigError.
[[nodiscard]] Options options_for_data(const std::string& path, const std::vector<std::string>& overrides,
                                       const std::string& format);
// The dataset of such options and their path: a saved index is loaded, anything else is indexed, with a progress bar.
[[nodiscard]] std::unique_ptr<Dataset> open_or_build(const std::string& path, const Options& options);

}  // namespace forebay::cli
