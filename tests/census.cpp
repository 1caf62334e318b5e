#include <forebay/communicator.hpp>
#include <random>

#include "fake_job.hpp"
#include "ranks/census.hpp"
#include "ranks/coordinator.hpp"
#include "ranks/liveness.hpp"
#include "test.hpp"

// How the ranks of a job agree on steps, epochs, stops, errors and bad samples through reports that
// take effect a fixed number of steps later. The ranks are threads with a FakeJob between them.
namespace forebay::test_census {

using namespace forebay::ranks;

namespace {

using namespace testing;
using std::chrono::milliseconds;

// Runs `serve(rank, coordinator, step)` as every rank of a job; returns their outcomes by rank.
template <typename Serve>
std::vector<Outcome> drive_all(FakeJob& job, const RunPlan& plan, const BadLimit& limit, Serve&& serve) {
  std::vector<Outcome> outcomes(job.size());
  job.run([&](Communicator& communicator) {
    const std::uint32_t rank = communicator.rank();
    std::mt19937 random(rank);
    outcomes[rank] = drive(communicator, plan, limit, [&](Coordinator& coordinator, std::uint64_t step) {
      for (auto spins = random() % 4; spins > 0; --spins) std::this_thread::yield();
      return serve(rank, coordinator, step);
    });
  });
  return outcomes;
}

void check_all_alike(const std::vector<Outcome>& outcomes) {
  for (const auto& outcome : outcomes) {
    CHECK(outcome.verdict == outcomes.front().verdict);
    CHECK(outcome.steps == outcomes.front().steps);
    CHECK(outcome.epochs == outcomes.front().epochs);
    CHECK(outcome.cause == outcomes.front().cause);
  }
}

TEST_CASE("a report is due exactly `lag` steps after its reports, whatever the ranks' pace") {
  constexpr std::size_t kLag = 2;
  FakeJob job(3);
  std::vector<Census> ranks;
  for (std::uint32_t r = 0; r < 3; ++r) ranks.emplace_back(job.rank(r), kLag);

  // Rank 0 may be `lag` steps ahead of the others before any report is due.
  CHECK((ranks[0].post({.stop = true}), ranks[0].due()) == nullptr);
  CHECK((ranks[0].post({}), ranks[0].due()) == nullptr);
  for (const std::uint32_t r : {1U, 2U}) {
    CHECK((ranks[r].post({.new_bad = 5}), ranks[r].due()) == nullptr);
    CHECK((ranks[r].post({.error = true}), ranks[r].due()) == nullptr);
  }
  for (auto& rank : ranks) {
    rank.post({});
    const JobReport* report = rank.due();
    REQUIRE(report != nullptr);
    CHECK(report->step == 0);
    CHECK(report->stops == 1);
    CHECK(report->errors == 0);
    CHECK(report->new_bad == 10);
    CHECK(rank.last_wait().count() == 0);
  }
  for (auto& rank : ranks) {
    rank.post({.served = 7, .epoch = 4, .bad_round = 1});
    CHECK(rank.due()->errors == 2);
  }
  for (auto& rank : ranks) {
    CHECK(rank.rest()->step == 2);
    const JobReport* last = rank.rest();
    REQUIRE(last != nullptr);
    CHECK(last->served == 21);
    CHECK(last->epoch == 4);
    CHECK(last->bad_round == 1);
    CHECK(rank.rest() == nullptr);
  }
}

TEST_CASE("a rank that is ahead waits, and says that it did") {
  FakeJob job(2);
  job.run([&](Communicator& communicator) {
    Census census(communicator, 0);
    if (communicator.rank() == 1)
      while (job.fruitless_polls(0) == 0) std::this_thread::yield();
    census.post({.stop = true});
    const JobReport* report = census.due();
    REQUIRE(report != nullptr);
    CHECK(report->stops == 2);
    if (communicator.rank() == 0) CHECK(census.last_wait().count() > 0);
  });
}

TEST_CASE("one rank alone has no lag and sends nothing") {
  FakeJob job(1);
  Census census(job.rank(0), 5);
  CHECK(census.lag() == 0);
  for (int step = 0; step < 40; ++step) {
    census.post({.stop = step == 39, .new_bad = step});
    const JobReport* report = census.due();
    REQUIRE(report != nullptr);
    CHECK(report->new_bad == step);
    CHECK(report->stops == (step == 39 ? 1 : 0));
  }
  CHECK(job.started(0) == 0);
}

TEST_CASE("a lag that needs more channels than there are is refused by name") {
  const auto alone = solo_communicator();
  CHECK_NOTHROW(Census(*alone, Census::kMostLag));
  CHECK_THROWS_WITH_AS(Census(*alone, Census::kMostLag + 1), doctest::Contains("mpi.lag"), forebay::ConfigError);
}

TEST_CASE("sums stay right over many steps with late completions and every lag") {
  const std::uint64_t seed = std::random_device{}();
  CAPTURE(seed);
  for (std::size_t lag = 0; lag <= Census::kMostLag; ++lag) {
    FakeJob job(3, 4, seed);
    job.run([&](Communicator& communicator) {
      Census census(communicator, lag);
      for (std::uint64_t step = 0; step < 50; ++step) {
        census.post({.new_bad = static_cast<std::int64_t>(step * (communicator.rank() + 1)), .epoch = step});
        const JobReport* report = census.due();
        REQUIRE((report != nullptr) == (step >= lag));
        if (report == nullptr) continue;
        CHECK(report->step == step - lag);
        CHECK(report->epoch == step - lag);
        CHECK(report->new_bad == static_cast<std::int64_t>(6 * (step - lag)));
      }
    });
  }
}

TEST_CASE("alone: ends after the planned steps, or with the epoch, without a step too many") {
  const auto alone = solo_communicator();
  const auto serve = [](Coordinator&, std::uint64_t step) { return std::pair(false, (step + 1) / 5); };
  CHECK(drive(*alone, {.epochs = 9, .steps = 7}, kAnyBad, serve) == Outcome{Verdict::finished, 7, 1, 0, ""});
  CHECK(drive(*alone, {.epochs = 3}, kAnyBad, serve) == Outcome{Verdict::finished, 15, 3, 0, ""});
}

TEST_CASE("alone: a stop and an error take effect at the next step") {
  const auto alone = solo_communicator();
  CHECK(drive(*alone, {.epochs = 1}, kAnyBad, [](Coordinator&, std::uint64_t step) {
          return std::pair(step == 3, std::uint64_t{0});
        }) == Outcome{Verdict::stopped, 4, 0, 0, ""});
  CHECK(drive(*alone, {.epochs = 1}, kAnyBad, [](Coordinator& coordinator, std::uint64_t step) {
          if (step >= 3) coordinator.report_error(step == 3 ? "disk gone" : "later");
          return std::pair(false, std::uint64_t{0});
        }) == Outcome{Verdict::failed, 4, 0, 0, "disk gone"});
}

TEST_CASE("epochs of unequal ranks end at one step, each counted once") {
  for (const std::size_t lag : {0U, 1U, 2U, 7U}) {
    CAPTURE(lag);
    FakeJob job(4, 3, lag);
    // Rank r serves an epoch every 5 + r steps, so the slowest rank determines when each is
    // complete.
    const auto outcomes = drive_all(
        job, {.epochs = 6, .lag = lag}, kAnyBad,
        [](std::uint32_t rank, Coordinator&, std::uint64_t step) { return std::pair(false, (step + 1) / (5 + rank)); });
    check_all_alike(outcomes);
    CHECK(outcomes[0].verdict == Verdict::finished);
    CHECK(outcomes[0].epochs == 6);
    CHECK(outcomes[0].steps == 48 + lag);
  }
}

TEST_CASE("epochs shorter than the lag are neither lost nor counted twice") {
  FakeJob job(2, 2);
  const auto outcomes =
      drive_all(job, {.epochs = 5, .lag = 4}, kAnyBad,
                [](std::uint32_t, Coordinator&, std::uint64_t step) { return std::pair(false, step + 1); });
  check_all_alike(outcomes);
  CHECK(outcomes[0].verdict == Verdict::finished);
  CHECK(outcomes[0].epochs == 5);
}

TEST_CASE("one rank's stop ends all at one step, lag steps later") {
  FakeJob job(4, 3);
  const auto outcomes =
      drive_all(job, {.epochs = 100, .lag = 3}, kAnyBad, [](std::uint32_t rank, Coordinator&, std::uint64_t step) {
        return std::pair(rank == 2 && step >= 10, std::uint64_t{0});
      });
  check_all_alike(outcomes);
  CHECK(outcomes[0].verdict == Verdict::stopped);
  CHECK(outcomes[0].steps == 11 + 3);
}

TEST_CASE("a failure ends all ranks at one step with the lowest failing rank's cause") {
  FakeJob job(4, 3);
  const auto outcomes = drive_all(job, {.epochs = 100, .lag = 2}, kAnyBad,
                                  [](std::uint32_t rank, Coordinator& coordinator, std::uint64_t step) {
                                    if (rank == 3 && step >= 10) coordinator.report_error("late reader");
                                    if (rank == 1 && step >= 10) coordinator.report_error("disk gone");
                                    return std::pair(rank == 0 && step >= 10, std::uint64_t{0});
                                  });
  check_all_alike(outcomes);
  CHECK(outcomes[0].verdict == Verdict::failed);
  CHECK(outcomes[0].cause == "rank 1: disk gone");
  CHECK(outcomes[0].steps == 11 + 2);
}

TEST_CASE("an error in the last step of a run of known length is not lost") {
  for (const std::uint64_t failing_step : {0U, 8U, 9U}) {
    FakeJob job(3, 2);
    const auto outcomes = drive_all(job, {.steps = 10, .lag = 4}, kAnyBad,
                                    [&](std::uint32_t rank, Coordinator& coordinator, std::uint64_t step) {
                                      if (rank == 2 && step == failing_step) coordinator.report_error("at the end");
                                      return std::pair(false, std::uint64_t{0});
                                    });
    check_all_alike(outcomes);
    CHECK(outcomes[0].verdict == Verdict::failed);
    CHECK(outcomes[0].cause == "rank 2: at the end");
  }
}

TEST_CASE("all ranks make the planned number of steps, also fewer than the lag") {
  for (const std::uint64_t steps : {1U, 3U, 30U}) {
    FakeJob job(3, 2);
    const auto outcomes =
        drive_all(job, {.steps = steps, .lag = 5}, kAnyBad,
                  [](std::uint32_t, Coordinator&, std::uint64_t) { return std::pair(false, std::uint64_t{0}); });
    check_all_alike(outcomes);
    CHECK(outcomes[0] == Outcome{Verdict::finished, steps, 0, 0, ""});
  }
}

TEST_CASE("bad samples are counted once however many ranks meet them") {
  FakeJob job(3, 2);
  // All ranks meet the same 4 bad samples and each one of its own: 7 are distinct, though the
  // reports add up to 15.
  const BadLimit limit{.allowed = 9, .skipped = 2, .samples = 100, .quarantine = "run/quarantine.jsonl"};
  const auto outcomes = drive_all(job, {.steps = 40, .lag = 2}, limit,
                                  [](std::uint32_t rank, Coordinator& coordinator, std::uint64_t step) {
                                    if (step < 4) coordinator.report_bad(step);
                                    if (step == 20) coordinator.report_bad(50 + rank);
                                    return std::pair(false, std::uint64_t{0});
                                  });
  check_all_alike(outcomes);
  for (const auto& outcome : outcomes) CHECK(outcome == Outcome{Verdict::finished, 40, 0, 9, ""});
}

TEST_CASE("one bad sample more than allowed fails all ranks at one step and says where to look") {
  FakeJob job(3, 2);
  const BadLimit limit{.allowed = 8, .skipped = 2, .samples = 100, .quarantine = "run/quarantine.jsonl"};
  const auto outcomes = drive_all(job, {.steps = 40, .lag = 2}, limit,
                                  [](std::uint32_t rank, Coordinator& coordinator, std::uint64_t step) {
                                    if (step < 4) coordinator.report_bad(step);
                                    if (step == 20) coordinator.report_bad(50 + rank);
                                    return std::pair(false, std::uint64_t{0});
                                  });
  check_all_alike(outcomes);
  CHECK(outcomes[0].verdict == Verdict::failed);
  CHECK(outcomes[0].steps == 21 + 2);
  for (const char* part : {"9 distinct bad samples", "100", "max_bad allows 8", "run/quarantine.jsonl"})
    CHECK(contains(outcomes[0].cause, part));
}

TEST_CASE("bad samples of the very last step still count against the budget") {
  FakeJob job(2);
  const BadLimit limit{.allowed = 1, .skipped = 0, .samples = 100, .quarantine = ""};
  const auto outcomes = drive_all(job, {.steps = 5, .lag = 2}, limit,
                                  [](std::uint32_t rank, Coordinator& coordinator, std::uint64_t step) {
                                    if (step == 4) coordinator.report_bad(rank);
                                    return std::pair(false, std::uint64_t{0});
                                  });
  check_all_alike(outcomes);
  CHECK(outcomes[0].verdict == Verdict::failed);
}

TEST_CASE("an index with more bad entries than allowed is refused at once") {
  const auto alone = solo_communicator();
  const BadLimit limit{.allowed = 5, .skipped = 6, .first_skipped = "x.xml: torn", .samples = 100, .quarantine = "q"};
  CHECK_THROWS_WITH_AS(Coordinator(*alone, {}, limit),
                       doctest::Contains("6 were found by the index, the first: x.xml: torn)"), forebay::Error);
}

TEST_CASE("a wait is interrupted by this rank's wish and by another's, but not by nobody's") {
  FakeJob job(3);
  std::vector<std::unique_ptr<Coordinator>> ranks;
  const BadLimit limit{.allowed = 1, .skipped = 0, .samples = 100, .quarantine = ""};
  for (std::uint32_t r = 0; r < 3; ++r) ranks.push_back(std::make_unique<Coordinator>(job.rank(r), RunPlan{}, limit));
  for (auto& rank : ranks) CHECK_FALSE(rank->interrupted(false));

  SUBCASE("stop") { CHECK(ranks[1]->interrupted(true)); }
  SUBCASE("error") {
    ranks[1]->report_error("disk gone");
    CHECK(ranks[1]->interrupted(false));
  }
  SUBCASE("alone over the budget") {
    ranks[1]->report_bad(7);
    CHECK_FALSE(ranks[1]->interrupted(false));
    ranks[1]->report_bad(8);
    CHECK(ranks[1]->interrupted(false));
  }
  CHECK(ranks[0]->interrupted(false));
  CHECK(ranks[2]->interrupted(false));
}

TEST_CASE("a stop that comes while a rank waits for another frees that other from its own wait") {
  FakeJob job(2);
  std::vector<Outcome> outcomes(2);
  job.run([&](Communicator& communicator) {
    const bool ahead = communicator.rank() == 0;
    std::atomic<bool> stop = false;
    // The stop arrives while rank 0 is inside step(), waiting for rank 1.
    Coordinator coordinator(communicator, {.epochs = 100, .lag = 1}, kAnyBad, [&] { return stop = ahead; });
    std::uint64_t step = 0;
    while (coordinator.step({.stop = stop}) == Verdict::proceed) {
      ++step;
      while (!ahead && !coordinator.interrupted(false)) std::this_thread::yield();  // its batch never arrives
    }
    outcomes[communicator.rank()] = {coordinator.step({.stop = stop}), step, 0, 0, ""};
  });
  check_all_alike(outcomes);
  CHECK(outcomes[0].verdict == Verdict::stopped);
}

TEST_CASE("allowed_bad: a share is rounded down, a count is taken as it is") {
  Options options;
  const auto allowed_bad = [&](BadBudget budget, std::uint64_t samples) {
    options.max_bad = budget;
    return ranks::allowed_bad(options, samples);
  };
  CHECK(allowed_bad(0.05, 100) == 5);
  CHECK(allowed_bad(0.29, 100) == 29);
  CHECK(allowed_bad(0.05, 119) == 5);
  CHECK(allowed_bad(1.0, 119) == 119);
  CHECK(allowed_bad(0.0, 119) == 0);
  CHECK(allowed_bad(std::int64_t{12}, 5) == 12);
  options.on_bad = OnBad::fail;
  CHECK(allowed_bad(1.0, 119) == 0);
}

TEST_CASE("agreed_failure names the lowest rank with an error, or nothing") {
  FakeJob job(3);
  job.run([](Communicator& rank) {
    CHECK_FALSE(agreed_failure(rank, "").has_value());
    CHECK(agreed_failure(rank, rank.rank() == 0 ? "" : "no file") == "rank 1: no file");
  });
  const auto alone = solo_communicator();
  CHECK(agreed_failure(*alone, "no file") == "no file");
}

// Which rank is reported as missing, by ranks that hear each other. Their clock is the test's.

constexpr double kLimit = 1;
constexpr double kGivenUp = kLimit + 1 + 0.25 * kLimit;  // as long as Liveness waits

struct Passing {
  void pass(double time_s) {
    for (const auto end = now + std::chrono::duration<double>(time_s); now < end; time.tick(now)) now += kPeriod;
  }

  static constexpr milliseconds kPeriod{10};
  RunningTime::Clock::time_point now;
  RunningTime time{kPeriod, {}};
};

// One rank, in its first step.
struct Present {
  Present(Communicator& communicator, const Passing& passing) : liveness(communicator, {&passing.time, kLimit}) {
    step();
  }
  void step() {
    liveness.begin(steps++);
    liveness.has_posted();
  }
  // The error with which the rank gives up on the others; empty if it would keep waiting.
  std::string wait() {
    return error_of([this] { liveness.wait_for_reports(); });
  }
  // Waits until it gives up.
  std::string wait_in_vain() {
    std::string cause;
    CHECK(eventually([&] { return !(cause = wait()).empty(); }));
    return cause;
  }

  Liveness liveness;
  std::uint64_t steps = 0;
};

// Holds back what a rank says when it gives up until `wanted` ranks have said so.
struct LateWords final : FakeJob::SameRank {
  LateWords(Communicator& rank, std::atomic<int>& given_up, int wanted)
      : SameRank(rank), given_up_(given_up), wanted_(wanted) {}

  void tell(std::string_view text) override {
    SameRank::tell(text);
    if (text.starts_with("gave-up")) {
      ++given_up_;
      CHECK(eventually([this] { return given_up_ == wanted_; }));
    }
  }
  [[nodiscard]] std::optional<Notice> listen() override {
    return is_deaf && given_up_ < wanted_ ? std::nullopt : SameRank::listen();
  }

  bool is_deaf = false;
  std::atomic<int>& given_up_;
  int wanted_;
};

TEST_CASE("ranks that give another one up at the same moment throw one text") {
  FakeJob job(3);
  Passing passing;
  std::atomic<int> given_up{0};
  LateWords first(job.rank(0), given_up, 2);
  LateWords second(job.rank(1), given_up, 2);
  Present a(first, passing);
  Present b(second, passing);
  CHECK(a.wait().empty());
  CHECK(b.wait().empty());
  passing.pass(kGivenUp - 0.2);
  for (int looks = 0; looks < 3; ++looks) {
    CHECK(a.wait().empty());  // both announce themselves
    CHECK(b.wait().empty());
  }
  passing.pass(0.4);
  first.is_deaf = second.is_deaf = true;
  std::vector<std::string> causes(3);
  job.run([&](Communicator& rank) {
    if (rank.rank() < 2) causes[rank.rank()] = (rank.rank() == 0 ? a : b).wait_in_vain();
  });
  CHECK(causes[0].find("rank 0 has waited ") == 0);
  CHECK(contains(causes[0], " for rank 2, not heard of since"));
  CHECK(causes[1] == causes[0]);
  CHECK(a.liveness.cause() == causes[0]);
  CHECK(b.liveness.cause() == causes[0]);
}

// As happens if a rank falls silent in the middle of a reduction.
TEST_CASE("a rank that was left a step behind is not blamed for the one that both wait for") {
  for (const bool behind_speaks_first : {false, true}) {
    CAPTURE(behind_speaks_first);
    FakeJob job(3);
    Passing passing;
    Present ahead(job.rank(0), passing);
    Present behind(job.rank(1), passing);
    ahead.step();
    CHECK(ahead.wait().empty());
    CHECK(behind.wait().empty());
    passing.pass(kGivenUp - 0.2);
    if (behind_speaks_first) CHECK(behind.wait().empty());
    for (int looks = 0; looks < 3; ++looks) {
      CHECK(ahead.wait().empty());
      CHECK(behind.wait().empty());
    }
    passing.pass(0.4);
    const std::string cause = ahead.wait_in_vain();
    CHECK(cause.find("rank 0 has waited ") == 0);
    CHECK(contains(cause, " for rank 2, not heard of since"));
    CHECK(behind.wait_in_vain() == cause);
  }
}

TEST_CASE("a rank that is busy with what the others wait for is waited for as long as it says so") {
  FakeJob job(2);
  Passing passing;
  Present writer(job.rank(0), passing);
  Present waiter(job.rank(1), passing);
  for (int times = 0; times < 5; ++times) {
    CHECK(waiter.wait().empty());
    passing.pass(kGivenUp - 0.2);
    CHECK(waiter.wait().empty());
    writer.liveness.excuse();
  }
  CHECK(waiter.wait().empty());
  passing.pass(kGivenUp + 0.2);
  CHECK(contains(waiter.wait_in_vain(), " for rank 0, not heard of since"));
}

TEST_CASE("a rank that comes back after it was given up throws what the others have thrown") {
  FakeJob job(2);
  Passing passing;
  Present here(job.rank(0), passing);
  Present gone(job.rank(1), passing);
  CHECK(here.wait().empty());
  passing.pass(kGivenUp + 0.2);
  const std::string cause = here.wait_in_vain();
  CHECK(contains(cause, " for rank 1, not heard of since"));
  CHECK(gone.wait_in_vain() == cause);
  CHECK_THROWS_AS(gone.step(), Error);
}

}  // namespace
}  // namespace forebay::test_census
