// `forebay help`, shell completion and the manual page, all made from what CLI11, the argument
// parser, knows about commands and options, so that each is described once.
//
// usage_of() turns CLI11's objects into plain structures; bash_completion(), zsh_completion() and
// man_page() print them. The build installs the scripts together with the program, so they match
// its version.

#include <algorithm>
#include <cstdio>
#include <memory>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <forebay/error.hpp>

#include <CLI/CLI.hpp>

#include "base/text.hpp"
#include "commands.hpp"
#include "config/schema.hpp"

namespace forebay::cli {
namespace {

// A flag or operand, as the parser knows it.
struct FlagUsage {
  std::vector<std::string> names;    // "--steps", "-R"
  std::string value;                 // "N", "FILE", "local|lockstep"; empty = the flag takes none
  std::vector<std::string> choices;  // possible values, if there are few
  std::string text;
};

struct CommandUsage {
  std::string name;
  std::string text;
  std::vector<FlagUsage> flags;
  std::vector<FlagUsage> operands;  // one name each
  std::string notes;                // help text after the options, with examples
};

// Extracts choices from the name of the value: "local|lockstep", or "{voc,folder}" for a set.
std::vector<std::string> choices_of(std::string_view value) {
  const std::size_t open = value.find('{');
  std::vector<std::string_view> choices;
  if (value.find('|') != std::string_view::npos) {
    choices = split(value, '|');
  } else if (open != std::string_view::npos && value.back() == '}') {
    choices = split(value.substr(open + 1, value.size() - open - 2), ',');
  }
  return {choices.begin(), choices.end()};
}

// --set is completed with every key of the configuration.
FlagUsage usage_of(const CLI::Option& option) {
  FlagUsage usage;
  for (const std::string& name : option.get_lnames()) usage.names.push_back("--" + name);
  for (const std::string& name : option.get_snames()) usage.names.push_back("-" + name);
  if (usage.names.empty()) usage.names.push_back(option.get_name(true));
  if (option.get_items_expected_max() > 0) usage.value = option.get_type_name();
  usage.choices = choices_of(usage.value);
  if (usage.names.front() == "--set") {
    for (const config::Key& key : config::keys()) usage.choices.push_back(config::full_name(key));
  }
  // The part after a colon is the range that CLI11 checks.
  usage.value.resize(std::min(usage.value.size(), usage.value.find(':')));
  usage.text = option.get_description();
  return usage;
}

// All commands that are not hidden.
std::vector<CommandUsage> usage_of(const CLI::App& app) {
  std::vector<CommandUsage> commands;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_group().empty()) continue;
    CommandUsage usage{.name = command->get_name(),
                       .text = command->get_description(),
                       .flags = {},
                       .operands = {},
                       .notes = command->get_footer()};
    for (const CLI::Option* option : command->get_options()) {
      (option->nonpositional() ? usage.flags : usage.operands).push_back(usage_of(*option));
    }
    commands.push_back(std::move(usage));
  }
  return commands;
}

std::string names_of(std::span<const CommandUsage> commands) { return joined(commands, " ", &CommandUsage::name); }

// Escapes text that stands in single quotes in a zsh script and is read by _arguments, for which
// colons and brackets are separators. A single quote within is written by closing, escaping and
// reopening the quotes.
std::string quoted_for_zsh(const std::string& text) {
  std::string quoted;
  for (const char c : text) {
    if (c == '\'') {
      quoted += "'\\''";
      continue;
    }
    if (c == ':' || c == '[' || c == ']' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted;
}

bool takes_path(const FlagUsage& usage) {
  return usage.value == "FILE" || usage.value == "DIR" || usage.value == "PATH";
}

std::string zsh_value(const FlagUsage& usage) {
  if (usage.value.empty()) return "";
  const std::string name = ":" + quoted_for_zsh(usage.names.front());
  if (!usage.choices.empty()) return name + ":(" + joined(usage.choices, " ") + ")";
  if (usage.value == "DIR") return name + ":_files -/";
  return name + ":" + (takes_path(usage) ? "_files" : " ");
}

// Scripts with which bash and zsh complete commands, flags, choices and files. The bash script
// switches on command and flag joined, so that a flag may have different values in different
// commands. mapfile keeps names with blanks whole.
std::string bash_completion(std::span<const CommandUsage> commands) {
  std::string flags;
  std::string choices;
  std::string plain;  // patterns of flags whose value cannot be completed
  for (const CommandUsage& command : commands) {
    for (const FlagUsage& flag : command.flags) {
      if (flag.value.empty() || takes_path(flag)) continue;
      const std::string pattern = joined(flag.names, "|", [&](const auto& name) { return command.name + name; });
      if (flag.choices.empty()) {
        plain += (plain.empty() ? "" : "|") + pattern;
      } else {
        choices += "    " + pattern + ") mapfile -t COMPREPLY < <(compgen -W '" + joined(flag.choices, " ") +
                   "' -- \"$word\"); return ;;\n";
      }
    }
    flags += "    " + command.name + ") flags='" +
             joined(command.flags, " ", [](const FlagUsage& flag) { return joined(flag.names, " "); }) + "' ;;\n";
  }
  return "# Completion of forebay for bash.\n"
         "_forebay() {\n"
         "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]} flags=\n"
         "  if [ \"$COMP_CWORD\" = 1 ]; then\n"
         "    mapfile -t COMPREPLY < <(compgen -W '" +
         names_of(commands) +
         " --help --version' -- \"$word\")\n"
         "    return\n"
         "  fi\n"
         "  case $command$before in\n" +
         choices + "    " + plain +
         ") COMPREPLY=(); return ;;\n"
         "  esac\n"
         "  case $command in\n" +
         flags +
         "  esac\n"
         "  if [[ $word == -* ]]; then\n"
         "    mapfile -t COMPREPLY < <(compgen -W \"$flags\" -- \"$word\")\n"
         "  elif [ \"$command\" = help ]; then\n"
         "    mapfile -t COMPREPLY < <(compgen -W '" +
         names_of(commands) +
         "' -- \"$word\")\n"
         "  else\n"
         "    mapfile -t COMPREPLY < <(compgen -f -- \"$word\")\n"
         "  fi\n"
         "}\n"
         "complete -o filenames -F _forebay forebay\n";
}

std::string zsh_completion(std::span<const CommandUsage> commands) {
  std::string listed;
  std::string cases;
  for (const CommandUsage& command : commands) {
    listed += "    '" + command.name + ":" + quoted_for_zsh(command.text) + "'\n";
    cases += "    " + command.name + ")\n      _arguments";
    for (const FlagUsage& flag : command.flags) {
      for (const std::string& name : flag.names) {
        cases += " \\\n        '*" + name + "[" + quoted_for_zsh(flag.text) + "]" + zsh_value(flag) + "'";
      }
    }
    cases += command.name == "help" ? " \\\n        '1:command:(" + names_of(commands) + ")'"
                                    : " \\\n        '*:file:_files'";
    cases += "\n      ;;\n";
  }
  return "#compdef forebay\n"
         "# Completion of forebay for zsh.\n"
         "_forebay() {\n"
         "  local -a commands=(\n" +
         listed +
         "  )\n"
         "  if (( CURRENT == 2 )); then\n"
         "    _describe command commands\n"
         "    return\n"
         "  fi\n"
         "  local command=$words[2]\n"
         "  shift words\n"
         "  (( CURRENT-- ))\n"
         "  case $command in\n" +
         cases +
         "  esac\n"
         "}\n"
         "if [ \"$funcstack[1]\" = _forebay ]; then _forebay \"$@\"; else compdef _forebay forebay; fi\n";
}

// Escapes text for roff: no line may start with a control character, and a hyphen must be written
// as a minus.
std::string roff(const std::string& text) {
  std::string out;
  bool at_start = true;
  for (const char c : text) {
    if (at_start && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
    at_start = c == '\n';
  }
  return out;
}

std::string heading(const FlagUsage& usage) {
  std::string text = joined(usage.names, ", ", [](const auto& name) { return "\\fB" + roff(name) + "\\fR"; });
  if (!usage.value.empty() && usage.names.front().front() == '-') text += " \\fI" + roff(usage.value) + "\\fR";
  return text;
}

void describe(std::ostream& out, const CommandUsage& command) {
  out << ".SS forebay " << roff(command.name);
  for (const FlagUsage& operand : command.operands) out << " " << roff(operand.names.front());
  out << "\n" << roff(command.text) << ".\n";
  for (const auto* const usages : {&command.operands, &command.flags}) {
    for (const FlagUsage& usage : *usages) out << ".TP\n" << heading(usage) << "\n" << roff(usage.text) << "\n";
  }
  if (!command.notes.empty()) out << ".PP\n.nf\n" << roff(command.notes) << "\n.fi\n";
}

// forebay(1), for man.
std::string man_page(const CLI::App& app) {
  std::ostringstream out;
  out << ".TH FOREBAY 1 \"\" \"forebay " FOREBAY_VERSION "\" \"User Commands\"\n"
      << ".SH NAME\nforebay \\- " << roff(app.get_description()) << "\n"
      << ".SH SYNOPSIS\n.B forebay\n\\fICOMMAND\\fR [\\fIOPTION\\fR]...\n"
      << ".SH COMMANDS\n";
  for (const CommandUsage& command : usage_of(app)) describe(out, command);
  out << ".SH EXIT STATUS\n.nf\n" << roff(app.get_footer()) << "\n.fi\n";
  return out.str();
}

int print_help(const CLI::App& app, const std::string& about) {
  if (about.empty()) {
    // App::help() would describe the parsed command, which is this one.
    std::fputs(app.get_formatter()->make_help(&app, app.get_name(), CLI::AppFormatMode::Normal).c_str(), stdout);
    return 0;
  }
  try {
    std::fputs(app.get_subcommand(about)->help(app.get_name()).c_str(), stdout);
  } catch (const CLI::OptionNotFound&) {
    std::vector<std::string> names;
    for (const CommandUsage& command : usage_of(app)) names.push_back(command.name);
    throw ConfigError("there is no command \"" + about + '"' + config::did_you_mean(about, names) +
                      " (see forebay --help)");
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

  // Hidden: used by the build, which installs the page.
  CLI::App* man = app.add_subcommand("man", "Print the manual page")->group("");
  on_call(*man, invocation, [&app] {
    std::fputs(man_page(app).c_str(), stdout);
    return 0;
  });
}

}  // namespace forebay::cli
