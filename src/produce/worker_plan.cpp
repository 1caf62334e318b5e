#include "worker_plan.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>

namespace forebay {
namespace {

// Parallel file systems are not asked by more threads of one rank than this, whatever their latency.
constexpr unsigned kMostReaders = 512;

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

std::string describe(const WorkerCounts& counts) {
  return std::to_string(counts.io) + (counts.io == 1 ? " reader, " : " readers, ") + std::to_string(counts.decode) +
         (counts.decode == 1 ? " decoder" : " decoders");
}

std::string describe(const WorkerPlan& plan) {
  std::string text = describe(plan.first) + " (" + plan.reason;
  if (plan.tunes()) text += "; to begin with, at most " + describe(plan.most);
  return text + ")";
}

WorkerPlan plan_workers(const WorkerOptions& options, std::uint32_t ranks_on_node) {
  const Cores cores = count_cores();
  const bool bound = cores.allowed < cores.online;
  const unsigned mine = bound ? cores.allowed : std::max(1U, cores.allowed / ranks_on_node);

  WorkerPlan plan;
  plan.cores = mine;
  if (options.decode != 0) {
    plan.first.decode = plan.most.decode = static_cast<unsigned>(options.decode);
  } else {
    plan.first.decode = std::max(1U, mine - 1);
    plan.most.decode = mine;
  }
  if (options.io != 0) {
    plan.first.io = plan.most.io = static_cast<unsigned>(options.io);
  } else {
    plan.first.io = std::clamp(8 * plan.first.decode, 16U, 64U);
    plan.most.io = std::clamp(16 * plan.most.decode, 64U, kMostReaders);
  }
  plan.reason = std::to_string(mine) + (mine == 1 ? " core" : " cores") + (bound ? " in the affinity mask" : "");
  if (!bound && ranks_on_node > 1) plan.reason += ", this rank's part of " + std::to_string(cores.allowed);
  return plan;
}

}  // namespace forebay
