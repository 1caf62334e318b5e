#pragma once

#include <array>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "text.hpp"

// Whether a job launcher started this process as one of several, judging by the environment. Needs no MPI: it is for
// code that should have been given a communicator and was not.
namespace forebay {

struct Launch {
  std::string variable;  // the evidence
  std::string processes;
  unsigned count = 0;            // of processes
  std::optional<unsigned> rank;  // this process's number among them, unless what says so is none
};

// mpirun, mpiexec, or an srun of several tasks. Nothing for a single process, whoever started it. A batch script is
// one, although Slurm tells it how many tasks its job may have. `variable(name)`: the value of an environment variable,
// null if it is not set.
template <typename Variable>
[[nodiscard]] std::optional<Launch> launched_with_others(Variable&& variable) {
  // The number of processes, and a variable that the launcher sets beside it in each of them.
  struct Sign {
    const char* processes;
    const char* rank;
  };
  constexpr std::array<Sign, 4> kSigns{{{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
                                        {"PMI_SIZE", "PMI_RANK"},
                                        {"MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK"},
                                        // Of a job step, which only srun starts.
                                        {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"}}};
  for (const Sign& sign : kSigns) {
    const char* const processes = variable(sign.processes);
    const char* const rank = variable(sign.rank);
    if (processes == nullptr || rank == nullptr) continue;
    const unsigned count = parse_number<unsigned>(processes).value_or(0);
    if (count < 2) continue;
    std::optional<unsigned> own = parse_number<unsigned>(rank);
    if (own && *own >= count) own.reset();
    return Launch{sign.processes, processes, count, own};
  }
  return std::nullopt;
}

[[nodiscard]] inline std::optional<Launch> launched_with_others() {
  return launched_with_others([](const char* name) -> const char* { return std::getenv(name); });
}

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
