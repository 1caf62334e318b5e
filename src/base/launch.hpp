#pragma once

#include <array>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

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
    const auto number = [](std::string_view text) -> std::optional<unsigned> {
      unsigned value = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
      return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
    };
    const unsigned count = number(processes).value_or(0);
    if (count < 2) continue;
    std::optional<unsigned> own = number(rank);
    if (own && *own >= count) own.reset();
    return Launch{sign.processes, processes, count, own};
  }
  return std::nullopt;
}

[[nodiscard]] inline std::optional<Launch> launched_with_others() {
  return launched_with_others([](const char* name) -> const char* { return std::getenv(name); });
}

}  // namespace forebay
