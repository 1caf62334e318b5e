// How runs of the command end: refused at the start, by a signal, or with an error; on one rank and
// under mpirun. After every end no process is left, and the saved state is complete.
#include <unistd.h>
#include <csignal>
#include <nlohmann/json.hpp>

#include "process.hpp"
#include "test.hpp"
#include "workplace.hpp"

namespace forebay::test_feed_end {

using namespace forebay::order;

namespace {

namespace fs = std::filesystem;
using namespace testing;
using Json = nlohmann::json;

TEST_CASE("one of several processes that cannot find each other is refused") {
  Workplace place;
  // Variables of a launcher that matches no MPI here.
  REQUIRE(::setenv("MV2_COMM_WORLD_SIZE", "2", 1) == 0);
  REQUIRE(::setenv("MV2_COMM_WORLD_RANK", "0", 1) == 0);
  const Outcome outcome = place.feed(1, "alone");
  ::unsetenv("MV2_COMM_WORLD_SIZE");
  ::unsetenv("MV2_COMM_WORLD_RANK");
  CHECK(outcome.code != 0);
  CHECK(contains(outcome.output, "one of"));
  CHECK(contains(outcome.output, "MV2_COMM_WORLD_SIZE"));
  CHECK_FALSE(fs::exists(place.dir / "alone.run"));
}

TEST_CASE("two jobs never write one telemetry folder") {
  Workplace place;
  at_once(rank_counts(), [&](int ranks) {
    CAPTURE(ranks);
    const fs::path shared = place.dir / ("shared" + std::to_string(ranks));
    const std::string dir = "telemetry.dir=\"" + shared.string() + "\"";
    Process first(forebay_command(ranks, {"feed", place.config.string(), "--set", dir, "--set", "run.epochs=1000000",
                                          "--set", "trainer.step_ms=5"}),
                  place.dir / ("first" + std::to_string(ranks)));
    REQUIRE(testing::eventually([&] { return fs::exists(shared / ".writer.0"); }));
    const Outcome second = testing::run(place.dir.path(), ranks, {"feed", place.config.string(), "--set", dir});
    CHECK(second.code == 2);
    CHECK(contains(second.output, "is being written by process"));
    ::kill(first.pid(), SIGTERM);
    (void)first.wait();
  });
}

TEST_CASE("a store that never answers again ends in the watchdog's error on all ranks") {
  Workplace place("[storage]\nlatency_ms = 1.0\noutage_every_s = 0.5\noutage_s = inf\n[policy]\nwatchdog_s = 2.0\n");
  at_once(testing::all_tries<std::string>({"block", "proportional"}), [&](const auto& one) {
    const auto& [ranks, policy] = one;
    CAPTURES(ranks, policy);
    const std::string name = "r" + std::to_string(ranks) + policy;
    const auto outcome =
        place.feed(ranks, name,
                   {"--steps", "100000000", "--set", "policy.name=\"" + policy + "\"", "--set", "trainer.step_ms=20"});
    CHECK(outcome.code == 1);
    CHECK(contains(outcome.output, "no fresh batch for"));
    CHECK(contains(outcome.output, "reading from the store"));
    const std::string log = read_text(place.dir / (name + ".run") / "run.0.jsonl");
    CHECK(contains(log, R"({"forebay":"end","failed":")"));
    CHECK(contains(log, "no fresh batch for"));
  });
}

constexpr auto kBound = std::chrono::seconds(20);

// Starts a long run, sends it a signal once it serves batches, and returns how it ended.
Outcome interrupt(Workplace& place, int ranks, const std::string& name, int signal, bool one_rank) {
  const fs::path log = place.dir / name;
  Process process(forebay_command(ranks,
                                  {"feed", place.config.string(), "--steps", "100000000", "--log-ids", log.string(),
                                   "--summary", (place.dir / (name + ".json")).string(), "--set", "telemetry.dir=\"\"",
                                   "--set", "trainer.step_ms=20"},
                                  testing::kPatient_s),
                  place.dir / (name + ".output"));
  const fs::path last = log / ("ids." + std::to_string(ranks - 1) + ".jsonl");
  REQUIRE(testing::eventually([&] { return read_text(last).size() > 1000; }));
  const auto children = ranks > 1 ? process.children() : std::vector<pid_t>{process.pid()};
  REQUIRE(children.size() == static_cast<std::size_t>(ranks));
  ::kill(one_rank ? children.back() : process.pid(), signal);
  int code = -1;
  // A launcher may send SIGTERM once more when the first rank has left: that is no other exit code.
  for (const auto end = std::chrono::steady_clock::now() + kBound;
       ranks == 1 && code == -1 && std::chrono::steady_clock::now() < end;) {
    ::kill(process.pid(), SIGTERM);
    code = process.wait(std::chrono::seconds(0));
  }
  if (ranks > 1) code = process.wait(kBound);
  for (const pid_t child : children) CHECK(testing::eventually([&] { return testing::has_ended(child); }, kBound));
  return {code, process.output()};
}

TEST_CASE("SIGTERM to one rank, SIGINT and SIGTERM to all: every rank ends, with a summary") {
  struct Way {
    int signal;
    bool one_rank;
  };
  Workplace place;
  at_once(testing::all_tries<Way>({{SIGTERM, true}, {SIGTERM, false}, {SIGINT, true}, {SIGINT, false}}),
          [&](const auto& one) {
            const int ranks = one.ranks;
            const auto [signal, one_rank] = one.way;
            CAPTURES(ranks, signal, one_rank);
            const std::string name = "s" + std::to_string(ranks) + std::to_string(signal) + (one_rank ? "one" : "all");
            const auto outcome = interrupt(place, ranks, name, signal, one_rank);
            // mpirun itself returns an error if it was signalled.
            CHECK_MESSAGE(outcome.code == (ranks > 1 && !one_rank ? 1 : 0), outcome.output);
            const Json summary = place.summary(name);
            CHECK(summary.at("ranks").size() == static_cast<std::size_t>(ranks));
            CHECK(summary.at("steps").get<int>() > 0);
          });
}

// Whether the process is building the index, judged by its threads.
bool is_indexing(pid_t process) {
  std::error_code error;
  const fs::path tasks = "/proc/" + std::to_string(process) + "/task";
  for (fs::directory_iterator it(tasks, error), end; !error && it != end; it.increment(error)) {
    if (read_text(it->path() / "comm").starts_with("forebay-index")) return true;
  }
  return false;
}

// Which call hangs once the run serves batches, and how the run is to end.
struct Hanging {
  const char* name;
  const char* call;  // the system call that never returns
  const char* path;  // part of the path of the files concerned
  int signal;        // the signal that is then sent; 0 = none
  int code;
  std::vector<std::string> settings;
  std::vector<const char*> says;
};

const std::vector<Hanging>& hangings() {
  constexpr const char* kReads = "JPEGImages";
  static const std::string endless = "run.epochs=1000000";
  static const std::vector<Hanging> all{
      {"watchdog",
       "pread",
       kReads,
       0,
       1,
       {endless, "policy.watchdog_s=2"},
       {"no fresh batch for", "reading from the store", "are left behind"}},
      {"adaptive",
       "pread",
       kReads,
       0,
       1,
       {endless, "policy.watchdog_s=2", "policy.name=\"adaptive\""},
       {"no fresh batch for", "reading from the store", "are left behind"}},
      {"SIGUSR1", "pread", kReads, SIGUSR1, 85, {endless}, {"reading from the store", "are left behind"}},
      {"SIGTERM", "pread", kReads, SIGTERM, 85, {endless}, {"reading from the store", "are left behind"}},
      {"telemetry",
       "write",
       "steps.",
       SIGUSR1,
       85,
       {endless, "telemetry.per_step=true"},
       {"are not written to their end", ".run"}},
      {"log-ids", "write", "ids.", 0, 1, {endless}, {"--log-ids: cannot write", "has not answered for 30 s"}},
      {"summary",
       "write",
       "summary.json",
       SIGUSR1,
       1,
       {endless},
       {"--summary: cannot write", "has not answered for 10 s"}},
      {"state",
       "fsync",
       ".saving-",
       SIGUSR1,
       1,
       {endless, "policy.watchdog_s=2"},
       {"cannot save the state to", "has not answered for 30 s"}},
  };
  return all;
}

// Whether only rank 0 makes the call, at the end of the run.
bool is_of_the_end(const Hanging& hanging) {
  return std::string_view(hanging.call) == "fsync" || std::string_view(hanging.path) == "summary.json";
}

// The command with a disk that hangs once the file `flag` exists: on its last rank, or where rank 0
// writes at the end.
std::vector<std::string> on_hanging_disk(std::vector<std::string> command, int ranks, const Hanging& hanging,
                                         const fs::path& flag) {
  const auto program = std::ranges::find(command, testing::built_command());
  command.insert(program, {"env", "LD_PRELOAD=" + hanging_disk(),
                           "HANG=" + std::string(hanging.call) + ":" + hanging.path + ":" + flag.string(),
                           "HANG_RANK=" + std::to_string(is_of_the_end(hanging) ? 0 : ranks - 1)});
  return command;
}

TEST_CASE("whatever hangs, and however the run is to end, it ends in bounded time and says what hung where") {
  if (hanging_disk().empty()) return;  // programs run under an emulator
  Workplace place;
  std::vector<testing::Try<Hanging>> tries;
  for (const int ranks : rank_counts()) {
    for (const Hanging& hanging : hangings()) tries.push_back({ranks, hanging});
  }
  at_once(tries, [&](const auto& one) {
    const auto& [ranks, hanging] = one;
    const std::string name = hanging.name + std::to_string(ranks);
    CAPTURE(name);
    const fs::path flag = place.dir / (name + ".hangs");
    std::vector<std::string> arguments{"feed",
                                       place.config.string(),
                                       "--log-ids",
                                       (place.dir / name).string(),
                                       "--state",
                                       (place.dir / (name + ".state")).string(),
                                       "--summary",
                                       (place.dir / (name + ".summary.json")).string(),
                                       "--set",
                                       "telemetry.dir=\"" + (place.dir / (name + ".run")).string() + "\"",
                                       "--set",
                                       "trainer.step_ms=5",
                                       "--stop-on-signal",
                                       "--stop-exit-code",
                                       "85"};
    for (const std::string& setting : hanging.settings) arguments.insert(arguments.end(), {"--set", setting});
    Process process(on_hanging_disk(forebay_command(ranks, arguments, testing::kPatient_s), ranks, hanging, flag),
                    place.dir / (name + ".output"));
    const fs::path last = place.dir / name / ("ids." + std::to_string(ranks - 1) + ".jsonl");
    REQUIRE(testing::eventually([&] { return read_text(last).size() > 3000; }));
    const auto children = ranks > 1 ? process.children() : std::vector<pid_t>{process.pid()};
    std::ofstream(flag) << "now";
    if (!is_of_the_end(hanging)) REQUIRE(testing::eventually([&] { return fs::exists(flag.string() + ".hung"); }));
    // mpirun kills its ranks when it receives SIGTERM, so that one goes to a rank.
    if (hanging.signal != 0) ::kill(hanging.signal == SIGTERM ? children.back() : process.pid(), hanging.signal);
    const int code = process.wait(std::chrono::seconds(90));
    const std::string output = process.output();
    CHECK_MESSAGE(code == hanging.code, output);
    for (const char* text : hanging.says) CHECK_MESSAGE(contains(output, text), output);
    for (const pid_t child : children) CHECK(testing::eventually([&] { return testing::has_ended(child); }));
  });
}

TEST_CASE("top ends by itself and on a signal although the folder of the run does not answer") {
  if (hanging_disk().empty()) return;
  Workplace place;
  REQUIRE(place.feed(1, "run", {"--set", "telemetry.per_step=true"}).code == 0);
  at_once(std::vector<int>{0, SIGTERM}, [&](int signal) {
    CAPTURE(signal);
    const fs::path flag = place.dir / ("top" + std::to_string(signal));
    std::ofstream(flag) << "now";
    const Hanging hanging{"top", "pread", "run.", signal, signal == 0 ? 1 : 0, {}, {}};
    const std::vector<std::string> command = forebay_command(1, {"top", (place.dir / "run.run").string()});
    Process process(on_hanging_disk(command, 1, hanging, flag), flag.string() + ".output");
    REQUIRE(testing::eventually([&] { return fs::exists(flag.string() + ".hung"); }));
    if (signal != 0) ::kill(process.pid(), signal);
    CHECK(process.wait(std::chrono::seconds(signal == 0 ? 60 : 10)) == hanging.code);
    CHECK((signal != 0 || contains(process.output(), "the folder has not answered for 30 s")));
  });
}

TEST_CASE("a start that hangs ends soon after a signal") {
  if (hanging_disk().empty()) return;
  Workplace place;
  at_once(rank_counts(), [&](int ranks) {
    CAPTURE(ranks);
    const std::string name = "start" + std::to_string(ranks);
    const fs::path flag = place.dir / (name + ".hangs");
    std::ofstream(flag) << "now";
    const Hanging hanging{"start", "pread", "/data/", SIGTERM, 85, {}, {}};
    std::vector<std::string> arguments{"feed", place.config.string(), "--set", "telemetry.dir=\"\"", "--stop-exit-code",
                                       "85"};
    Process process(on_hanging_disk(forebay_command(ranks, arguments, testing::kPatient_s), 1, hanging, flag),
                    place.dir / (name + ".output"));
    REQUIRE(testing::eventually([&] {
      const auto children = ranks > 1 ? process.children() : std::vector<pid_t>{process.pid()};
      return children.size() == static_cast<std::size_t>(ranks) && is_indexing(children.front());
    }));
    ::kill(ranks > 1 ? process.children().front() : process.pid(), SIGTERM);
    CHECK(process.wait(std::chrono::seconds(60)) == 85);
    CHECK(contains(process.output(), "the start does not end"));
  });
}

TEST_CASE("a run that cannot start says so once, with exit code 2") {
  Workplace place;
  at_once(testing::all_tries<std::string>({"dataset.path=\"/no/such/folder\"", "policy.name=\"gredy\""}),
          [&](const auto& one) {
            const auto& [ranks, setting] = one;
            CAPTURES(ranks, setting);
            const std::string key = setting.substr(0, setting.find('='));
            const auto refused = place.feed(ranks, key + std::to_string(ranks), {"--set", setting});
            CHECK(refused.code == 2);
            CHECK(contains(refused.output, key));
            CHECK(refused.output.find(key == "dataset.path" ? "/no/such/folder" : "gredy") != std::string::npos);
            const std::size_t first = refused.output.find("forebay: error:");
            CHECK(first != std::string::npos);
            CHECK(refused.output.find("forebay: error:", first + 1) == std::string::npos);
          });
}

TEST_CASE("a result that cannot be written is reported before the first step") {
  Workplace place;
  const std::string folder = place.dir.path().string();
  at_once(std::vector<std::string>{"--summary", "--state"}, [&](const std::string& flag) {
    CAPTURE(flag);
    const fs::path ids = place.dir / ("ids" + flag);
    const Outcome refused = testing::run(place.dir.path(), rank_counts().back(),
                                         {"feed", place.config.string(), "--log-ids", ids.string(), flag, folder});
    CHECK(refused.code == 2);
    CHECK(refused.output.find(flag + ": cannot write " + folder + ": it is a folder; name a file") !=
          std::string::npos);
    CHECK_FALSE(fs::exists(ids));
  });
  const fs::path gone = place.dir / "gone";
  fs::create_symlink(gone / "ids", place.dir / "ids");
  const Outcome refused =
      testing::run(place.dir.path(), 1, {"feed", place.config.string(), "--log-ids", (place.dir / "ids").string()});
  CHECK(refused.code == 2);
  CHECK(contains(refused.output, (place.dir / "ids/ids.0.jsonl").string() + ": cannot make the folder: "));
}

// Ranks that die or fail: the job ends within a bounded time with the cause, and its state is
// complete.

void check_contains(const Outcome& outcome, const std::string& part) {
  CAPTURES(outcome.output, part);
  CHECK(contains(outcome.output, part));
}

// Checks that the job resumes from the saved state and makes a few more steps.
void check_goes_on(const StateJob& job, int ranks, const std::vector<std::string>& more = {}) {
  const JobState saved = job.saved();
  std::vector<std::string> arguments{"--steps", std::to_string(saved.steps + 3)};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const Outcome outcome = job.run(ranks, arguments);
  REQUIRE_MESSAGE(outcome.code == 0, outcome.output);
  check_contains(outcome, "resumes from " + job.state.string() + ": step " + std::to_string(saved.steps) + ",");
  CHECK(job.saved().steps == saved.steps + 3);
}

// Waits until the running part has saved, plus a random time, so that any moment of a step may be
// hit.
void await_save(const StateJob& job, std::uint64_t steps_before, Random& random) {
  REQUIRE(testing::eventually([&] { return fs::exists(job.state) && job.saved().steps > steps_before; }));
  ::usleep(static_cast<useconds_t>(random.below(10'000)));
}

// Counts files that a killed save left next to the state.
int unfinished_saves(const StateJob& job) {
  int count = 0;
  for (const auto& file : fs::directory_iterator(job.state.parent_path())) {
    if (file.path().filename().string().starts_with("feed.state.saving-")) ++count;
  }
  return count;
}

const std::vector<std::string> kEndless{"--epochs", "1000000", "--save-every", "1"};

struct Death {
  int ranks;
  int victim;
  std::string mode;
};

TEST_CASE("a rank killed with SIGKILL ends the job soon, named with its signal, and the state is whole") {
  const std::vector<Death> deaths{{2, 0, "local"}, {2, 1, "local"}, {2, 1, "lockstep"}, {4, 2, "local"}};
  at_once(deaths, [](const Death& death) {
    const auto& [ranks, victim, mode] = death;
    if (ranks > rank_counts().back()) return;
    CAPTURES(ranks, victim, mode);
    const StateJob job;
    std::vector<std::string> arguments = kEndless;
    arguments.insert(arguments.end(), {"--set", "mpi.mode=" + mode, "--set", "trainer.allreduce_bytes=1024"});
    Part part(job, ranks, arguments);
    Random random(static_cast<std::uint64_t>(ranks * 10 + victim));
    await_save(job, 5, random);
    const auto pids = part.pids();
    REQUIRE(pids.size() == static_cast<std::size_t>(ranks));
    ::kill(pids.at(static_cast<std::size_t>(victim)), SIGKILL);
    const Outcome outcome = part.end(pids, kBound);
    CHECK(outcome.code > 0);
    check_contains(outcome, "process rank " + std::to_string(victim));
    check_contains(outcome, "signal 9");
    check_goes_on(job, ranks, {"--set", "mpi.mode=" + mode});
  });
}

TEST_CASE("a store that never answers again ends all ranks with the cause, and the state is whole") {
  at_once(rank_counts(), [](int ranks) {
    CAPTURE(ranks);
    const StateJob job;
    // The state comes from a job of another size.
    REQUIRE(job.run(ranks == 1 ? rank_counts().back() : ranks / 2, {"--steps", "2"}).code == 0);
    const std::uint64_t before = job.saved().steps;
    std::vector<std::string> arguments = kEndless;
    arguments.insert(arguments.end(),
                     {"--set", "storage.latency_ms=1", "--set", "storage.outage_every_s=4", "--set",
                      "storage.outage_s=inf", "--set", "trainer.step_ms=10", "--set", "policy.watchdog_s=2"});
    Part part(job, ranks, arguments);
    // kBound applies to the end, not to the start of a job on a busy machine.
    REQUIRE(testing::eventually([&] { return job.saved().steps > before; }));
    const Outcome outcome = part.end({}, kBound);
    CHECK(outcome.code == 1);
    check_contains(outcome, ranks == 1 ? "forebay: error: no fresh batch for" : "forebay: error: rank ");
    check_contains(outcome, "no fresh batch for");
    CHECK(job.saved().steps > before);
    check_goes_on(job, ranks);
  });
}

// Only one rank reads the broken file.
TEST_CASE("one rank that may not replace a broken file ends all with its rank, path and cause; the state is whole") {
  at_once(rank_counts(), [](int ranks) {
    CAPTURE(ranks);
    const StateJob job;
    REQUIRE(job.run(ranks, {"--steps", "2"}).code == 0);
    const auto images = job.place.dir / "data" / "JPEGImages";
    fs::path file;
    for (const auto& image : fs::directory_iterator(images)) file = std::max(file, image.path());
    const std::string whole = testing::read_text(file);
    std::ofstream(file, std::ios::trunc) << "no image";
    std::vector<std::string> arguments = kEndless;
    arguments.insert(arguments.end(), {"--set", "on_bad=fail", "--set", "trainer.step_ms=2"});
    Part part(job, ranks, arguments);
    const Outcome outcome = part.end({}, kBound * 3);  // includes the start
    CHECK(outcome.code == 1);
    if (ranks > 1) check_contains(outcome, "forebay: error: rank ");
    check_contains(outcome, file.filename().string());
    check_contains(outcome, "on_bad = \"fail\"");
    CHECK(job.saved().steps >= 2);
    std::ofstream(file, std::ios::trunc | std::ios::binary) << whole;
    check_goes_on(job, ranks, {"--set", "on_bad=fail"});
  });
}

TEST_CASE("SIGKILLs while states are saved: a whole state every time, and the job gets on") {
  at_once(rank_counts(), [](int ranks) {
    if (ranks > 2) return;
    const std::uint64_t seed = 29;
    CAPTURES(seed, ranks);
    Random random(seed);
    const StateJob job;
    std::uint64_t steps = 0;
    int unfinished = 0;
    const int kills = testing::kills(ranks == 1 ? 12 : 4);
    for (int kill = 0; kill < kills; ++kill) {
      CAPTURE(kill);
      Part part(job, ranks, kEndless, /*patience_s=*/0);
      await_save(job, steps, random);
      const auto pids = part.pids();
      REQUIRE(pids.size() == static_cast<std::size_t>(ranks));
      ::kill(pids.at(static_cast<std::size_t>(kill % ranks)), SIGKILL);
      const Outcome outcome = part.end(pids, kBound);
      CHECK_MESSAGE(outcome.code > 0, outcome.output);
      CHECK(job.saved().steps > steps);
      steps = job.saved().steps;
      CHECK(unfinished_saves(job) <= 1);
      unfinished += unfinished_saves(job);
    }
    check_goes_on(job, ranks);
    CHECK(unfinished_saves(job) == 0);
    MESSAGE(ranks << " ranks: " << kills << " kills in " << steps << " saves, " << unfinished << " of them during one");
  });
}

}  // namespace
}  // namespace forebay::test_feed_end
