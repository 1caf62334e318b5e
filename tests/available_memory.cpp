#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <forebay/error.hpp>

#include "job/start_checks.hpp"
#include "support.hpp"

namespace forebay {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryDirectory;

constexpr std::uint64_t kMiB = 1024 * 1024;

void put(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

TEST_CASE("room of a node without cgroups is MemAvailable") {
  const TemporaryDirectory root;
  CHECK_FALSE(available_memory(root.path().native()).node);
  put(root / "proc/meminfo",
      "MemTotal:       8000 kB\nMemFree:  1 kB\nMemAvailable:   2048 kB\nHugePages_Total:   0\n");
  const AvailableMemory room = available_memory(root.path().native());
  CHECK(room.node == 2 * kMiB);
  CHECK_FALSE(room.group);
}

TEST_CASE("room of a cgroup of version 2 is the least of it and the groups above, page cache counted as free") {
  const TemporaryDirectory root;
  put(root / "proc/self/cgroup", "0::/job/step\n");
  const fs::path groups = root / "sys/fs/cgroup";
  put(groups / "job/step/memory.max", "max\n");
  put(groups / "job/step/memory.current", "1000\n");
  CHECK_FALSE(available_memory(root.path().native()).group);
  put(groups / "job/memory.max", "10000\n");
  put(groups / "job/memory.current", "7000\n");
  put(groups / "job/memory.stat", "anon 5000\nfile 1500\ninactive_file 1100\nactive_file 400\n");
  CHECK(available_memory(root.path().native()).group == 4500U);
  put(groups / "job/step/memory.max", "1200\n");
  CHECK(available_memory(root.path().native()).group == 200U);
  put(groups / "job/step/memory.current", "1300\n");
  CHECK(available_memory(root.path().native()).group == 0U);
}

TEST_CASE("version 1: its own file names, no limit said with a huge number, a path that is not mounted") {
  const TemporaryDirectory root;
  put(root / "proc/self/cgroup", "5:devices:/\n4:cpuset,memory:/outside/here\n0::/\nnonsense\n");
  const fs::path memory = root / "sys/fs/cgroup/memory";
  put(memory / "memory.limit_in_bytes", "9223372036854771712\n");
  put(memory / "memory.usage_in_bytes", "5\n");
  CHECK_FALSE(available_memory(root.path().native()).group);
  put(memory / "memory.limit_in_bytes", "1000\n");
  put(memory / "memory.usage_in_bytes", "900\n");
  put(memory / "memory.stat", "inactive_file 100\ntotal_inactive_file 300\ntotal_active_file 50\n");
  CHECK(available_memory(root.path().native()).group == 450U);
}

TEST_CASE("a ring that does not fit is refused, naming the keys; a cgroup that ranks may share is a warning") {
  const RingNeed need{.slots = 22, .bytes = 100 * kMiB, .ranks_on_node = 2};
  CHECK(require_memory(need, {}).empty());
  CHECK(require_memory(need, {.node = 200 * kMiB, .group = 200 * kMiB}).empty());
  CHECK_THROWS_WITH_AS((void)require_memory(need, {.node = 199 * kMiB}), doctest::Contains("MemAvailable"),
                       ConfigError);
  CHECK_THROWS_WITH_AS((void)require_memory(need, {.group = 99 * kMiB}),
                       doctest::Contains("lower queue.capacity, queue.pool"), ConfigError);
  CHECK_THROWS_WITH_AS((void)require_memory(need, {.group = 99 * kMiB}), doctest::Contains("22 slots"), ConfigError);
  CHECK(require_memory(need, {.group = 150 * kMiB}).find("2 ranks on this node share it") != std::string::npos);
}

TEST_CASE("this process has memory of its own, and figures are readable") {
  CHECK(resident_bytes() > 100'000);
  CHECK(mebibytes(154 * kMiB) == "154 MiB");
  CHECK(mebibytes(kMiB / 4) == "0.2 MiB");
}

}  // namespace
}  // namespace forebay
