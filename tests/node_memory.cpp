// Memory that the ranks of a node share, where /dev/shm has no room and where memory without a name cannot be had.

#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <forebay/communicator.hpp>
#include <forebay/error.hpp>
#include <forebay/feeder.hpp>

#include "memory_dataset.hpp"
#include "mpi_world.hpp"

using forebay::testing::world;

namespace {

bool is_shm_full = false;
bool has_no_memfd = false;

}  // namespace

// In place of the C library's.
extern "C" int shm_open(const char* name, int flags, mode_t mode) noexcept {
  if (is_shm_full) {
    errno = ENOSPC;
    return -1;
  }
  return ::open(("/dev/shm" + std::string(name)).c_str(), flags | O_NOFOLLOW | O_CLOEXEC, mode);
}

extern "C" int memfd_create(const char* name, unsigned flags) noexcept {
  if (has_no_memfd) {
    errno = ENOSYS;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_memfd_create, name, flags));
}

namespace {

// Ways to share memory that the ranks do without, for a while.
struct Without {
  Without(bool shm, bool memfd) {
    is_shm_full = shm;
    has_no_memfd = memfd;
  }
  ~Without() { is_shm_full = has_no_memfd = false; }
  Without(const Without&) = delete;
  Without& operator=(const Without&) = delete;
};

constexpr double kLongest = 60;  // seconds; only a broken build waits so long

TEST_CASE("ranks share memory whether /dev/shm has room or not, and no name is left") {
  for (const bool full : {false, true}) {
    const Without without(full, !full);
    const auto copy = world().duplicate();
    const auto memory = copy->share_on_node(copy->size());
    memory->bytes()[copy->rank()] = std::byte{1};
    static_cast<void>(copy->all_gather(""));  // everybody has written
    CHECK(std::ranges::count(memory->bytes(), std::byte{1}) == copy->size());
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
      CHECK_FALSE(entry.path().filename().string().starts_with("forebay-" + std::to_string(::getpid()) + "-"));
    }
    CHECK(copy->close(kLongest));
  }
}

TEST_CASE("where ranks can share no memory each has its own, all hear the same cause, and people once") {
  const Without without(true, true);
  const auto copy = world().duplicate();
  std::string cause;
  try {
    static_cast<void>(copy->share_on_node(64));
  } catch (const forebay::Error& error) {
    cause = error.what();
  }
  CHECK(cause.find("rank 0: shm_open: No space left on device") != std::string::npos);
  for (const std::string& theirs : copy->all_gather(cause)) CHECK(theirs == cause);

  std::vector<std::string> lines;
  forebay::Options options = forebay::testing::memory_options(2);
  options.run.epochs = 1;
  forebay::Parts parts{.dataset = std::make_shared<forebay::testing::MemoryDataset>(16)};
  parts.log = [&lines](forebay::LogLevel, std::string_view text) { lines.emplace_back(text); };
  forebay::Feeder feeder(options, world(), std::move(parts));
  while (feeder.next()) {
  }
  feeder.close();
  const auto told = std::ranges::count_if(
      lines, [](const std::string& line) { return line.find("each rank has a copy of its own") != std::string::npos; });
  CHECK(told == (copy->rank() == 0 ? 1 : 0));
  CHECK(copy->close(kLongest));
}

}  // namespace
