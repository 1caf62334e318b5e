#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <unistd.h>
#include <forebay/communicator.hpp>
#include <forebay/feeder.hpp>

#include "base/cores.hpp"
#include "base/launch.hpp"
#include "fake_job.hpp"
#include "job/agreed_start.hpp"
#include "job/start_checks.hpp"
#include "memory_dataset.hpp"
#include "produce/tuner.hpp"
#include "test.hpp"

namespace forebay::test_launch {

using namespace forebay::job;
using namespace forebay::produce;

namespace {

namespace fs = std::filesystem;
using testing::TemporaryDirectory;

// Processes that do not know of each other must not write the same files. What launchers tell
// processes, and how ranks of a node share memory, cores and parts of the data.
using namespace testing;

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
  // A step of several tasks under srun, whatever its --mpi is.
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
  CHECK(processes_of({{"OMPI_COMM_WORLD_SIZE", "2"}}) == "alone");  // a size without a rank is not its own
  CHECK(processes_of({{"PMI_SIZE", "two"}, {"PMI_RANK", "0"}}) == "alone");
}

Parts parts() {
  Parts made;
  made.dataset = std::make_shared<MemoryDataset>(64);
  return made;
}

std::string refusal(const Options& options) {
  return testing::error_of<ConfigError>([&] { Feeder feeder(options, parts()); });
}

TEST_CASE("a feeder without a communicator is refused where several were started, unless it is meant") {
  REQUIRE(::setenv("MV2_COMM_WORLD_SIZE", "2", 1) == 0);
  REQUIRE(::setenv("MV2_COMM_WORLD_RANK", "0", 1) == 0);
  const std::string cause = refusal(memory_options(4));
  Feeder meant(memory_options(4), *solo_communicator(), parts());
  ::unsetenv("MV2_COMM_WORLD_SIZE");
  ::unsetenv("MV2_COMM_WORLD_RANK");
  CHECK(contains(cause, "one of 2 (MV2_COMM_WORLD_SIZE)"));
  CHECK(contains(cause, "mpi.world()"));
  CHECK(contains(cause, "solo_communicator()"));
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
    CHECK(contains(cause, "telemetry.dir"));
    CHECK(cause.find("process " + std::to_string(::getpid())) != std::string::npos);
    CHECK(first.next());  // none of its files was touched
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
  // The lock file is removed, and one that a killed process left behind excludes nobody.
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
  const int attempted = ::poll(&attempt, 1, 60'000);  // the lock was requested and not granted
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

TEST_CASE("one rank on its own is the whole job") {
  const auto alone = solo_communicator();
  CHECK(alone->rank() == 0);
  CHECK(alone->size() == 1);
  CHECK(alone->duplicate()->size() == 1);
  CHECK(alone->close(0));
}

TEST_CASE("a sum over one rank is complete at once and changes nothing") {
  const auto alone = solo_communicator();
  std::array<std::int64_t, 3> values{4, -1, 0};
  alone->start_reduction(0, values);
  CHECK(alone->test(0));
  CHECK(values == std::array<std::int64_t, 3>{4, -1, 0});
  alone->start_reduction(0, values);
  CHECK(alone->test(0));
  CHECK(alone->test(forebay::Communicator::kChannels - 1));
}

TEST_CASE("broadcast and all_gather return what this rank gave") {
  const auto alone = solo_communicator();
  const std::vector<std::byte> bytes{std::byte{1}, std::byte{2}};
  CHECK(alone->broadcast(bytes, 0) == bytes);
  CHECK(alone->all_gather("mine") == std::vector<std::string>{"mine"});
}

TEST_CASE("memory shared with nobody is zero and writable") {
  const auto alone = solo_communicator();
  const auto memory = alone->share_on_node(4096);
  REQUIRE(memory->bytes().size() == 4096);
  CHECK(std::ranges::all_of(memory->bytes(), [](std::byte b) { return b == std::byte{0}; }));
  memory->bytes()[4095] = std::byte{7};
  CHECK(memory->bytes()[4095] == std::byte{7});
}

// For ranks on these nodes: the number of parts, and the warning.
std::pair<std::int64_t, std::string> parts_on(const std::vector<std::size_t>& node_of, std::int64_t nodes,
                                              std::int64_t saved) {
  struct Node final : SharedMemory {
    explicit Node(std::int64_t& word) : word_(word) {}
    [[nodiscard]] std::span<std::byte> bytes() noexcept override {
      return std::as_writable_bytes(std::span(&word_, 1));
    }
    std::int64_t& word_;
  };
  struct OnNode final : FakeJob::SameRank {
    OnNode(Communicator& rank, std::int64_t& word) : SameRank(rank), word_(word) {}
    [[nodiscard]] std::unique_ptr<SharedMemory> share_on_node(std::size_t bytes) override {
      CHECK(bytes == sizeof word_);
      return std::make_unique<Node>(word_);
    }
    std::int64_t& word_;
  };
  FakeJob job(static_cast<std::uint32_t>(node_of.size()));
  std::vector<std::int64_t> words(node_of.size());
  std::vector<std::pair<std::int64_t, std::string>> said(node_of.size());
  job.run([&](Communicator& communicator) {
    OnNode rank(communicator, words[node_of[communicator.rank()]]);
    auto& [parts, notice] = said[communicator.rank()];
    Options options;
    options.dataset.order = SampleOrder::local;
    options.dataset.nodes = nodes;
    parts = share_parts(options, saved, rank, notice);
  });
  for (const auto& one : said) CHECK(one == said.front());
  return said.front();
}

TEST_CASE("in order \"local\" there is a part for each node, or for each rank where nodes are uneven") {
  using Parts = std::pair<std::int64_t, std::string>;
  CHECK(parts_on({0}, 0, 0) == Parts(1, ""));
  CHECK(parts_on({0, 0, 0}, 0, 0) == Parts(1, ""));
  CHECK(parts_on({0, 0, 1, 1}, 0, 0) == Parts(2, ""));
  CHECK(parts_on({2, 2, 0, 0, 1, 1}, 0, 0) == Parts(3, ""));
  CHECK(parts_on({0, 1, 2}, 0, 0) == Parts(3, ""));
  CHECK(parts_on({0, 1, 0, 1}, 0, 0) == Parts(4, ""));
  CHECK(parts_on({0, 1, 1}, 0, 0) == Parts(3, ""));
  CHECK(parts_on({0, 0, 1, 1, 1}, 0, 0) == Parts(5, ""));
  // As the program or the saved job says; more parts than nodes are fine.
  CHECK(parts_on({0, 0, 1, 1}, 4, 6) == Parts(4, ""));
  CHECK(parts_on({0, 0, 1, 1}, 0, 6) == Parts(6, ""));
  const auto [parts, notice] = parts_on({0, 0, 1, 1}, 0, 3);
  CHECK(parts == 3);
  CHECK(contains(notice, "the samples are in 3 parts (dataset.nodes) and the job has 2 nodes: a node reads other"));
  CHECK(contains(parts_on({0, 1, 1}, 2, 0).second, "and the job has 3 ranks, not equally many one after the other"));
}

TEST_CASE("a word of one's own is nobody else's") {
  const auto alone = solo_communicator();
  alone->tell("I am alone");
  CHECK_FALSE(alone->listen());
  alone->abort("nobody's job");
  alone->note_failure("nobody to tell");
}

constexpr std::uint64_t kMiB = 1024 * 1024;

void put(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

std::optional<std::uint64_t> least_room_in(const TemporaryDirectory& root) {
  std::optional<std::uint64_t> least;
  for (const MemoryGroup& group : available_memory(root.path().native()).groups) {
    least = std::min(group.room, least.value_or(group.room));
  }
  return least;
}

TEST_CASE("room of a node without cgroups is MemAvailable") {
  const TemporaryDirectory root;
  CHECK_FALSE(available_memory(root.path().native()).node);
  put(root / "proc/meminfo",
      "MemTotal:       8000 kB\nMemFree:  1 kB\nMemAvailable:   2048 kB\nHugePages_Total:   0\n");
  const AvailableMemory room = available_memory(root.path().native());
  CHECK(room.node == 2 * kMiB);
  CHECK(room.groups.empty());
}

TEST_CASE("room of a cgroup of version 2 is the least of it and the groups above, page cache counted as free") {
  const TemporaryDirectory root;
  const auto least_room = [&] { return least_room_in(root); };
  put(root / "proc/self/cgroup", "0::/job/step\n");
  const fs::path groups = root / "sys/fs/cgroup";
  put(groups / "job/step/memory.max", "max\n");
  put(groups / "job/step/memory.current", "1000\n");
  CHECK_FALSE(least_room());
  put(groups / "job/memory.max", "10000\n");
  put(groups / "job/memory.current", "7000\n");
  put(groups / "job/memory.stat", "anon 5000\nfile 1500\ninactive_file 1100\nactive_file 400\n");
  CHECK(least_room() == 4500U);
  put(groups / "job/step/memory.max", "1200\n");
  CHECK(least_room() == 200U);
  put(groups / "job/step/memory.current", "1300\n");
  CHECK(least_room() == 0U);
}

TEST_CASE("version 1: its own file names, no limit said with a huge number, a path that is not mounted") {
  const TemporaryDirectory root;
  const auto least_room = [&] { return least_room_in(root); };
  put(root / "proc/self/cgroup", "5:devices:/\n4:cpuset,memory:/outside/here\n0::/\nnonsense\n");
  const fs::path memory = root / "sys/fs/cgroup/memory";
  put(memory / "memory.limit_in_bytes", "9223372036854771712\n");
  put(memory / "memory.usage_in_bytes", "5\n");
  CHECK_FALSE(least_room());
  put(memory / "memory.limit_in_bytes", "1000\n");
  put(memory / "memory.usage_in_bytes", "900\n");
  put(memory / "memory.stat", "inactive_file 100\ntotal_inactive_file 300\ntotal_active_file 50\n");
  CHECK(least_room() == 450U);
}

TEST_CASE("a ring that does not fit is refused, naming the keys, the node or the cgroup, and who shares it") {
  const RingNeed need{.slots = 22, .bytes = 100 * kMiB, .are_clips = true, .are_views = true};
  const auto group_of = [](std::uint64_t mib, unsigned ranks, bool is_certain = true) {
    return std::vector<MemoryGroup>{
        {.folder = "/job", .id = " 1:2", .room = mib * kMiB, .ranks = ranks, .is_certain = is_certain}};
  };
  const auto refusal = [&](const AvailableMemory& room) {
    return testing::error_of([&] { (void)require_memory(need, room); });
  };
  CHECK(require_memory(need, {}).empty());
  CHECK(require_memory(need, {.node = 200 * kMiB, .ranks = 2, .groups = group_of(200, 2)}).empty());
  CHECK(require_memory(need, {.node = 200 * kMiB, .ranks = 2, .groups = group_of(100, 1)}).empty());
  CHECK(refusal({.node = 199 * kMiB, .ranks = 2}).find("2 ranks on this node, and there is room") != std::string::npos);
  const std::string alone = refusal({.groups = group_of(99, 1)});
  for (const char* word : {"lower queue.capacity, queue.pool", "clip.frames, transform.views or transform.size",
                           "22 slots", "the memory cgroup /job has room for 99 MiB"})
    CHECK(contains(alone, word));
  CHECK(refusal({.node = 900 * kMiB, .ranks = 2, .groups = group_of(199, 2)})
            .find("for each of the 2 ranks in it, and the memory cgroup /job") != std::string::npos);
  // Processes that do not know of each other.
  CHECK(require_memory(need, {.ranks = 2, .groups = group_of(150, 2, false)}).find("2 ranks on this node share it") !=
        std::string::npos);
  CHECK(room_of_rank({.node = 900, .ranks = 3, .groups = group_of(1, 2)}) == 300);
  CHECK(room_of_rank({.node = 900 * kMiB, .ranks = 3, .groups = group_of(300, 2)}) == 150 * kMiB);
}

TEST_CASE("ranks are counted in the cgroups that they share, whatever a container calls its own") {
  const TemporaryDirectory root;
  const fs::path groups = root / "sys/fs/cgroup";
  const auto room_in = [&](const std::string& group) {
    put(root / "proc/self/cgroup", "0::/" + group + "\n");
    put(groups / "memory.max", "9000\n");
    put(groups / "memory.current", "0\n");
    put(groups / group / "memory.max", "1000\n");
    put(groups / group / "memory.current", "0\n");
    return available_memory(root.path().native());
  };
  AvailableMemory first = room_in("one");
  const AvailableMemory second = room_in("other");
  REQUIRE(first.groups.size() == 2);
  CHECK(ids_of_groups(first) != ids_of_groups(second));
  count_ranks(first, {ids_of_groups(first), ids_of_groups(second), ids_of_groups(first)}, true);
  CHECK(first.ranks == 3);
  CHECK(first.groups[0].ranks == 2);
  CHECK(first.groups[1].ranks == 3);
  CHECK(room_of_rank(first) == 500);
}

TEST_CASE("this process has memory of its own, and figures are readable") {
  CHECK(resident_bytes() > 100'000);
  CHECK(mebibytes(154 * kMiB) == "154 MiB");
  CHECK(mebibytes(kMiB / 4) == "0.2 MiB");
}

TEST_CASE("the quota of cores is the least of the group and those above it, in versions 1 and 2") {
  const TemporaryDirectory root;
  const fs::path groups = root / "sys/fs/cgroup";
  const auto quota = [&] { return cores_of_process(root.path().native()).quota; };
  CHECK_FALSE(quota());
  put(root / "proc/self/cgroup", "0::/kubepods/pod/box\n");
  CHECK_FALSE(quota());
  put(groups / "kubepods/pod/box/cpu.max", "max 100000\n");
  CHECK_FALSE(quota());
  put(groups / "kubepods/pod/cpu.max", "250000 100000\n");
  CHECK(quota() == 2.5);
  put(groups / "cpu.max", "1000000 100000\n");  // in the container's own root group
  CHECK(quota() == 2.5);
  put(groups / "kubepods/pod/box/cpu.max", "50000 100000\n");
  CHECK(quota() == 0.5);
  CHECK(cores_of_process(root.path().native()).usable() == 1);
  CHECK(cores_of_process(root.path().native()).group.ends_with("/kubepods/pod/box"));

  put(root / "proc/self/cgroup", "9:memory:/\n3:cpu,cpuacct:/docker/abc\n0::/\n");
  fs::remove(groups / "cpu.max");
  put(groups / "cpu/cpu.cfs_quota_us", "-1\n");
  put(groups / "cpu/cpu.cfs_period_us", "100000\n");
  CHECK_FALSE(quota());
  put(groups / "cpu/cpu.cfs_quota_us", "150000\n");
  CHECK(quota() == 1.5);
  put(groups / "cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "100000\n");
  put(groups / "cpu,cpuacct/docker/abc/cpu.cfs_period_us", "100000\n");
  CHECK(quota() == 1.0);
  put(groups / "cpu,cpuacct/docker/abc/cpu.cfs_period_us", "0\n");
  CHECK(quota() == 1.5);
}

Cores cores_of(std::vector<unsigned> mask, std::optional<double> quota = {}, std::string group = "") {
  return {.online = 64, .allowed = std::move(mask), .quota = quota, .group = std::move(group)};
}

std::vector<unsigned> cores_from(unsigned first, unsigned count) {
  std::vector<unsigned> cores(count);
  for (unsigned i = 0; i < count; ++i) cores[i] = first + i;
  return cores;
}

TEST_CASE("ranks of a node divide the cores that they share, and the quota of their group") {
  const auto share = [](const std::vector<Cores>& ranks) {
    std::vector<std::string> all;
    for (const Cores& each : ranks) all.push_back(to_text(each));
    return share_of_cores(ranks.front(), all);
  };
  const Cores whole = cores_of(cores_from(0, 64));
  CHECK(share({whole}).cores == 64);
  CHECK(share({whole, whole, whole, whole}).cores == 16);
  CHECK(share({whole, whole, whole, whole}).sharers == 4);
  // torchrun in a container with eight cores of the machine: all ranks have the same mask.
  const Cores cpuset = cores_of({0, 1, 2, 3, 8, 9, 10, 11});
  CHECK(share({cpuset, cpuset}).cores == 4);
  CHECK(share({cpuset, cpuset}).sharers == 2);
  // Bound ranks keep their cores, whichever other ranks there are.
  CHECK(share({cores_of({4, 5}), cores_of({6, 7}), cores_of({8, 9})}).cores == 2);
  CHECK(share({cores_of({4, 5}), cores_of({6, 7})}).sharers == 1);
  CHECK(share({cores_of({1}), cores_of({1}), cores_of({1})}).cores == 1);
  // The ranks of a container share a quota; another container has its own.
  const Cores pod = cores_of(cores_from(0, 64), 6.0, "/pod");
  CHECK(share({pod}).cores == 6);
  CHECK(share({pod}).is_quota);
  CHECK(share({pod, pod}).cores == 3);
  CHECK(share({pod, cores_of(cores_from(0, 64), 6.0, "/other")}).cores == 6);
  CHECK(share({cores_of(cores_from(0, 64), 1.5, "/pod")}).cores == 2);
  CHECK_FALSE(share({cores_of({0, 1}, 6.0, "/pod")}).is_quota);
  CHECK(share({cores_of({0, 1}, 6.0, "/pod")}).cores == 2);
}

TEST_CASE("workers follow the quota, and the line at the start says where their number comes from") {
  const Cores pod = cores_of(cores_from(0, 64), 4.0, "/pod");
  const WorkerPlan plan = plan_workers({}, pod, share_of_cores(pod, {to_text(pod), to_text(pod)}));
  CHECK(plan.cores == 2);
  CHECK(plan.most.decode == 2);
  CHECK(plan.reason == "2 cores by the quota of 4 of its control group, this rank's part of 4");
  const Cores bound = cores_of({4, 5});
  CHECK(plan_workers({}, bound, share_of_cores(bound, {to_text(bound)})).reason == "2 cores in the affinity mask");
  Cores whole = cores_of(cores_from(0, 64));
  CHECK(plan_workers({}, whole, share_of_cores(whole, {to_text(whole), to_text(whole)})).reason ==
        "32 cores, this rank's part of 64");
}

TEST_CASE("a rank that may use one core of a large machine is told what to ask the launcher for") {
  const auto notice = [](const Cores& mine, const std::vector<Cores>& others = {}) {
    std::vector<std::string> all{to_text(mine)};
    for (const Cores& each : others) all.push_back(to_text(each));
    return few_cores_notice(mine, share_of_cores(mine, all));
  };
  const std::string one = notice(cores_of({7}), {cores_of({8})});
  CHECK(one.starts_with("this rank may use 1 of the 64 cores of its node (its affinity mask)"));
  for (const char* word : {"--bind-to none", "--cpus-per-task", "-c", "together 2"}) CHECK(one.find(word) != one.npos);
  CHECK(notice(cores_of(cores_from(0, 64))).empty());
  CHECK(notice(cores_of(cores_from(0, 8))).empty());
  std::vector<Cores> full;
  for (unsigned core = 1; core < 64; ++core) full.push_back(cores_of({core}));
  CHECK(notice(cores_of({0}), full).empty());  // 64 ranks on 64 cores are intentional
  Cores small = cores_of({0});
  small.online = 2;
  CHECK(notice(small).empty());
  CHECK(notice(cores_of(cores_from(0, 64), 0.5, "/pod")).find("its control group grants 0.5 (/pod)") !=
        std::string::npos);
  CHECK(notice(cores_of(cores_from(0, 64), 8.0, "/pod")).empty());
}

TEST_CASE("the launcher's variables: who started this process comes before who started that launcher") {
  const auto place = [](std::map<std::string, std::string> variables) {
    return launcher_place([variables](const char* name) {
      const auto found = variables.find(name);
      return found == variables.end() ? nullptr : found->second.c_str();
    });
  };
  CHECK_FALSE(place({}).local_rank);
  for (const char* name : {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
                           "PMI_LOCAL_RANK", "PALS_LOCAL_RANKID", "FLUX_TASK_LOCAL_ID", "SLURM_LOCALID"}) {
    CAPTURE(name);
    CHECK(place({{name, "3"}}).local_rank == 3U);
    CHECK(place({{name, "3"}}).problem.empty());
    CHECK_FALSE(testing::contains(place({{name, "first"}}).problem, "\"first\""));
    CHECK(testing::contains(place({{name, "first"}}).problem, "is not a number"));
    CHECK_FALSE(place({{name, ""}}).local_rank);
  }
  CHECK(place({{"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "4"}}).local_ranks == 4U);
  CHECK(place({{"OMPI_COMM_WORLD_LOCAL_RANK", "1"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}).local_ranks == 2U);
  CHECK_FALSE(place({{"LOCAL_RANK", "4"}, {"LOCAL_WORLD_SIZE", "4"}}).local_ranks);
  CHECK(place({{"SLURM_LOCALID", "1"}, {"SLURM_STEP_TASKS_PER_NODE", "2(x3)"}}).local_ranks == 2U);
  CHECK_FALSE(place({{"SLURM_LOCALID", "0"}, {"SLURM_STEP_TASKS_PER_NODE", "2(x3),1"}}).local_ranks);
  // mpirun in a batch job, or torchrun under srun: Slurm's variables describe the launcher.
  const LauncherPlace nested = place({{"SLURM_LOCALID", "0"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "3"}});
  CHECK(nested.local_rank == 3U);
  CHECK(nested.variable == "OMPI_COMM_WORLD_LOCAL_RANK");
  CHECK(nested.problem.empty());
  const LauncherPlace odd = place({{"LOCAL_RANK", "0"}, {"SLURM_LOCALID", "2"}});
  CHECK(odd.local_rank == 0U);
  CHECK(contains(odd.problem, "LOCAL_RANK = 0 and SLURM_LOCALID = 2 contradict each other"));
}

}  // namespace
}  // namespace forebay::test_launch
