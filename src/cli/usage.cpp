#include "usage.hpp"

#include <algorithm>

#include <CLI/CLI.hpp>

namespace forebay {
namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

// The name of the value lists the choices: "local|lockstep", or "{voc,folder}" for a set.
std::vector<std::string> choices_of(const std::string& value) {
  if (value.find('|') != std::string::npos) return split(value, '|');
  const std::size_t open = value.find('{');
  if (open == std::string::npos || value.back() != '}') return {};
  return split(value.substr(open + 1, value.size() - open - 2), ',');
}

FlagUsage usage_of(const CLI::Option& option) {
  FlagUsage usage;
  for (const std::string& name : option.get_lnames()) usage.names.push_back("--" + name);
  for (const std::string& name : option.get_snames()) usage.names.push_back("-" + name);
  if (usage.names.empty()) usage.names.push_back(option.get_name(true));
  if (option.get_items_expected_max() > 0) usage.value = option.get_type_name();
  usage.choices = choices_of(usage.value);
  // A colon is followed by the range that the value is checked against.
  usage.value.resize(std::min(usage.value.size(), usage.value.find(':')));
  usage.text = option.get_description();
  return usage;
}

}  // namespace

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

}  // namespace forebay
