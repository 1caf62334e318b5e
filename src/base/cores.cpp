// How many cores a rank may use, given its affinity mask, those of the other ranks on the node, and
// the CPU quota of its cgroups. Reads /proc and /sys at the start of a run; the ranks of a node
// then exchange masks and groups as texts (to_text), and each computes its share. A core that k
// ranks may use counts as 1/k for each of them.

#include "cores.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include <sched.h>
#include <unistd.h>

#include "text.hpp"

namespace forebay {

// Every level from the process's own group up to the root, since a limit holds at each of them. In
// a container the path from /proc/self/cgroup may not exist below /sys/fs/cgroup; such folders are
// listed nevertheless, and reading their files simply fails.
std::vector<GroupFolder> groups_of_process(std::string_view controller, const std::string& root) {
  std::vector<GroupFolder> folders;
  const auto add = [&folders](const std::string& base, std::string_view path, int version) {
    while (true) {
      folders.push_back({base + std::string(path), version});
      const std::size_t last = path.rfind('/');
      if (last == std::string_view::npos) return;
      path = path.substr(0, last);
    }
  };
  const std::string base = root + "/sys/fs/cgroup";
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // "4:cpu,cpuacct:/job" or, of version 2, "0::/job"
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string_view path = std::string_view(line).substr(second + 1);
    if (controllers.empty()) {
      add(base, path, 2);
    } else if (("," + controllers + ",").find("," + std::string(controller) + ",") != std::string::npos) {
      add(base + "/" + std::string(controller), path, 1);
      if (controllers != controller) add(std::string(base).append("/").append(controllers), path, 1);
    }
  }
  return folders;
}

namespace {

// The CPU quota of the group, in processors; nothing if it sets no limit or does not exist.
std::optional<double> quota_of(const GroupFolder& group) {
  double quota = 0;
  double period = 0;
  if (group.version == 2) {
    if (!(std::ifstream(group.path + "/cpu.max") >> quota >> period)) return std::nullopt;  // "max 100000"
  } else {
    if (!(std::ifstream(group.path + "/cpu.cfs_quota_us") >> quota)) return std::nullopt;
    if (!(std::ifstream(group.path + "/cpu.cfs_period_us") >> period)) return std::nullopt;
  }
  if (!(quota > 0) || !(period > 0)) return std::nullopt;  // -1: no limit
  return quota / period;
}

// The numbers of the cores in the mask; empty if the kernel does not report it.
std::vector<unsigned> affinity_mask() {
  std::vector<unsigned> allowed;
  // The kernel refuses a mask that is smaller than its own.
  for (std::size_t sets = 1; sets <= 1024; sets *= 4) {
    std::vector<cpu_set_t> mask(sets);
    const std::size_t bytes = sets * sizeof(cpu_set_t);
    if (::sched_getaffinity(0, bytes, mask.data()) != 0) continue;
    for (unsigned core = 0; core < sets * CPU_SETSIZE; ++core) {
      if (CPU_ISSET_S(core, bytes, mask.data())) allowed.push_back(core);
    }
    return allowed;
  }
  return allowed;
}

unsigned threads_of(double quota) noexcept { return static_cast<unsigned>(std::clamp(std::ceil(quota), 1.0, 1e6)); }

}  // namespace

unsigned Cores::usable() const noexcept {
  const unsigned in_mask = allowed.empty() ? online : static_cast<unsigned>(allowed.size());
  return std::max(1U, std::min(in_mask, quota ? threads_of(*quota) : in_mask));
}

Cores cores_of_process(const std::string& root) {
  Cores cores;
  cores.online = static_cast<unsigned>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
  cores.allowed = affinity_mask();
  for (const GroupFolder& group : groups_of_process("cpu", root)) {
    const std::optional<double> quota = quota_of(group);
    if (!quota || (cores.quota && *cores.quota <= *quota)) continue;
    cores.quota = quota;
    cores.group = group.path;
  }
  return cores;
}

// "0-3,8\nGROUP": the numbers of the cores in the mask, as ranges.
std::string to_text(const Cores& cores) {
  std::string text;
  const auto add = [&text](unsigned first, unsigned last) {
    text += (text.empty() ? "" : ",") + std::to_string(first) + "-" + std::to_string(last);
  };
  for (std::size_t i = 0; i < cores.allowed.size();) {
    std::size_t end = i + 1;
    while (end < cores.allowed.size() && cores.allowed[end] == cores.allowed[end - 1] + 1) ++end;
    add(cores.allowed[i], cores.allowed[end - 1]);
    i = end;
  }
  if (cores.allowed.empty()) add(0, cores.online - 1);
  return text + "\n" + cores.group;
}

namespace {

struct Process {
  std::vector<unsigned> mask;
  std::string group;
};

Process process_of(const std::string& text) {
  constexpr unsigned kMostCores = 1U << 20U;
  Process process;
  std::istringstream in(text);
  unsigned first = 0;
  unsigned last = 0;
  for (char sign = 0; in >> first >> sign >> last && last < kMostCores;) {
    for (unsigned core = first; core <= last; ++core) process.mask.push_back(core);
    if (in.peek() != ',') break;
    in.get();
  }
  in.clear();
  in.ignore(1);  // the line's end
  std::getline(in, process.group);
  return process;
}

}  // namespace

// The smaller of this rank's share of the cores in its mask and its share of the quota, which the
// ranks in the group divide.
CoreShare share_of_cores(const Cores& mine, const std::vector<std::string>& all) {
  const Process own = process_of(to_text(mine));
  std::vector<unsigned> users;  // by core: processes that may use it
  CoreShare share{.sharers = 0};
  unsigned in_group = 0;
  for (const std::string& text : all) {
    const Process process = process_of(text);
    if (process.group == own.group) ++in_group;
    if (std::ranges::find_first_of(process.mask, own.mask) != process.mask.end()) ++share.sharers;
    for (const unsigned core : process.mask) {
      if (core >= users.size()) users.resize(core + 1, 0);
      ++users[core];
    }
  }
  double cores = 0;
  for (const unsigned core : own.mask) cores += 1.0 / std::max(1U, core < users.size() ? users[core] : 1);
  constexpr double kRounding = 1e-9;
  share.cores = static_cast<unsigned>(std::max(1.0, std::floor(cores + kRounding)));
  share.node_cores = static_cast<unsigned>(std::ranges::count_if(users, [](unsigned each) { return each > 0; }));
  if (mine.quota) {
    const unsigned granted = threads_of(*mine.quota / std::max(1U, in_group));
    if (granted < share.cores) {
      share.is_quota = true;
      share.cores = granted;
      share.sharers = in_group;
    }
  }
  share.sharers = std::max(1U, share.sharers);
  return share;
}

// Only if cores of the node are idle: on a full node a small mask is as it should be.
std::string few_cores_notice(const Cores& cores, const CoreShare& share) {
  constexpr unsigned kFewOf = 16;  // one of 16 cores, or less
  const unsigned masked = cores.allowed.empty() ? cores.online : static_cast<unsigned>(cores.allowed.size());
  const auto of_node = [&](const std::string& number) {
    return "this rank may use " + number + " of the " + std::to_string(cores.online) + " cores of its node";
  };
  if (share.is_quota) {
    if (share.cores > 1 || cores.online < kFewOf) return "";
    return of_node("1") + ": its control group grants " + shortest(*cores.quota) +
           (share.sharers > 1 ? " to " + std::to_string(share.sharers) + " ranks" : "") + " (" + cores.group +
           "); raise the container's CPU limit if decoding limits the run";
  }
  const bool are_few = masked == 1 || masked * kFewOf <= cores.online;
  if (!are_few || 2 * share.node_cores >= cores.online) return "";
  return of_node(std::to_string(masked)) + " (its affinity mask), and all ranks of the node together " +
         std::to_string(share.node_cores) +
         ": decoders and the trainer take turns on them. Ask the launcher for more: mpirun --bind-to none, or --map-by "
         "slot:PE=8; srun --cpus-per-task=8 (-c), or --cpu-bind=none";
}

}  // namespace forebay
