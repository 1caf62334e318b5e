// forebay feed --state: stops by signals, the state they leave, and resuming on any number of
// ranks.
#include <csignal>
#include <nlohmann/json.hpp>

#include "process.hpp"
#include "test.hpp"
#include "workplace.hpp"

namespace forebay::test_feed_state {

using namespace forebay::order;

namespace {

namespace fs = std::filesystem;
using namespace testing;
using Json = nlohmann::json;

constexpr auto kLimit = std::chrono::seconds(60);

enum class To { one_rank, every_rank, mpirun };

// Starts an endless part, waits until every rank has served something new (and saved it, with
// --save-every), sends the signal, and returns how the part ended.
Outcome stop_by(const StateJob& job, int ranks, int signal, To to, std::vector<std::string> more = {}) {
  std::vector<std::uintmax_t> before;
  before.reserve(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) before.push_back(job.size_of_log(rank));
  const bool saves = std::ranges::find(more, "--save-every") != more.end();
  more.insert(more.end(), {"--epochs", "1000000", "--set", "trainer.step_ms=2"});
  Part part(job, ranks, more, to == To::mpirun ? testing::kPatient_s : 1);
  const auto serves = [&](int rank) {
    // A new run clears the log of an earlier one.
    const auto size = job.size_of_log(rank);
    return size > 0 && size != before[static_cast<std::size_t>(rank)];
  };
  REQUIRE(testing::eventually([&] {
    for (int rank = 0; rank < ranks; ++rank) {
      if (!serves(rank)) return false;
    }
    return !saves || fs::exists(job.state);
  }));
  const auto pids = part.pids();
  REQUIRE(pids.size() == static_cast<std::size_t>(ranks));
  if (to == To::mpirun) {
    ::kill(part.process().pid(), signal);
  } else if (to == To::one_rank) {
    ::kill(pids.back(), signal);
  } else {
    for (const pid_t pid : pids) ::kill(pid, signal);
  }
  return part.end(pids, kLimit);
}

// Checks that all ranks made the same steps of this part, from `first` on, each once.
void check_same_steps(const StateJob& job, int ranks, std::uint64_t first) {
  const std::uint64_t steps = job.saved().steps;
  CHECK(steps > first);
  for (int rank = 0; rank < ranks; ++rank) {
    CAPTURE(rank);
    std::uint64_t next = first;
    for (const auto& line : job.log(rank)) {
      const auto step = line.at("step").get<std::uint64_t>();
      if (step >= first) CHECK(step == next++);
    }
    CHECK(next == steps);
  }
}

// Lets the job finish, and checks over all its parts that every sample was served fresh once per
// epoch.
void check_each_sample_once(const StateJob& job, int ranks) {
  const auto epochs = static_cast<int>(job.saved().epochs) + 2;
  const Outcome last = job.run(ranks, {"--epochs", std::to_string(epochs)});
  REQUIRE_MESSAGE(last.code == 0, last.output);
  CHECK(job.saved().epochs >= static_cast<std::uint64_t>(epochs));
  const std::uint64_t samples = job.saved().samples;
  const auto times = job.fresh();
  for (int epoch = 0; epoch < epochs; ++epoch) {
    CAPTURE(epoch);
    REQUIRE(times.contains(epoch));
    CHECK(times.at(epoch).size() == samples);
    for (const auto& [id, count] : times.at(epoch)) CHECK(count == 1);
  }
  const Outcome over = job.run(ranks, {"--epochs", std::to_string(epochs)});
  CHECK_MESSAGE(over.code == 0, over.output);
}

TEST_CASE("a signal stops all ranks at one step with the chosen code, and the job resumes from its state") {
  at_once(rank_counts(), [](int ranks) {
    CAPTURE(ranks);
    const StateJob job;
    std::uint64_t first = 0;
    for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) {
      if (ranks > 2 && signal != SIGUSR1) continue;
      CAPTURE(signal);
      const auto stopped = stop_by(job, ranks, signal, To::one_rank, {"--stop-on-signal", "--stop-exit-code", "85"});
      CHECK_MESSAGE(stopped.code == 85, stopped.output);
      check_same_steps(job, ranks, first);
      first = job.saved().steps;
      CHECK(job.saved().ranks == static_cast<std::uint32_t>(ranks));
    }
    // The rest runs on another number of ranks.
    check_each_sample_once(job, ranks == rank_counts().back() ? 1 : 2 * ranks);
  });
}

TEST_CASE("without --stop-exit-code a stop is 0, however the signal reaches the ranks") {
  at_once(rank_counts(), [](int ranks) {
    CAPTURE(ranks);
    const StateJob job;
    const auto all = stop_by(job, ranks, SIGTERM, To::every_rank);
    CHECK_MESSAGE(all.code == 0, all.output);
    check_same_steps(job, ranks, 0);
    const std::uint64_t first = job.saved().steps;
    // mpirun forwards SIGUSR1. At SIGTERM it returns an error itself, a second later; by then the
    // state is saved.
    const auto user = stop_by(job, ranks, SIGUSR1, To::mpirun, {"--stop-on-signal"});
    CHECK_MESSAGE(user.code == 0, user.output);
    check_same_steps(job, ranks, first);
    const std::uint64_t second = job.saved().steps;
    const auto term = stop_by(job, ranks, SIGTERM, To::mpirun);
    CHECK_MESSAGE(term.code == (ranks == 1 ? 0 : 1), term.output);
    check_same_steps(job, ranks, second);
    check_each_sample_once(job, ranks);
  });
}

TEST_CASE("without --stop-on-signal SIGUSR1 ends a process as it always does; what was saved before stays whole") {
  at_once(rank_counts(), [](int ranks) {
    if (ranks > 2) return;
    CAPTURE(ranks);
    const StateJob job;
    const auto died = stop_by(job, ranks, SIGUSR1, To::one_rank, {"--save-every", "1"});
    CAPTURE(died.output);
    if (ranks == 1) CHECK(died.code == 128 + SIGUSR1);
    CHECK(died.code > 0);
    const JobState saved = job.saved();
    const auto last = job.run(ranks, {"--steps", std::to_string(saved.steps + 3)});
    CHECK_MESSAGE(last.code == 0, last.output);
    CHECK(job.saved().steps == saved.steps + 3);
  });
}

TEST_CASE("--save-every saves on the way, and the end is always saved") {
  at_once(rank_counts(), [](int ranks) {
    CAPTURE(ranks);
    const StateJob job;
    REQUIRE(job.run(ranks, {"--steps", "7"}).code == 0);
    CHECK(job.saved().steps == 7);
    // This part saves only at steps 10, 20, ... while it runs.
    Part part(job, ranks, {"--epochs", "1000000", "--set", "trainer.step_ms=2", "--save-every", "10"});
    REQUIRE(testing::eventually([&] { return job.saved().steps > 7; }));
    const std::uint64_t steps = job.saved().steps;
    CHECK(steps % 10 == 0);
    REQUIRE(testing::eventually([&] { return job.saved().steps > steps; }));
    CHECK(job.saved().steps % 10 == 0);
    const auto pids = part.pids();
    REQUIRE(pids.size() == static_cast<std::size_t>(ranks));
    ::kill(pids.front(), SIGTERM);
    const auto ended = part.end(pids, kLimit);
    CHECK_MESSAGE(ended.code == 0, ended.output);
  });
}

TEST_CASE("a run that cannot save ends with 1 and names the file") {
  const StateJob job;
  at_once(rank_counts(), [&](int ranks) {
    CAPTURE(ranks);
    const auto outcome = run(job.place.dir.path(), ranks,
                             {"feed", job.place.config.string(), "--steps", "5", "--set", "telemetry.dir=\"\"",
                              "--state", "/proc/forebay/feed.state"});
    CAPTURE(outcome.output);
    CHECK(outcome.code == 1);
    CHECK(contains(outcome.output, "cannot save the state to /proc/forebay/feed.state: "));
  });
}

TEST_CASE("a state that only some of the ranks are to keep is refused on all of them") {
  if (rank_counts().size() == 1) return;
  const StateJob job;
  const Outcome outcome = job.run(2, {":", "-n", "1", testing::built_command(), "feed", job.place.config.string()});
  CAPTURE(outcome.output);
  CHECK(outcome.code == 2);
  CHECK(contains(outcome.output, "rank 2 was started with no --state and rank 0 with --state "));
  CHECK_FALSE(std::filesystem::exists(job.state));
}

TEST_CASE("a job that cannot resume is refused once, with exit code 2, and the state stays as it was") {
  at_once(rank_counts(), [](int ranks) {
    CAPTURE(ranks);
    const StateJob job;
    REQUIRE(job.run(1, {"--steps", "7"}).code == 0);
    const std::string good = read_text(job.state);
    const std::string name = job.state.string();
    const auto refused = [&](const std::string& text, const std::vector<std::string>& more, const std::string& what) {
      CAPTURE(what);
      std::ofstream(job.state, std::ios::trunc | std::ios::binary) << text;
      const Outcome outcome = job.run(ranks, more);
      CAPTURE(outcome.output);
      CHECK(outcome.code == 2);
      const std::size_t said = outcome.output.find("forebay: error:");
      REQUIRE(said != std::string::npos);
      CHECK(outcome.output.find("forebay: error:", said + 1) == std::string::npos);
      CHECK(contains(outcome.output, what));
      CHECK(read_text(job.state) == text);
    };
    refused(good, {"--set", "seed=6"},
            name +
                ": the saved job had seed = 5 and this one has seed = 6: set it as it was, or move the "
                "file away to begin anew");
    refused(good.substr(0, good.size() / 2), {}, name + " is cut off after ");
    if (ranks > 1) return;
    refused(good, {"--set", "dataset.batch_size=5"}, "dataset.batch_size = 4");
    refused(good, {"--eval"}, "--state");
    refused("", {}, name + " is empty");
    refused(std::string(good).replace(good.find("\"steps\":7"), 9, "\"steps\":8"), {}, "has the checksum");
    std::ofstream(job.state, std::ios::trunc | std::ios::binary) << good;
    CHECK(job.run(1, {"--steps", "9"}).code == 0);
    CHECK(job.saved().steps == 9);
  });
}

TEST_CASE("flags that make no sense are bad usage") {
  const StateJob job;
  const auto bad = [&](std::vector<std::string> arguments, const std::string& what) {
    arguments.insert(arguments.begin(), {"feed", job.place.config.string(), "--steps", "2"});
    const Outcome outcome = run(job.place.dir.path(), 1, arguments);
    CAPTURE(outcome.output);
    CHECK(outcome.code == 2);
    CHECK(contains(outcome.output, what));
  };
  bad({"--save-every", "5"}, "--state");
  bad({"--state", job.state.string(), "--save-every", "0"}, "--save-every");
  bad({"--state", job.state.string(), "--save-every", "often"}, "--save-every");
  bad({"--stop-exit-code", "256"}, "--stop-exit-code");
  bad({"--stop-exit-code", "-1"}, "--stop-exit-code");
  bad({"--state"}, "--state");
  CHECK_FALSE(fs::exists(job.state));
  CHECK(contains(run(job.place.dir.path(), 1, {"feed", "--help"}).output, "--stop-on-signal"));
}

// A run of the command and its replay, as real processes with an emulated store that stalls now and
// then.

std::vector<int> rank_counts() {
  return testing::rank_counts().size() > 1 ? std::vector<int>{1, 2} : std::vector<int>{1};
}

constexpr const char* kFitful =
    "step_distribution = \"exponential\"\n"
    "[storage]\nlatency_ms = 3.0\njitter = 1.5\noutage_every_s = 0.2\noutage_s = 0.1\n"
    "[policy]\nname = \"greedy\"\npick = \"least_used\"\n";

// The arguments that replay a run recorded under `name`; the store is healthy now.
std::vector<std::string> replay_of(const Workplace& place, const std::string& name) {
  return {
      "--set", "policy.name=replay",   "--set", "policy.recording=\"" + (place.dir / (name + ".run")).string() + "\"",
      "--set", "storage.latency_ms=0", "--set", "storage.outage_every_s=0",
      "--set", "trainer.step_ms=0"};
}

// Compares line by line: step, epoch, batch, use_index, ids and the hash of the pixels.
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
    CHECK_FALSE(contains(repeated.output, "the recording in"));
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
    // With policy "block" the signal breaks a wait, and the last steps reuse although the policy
    // never would.
    for (const std::string policy : {"greedy", "block"}) {
      CAPTURES(ranks, policy);
      check_stopped_run(place, ranks, policy);
    }
  }
}

// For each step in the telemetry: the batch and the number of its use.
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
      CAPTURES(ranks, mode);
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
        // Which rank serves which batch is decided during the run.
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
    CHECK(contains(outcome.output, message));
  };
  refused(1, {"--set", "seed=6"}, "decisions.0.jsonl:1: the run was recorded with seed = 5 and this one has seed = 6");
  refused(1, {"--set", "telemetry.dir=\"" + (place.dir / "run.run").string() + "\""},
          "policy.recording and telemetry.dir are the same folder");
  for (const int ranks : rank_counts()) {
    if (ranks > 1) refused(ranks, {}, "the run was recorded on 1 rank and this job has 2");
  }
}

}  // namespace
}  // namespace forebay::test_feed_state
