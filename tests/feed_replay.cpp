// A run of the command and its repetition, real processes behind an emulated store in fits and starts.

#include <doctest/doctest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "process.hpp"
#include "workplace.hpp"

namespace forebay {
namespace {

namespace fs = std::filesystem;
using testing::Outcome;
using testing::Process;
using testing::read_text;
using testing::Workplace;
using Json = nlohmann::json;

std::vector<int> rank_counts() {
  return testing::rank_counts().size() > 1 ? std::vector<int>{1, 2} : std::vector<int>{1};
}

constexpr const char* kFitful =
    "step_distribution = \"exponential\"\n"
    "[storage]\nlatency_ms = 3.0\njitter = 1.5\noutage_every_s = 0.2\noutage_s = 0.1\n"
    "[policy]\nname = \"greedy\"\npick = \"least_used\"\n";

// What a run that was logged and recorded under `name` is repeated with; the store is healthy now.
std::vector<std::string> replay_of(const Workplace& place, const std::string& name) {
  return {
      "--set", "policy.name=replay",   "--set", "policy.recording=\"" + (place.dir / (name + ".run")).string() + "\"",
      "--set", "storage.latency_ms=0", "--set", "storage.outage_every_s=0",
      "--set", "trainer.step_ms=0"};
}

// Line by line: step, epoch, batch, use_index, ids and the hash of the pixels.
void check_same_logs(const Workplace& place, int ranks, const std::string& name, const std::string& again) {
  for (int rank = 0; rank < ranks; ++rank) {
    CAPTURE(rank);
    const std::string file = "ids." + std::to_string(rank) + ".jsonl";
    const std::string recorded = read_text(place.dir / name / file);
    CHECK(recorded.size() > 1000);
    CHECK(read_text(place.dir / again / file) == recorded);
  }
}

TEST_CASE("a run of several epochs is repeated line by line") {
  Workplace place(kFitful);
  for (const int ranks : rank_counts()) {
    CAPTURE(ranks);
    const std::string name = "r" + std::to_string(ranks);
    const std::vector<std::string> run{"--epochs", "3", "--set", "queue.pool=3", "--set", "trainer.step_ms=2"};
    const Outcome recorded = place.feed(ranks, name, run);
    REQUIRE_MESSAGE(recorded.code == 0, recorded.output);
    CHECK(place.summary(name).at("reused") > 0);

    std::vector<std::string> replay = run;
    const auto more = replay_of(place, name);
    replay.insert(replay.end(), more.begin(), more.end());
    const Outcome repeated = place.feed(ranks, name + "again", replay);
    REQUIRE_MESSAGE(repeated.code == 0, repeated.output);
    check_same_logs(place, ranks, name, name + "again");
    CHECK(repeated.output.find("the recording in") == std::string::npos);
    CHECK(place.summary(name + "again").at("epochs") == 3);
  }
}

void check_stopped_run(Workplace& place, int ranks, const std::string& policy) {
  const std::string name = policy + std::to_string(ranks);
  const std::string dir = "telemetry.dir=\"" + (place.dir / (name + ".run")).string() + "\"";
  Process process(testing::forebay_command(ranks, {"feed", place.config.string(), "--epochs", "100000", "--log-ids",
                                                   (place.dir / name).string(), "--set", dir, "--set", "queue.pool=3",
                                                   "--set", "trainer.step_ms=2", "--set", "policy.name=" + policy}),
                  place.dir / (name + ".output"));
  const fs::path last = place.dir / name / ("ids." + std::to_string(ranks - 1) + ".jsonl");
  REQUIRE(testing::eventually([&] { return read_text(last).size() > 10'000; }));
  const auto pids = ranks > 1 ? process.children() : std::vector<pid_t>{process.pid()};
  REQUIRE(pids.size() == static_cast<std::size_t>(ranks));
  ::kill(pids.back(), SIGTERM);
  REQUIRE_MESSAGE(process.wait() == 0, process.output());

  std::vector<std::string> replay{"--epochs", "100000", "--set", "queue.pool=3"};
  const auto more = replay_of(place, name);
  replay.insert(replay.end(), more.begin(), more.end());
  const Outcome repeated = place.feed(ranks, name + "again", replay);
  REQUIRE_MESSAGE(repeated.code == 0, repeated.output);
  check_same_logs(place, ranks, name, name + "again");
  const std::size_t said = repeated.output.find("the recording in ");
  CHECK(said != std::string::npos);
  CHECK(repeated.output.find("the recording in ", said + 1) == std::string::npos);
}

TEST_CASE("a run that SIGTERM stopped is repeated to the step at which it stopped, on all ranks") {
  Workplace place(kFitful);
  for (const int ranks : rank_counts()) {
    // Under block the signal breaks a wait, and the last steps reuse although the policy never would.
    for (const std::string policy : {"greedy", "block"}) {
      CAPTURE(ranks);
      CAPTURE(policy);
      check_stopped_run(place, ranks, policy);
    }
  }
}

// By step, as telemetry has it: which use of its batch, and of which batch.
std::vector<std::string> uses_of(const fs::path& run, int rank) {
  std::vector<std::string> uses;
  std::ifstream in(run / ("steps." + std::to_string(rank) + ".jsonl"));
  for (std::string line; std::getline(in, line);) {
    const Json step = Json::parse(line);
    uses.push_back("use " + step.at("use_index").dump() + " of " + step.at("epoch").dump() + ":" +
                   step.at("batch").dump());
  }
  return uses;
}

TEST_CASE("a simulated run is made on real data, step by step") {
  Workplace place("[run]\nepochs = 1000\n[policy]\nname = \"greedy\"\n");
  for (const int ranks : rank_counts()) {
    for (const std::string mode : {"local", "lockstep"}) {
      CAPTURE(ranks);
      CAPTURE(mode);
      const std::string name = mode + std::to_string(ranks);
      const fs::path virtual_run = place.dir / ("virtual." + name);
      const Outcome simulated =
          testing::run(place.dir.path(), 1,
                       {"simulate", place.config.string(), "-R", "3", "--steps", "60", "--mode", mode, "--ranks",
                        std::to_string(ranks), "--record", virtual_run.string(), "--step-s", "0.02"});
      REQUIRE_MESSAGE(simulated.code == 0, simulated.output);
      const Outcome made =
          place.feed(ranks, name,
                     {"--epochs", "1000", "--set", "policy.name=replay", "--set", "mpi.mode=" + mode, "--set",
                      "policy.recording=\"" + virtual_run.string() + "\"", "--set", "telemetry.per_step=true"});
      REQUIRE_MESSAGE(made.code == 0, made.output);
      for (int rank = 0; rank < ranks; ++rank) {
        const auto uses = uses_of(virtual_run, rank);
        CHECK(uses.size() == 60);
        // Which rank makes which batch is decided as the run goes.
        if (ranks == 1)
          CHECK(uses_of(place.dir / (name + ".run"), rank) == uses);
        else
          CHECK(uses_of(place.dir / (name + ".run"), rank).size() == 60);
      }
      CHECK(place.summary(name).at("reused") > 20);
    }
  }
}

TEST_CASE("what cannot be repeated ends with exit code 2 and names the key") {
  Workplace place(kFitful);
  const std::vector<std::string> run{"--steps", "20"};
  REQUIRE(place.feed(1, "run", run).code == 0);
  std::vector<std::string> replay = replay_of(place, "run");
  const auto refused = [&](int ranks, const std::vector<std::string>& more, const std::string& message) {
    std::vector<std::string> arguments = replay;
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = place.feed(ranks, "refused", arguments);
    CHECK(outcome.code == 2);
    CAPTURE(outcome.output);
    CHECK(outcome.output.find(message) != std::string::npos);
  };
  refused(1, {"--set", "seed=6"}, "decisions.0.jsonl:1: the run was recorded with seed = 5 and this one has seed = 6");
  refused(1, {"--set", "telemetry.dir=\"" + (place.dir / "run.run").string() + "\""},
          "policy.recording and telemetry.dir are the same folder");
  for (const int ranks : rank_counts()) {
    if (ranks > 1) refused(ranks, {}, "the run was recorded on 1 rank and this job has 2");
  }
}

}  // namespace
}  // namespace forebay
