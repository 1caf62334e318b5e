#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace forebay {

// A folder of a control group (cgroup) that contains this process.
struct GroupFolder {
  std::string path;
  int version = 2;  // 1 or 2, which name their files differently
};

// The process's own groups for a controller, such as "memory" or "cpu", and those above them, whose limits apply to it,
// too. Looks into `root` + "/proc/self/cgroup" and "/sys/fs/cgroup". Some of the folders may not exist, because a
// container does not see the whole path of its group.
[[nodiscard]] std::vector<GroupFolder> groups_of_process(std::string_view controller, const std::string& root = "");

// The processors of its machine that this process may use.
struct Cores {
  unsigned online = 1;            // processors of the machine
  std::vector<unsigned> allowed;  // numbers of those in the affinity mask; empty if the mask is not known
  std::optional<double> quota;    // processors granted by its control groups, the minimum over all levels
  std::string group;              // the folder of the group with that quota

  // How many threads can run concurrently, at least 1: the cores in the mask, but no more than the quota, rounded up.
  [[nodiscard]] unsigned usable() const noexcept;
  [[nodiscard]] bool is_bound() const noexcept { return !allowed.empty() && allowed.size() < online; }
};

// Asks the system. The control groups are those under `root` (groups_of_process()): `cpu.max` of version 2,
// `cpu.cfs_quota_us` of version 1, as containers, Kubernetes and systemd set them.
[[nodiscard]] Cores cores_of_process(const std::string& root = "");

// The same as one line of text, to be sent to the other processes of a node.
[[nodiscard]] std::string to_text(const Cores& cores);

// What each process of a node may count on if all use as much as they can: a core is divided among the processes whose
// masks contain it, a quota among those in the same group. `all`: to_text() of every process, including this one. At
// least 1.
struct CoreShare {
  unsigned cores = 1;
  unsigned node_cores = 1;  // cores that at least one of them may use
  unsigned sharers = 1;     // processes with a core of this one's mask, or in its group, itself included
  bool is_quota = false;    // the quota is less than the mask
};
[[nodiscard]] CoreShare share_of_cores(const Cores& mine, const std::vector<std::string>& all);

// A warning if a process has a core or two of a large machine, most of which nobody uses: launchers bind ranks to
// single cores unless told otherwise. Says which option to use; empty if nothing is wrong.
[[nodiscard]] std::string few_cores_notice(const Cores& cores, const CoreShare& share);

}  // namespace forebay
