#pragma once

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <forebay/options.hpp>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace forebay::cli {

// What a command line asks for. Parsing only fills it in; `run` does the work afterwards, so that usage errors are told
// from failures of the work.
struct Invocation {
  int& argc;  // as main() got them, for MPI
  char**& argv;
  std::function<int()> run;  // set by the command that was named; returns the exit code, throws ConfigError and Error
};

// Each adds one command with its options, help and examples. `invocation` must outlive `app`.
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

// What the command does when it is named.
void on_call(CLI::App& command, Invocation& invocation, std::function<int()> work);

// The option accepts only numbers above 0, `most` at most.
CLI::Option* positive(CLI::Option* option, double most = std::numeric_limits<double>::infinity());
// A time in seconds, a million at most, which every clock counts.
CLI::Option* seconds(CLI::Option* option);

// The --set flag of a command: one override each time it is given.
void add_set_option(CLI::App& command, std::vector<std::string>& overrides);

// The values of keys that a configuration does not name: the library's defaults, and a folder for the files of a run,
// which programs must ask for.
[[nodiscard]] Options command_defaults();

// The options of a configuration file, or the defaults if `file` is empty, with overrides. Throws ConfigError.
[[nodiscard]] Options options_from(const std::string& file, const std::vector<std::string>& overrides,
                                   const Options& defaults = {});

// The checked options for a data set that a command is given as data, a configuration (.toml) or a saved index;
// `format` may be "". Throws ConfigError.
[[nodiscard]] Options options_for_data(const std::string& path, const std::vector<std::string>& overrides,
                                       const std::string& format);

}  // namespace forebay::cli
