#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <forebay/error.hpp>

#include <CLI/CLI.hpp>

#include "commands.hpp"
#include "usage.hpp"

namespace forebay {
namespace {

int print_help(const CLI::App& app, const std::string& about) {
  if (about.empty()) {
    // App::help() would describe the parsed command, which is this one.
    std::fputs(app.get_formatter()->make_help(&app, app.get_name(), CLI::AppFormatMode::Normal).c_str(), stdout);
    return 0;
  }
  try {
    std::fputs(app.get_subcommand(about)->help(app.get_name()).c_str(), stdout);
  } catch (const CLI::OptionNotFound&) {
    throw ConfigError("there is no command \"" + about + "\" (see forebay --help)");
  }
  return 0;
}

int print_completion(const CLI::App& app, const std::string& shell) {
  const std::vector<CommandUsage> commands = usage_of(app);
  std::fputs((shell == "bash" ? bash_completion(commands) : zsh_completion(commands)).c_str(), stdout);
  return 0;
}

}  // namespace

void add_help_commands(CLI::App& app, Invocation& invocation) {
  auto about = std::make_shared<std::string>();
  CLI::App* help = app.add_subcommand("help", "Describe a command with its options and examples");
  help->add_option("COMMAND", *about, "which command; none = list all");
  help->footer("Examples:\n  forebay help feed");
  on_call(*help, invocation, [about, &app] { return print_help(app, *about); });

  auto shell = std::make_shared<std::string>();
  CLI::App* completion = app.add_subcommand("completion", "Print a script that completes this command in a shell");
  completion->add_option("SHELL", *shell, "bash | zsh")->required()->check(CLI::IsMember({"bash", "zsh"}));
  completion->footer(
      "Installing Forebay installs both scripts. To try one without:\n"
      "Examples:\n"
      "  source <(forebay completion bash)");
  on_call(*completion, invocation, [shell, &app] { return print_completion(app, *shell); });

  // Hidden: for the build, which installs the page.
  CLI::App* man = app.add_subcommand("man", "Print the manual page")->group("");
  on_call(*man, invocation, [&app] {
    std::fputs(man_page(app).c_str(), stdout);
    return 0;
  });
}

}  // namespace forebay
