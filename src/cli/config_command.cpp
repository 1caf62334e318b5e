#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <forebay/config.hpp>

#include <CLI/CLI.hpp>

#include "commands.hpp"

namespace forebay {
namespace {

struct ConfigArguments {
  std::string file;
  std::vector<std::string> overrides;
  bool defaults = false;
};

int print_config(const ConfigArguments& arguments) {
  std::fputs(to_toml(options_from(arguments.file, arguments.overrides, command_defaults())).c_str(), stdout);
  return 0;
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

}  // namespace forebay
