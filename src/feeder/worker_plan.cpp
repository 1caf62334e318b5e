#include "worker_plan.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>

namespace forebay {
namespace {

struct Cores {
  unsigned allowed;  // in this process's affinity mask
  unsigned online;
};

Cores count_cores() {
  const auto online = static_cast<unsigned>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
  cpu_set_t mask;
  CPU_ZERO(&mask);
  // Fails on machines with more than 1024 cores; then the machine is what there is to go by.
  if (::sched_getaffinity(0, sizeof(mask), &mask) != 0) return {online, online};
  return {static_cast<unsigned>(CPU_COUNT(&mask)), online};
}

}  // namespace

WorkerPlan plan_workers(const WorkerOptions& options, std::uint32_t ranks_on_node) {
  const Cores cores = count_cores();
  const bool bound = cores.allowed < cores.online;
  const unsigned mine = bound ? cores.allowed : std::max(1U, cores.allowed / ranks_on_node);

  WorkerPlan plan;
  plan.decode = options.decode != 0 ? static_cast<unsigned>(options.decode) : std::max(1U, mine - 1);
  plan.io = options.io != 0 ? static_cast<unsigned>(options.io) : std::clamp(4 * plan.decode, 8U, 32U);
  plan.reason = std::to_string(mine) + (mine == 1 ? " core" : " cores") + (bound ? " in the affinity mask" : "");
  if (!bound && ranks_on_node > 1) plan.reason += ", this rank's part of " + std::to_string(cores.allowed);
  return plan;
}

}  // namespace forebay
