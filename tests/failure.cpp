// Ranks that die or fail: the job ends within a bounded time with the cause, and its state is whole.

#include <doctest/doctest.h>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <forebay/random.hpp>

#include "at_once.hpp"
#include "process.hpp"
#include "state_job.hpp"

namespace forebay {
namespace {

namespace fs = std::filesystem;
using testing::at_once;
using testing::Outcome;
using testing::Part;
using testing::rank_counts;
using testing::StateJob;

constexpr auto kBound = std::chrono::seconds(20);

void check_contains(const Outcome& outcome, const std::string& part) {
  CAPTURE(outcome.output);
  CAPTURE(part);
  CHECK(outcome.output.find(part) != std::string::npos);
}

// The job resumes from what was saved, and makes a few steps more.
void check_goes_on(const StateJob& job, int ranks, const std::vector<std::string>& more = {}) {
  const JobState saved = job.saved();
  std::vector<std::string> arguments{"--steps", std::to_string(saved.steps + 3)};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const Outcome outcome = job.run(ranks, arguments);
  REQUIRE_MESSAGE(outcome.code == 0, outcome.output);
  check_contains(outcome, "resumes from " + job.state.string() + ": step " + std::to_string(saved.steps) + ",");
  CHECK(job.saved().steps == saved.steps + 3);
}

// Waits until the running part has saved, and for a random time more, so that any moment of a step may be hit.
void await_save(const StateJob& job, std::uint64_t steps_before, Random& random) {
  REQUIRE(testing::eventually([&] { return fs::exists(job.state) && job.saved().steps > steps_before; }));
  ::usleep(static_cast<useconds_t>(random.below(10'000)));
}

// Files that a killed save left beside the state.
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
    CAPTURE(ranks);
    CAPTURE(victim);
    CAPTURE(mode);
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
    // What another number of ranks has saved.
    REQUIRE(job.run(ranks == 1 ? rank_counts().back() : ranks / 2, {"--steps", "2"}).code == 0);
    const std::uint64_t before = job.saved().steps;
    std::vector<std::string> arguments = kEndless;
    arguments.insert(arguments.end(),
                     {"--set", "storage.latency_ms=1", "--set", "storage.outage_every_s=4", "--set",
                      "storage.outage_s=inf", "--set", "trainer.step_ms=10", "--set", "policy.watchdog_s=2"});
    Part part(job, ranks, arguments);
    // The bound is for the end, not for the start of a job on a busy machine.
    REQUIRE(testing::eventually([&] { return job.saved().steps > before; }));
    const Outcome outcome = part.end({}, kBound);
    CHECK(outcome.code == 1);
    check_contains(outcome, ranks == 1 ? "forebay: error: no fresh batch for" : "forebay: error: rank ");
    check_contains(outcome, "no fresh batch for");
    CHECK(job.saved().steps > before);
    check_goes_on(job, ranks);
  });
}

// One file, which one rank meets.
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
    const Outcome outcome = part.end({}, kBound * 3);  // with its start
    CHECK(outcome.code == 1);
    if (ranks > 1) check_contains(outcome, "forebay: error: rank ");
    check_contains(outcome, file.filename().string());
    check_contains(outcome, "on_bad = \"fail\"");
    CHECK(job.saved().steps >= 2);
    std::ofstream(file, std::ios::trunc | std::ios::binary) << whole;
    check_goes_on(job, ranks, {"--set", "on_bad=fail"});
  });
}

// tests/slow/kill_during_save.py does this 100 times.
TEST_CASE("SIGKILLs while states are saved: a whole state every time, and the job gets on") {
  at_once(rank_counts(), [](int ranks) {
    if (ranks > 2) return;
    const std::uint64_t seed = 29;
    CAPTURE(seed);
    CAPTURE(ranks);
    Random random(seed);
    const StateJob job;
    std::uint64_t steps = 0;
    int unfinished = 0;
    const int kills = ranks == 1 ? 12 : 4;
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
}  // namespace forebay
