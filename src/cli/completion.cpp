#include <algorithm>
#include <string_view>

#include "usage.hpp"

namespace forebay {
namespace {

std::string joined(std::span<const std::string> words, std::string_view separator) {
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text += separator;
    text += word;
  }
  return text;
}

std::string names_of(std::span<const CommandUsage> commands) {
  std::string names;
  for (const CommandUsage& command : commands) names += (names.empty() ? "" : " ") + command.name;
  return names;
}

// For text between single quotes of a shell, read by _arguments, for which colons and brackets are separators.
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

}  // namespace

std::string bash_completion(std::span<const CommandUsage> commands) {
  std::string flags;
  std::string choices;
  std::string plain;  // patterns of flags whose value cannot be completed
  for (const CommandUsage& command : commands) {
    std::string names;
    for (const FlagUsage& flag : command.flags) {
      names += (names.empty() ? "" : " ") + joined(flag.names, " ");
      if (flag.value.empty() || takes_path(flag)) continue;
      std::string pattern;
      for (const std::string& name : flag.names) pattern += (pattern.empty() ? "" : "|") + command.name + name;
      if (flag.choices.empty()) {
        plain += (plain.empty() ? "" : "|") + pattern;
      } else {
        choices += "    " + pattern + ") mapfile -t COMPREPLY < <(compgen -W '" + joined(flag.choices, " ") +
                   "' -- \"$word\"); return ;;\n";
      }
    }
    flags += "    " + command.name + ") flags='" + names + "' ;;\n";
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

}  // namespace forebay
