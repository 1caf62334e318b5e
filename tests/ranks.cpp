// What the ranks of a job agree on, without serving anything: batches are just numbers here.
#include <typeinfo>

#include "fake_job.hpp"
#include "ranks/agreed_error.hpp"
#include "ranks/early_end.hpp"
#include "ranks/ranks.hpp"
#include "test.hpp"

namespace forebay::test_ranks {

using namespace forebay::order;
using namespace forebay::ranks;

namespace {

using testing::FakeJob;
using Batch = std::pair<std::uint64_t, std::uint64_t>;  // epoch, number

constexpr std::uint64_t kBatches = 100;
constexpr std::uint64_t kTooMany = 10'000;

Options job_options(std::int64_t epochs) {
  Options options;
  options.run.epochs = epochs;
  options.queue.capacity = 4;
  options.policy.watchdog_s = 0;  // no rank is given up
  return options;
}

// One rank: plans, serves a batch in each step if it has one, and counts.
struct Rank {
  Rank(Communicator& communicator, const Options& with, Loop loop)
      : with_others(communicator),
        options(with),
        order({.samples = kBatches, .batch_size = 1}),
        schedule(order,
                 Ledger({.batches = kBatches,
                         .shards = 16,
                         .ranks = communicator.size(),
                         .epochs = static_cast<std::uint64_t>(with.run.epochs)}),
                 communicator.rank()),
        ranks({.communicator = communicator,
               .schedule = schedule,
               .failure = failure,
               .options = options,
               .time = time,
               .plan = {.epochs = static_cast<std::uint64_t>(with.run.epochs),
                        .lag = static_cast<std::size_t>(with.mpi.lag)},
               .limit = {.allowed = UINT64_MAX, .skipped = 0, .samples = kBatches, .quarantine = ""},
               .queue = {.capacity = with.queue.capacity, .pool = 4},
               .turns = UINT64_MAX,
               .loop = loop,
               .stop_requested = [this] { return stop; }}) {
    plan_ahead();
  }

  void plan_ahead() {
    while (plan.size() < 6) {
      const auto batch = ranks.next_batch(plan.size(), count.fresh);
      if (!batch) return;
      plan.push_back(*batch);
    }
  }
  // The verdict on the next step.
  Verdict agree() {
    mine.served = served[ranks.epochs_completed()];
    count.backlog = plan.size();
    const auto [verdict, has_work] = ranks.agree(mine, count);
    if (has_work) plan_ahead();
    return verdict;
  }
  // The batch served fresh in this step; nothing if the step is padding.
  std::optional<Batch> serve() {
    ++steps;
    if (plan.empty() || ranks.is_ahead(plan.front().epoch)) return std::nullopt;
    ++count.offered;
    const BatchRef batch = plan.front();
    plan.pop_front();
    ++count.fresh;
    ++mine.samples;
    ++served[batch.epoch];
    plan_ahead();
    return Batch(batch.epoch, batch.batch);
  }

  Communicator& with_others;
  Options options;
  Order order;
  Schedule schedule;
  Failure failure;
  RunningTime time{std::chrono::seconds(1), {}};
  bool stop = false;
  Ranks ranks;
  std::deque<BatchRef> plan;
  RankReport mine;
  RankCount count;
  std::map<std::uint64_t, std::uint64_t> served;  // by epoch
  std::uint64_t steps = 0;
};

// Runs `body` as each of this many ranks.
void run(std::uint32_t ranks, const Options& options, Loop loop,
         const std::function<void(Rank&, std::uint32_t)>& body) {
  FakeJob job(ranks, 3);
  job.run([&](Communicator& communicator) {
    Rank rank(communicator, options, loop);
    body(rank, communicator.rank());
  });
}

// Collects values of the ranks of a job, which run on separate threads.
template <typename Value>
class Common {
 public:
  void add(Value value) {
    const std::lock_guard lock(mutex_);
    values_.push_back(std::move(value));
  }
  [[nodiscard]] const std::vector<Value>& all() const { return values_; }
  [[nodiscard]] bool is_one() const { return std::set<Value>(values_.begin(), values_.end()).size() == 1; }

 private:
  std::mutex mutex_;
  std::vector<Value> values_;
};

TEST_CASE("a job serves each batch of each epoch once and ends on all ranks at one step, whoever is slow") {
  for (const EpochEnd epoch_end : {EpochEnd::next, EpochEnd::reuse}) {
    Options options = job_options(3);
    options.mpi.epoch_end = epoch_end;
    Common<Batch> served;
    Common<std::uint64_t> steps;
    run(4, options, Loop::batches, [&](Rank& rank, std::uint32_t number) {
      Verdict verdict = Verdict::proceed;
      while ((verdict = rank.agree()) == Verdict::proceed && rank.steps < kTooMany) {
        const bool is_slow = number == 3 && rank.steps % 10 != 0;
        if (is_slow) {
          ++rank.steps;
        } else if (const auto batch = rank.serve()) {
          served.add(*batch);
        }
      }
      CHECK(verdict == Verdict::finished);
      CHECK(rank.ranks.epochs_completed() == 3);
      steps.add(rank.steps);
    });
    CHECK(served.all().size() == 3 * kBatches);
    CHECK(std::set<Batch>(served.all().begin(), served.all().end()).size() == 3 * kBatches);
    CHECK(steps.is_one());
  }
}

TEST_CASE("in a loop over epochs each ends on all ranks at one step, and that step is made in the next") {
  Common<std::vector<std::uint64_t>> ends;
  run(3, job_options(3), Loop::epochs, [&](Rank& rank, std::uint32_t) {
    std::vector<std::uint64_t> mine;
    Verdict verdict = Verdict::proceed;
    while (verdict != Verdict::finished && rank.steps < kTooMany) {
      verdict = rank.agree();
      if (verdict == Verdict::proceed) {
        const auto batch = rank.serve();
        if (batch) CHECK(batch->first == mine.size());
      } else {
        mine.push_back(rank.steps);
        CHECK(rank.ranks.epochs_completed() == mine.size());
      }
    }
    CHECK(verdict == Verdict::finished);
    CHECK(mine.size() == 3);
    ends.add(mine);
  });
  CHECK(ends.is_one());
}

TEST_CASE("the failure of one rank ends all with its text, and a stop ends all") {
  Common<std::string> causes;
  run(3, job_options(1000), Loop::batches, [&](Rank& rank, std::uint32_t number) {
    Verdict verdict = Verdict::proceed;
    while ((verdict = rank.agree()) == Verdict::proceed && rank.steps < kTooMany) {
      (void)rank.serve();
      if (number == 1 && rank.steps == 20) rank.failure.raise(std::make_exception_ptr(Error("the disk is gone")));
    }
    CHECK(verdict == Verdict::failed);
    causes.add(rank.ranks.cause().text);
  });
  CHECK(causes.is_one());
  CHECK(causes.all().front() == "rank 1: the disk is gone");

  Common<std::uint64_t> steps;
  run(3, job_options(1000), Loop::batches, [&](Rank& rank, std::uint32_t number) {
    Verdict verdict = Verdict::proceed;
    while ((verdict = rank.agree()) == Verdict::proceed && rank.steps < kTooMany) {
      (void)rank.serve();
      rank.stop = number == 2 && rank.steps >= 20;
    }
    CHECK(verdict == Verdict::stopped);
    steps.add(rank.steps);
  });
  CHECK(steps.is_one());
}

template <typename Kind>
std::string thrown_as(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return (typeid(error) == typeid(Kind) ? "" : "another kind: ") + std::string(error.what());
  }
  return "nothing";
}

// Checks that all ranks throw this kind of error with the same text, whichever rank met it, and
// both within a step and in collective work.
template <typename Kind>
void check_kind() {
  for (const bool in_step : {true, false}) {
    CAPTURE(in_step);
    Common<std::string> texts;
    run(3, job_options(1000), Loop::batches, [&](Rank& rank, std::uint32_t number) {
      texts.add(thrown_as<Kind>([&] {
        if (!in_step) {
          return collectively(rank.with_others, [&] {
            if (number > 0) throw Kind("the disk of " + std::to_string(number) + " is gone");
          });
        }
        Verdict verdict = Verdict::proceed;
        while ((verdict = rank.agree()) == Verdict::proceed && rank.steps < kTooMany) {
          (void)rank.serve();
          if (number == 1 && rank.steps == 20) {
            rank.failure.raise(std::make_exception_ptr(Kind("the disk of 1 is gone")));
          }
        }
        CHECK(verdict == Verdict::failed);
        rank.ranks.cause().raise();
      }));
    });
    CHECK(texts.is_one());
    CHECK(texts.all().front() == "rank 1: the disk of 1 is gone");
  }
}

TEST_CASE("what one rank meets is thrown on all in its kind and words") {
  check_kind<Error>();
  check_kind<ConfigError>();
  check_kind<SampleError>();
  check_kind<WatchdogError>();
}

TEST_CASE("ranks that ask for batches in different kinds of loops are told so") {
  run(2, job_options(1), Loop::unknown, [&](Rank& rank, std::uint32_t number) {
    const Loop loop = number == 0 ? Loop::batches : Loop::epochs;
    CHECK_THROWS_WITH_AS((void)rank.ranks.agree_on_loop(loop, false),
                         doctest::Contains("rank 1 calls next_epoch() and rank 0 does not"), Error);
    CHECK(rank.ranks.loop() == Loop::unknown);
    CHECK(rank.ranks.agree_on_loop(Loop::epochs, number == 1));
    CHECK(rank.ranks.loop() == Loop::epochs);
  });
}

TEST_CASE("ranks hear whether most of them are at their cap, mpi.lag steps later and all at once") {
  const Options options = job_options(1000);
  for (const std::uint32_t ranks : {1U, 2U, 3U, 4U}) {
    for (std::uint32_t at_cap = 0; at_cap <= ranks; ++at_cap) {
      CAPTURES(ranks, at_cap);
      Common<std::vector<bool>> heard;
      run(ranks, options, Loop::batches, [&](Rank& rank, std::uint32_t number) {
        std::vector<bool> said;
        for (int step = 0; step < 10; ++step) {
          rank.mine.at_reuse_cap = number < at_cap && step < 5;
          REQUIRE(rank.agree() == Verdict::proceed);
          said.push_back(rank.ranks.are_most_at_cap());
          (void)rank.serve();
        }
        heard.add(said);
        rank.stop = true;
        while (rank.agree() == Verdict::proceed) (void)rank.serve();
      });
      CHECK(heard.is_one());
      const auto lag = static_cast<std::size_t>(options.mpi.lag);
      for (std::size_t step = 0; step < 10; ++step) {
        CAPTURE(step);
        const bool is_said = step >= lag && step < 5 + lag && 2 * at_cap > ranks;
        CHECK(heard.all().front()[step] == (ranks == 1 || is_said));  // a single rank decides alone
      }
    }
  }
}

TEST_CASE("in lockstep all are shown the same, and a rank that decides otherwise is a failure of all") {
  constexpr std::uint64_t kOdd = 30;
  Options options = job_options(1000);
  options.mpi.mode = MpiMode::lockstep;
  Common<std::vector<std::uint32_t>> shown;
  run(3, options, Loop::batches, [&](Rank& rank, std::uint32_t number) {
    CHECK(rank.ranks.are_in_lockstep());
    std::vector<std::uint32_t> depths;
    Verdict verdict = Verdict::proceed;
    while ((verdict = rank.agree()) == Verdict::proceed && rank.steps < kTooMany) {
      const auto shared = rank.ranks.shared_signals();
      rank.mine.progress = {.ready = 2 + number, .produced = 10, .now_ns = 1, .blocked_ns = 0};
      if (!shared) {
        (void)rank.serve();
        continue;
      }
      if (rank.steps <= kOdd) depths.push_back(shared->depth);
      const bool is_odd = number == 1 && rank.steps == kOdd;
      rank.ranks.decided(is_odd ? Decision::reuse : Decision::fresh);
      (void)rank.serve();
    }
    CHECK(verdict == Verdict::failed);
    CHECK(testing::contains(rank.ranks.cause().text, "the ranks have not decided alike before step"));
    shown.add(depths);
  });
  CHECK(shown.is_one());
}

TEST_CASE("a rank that leaves is named to the others when they come to its step") {
  run(3, job_options(1000), Loop::batches, [&](Rank& rank, std::uint32_t number) {
    const auto step_on = [&] {
      while (rank.agree() == Verdict::proceed && rank.steps < kTooMany) {
        (void)rank.serve();
        if (number == 0 && rank.steps == 25) return rank.ranks.leave("rank 0 has left after step 24");
      }
    };
    if (number == 0) return step_on();
    CHECK_THROWS_WITH_AS(step_on(), "rank 0 has left after step 24", Error);
    CHECK(rank.steps >= 25);
    CHECK(rank.steps <= 25 + 3);
    CHECK(rank.ranks.liveness().is_over());
  });
}

// A rank whose peers never arrive at the end.
struct Deserted final : FakeJob::SameRank {
  using SameRank::SameRank;
  void while_waiting(std::function<void()> hook) override { hook_ = std::move(hook); }
  bool close(double /*timeout_s*/) override {
    hook_();
    return false;
  }
  void abort(std::string_view cause) override { aborted.emplace_back(cause); }
  void abort_at_end(std::string_view cause) override { aborted_at_end.emplace_back(cause); }

  std::function<void()> hook_;
  std::vector<std::string> aborted;
  std::vector<std::string> aborted_at_end;
};

TEST_CASE("a rank that ends early aborts the job only when others wait for it, and says why") {
  for (const bool has_failed : {true, false}) {
    for (const bool others_go_on : {true, false}) {
      CAPTURES(has_failed, others_go_on);
      FakeJob job(2);
      Deserted deserted(job.rank(0));
      Rank mine(deserted, job_options(1), Loop::epochs);
      Rank other(job.rank(1), job_options(1), Loop::epochs);
      std::vector<std::string> warnings;
      EarlyEnd early_end(deserted, mine.ranks, 30, [&](const std::string& line) { warnings.push_back(line); });
      std::string cause = "rank 0: no such disk";
      if (has_failed) {
        CHECK(early_end.fail("no such disk") == cause);
      } else {
        early_end.leave(0);
        cause = mine.ranks.liveness().cause();
        CHECK(cause.find("rank 0 has left before the first step") == 0);
      }
      if (others_go_on) other.ranks.liveness().go_on();
      int befores = 0;
      early_end.part([&] { ++befores; });
      const std::vector<std::string> said{cause};
      const std::vector<std::string> nothing;
      CHECK(befores == (others_go_on ? 1 : 0));
      CHECK(warnings == (others_go_on ? said : nothing));
      CHECK(deserted.aborted == (others_go_on ? said : nothing));
      CHECK(deserted.aborted_at_end == (has_failed ? said : nothing));
      CHECK_FALSE(deserted.hook_);
    }
  }
}

}  // namespace
}  // namespace forebay::test_ranks
