#pragma once

#include <array>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "text.hpp"

// Whether a job launcher started this process as one of several, according to the environment. Needs no MPI: it is for
// code that should have been given a communicator and was not.
namespace forebay {

struct Launch {
  std::string variable;  // the evidence
  std::string processes;
  unsigned count = 0;            // number of processes
  std::optional<unsigned> rank;  // this process's number among them, if known
};

// Recognises mpirun, mpiexec, and an srun of several tasks. Returns nothing for a single process, whoever started it. A
// batch script is one, although Slurm tells it how many tasks its job may have. `variable(name)`: the value of an
// environment variable, null if it is not set.
template <typename Variable>
[[nodiscard]] std::optional<Launch> launched_with_others(Variable&& variable) {
  // The variables in which a launcher gives each process the number of processes and its own rank.
  struct Sign {
    const char* processes;
    const char* rank;
  };
  constexpr std::array<Sign, 4> kSigns{{{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
                                        {"PMI_SIZE", "PMI_RANK"},
                                        {"MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK"},
                                        // Those of a job step, which only srun starts.
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

// The position of this process within its node, according to its launcher's environment variables.
struct LauncherPlace {
  std::optional<unsigned> local_rank;
  std::optional<unsigned> local_ranks;  // number of ranks on this node
  std::string variable;                 // that gives local_rank
  std::string problem;  // a line if variables contradict each other or one is not a number; usually empty
};

// Precedence: torchrun's variables, then those of MPI's own launchers, then Flux's and Slurm's. A launcher may have
// been started by a later one in this list, once per node, whose variables then still say 0. `variable` returns a
// variable's value, or null.
[[nodiscard]] LauncherPlace launcher_place(const std::function<const char*(const char*)>& variable);
// The same for this process's environment.
[[nodiscard]] LauncherPlace launcher_place();

}  // namespace forebay
