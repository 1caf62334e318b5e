#pragma once

#include <span>
#include <string>
#include <vector>

namespace CLI {
class App;
}

// The command line as its parser knows it. Completion scripts and the manual page are made from this, so that each
// option is described once.
namespace forebay {

struct FlagUsage {
  std::vector<std::string> names;    // "--steps", "-R"
  std::string value;                 // "N", "FILE", "local|lockstep"; empty = the flag takes none
  std::vector<std::string> choices;  // of the value, if there are few
  std::string text;
};

struct CommandUsage {
  std::string name;
  std::string text;
  std::vector<FlagUsage> flags;
  std::vector<FlagUsage> operands;  // one name each
  std::string notes;                // with the examples
};

// Every command that help lists.
[[nodiscard]] std::vector<CommandUsage> usage_of(const CLI::App& app);

// A script that bash or zsh reads to complete commands, flags, choices and files.
[[nodiscard]] std::string bash_completion(std::span<const CommandUsage> commands);
[[nodiscard]] std::string zsh_completion(std::span<const CommandUsage> commands);

// forebay(1), for man.
[[nodiscard]] std::string man_page(const CLI::App& app);

}  // namespace forebay
