#include <forebay/feeder.hpp>
#include <forebay/mpi.hpp>

#include "memory_dataset.hpp"
#include "mpi_world.hpp"
#include "test.hpp"

// What only one rank meets or does ends all ranks: no rank waits for one that does not arrive.
namespace forebay::test_mpi_leaving {
namespace {

using namespace testing;

constexpr std::uint64_t kSamples = 6400;

Parts parts() {
  Parts made;
  made.dataset = std::make_shared<MemoryDataset>(kSamples);
  return made;
}

Options long_run() {
  Options options = memory_options(4);
  options.run.steps = 1'000'000;
  return options;
}

std::uint32_t last() { return world().size() - 1; }

// How a rank ended.
struct End {
  std::uint64_t steps = 0;
  std::string cause;  // empty = no error
};

// A trainer's loop: `work` stands for a step and returns false to leave it.
End train(Feeder& feeder, const std::function<bool(Lease&&)>& work) {
  End end;
  try {
    while (auto batch = feeder.next()) {
      ++end.steps;
      if (!work(std::move(*batch))) return end;
    }
  } catch (const Error& error) {
    end.cause = error.what();
  }
  return end;
}

// Every rank's end, on every rank. By then all have closed, so the trainers' own collective calls
// match again.
std::vector<End> everybodys(const End& mine) {
  const auto communicator = world().duplicate();
  std::vector<End> ends;
  for (const std::string& text : communicator->all_gather(std::to_string(mine.steps) + " " + mine.cause)) {
    const std::size_t space = text.find(' ');
    ends.push_back({.steps = std::stoull(text.substr(0, space)), .cause = text.substr(space + 1)});
  }
  CHECK(communicator->close(60));
  return ends;
}

// Checks that all ranks made the same number of steps, and have the same error, that of the last
// rank.
void check_alike(const End& mine, const std::string& text) {
  for (const End& end : everybodys(mine)) {
    CHECK(end.steps == mine.steps);
    CHECK(end.cause == mine.cause);
  }
  CHECK(mine.cause.find("rank " + std::to_string(last()) + ": ") == 0);
  CHECK(contains(mine.cause, text));
}

// Stands for a trainer's exchange of gradients: hangs unless all ranks make the step.
bool all_reduce() {
  int one = 1;
  MPI_Allreduce(MPI_IN_PLACE, &one, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  CHECK(one == static_cast<int>(world().size()));
  return true;
}

TEST_CASE("a rank that holds too many leases ends all ranks at one step, whose collectives match") {
  for (const MpiMode mode : {MpiMode::local, MpiMode::lockstep}) {
    for (const When when : {When::enqueue, When::dequeue}) {
      for (const bool eval : {false, true}) {
        if (eval && when == When::dequeue) continue;
        CAPTURES(static_cast<int>(mode), static_cast<int>(when), eval);
        Options options = long_run();
        options.mpi.mode = mode;
        options.transform.when = when;
        options.run.eval = eval;
        options.queue.capacity = 4;
        if (when == When::dequeue) options.transform.canvas = {MemoryDataset::kSide, MemoryDataset::kSide};
        Feeder feeder(options, world(), parts());
        std::vector<Lease> kept;
        const End end = train(feeder, [&](Lease&& batch) {
          CHECK((batch.size() > 0 || eval));
          if (world().rank() == last() && batch.step() >= 10) kept.push_back(std::move(batch));
          return all_reduce();
        });
        feeder.close();
        check_alike(end, "2 leases are held");
        CHECK(end.steps >= 12);
        CHECK(end.steps <= 12 + 2);
      }
    }
  }
}

// A policy that works until it throws from served().
class Refusing final : public Policy {
 public:
  [[nodiscard]] Decision decide(const Signals&) override { return Decision::fresh; }
  void served(Decision, const Signals& signals) override {
    if (world().rank() == last() && signals.step == 7) throw std::runtime_error("the policy lost count");
  }
};

TEST_CASE("whatever a policy throws on one rank ends all ranks at one step") {
  for (const MpiMode mode : {MpiMode::local, MpiMode::lockstep}) {
    Options options = long_run();
    options.mpi.mode = mode;
    options.policy.name = "refusing";
    Parts made = parts();
    made.policies.add("refusing", [](const PolicyOptions&) { return std::make_unique<Refusing>(); });
    Feeder feeder(options, world(), std::move(made));
    const End end = train(feeder, [](Lease&&) { return all_reduce(); });
    feeder.close();
    check_alike(end, "the policy lost count");
  }
}

// A policy that ends a lease of its rank while it decides.
class Releasing final : public Policy {
 public:
  explicit Releasing(std::vector<Lease>& kept) : kept_(kept) {}
  [[nodiscard]] Decision decide(const Signals&) override {
    if (kept_.size() == 2) kept_.pop_back();
    return Decision::fresh;
  }
  void served(Decision, const Signals&) override {}

 private:
  std::vector<Lease>& kept_;
};

TEST_CASE("a lease that ends within a step that had one too many makes room for the next step only") {
  Options options = long_run();
  options.mpi.mode = MpiMode::lockstep;
  options.policy.name = "releasing";
  options.queue.capacity = 4;
  std::vector<Lease> kept;
  std::atomic<std::int64_t> reads{0};
  Parts made;
  made.dataset = std::make_shared<MemoryDataset>(kSamples, [&](std::uint64_t) { ++reads; });
  made.policies.add("releasing", [&](const PolicyOptions&) { return std::make_unique<Releasing>(kept); });
  Feeder feeder(options, world(), std::move(made));
  bool was_out = false;
  const End end = train(feeder, [&](Lease&& batch) {
    if (was_out) {
      CHECK_FALSE(batch.is_fresh());
      was_out = false;
    }
    if (world().rank() == last() && batch.step() >= 10 && batch.step() < 12) kept.push_back(std::move(batch));
    was_out = kept.size() == 2;
    // Twelve batches were taken and the ring is full, so a fresh batch is ready.
    if (was_out) CHECK(testing::eventually([&] { return reads >= 4 * (12 + options.queue.capacity); }));
    return all_reduce();
  });
  CHECK(kept.size() == (world().rank() == last() ? 1U : 0U));
  kept.clear();
  feeder.close();
  check_alike(end, "2 leases are held");
}

TEST_CASE("telemetry that one rank cannot open ends all ranks at the first step") {
  const testing::TemporaryDirectory dir;
  Options options = long_run();
  options.telemetry.dir = (dir / "run").string();
  Feeder feeder(options, world(), parts());
  if (world().rank() == last()) {
    // A non-empty folder in place of the file, which cannot be removed.
    std::filesystem::create_directories(dir / "run" / ("steps." + std::to_string(last()) + ".jsonl") / "in the way");
  }
  for (int call = 0; call < 2; ++call) {
    const End end = train(feeder, [](Lease&&) { return all_reduce(); });
    CHECK(end.steps == 0);
    check_alike(end, "steps." + std::to_string(last()) + ".jsonl");
  }
  feeder.close();
}

enum class Way : std::uint8_t { destructor, close, exception };

// How ranks leave: after how many steps, and the setup of the job.
struct Leaving {
  Way way = Way::close;
  MpiMode mode = MpiMode::local;
  EpochEnd epoch_end = EpochEnd::next;
  bool eval = false;
  std::uint64_t steps = 42;
  bool several = false;  // all ranks but the last leave, the odd ones a step later
  int pause_ms = 0;      // pause of the leaving ranks before each step, so that the others wait for them
};

std::optional<std::uint64_t> leaves_after(const Leaving& job) {
  if (world().rank() == 0) return job.steps;
  return job.several && world().rank() != last() ? std::optional(job.steps + world().rank() % 2) : std::nullopt;
}

End leave(const Leaving& job) {
  Options options = long_run();
  options.mpi.mode = job.mode;
  options.mpi.epoch_end = job.epoch_end;
  options.run.eval = job.eval;
  options.run.epochs = 100;
  options.policy.name = "adaptive";
  auto feeder = std::make_unique<Feeder>(options, world(), parts());
  const auto most = leaves_after(job);
  End end;
  const auto pause = [&] {
    if (most && job.pause_ms > 0) std::this_thread::sleep_for(std::chrono::milliseconds(job.pause_ms));
  };
  const auto run = [&] {
    if (most && *most == 0) return;
    end = train(*feeder, [&](Lease&& batch) {
      pause();
      return !most || batch.step() + 1 < *most;
    });
  };
  if (job.way == Way::exception) {
    try {
      const auto owner = std::move(feeder);
      feeder.reset();
      end = train(*owner, [&](Lease&& batch) {
        pause();
        if (most && batch.step() + 1 == *most) throw std::runtime_error("the trainer's own");
        return true;
      });
    } catch (const std::runtime_error&) {
      end.steps = *most;
    }
  } else {
    run();
    if (job.way == Way::close) feeder->close();
    feeder.reset();
  }
  return end;
}

void check_left(const Leaving& job) {
  const auto start = std::chrono::steady_clock::now();
  const End mine = leave(job);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(60));
  const std::vector<End> ends = everybodys(mine);
  if (leaves_after(job)) {
    CHECK((mine.cause.empty() || job.several));
    return;
  }
  CHECK(mine.steps >= job.steps);
  CHECK(mine.steps <= job.steps + 3);
  const std::string when = job.steps == 0 ? "before the first step" : "after step " + std::to_string(job.steps - 1);
  CAPTURE(mine.cause);
  if (job.several) {  // each rank names the one that it heard of first
    CHECK(mine.cause.find("rank ") == 0);
    CHECK(contains(mine.cause, " has left after step "));
    return;
  }
  CHECK(mine.cause.find("rank 0 has left " + when) == 0);
  for (const End& end : ends) CHECK((end.cause.empty() || end.cause == mine.cause));
}

TEST_CASE("a rank that leaves its loop is named to the others, however it leaves") {
  for (const Way way : {Way::close, Way::destructor, Way::exception}) {
    CAPTURE(static_cast<int>(way));
    check_left({.way = way});
  }
}

TEST_CASE("a rank that leaves is named in every kind of job") {
  check_left({.mode = MpiMode::lockstep});
  check_left({.epoch_end = EpochEnd::reuse});
  check_left({.eval = true});
  check_left({.steps = 0});
  check_left({.steps = 1});
  check_left({.steps = 260});  // an exchange is in progress
  check_left({.steps = 12, .pause_ms = 5});
}

TEST_CASE("of several ranks that leave one is named") { check_left({.several = true}); }

TEST_CASE("ranks that close after the same step have no error and do not wait") {
  for (const std::uint64_t steps : {0U, 1U, 42U}) {
    Feeder feeder(long_run(), world(), parts());
    for (std::uint64_t step = 0; step < steps; ++step) CHECK(feeder.next());
    all_reduce();
    const auto start = std::chrono::steady_clock::now();
    feeder.close();
    // Less than a rank would wait for absent ones.
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(30));
    CHECK_FALSE(feeder.next());
  }
}

// Nothing but the ranks' own speed keeps them together: some still take the census that ended the epoch.
TEST_CASE("ranks that leave after the same epoch have no error, and one that begins another names those that left") {
  constexpr int kRounds = 20;
  for (int round = 0; round < kRounds; ++round) {
    const bool one_goes_on = round % 4 == 3;
    CAPTURES(round, one_goes_on);
    Options options = memory_options(4);
    options.run.epochs = 1000;
    Parts made;
    made.dataset = std::make_shared<MemoryDataset>(40 * world().size());
    Feeder feeder(options, world(), std::move(made));
    End end;
    try {
      REQUIRE(feeder.next_epoch());
      while (feeder.next()) {
      }
      if (one_goes_on && world().rank() == last() && feeder.next_epoch()) {
        while (feeder.next()) {
        }
      }
    } catch (const Error& error) {
      end.cause = error.what();
    }
    feeder.close();
    CHECK(end.cause.empty() == (!one_goes_on || world().rank() != last() || world().size() == 1));
    if (!end.cause.empty()) CHECK(contains(end.cause, "has left after step"));
    all_reduce();
  }
}

TEST_CASE("a slow rank gets every batch that it asked for, although the others close before it does") {
  constexpr std::uint64_t kSteps = 12;
  for (const bool eval : {false, true}) {
    CAPTURE(eval);
    Options options = long_run();
    options.run.eval = eval;
    Parts made;
    made.dataset = std::make_shared<MemoryDataset>(kSamples, [](std::uint64_t) {
      if (world().rank() == last()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    });
    Feeder feeder(options, world(), std::move(made));
    for (std::uint64_t step = 0; step < kSteps; ++step) {
      const auto batch = feeder.next();
      REQUIRE(batch);
      CHECK(batch->size() == 4);
      CHECK(batch->is_fresh());
    }
    feeder.close();
    all_reduce();
  }
}

TEST_CASE("a state that one rank alone asks for is an error that names those that left") {
  Feeder feeder(long_run(), world(), parts());
  for (int step = 0; step < 10; ++step) CHECK(feeder.next());
  if (world().rank() == 0) {
    feeder.close();
  } else {
    CHECK_THROWS_WITH_AS((void)feeder.state(), doctest::Contains("rank 0 has left after step 9"), Error);
    CHECK_THROWS_WITH_AS((void)feeder.next(), doctest::Contains("rank 0 has left after step 9"), Error);
    feeder.close();
  }
  (void)everybodys({});
}

TEST_CASE("a rank that does not come for watchdog_s is named to all, itself included") {
  Options options = long_run();
  options.policy.watchdog_s = 2;
  Feeder feeder(options, world(), parts());
  for (int step = 0; step < 10; ++step) CHECK(feeder.next());
  const auto communicator = world().duplicate();
  if (world().rank() == last()) (void)communicator->all_gather("");  // until all others have given it up
  const End mine = train(feeder, [](Lease&&) { return true; });
  CHECK_THROWS_AS((void)feeder.next(), WatchdogError);  // of the same kind as the first time
  if (world().rank() != last()) (void)communicator->all_gather("");
  CHECK(contains(mine.cause, "policy.watchdog_s"));
  CHECK(mine.cause.find(" for rank " + std::to_string(last()) + ", not heard of") != std::string::npos);
  CHECK(mine.steps <= 4);
  feeder.close();
  CHECK(communicator->close(60));
}

}  // namespace
}  // namespace forebay::test_mpi_leaving
