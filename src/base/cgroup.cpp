#include "cgroup.hpp"

#include <fstream>

namespace forebay {

// Every level from the process's own group up to the root, since a limit holds at each of them. In
// a container the path of /proc/self/cgroup may not exist below /sys/fs/cgroup; such folders are
// listed all the same, and whoever reads them finds nothing there.
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

}  // namespace forebay
