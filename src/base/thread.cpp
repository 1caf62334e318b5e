#include "thread.hpp"

#include <sys/resource.h>
#include <filesystem>
#include <forebay/error.hpp>
#include <fstream>
#include <string>

namespace forebay {
namespace {

namespace fs = std::filesystem;

std::string first_word_of(const fs::path& file) {
  std::ifstream in(file);
  std::string word;
  in >> word;
  return word;
}

// The folder of this process in the cgroup hierarchy that counts threads.
fs::path cgroup_folder() {
  std::ifstream in("/proc/self/cgroup");
  fs::path unified;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("0::/")) unified = fs::path("/sys/fs/cgroup") / line.substr(4);
    const auto at = line.find(":pids:/");
    if (at != std::string::npos) return fs::path("/sys/fs/cgroup/pids") / line.substr(at + 7);
  }
  return unified;
}

// "512 of pids.max = 512 in /sys/fs/cgroup/job"; empty if no cgroup has a limit. Of several limits the first that is
// reached, otherwise the nearest one above the process.
std::string cgroup_limit() {
  std::string nearest;
  for (fs::path folder = cgroup_folder(); folder.has_parent_path() && folder != "/sys/fs";
       folder = folder.parent_path()) {
    const std::string most = first_word_of(folder / "pids.max");
    if (most.empty() || most == "max") continue;
    const std::string used = first_word_of(folder / "pids.current");
    std::string text = used;
    text.append(" of pids.max = ").append(most).append(" in ").append(folder.string());
    if (used == most) return text;
    if (nearest.empty()) nearest = text;
  }
  return nearest;
}

std::string user_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NPROC, &limit) != 0) return "unknown";
  return limit.rlim_cur == RLIM_INFINITY ? "unlimited" : std::to_string(limit.rlim_cur);
}

// Never empty: it is part of a sentence.
std::string limits() {
  std::string group;
  try {
    group = cgroup_limit();
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): without it the message is still right
  }
  return "ulimit -u is " + user_limit() + ", " +
         (group.empty() ? "no cgroup sets pids.max" : "the cgroup has " + group);
}

}  // namespace

void refuse_thread(std::string_view name, const std::system_error& cause) {
  throw Error("cannot start the thread \"" + std::string(name) + "\": " + cause.code().message() +
              ". The system allows no more threads or has no memory for a stack (" + limits() +
              "): raise that limit, or set workers.io and workers.decode lower, or run fewer ranks on this node");
}

}  // namespace forebay
