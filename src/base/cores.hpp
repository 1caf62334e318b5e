#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace forebay {

// A folder of the control groups that this process is in.
struct GroupFolder {
  std::string path;
  int version = 2;  // 1 or 2: files have other names
};

// The groups of a controller, such as "memory" or "cpu", that this process is in, and those above them, whose limits
// hold for it too. Looks into `root` + "/proc/self/cgroup" and "/sys/fs/cgroup"; folders that are not there are among
// them, because a container does not see all of the path that its group has outside.
[[nodiscard]] std::vector<GroupFolder> groups_of_process(std::string_view controller, const std::string& root = "");

// What this process may use of the processors of its machine.
struct Cores {
  unsigned online = 1;            // of the machine
  std::vector<unsigned> allowed;  // numbers of those in the affinity mask; empty if the mask is not known
  std::optional<double> quota;    // processors that its control groups grant, the least of all levels
  std::string group;              // the folder of the group with that quota

  // Threads that can run at a time, at least 1: those of the mask, but no more than the quota, rounded up.
  [[nodiscard]] unsigned usable() const noexcept;
  [[nodiscard]] bool is_bound() const noexcept { return !allowed.empty() && allowed.size() < online; }
};

// Asks the system. The control groups are those under `root` (groups_of_process()): `cpu.max` of version 2,
// `cpu.cfs_quota_us` of version 1, as containers, Kubernetes and systemd set them.
[[nodiscard]] Cores cores_of_process(const std::string& root = "");

// The same in a line, for the other processes of a node.
[[nodiscard]] std::string to_text(const Cores& cores);

// What each of the processes of a node may count on, as all would use what they can at a time: a core is divided among
// those whose masks have it, a quota among those in the same group. `all`: to_text() of all, with the own one among
// them. At least 1.
struct CoreShare {
  unsigned cores = 1;
  unsigned node_cores = 1;  // that any of them may use
  unsigned sharers = 1;     // processes with a core of this one's mask, or in its group, itself included
  bool is_quota = false;    // the quota is less than the mask
};
[[nodiscard]] CoreShare share_of_cores(const Cores& mine, const std::vector<std::string>& all);

// A line where a process has a core or two of a large machine, most of which nobody uses: launchers bind ranks to
// single cores unless they are told otherwise. Names what to ask for; empty where nothing is wrong.
[[nodiscard]] std::string few_cores_notice(const Cores& cores, const CoreShare& share);

}  // namespace forebay
