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
    // App::help() would speak of the command that was parsed, which is this one.
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
  CLI::App* help = app.add_subcommand("help", "Say what a command does, its options, and examples");
  help->add_option("COMMAND", *about, "which command; none = what there is");
  help->footer("Examples:\n  forebay help feed");
  help->callback([about, &app, &invocation] { invocation.run = [about, &app] { return print_help(app, *about); }; });

  auto shell = std::make_shared<std::string>();
  CLI::App* completion = app.add_subcommand("completion", "Print a script that completes this command in a shell");
  completion->add_option("SHELL", *shell, "bash | zsh")->required()->check(CLI::IsMember({"bash", "zsh"}));
  completion->footer(
      "Installing Forebay installs both scripts. To try one without:\n"
      "Examples:\n"
      "  source <(forebay completion bash)");
  completion->callback(
      [shell, &app, &invocation] { invocation.run = [shell, &app] { return print_completion(app, *shell); }; });

  // For the build, which installs it; nobody reads it as it is.
  CLI::App* man = app.add_subcommand("man", "Print the manual page")->group("");
  man->callback([&app, &invocation] {
    invocation.run = [&app] {
      std::fputs(man_page(app).c_str(), stdout);
      return 0;
    };
  });
}

}  // namespace forebay
