#pragma once

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

}  // namespace forebay
