#include <doctest/doctest.h>

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <unistd.h>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include <forebay/feeder.hpp>

#include "base/launch.hpp"
#include "memory_dataset.hpp"
#include "support.hpp"

// Processes that do not know of each other must not write the same files.
namespace forebay::testing {
namespace {

namespace fs = std::filesystem;

using Environment = std::map<std::string, std::string>;

std::string processes_of(const Environment& environment) {
  const auto launch = launched_with_others([&](const char* name) -> const char* {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
  return launch ? launch->variable + " " + launch->processes : "alone";
}

std::optional<unsigned> rank_of(const Environment& environment) {
  const auto launch = launched_with_others([&](const char* name) -> const char* {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
  return launch ? launch->rank : std::nullopt;
}

TEST_CASE("a process that a launcher started as one of several is told from one that is alone") {
  CHECK(processes_of({}) == "alone");
  CHECK(processes_of({{"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_RANK", "0"}}) == "OMPI_COMM_WORLD_SIZE 2");
  CHECK(processes_of({{"PMI_SIZE", "16"}, {"PMI_RANK", "3"}}) == "PMI_SIZE 16");
  CHECK(processes_of({{"MV2_COMM_WORLD_SIZE", "2"}, {"MV2_COMM_WORLD_RANK", "1"}}) == "MV2_COMM_WORLD_SIZE 2");
  // srun of a step with several tasks, whatever its --mpi is.
  const Environment task{{"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "4"}};
  CHECK(processes_of(task) == "SLURM_STEP_NUM_TASKS 4");
  CHECK(rank_of(task) == 1);
  CHECK(rank_of({{"PMI_SIZE", "16"}, {"PMI_RANK", "3"}}) == 3);
  CHECK(rank_of({{"PMI_SIZE", "16"}, {"PMI_RANK", "0"}}) == 0);
  CHECK(rank_of({{"PMI_SIZE", "16"}, {"PMI_RANK", "16"}}) == std::nullopt);
  CHECK(rank_of({{"PMI_SIZE", "16"}, {"PMI_RANK", "first"}}) == std::nullopt);
}

TEST_CASE("a launcher that started one process, or a batch script that may start several, is no reason") {
  CHECK(processes_of({{"OMPI_COMM_WORLD_SIZE", "1"}, {"OMPI_COMM_WORLD_RANK", "0"}}) == "alone");
  CHECK(processes_of({{"PMI_SIZE", "1"}, {"PMI_RANK", "0"}}) == "alone");
  CHECK(processes_of({{"PMIX_RANK", "0"}}) == "alone");
  CHECK(processes_of({{"SLURM_NTASKS", "8"}, {"SLURM_NPROCS", "8"}, {"SLURM_PROCID", "0"}}) == "alone");
  CHECK(processes_of({{"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}}) == "alone");
  CHECK(processes_of({{"OMPI_COMM_WORLD_SIZE", "2"}}) == "alone");  // a size without a place is not of this process
  CHECK(processes_of({{"PMI_SIZE", "two"}, {"PMI_RANK", "0"}}) == "alone");
}

Parts parts() {
  Parts made;
  made.dataset = std::make_shared<MemoryDataset>(64);
  return made;
}

std::string refusal(const Options& options) {
  try {
    Feeder feeder(options, parts());
  } catch (const ConfigError& error) {
    return error.what();
  }
  return {};
}

TEST_CASE("a feeder without a communicator is refused where several were started, unless it is meant") {
  REQUIRE(::setenv("MV2_COMM_WORLD_SIZE", "2", 1) == 0);
  REQUIRE(::setenv("MV2_COMM_WORLD_RANK", "0", 1) == 0);
  const std::string cause = refusal(memory_options(4));
  Feeder meant(memory_options(4), *solo_communicator(), parts());
  ::unsetenv("MV2_COMM_WORLD_SIZE");
  ::unsetenv("MV2_COMM_WORLD_RANK");
  CHECK(cause.find("one of 2 (MV2_COMM_WORLD_SIZE)") != std::string::npos);
  CHECK(cause.find("mpi.world()") != std::string::npos);
  CHECK(cause.find("solo_communicator()") != std::string::npos);
  CHECK(meant.next());
  CHECK(refusal(memory_options(4)).empty());
}

TEST_CASE("two feeders never write one telemetry folder at the same time") {
  const TemporaryDirectory dir;
  Options options = memory_options(4);
  options.telemetry.dir = (dir / "run").string();
  {
    Feeder first(options, parts());
    CHECK(first.next());
    const std::string cause = refusal(options);
    CHECK(cause.find("telemetry.dir") != std::string::npos);
    CHECK(cause.find("process " + std::to_string(::getpid())) != std::string::npos);
    CHECK(first.next());  // nothing of its files was touched
    first.close();
    CHECK(refusal(options).empty());
  }
  {
    Feeder again(options, parts());
    Options elsewhere = options;
    elsewhere.telemetry.dir = (dir / "other").string();
    CHECK(refusal(elsewhere).empty());
    elsewhere.telemetry.dir = "";
    CHECK(refusal(elsewhere).empty());
  }
  // Nothing is left of the lock, and a file that a killed process left behind keeps nobody out.
  CHECK_FALSE(fs::exists(dir / "run" / ".writer.0"));
  std::ofstream(dir / "run" / ".writer.0") << "process 1 on a machine that is off";
  CHECK(refusal(options).empty());
}

TEST_CASE("a feeder waits for another process's lock, which may be dying") {
  const TemporaryDirectory dir;
  Options options = memory_options(4);
  options.telemetry.dir = dir.path().string();
  const fs::path file = dir / ".writer.0";
  std::ofstream(file) << "process 1 on another machine";
  const int held = ::open(file.c_str(), O_RDWR | O_CLOEXEC);
  REQUIRE(held >= 0);
  REQUIRE(::flock(held, LOCK_EX | LOCK_NB) == 0);
  const int attempts = ::inotify_init1(IN_CLOEXEC);
  REQUIRE(attempts >= 0);
  REQUIRE(::inotify_add_watch(attempts, file.c_str(), IN_CLOSE_WRITE) >= 0);
  std::string cause;
  std::thread waiting([&] { cause = refusal(options); });
  pollfd attempt{attempts, POLLIN, 0};
  const int attempted = ::poll(&attempt, 1, 60'000);  // the lock was asked for, and not given
  ::flock(held, LOCK_UN);
  waiting.join();
  ::close(attempts);
  ::close(held);
  CHECK(attempted == 1);
  CHECK(cause.empty());
}

TEST_CASE("a feeder that resumes from a state keeps its folder") {
  const TemporaryDirectory dir;
  Options options = memory_options(4);
  options.run.epochs = 2;
  options.telemetry.dir = (dir / "run").string();
  std::string state;
  {
    Feeder feeder(options, parts());
    CHECK(feeder.next());
    state = feeder.state();
  }
  Feeder feeder(options, parts());
  feeder.restore_state(state);
  CHECK_FALSE(refusal(options).empty());
  CHECK(feeder.next());
}

}  // namespace
}  // namespace forebay::testing
