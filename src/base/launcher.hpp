#pragma once

#include <functional>
#include <optional>
#include <string>

namespace forebay {

// What the program that started this process says of its place on the node, in environment variables.
struct LauncherPlace {
  std::optional<unsigned> local_rank;
  std::optional<unsigned> local_ranks;  // on this node
  std::string variable;                 // that says the first
  std::string problem;                  // variables contradict each other, or one is no number: a line; mostly empty
};

// torchrun's variables come first, then those of MPI's own launchers, then Flux's and Slurm's: a launcher may have been
// started by one of those that follow, once on each node, and theirs still say 0. `variable` gives a
// variable's value, or null.
[[nodiscard]] LauncherPlace launcher_place(const std::function<const char*(const char*)>& variable);
// Of this process.
[[nodiscard]] LauncherPlace launcher_place();

}  // namespace forebay
