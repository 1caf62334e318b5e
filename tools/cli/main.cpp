// The program `forebay`: its commands, and what they have in common.
//
// CLI11 parses the arguments and calls the command's callback, which only notes what to do. The
// work is done after parsing, so that a command's exceptions do not pass through the parser. An
// error ends in one message on stderr and an exit code: 2 for anything the user can correct in
// arguments or configuration, 1 for a failed run.

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <forebay/config.hpp>
#include <forebay/error.hpp>
#include <forebay/operation.hpp>
#include <forebay/policy.hpp>

#include <CLI/CLI.hpp>

#include "base/limits.hpp"
#include "base/text.hpp"
#include "commands.hpp"
#include "config/schema.hpp"

namespace forebay::cli {
namespace {

struct ConfigArguments {
  std::string file;
  std::vector<std::string> overrides;
  bool defaults = false;
};

// Not an error, because a program may add its own.
void warn_if_unknown(const char* key, const char* kind, const std::string& name,
                     const std::vector<std::string>& known) {
  if (std::ranges::find(known, name) != known.end()) return;
  const std::string suggestion = config::did_you_mean(name, known);
  std::fprintf(stderr, "forebay: warning: %s: Forebay has no %s \"%s\"%s\n", key, kind, printable(name).c_str(),
               suggestion.empty() ? (", only " + joined(known, ", ")).c_str() : suggestion.c_str());
}

int print_config(const ConfigArguments& arguments) {
  const Options options = options_from(arguments.file, arguments.overrides, command_defaults());
  std::fputs(to_toml(options).c_str(), stdout);
  warn_if_unknown("policy.name", "policy", options.policy.name, PolicyRegistry::builtin().names());
  for (const std::string& name : options.transform.operations) {
    warn_if_unknown("transform.operations", "operation", name, OperationRegistry::builtin().names());
  }
  return 0;
}

constexpr int kRunFailed = 1;
constexpr int kBadUsage = 2;

// Flushes stdout first, since both streams may be the same terminal.
int fail(const std::string& message, int exit_code) {
  std::fflush(stdout);
  std::fprintf(stderr, "forebay: error: %s\n", printable_lines(message).c_str());
  return exit_code;
}

// The command to suggest for help: "forebay", or "forebay index" if that much was understood.
std::string understood(const CLI::App& app) {
  const auto named = app.get_subcommands();
  return named.empty() ? app.get_name() : app.get_name() + " " + named.front()->get_name();
}

std::vector<std::string> commands_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

std::vector<std::string> options_of(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// Describes an unknown command or option, and suggests the most similar one there is.
std::string describe_unknown(const CLI::App& app) {
  const auto named = app.get_subcommands();
  const auto unknown = (named.empty() ? app : *named.front()).remaining();
  if (named.empty()) {
    if (unknown.empty()) return "no command was given";
    return "there is no command or option \"" + unknown.front() + '"' +
           config::did_you_mean(unknown.front(), commands_of(app));
  }
  const auto option = std::ranges::find_if(unknown, [](const std::string& word) { return word.starts_with("--"); });
  if (option == unknown.end()) return "";
  const std::string name = option->substr(0, option->find('='));
  return "there is no option " + name + config::did_you_mean(name, options_of(*named.front()));
}

int report_usage(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
  std::string message = error.what();
  const bool is_unknown = app.get_subcommands().empty() || dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  if (const std::string unknown = is_unknown ? describe_unknown(app) : ""; !unknown.empty()) message = unknown;
  return fail(message + " (see " + understood(app) + " --help)", kBadUsage);
}

// The limit on open files is raised first, because an index of many shards keeps them open. Output
// errors (such as a full disk) show only when stdout is flushed at the end.
int run(int argc, char** argv) {
  raise_open_file_limit();
  CLI::App app("Feeds data-parallel trainers so that they never wait for storage.", "forebay");
  app.set_version_flag("-v,--version", "forebay " FOREBAY_VERSION);
  app.require_subcommand(1);
  app.footer(
      "Exit codes: 0 ok, 1 the run failed, 2 bad usage or configuration.\n"
      "forebay COMMAND --help has the options of a command, and examples.");
  Invocation invocation{argc, argv, {}};
  add_feed_command(app, invocation);
  add_index_command(app, invocation);
  add_config_command(app, invocation);
  add_make_dataset_command(app, invocation);
  add_pack_command(app, invocation);
  add_unpack_command(app, invocation);
  add_simulate_command(app, invocation);
  add_report_command(app, invocation);
  add_cache_command(app, invocation);
  add_top_command(app, invocation);
  add_help_commands(app, invocation);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return report_usage(app, error);
  }
  for (const CLI::Option* option : app.get_subcommands().front()->get_options()) {
    // Often a variable of a script that is not set: it must not count as an option that was left out,
    // since a job whose state is named so would begin anew, and save nothing.
    if (std::ranges::find(option->results(), "") == option->results().end()) continue;
    return fail(option->get_name() + " was given an empty value: name it, or leave the option out", kBadUsage);
  }
  const int exit_code = invocation.run();
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    throw Error("cannot write to standard output: " + std::string(std::strerror(errno)));
  }
  return exit_code;
}

}  // namespace

void add_config_command(CLI::App& app, Invocation& invocation) {
  auto arguments = std::make_shared<ConfigArguments>();
  CLI::App* command = app.add_subcommand("config", "Check a configuration and print it with every key");
  CLI::Option* file = command->add_option("CONFIG", arguments->file, "configuration file; none = the defaults");
  command->add_flag("--defaults", arguments->defaults, "print the defaults")->excludes(file);
  add_set_option(*command, arguments->overrides);
  command->footer(
      "Examples:\n"
      "  forebay config > feed.toml                           a file to start from\n"
      "  forebay config feed.toml                             what a run would use\n"
      "  forebay config feed.toml --set policy.name=greedy    the same with one key changed");
  on_call(*command, invocation, [arguments] { return print_config(*arguments); });
}

void on_call(CLI::App& command, Invocation& invocation, std::function<int()> work) {
  command.callback([&invocation, work = std::move(work)] { invocation.run = work; });
}

// The empty description keeps CLI11 from printing the check in the help.
CLI::Option* positive(CLI::Option* option, double most) {
  return option->check(
      [most](const std::string& text) {
        double value = 0;
        const bool is_number = CLI::detail::lexical_cast(text, value);
        if (is_number && value > most)
          return "expected at most " + std::to_string(static_cast<std::int64_t>(most)) + ", found " + text;
        return is_number && value > 0 ? std::string() : "expected a number above 0, found " + text;
      },
      "");
}

CLI::Option* not_negative(CLI::Option* option) {
  return option->check(
      [](const std::string& text) {
        return text.starts_with('-') ? "expected 0 or more, found " + text : std::string();
      },
      "");
}

// Up to 11 days. Chosen.
CLI::Option* seconds(CLI::Option* option) { return positive(option, 1e6)->type_name("S"); }

// Unlike the library, the command writes telemetry by default.
Options command_defaults() {
  Options options;
  options.telemetry.dir = "run";
  return options;
}

Options options_from(const std::string& file, const std::vector<std::string>& overrides, const Options& defaults) {
  return file.empty() ? parse_options("", "defaults", overrides, defaults) : load_options(file, overrides, defaults);
}

void add_set_option(CLI::App& command, std::vector<std::string>& overrides) {
  command.add_option("--set", overrides, "override a key of the configuration; may be repeated")
      ->type_name("SECTION.KEY=VALUE")
      ->allow_extra_args(false);
}

}  // namespace forebay::cli

int main(int argc, char** argv) {
  try {
    return forebay::cli::run(argc, argv);
  } catch (const forebay::ConfigError& error) {
    return forebay::cli::fail(error.what(), forebay::cli::kBadUsage);
  } catch (const std::exception& error) {
    return forebay::cli::fail(error.what(), forebay::cli::kRunFailed);
  }
}
