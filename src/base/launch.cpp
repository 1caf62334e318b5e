// Finds the rank of a process within its node, without MPI, from the environment variables that
// launchers set. The first launcher in the table that gives a number wins: inner launchers come
// before the outer ones that may have started them. A contradiction between two of them is
// reported, since one of them is probably left over from an outer job.

#include "launch.hpp"

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "text.hpp"

namespace forebay {
namespace {

struct Launcher {
  const char* local_rank;
  const char* local_ranks;  // null: it sets none
};
constexpr Launcher kLaunchers[] = {
    {"LOCAL_RANK", "LOCAL_WORLD_SIZE"},                            // torchrun
    {"OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},  // Open MPI
    {"MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE"},    // MVAPICH
    {"MPI_LOCALRANKID", "MPI_LOCALNRANKS"},                        // MPICH's and Intel's Hydra
    {"PMI_LOCAL_RANK", "PMI_LOCAL_SIZE"},                          // Cray, and others with PMI
    {"PALS_LOCAL_RANKID", nullptr},                                // HPE
    {"FLUX_TASK_LOCAL_ID", nullptr},                               // Flux
    {"SLURM_LOCALID", nullptr},                                    // srun, and inherited by what it starts
};

// The number at the start of the text; nothing if there is none, or if it is not followed by a
// character of `behind`.
std::optional<unsigned> number_in(std::string_view text, std::string_view behind = {}) noexcept {
  unsigned number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || (stop != end && behind.find(*stop) == std::string_view::npos)) return std::nullopt;
  return number;
}

}  // namespace

LauncherPlace launcher_place(const std::function<const char*(const char*)>& variable) {
  LauncherPlace place;
  std::string said;  // "LOCAL_RANK = 3"
  for (const Launcher& launcher : kLaunchers) {
    const char* const value = variable(launcher.local_rank);
    if (value == nullptr || *value == '\0') continue;
    const std::string line = std::string(launcher.local_rank) + " = " + printable(value);
    const auto number = number_in(value);
    if (!number) {
      if (place.problem.empty()) place.problem = line + " is not a number and is not used";
      continue;
    }
    if (!place.local_rank) {
      place.local_rank = number;
      place.variable = launcher.local_rank;
      said = line;
      const char* const ranks = launcher.local_ranks == nullptr ? nullptr : variable(launcher.local_ranks);
      if (ranks != nullptr) place.local_ranks = number_in(ranks);
      if (place.local_ranks && *place.local_ranks <= *place.local_rank) place.local_ranks.reset();
      // 0 proves nothing: launchers of single processes set it, too.
    } else if (*number != *place.local_rank && *number != 0 && place.problem.empty()) {
      place.problem = said;
      place.problem.append(" and ").append(line).append(
          " contradict each other: the first is taken for this process's place on its node; unset what is left of "
          "another launcher");
    }
  }
  // The number of tasks of a step on each node: "2(x3),1".
  if (place.variable == "SLURM_LOCALID") {
    const char* const tasks = variable("SLURM_STEP_TASKS_PER_NODE");
    const std::string_view text = tasks == nullptr ? "" : tasks;
    if (text.find(',') == std::string_view::npos) place.local_ranks = number_in(text, "(");
    if (place.local_ranks && *place.local_ranks <= *place.local_rank) place.local_ranks.reset();
  }
  return place;
}

LauncherPlace launcher_place() {
  return launcher_place([](const char* name) { return std::getenv(name); });
}

}  // namespace forebay
