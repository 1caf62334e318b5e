#include <forebay/feeder.hpp>

#include "memory_dataset.hpp"
#include "mpi_world.hpp"
#include "test.hpp"

// The loop over epochs, on one and on several ranks. experiments/exactly_once, and its part in
// mpi_resume.cpp, also run it, stopped and resumed at random.
namespace forebay::test_mpi_epochs {
namespace {

using namespace testing;

bool is_alike(const std::string& mine) {
  const auto texts = gather_texts(mine);
  return std::set<std::string>(texts.begin(), texts.end()).size() == 1;
}

// What one rank observed in the loop of one epoch.
struct EpochSeen {
  std::uint64_t steps = 0;
  std::set<std::uint64_t> fresh;
  std::uint64_t padded = 0;
};

EpochSeen serve_epoch(Feeder& feeder) {
  EpochSeen seen;
  const std::uint64_t epoch = feeder.epochs_completed();
  while (auto batch = feeder.next()) {
    ++seen.steps;
    CHECK(feeder.epochs_completed() == epoch);
    CHECK(batch->size() > 0);
    if (!batch->is_fresh()) {
      ++seen.padded;
      continue;
    }
    CHECK(batch->epoch() == epoch);
    CHECK(seen.fresh.insert(batch->batch()).second);
  }
  CHECK_FALSE(feeder.next());  // until the next epoch begins
  return seen;
}

std::string text(const EpochSeen& seen) {
  std::string text;
  for (const std::uint64_t batch : seen.fresh) text += std::to_string(batch) + " ";
  return text;
}

// The number of batches in the epoch over all ranks; each rank passes its own.
std::size_t served_by_all(const EpochSeen& seen) {
  std::size_t batches = 0;
  for (const std::string& of_rank : gather_texts(text(seen))) batches += std::ranges::count(of_rank, ' ');
  return batches;
}

void check_epochs(const Options& options, std::uint64_t samples) {
  Feeder feeder(options, world(), parts(samples));
  const std::uint64_t batches = feeder.batches_per_epoch();
  const std::uint64_t ranks = world().size();
  std::uint64_t epochs = 0;
  while (feeder.next_epoch()) {
    CHECK(feeder.epochs_completed() == epochs);
    const EpochSeen seen = serve_epoch(feeder);
    ++epochs;
    CHECK(feeder.epochs_completed() == epochs);
    CHECK(is_alike(std::to_string(feeder.steps())));
    CHECK(served_by_all(seen) == batches);
    // A policy that waits makes no superfluous step: only the last step may have padding.
    if (options.policy.name == "block") {
      CHECK(seen.steps == (batches + ranks - 1) / ranks);
      CHECK(seen.steps == feeder.steps_per_epoch());
    }
  }
  CHECK(epochs == static_cast<std::uint64_t>(options.run.epochs));
  CHECK_FALSE(feeder.was_stopped());
  CHECK_FALSE(feeder.next_epoch());
  CHECK_FALSE(feeder.next());
  feeder.close();
}

TEST_CASE("each epoch ends on all ranks at one step, after its last batch and before the next one's first") {
  for (const MpiMode mode : {MpiMode::local, MpiMode::lockstep}) {
    for (const char* policy : {"block", "adaptive", "greedy"}) {
      for (const EpochEnd epoch_end : {EpochEnd::next, EpochEnd::reuse}) {
        for (const std::uint64_t samples : {1, 7, 61, 128}) {
          CAPTURES(static_cast<int>(mode), policy, static_cast<int>(epoch_end), samples);
          Options options = memory_options(4);
          options.policy.name = policy;
          options.mpi.mode = mode;
          options.mpi.epoch_end = epoch_end;
          options.run.epochs = 3;
          check_epochs(options, samples);
        }
      }
    }
  }
}

// Ranks have unequal numbers of the 7 shards. If batches are handed over, an epoch may take fewer
// steps.
TEST_CASE("ranks without a batch of their own are warned of") {
  Parts made;
  made.dataset = std::make_shared<MemoryDataset>(8);
  std::string said;
  made.log = [&said](LogLevel level, std::string_view line) { said += level == LogLevel::warning ? line : ""; };
  Options options = memory_options(4);
  options.run.epochs = 2;
  Feeder feeder(options, world(), std::move(made));
  while (feeder.next()) {
  }
  CHECK(contains(said, "2 of 4 ranks have no batch of their own, because an epoch has 2 batches") ==
        (world().size() == 4 && world().rank() == 0));
}

TEST_CASE("a feeder says how many steps an epoch has, in every order of the samples") {
  for (const SampleOrder order : {SampleOrder::global, SampleOrder::shards, SampleOrder::local}) {
    for (const MpiMode mode : {MpiMode::local, MpiMode::lockstep}) {
      CAPTURES(static_cast<int>(order), static_cast<int>(mode));
      Options options = memory_options(1);
      options.dataset.order = order;
      options.mpi.mode = mode;
      options.mpi.virtual_shards = 7;
      options.run.epochs = 2;
      Feeder feeder(options, world(), parts(70));
      const std::uint64_t ranks = world().size();
      CHECK(feeder.steps_per_epoch() == 10 * ((7 + ranks - 1) / ranks));
      CHECK(is_alike(std::to_string(feeder.steps_per_epoch())));
      while (feeder.next_epoch()) {
        const std::uint64_t steps = serve_epoch(feeder).steps;
        CHECK(steps <= feeder.steps_per_epoch());
        CHECK(steps >= (70 + ranks - 1) / ranks);
        if (mode == MpiMode::lockstep) CHECK(steps == feeder.steps_per_epoch());  // no batch is handed over
      }
      feeder.close();
    }
  }
}

TEST_CASE("whatever the lag, a policy that waits makes no step too many") {
  for (const std::int64_t lag : {1, 3, 5}) {
    Options options = memory_options(2);
    options.mpi.lag = lag;
    options.run.epochs = 4;
    check_epochs(options, 37);
    options.mpi.epoch_end = EpochEnd::reuse;
    check_epochs(options, 80 * world().size());  // long epochs, in which planning is limited
  }
}

TEST_CASE("ranks that have nothing left of an epoch wait for a slow one by reusing") {
  Options options = memory_options(2);
  options.workers.io = 1;
  options.queue.capacity = 2;
  options.policy.name = "greedy";
  options.run.epochs = 2;
  Gate gate;
  const bool is_slow = world().rank() == world().size() - 1;
  gate.open(is_slow ? 2 : INT64_MAX / 2);
  Feeder feeder(options, world(), parts(8 * world().size(), [&](std::uint64_t) { gate.pass(); }));
  std::uint64_t reused = 0;
  CHECK(feeder.next_epoch());
  while (auto batch = feeder.next()) {
    CHECK(batch->epoch() == 0);
    if (!batch->is_fresh()) ++reused;
    if (batch->step() == 100) gate.open();
  }
  CHECK(feeder.steps() > 100);
  CHECK(reused > 90);
  CHECK(feeder.epochs_completed() == 1);
  CHECK(feeder.next_epoch());
  (void)serve_epoch(feeder);
  CHECK(feeder.epochs_completed() == 2);
  CHECK_FALSE(feeder.next_epoch());
  feeder.close();
}

TEST_CASE("between two epochs the next one is read ahead, and nothing of it is served") {
  for (const std::uint64_t batches : {8, 40}) {
    Options options = memory_options(2);
    options.mpi.epoch_end = batches == 8 ? EpochEnd::next : EpochEnd::reuse;
    options.run.epochs = 2;
    std::atomic<std::uint64_t> reads{0};
    const std::uint64_t ranks = world().size();
    Feeder feeder(options, world(), parts(2 * batches * ranks, [&](std::uint64_t) { ++reads; }));
    CHECK(feeder.next_epoch());
    CHECK(serve_epoch(feeder).fresh.size() == batches);
    // The queue fills without a call of next().
    CHECK(eventually([&] { return reads >= 2 * (batches + 4); }));
    const std::uint64_t before = feeder.steps();
    CHECK(feeder.next_epoch());
    auto batch = feeder.next();
    CHECK(batch->is_fresh());
    CHECK(batch->epoch() == 1);
    CHECK(feeder.steps() == before + 1);
    batch.reset();
    (void)serve_epoch(feeder);
    feeder.close();
  }
}

TEST_CASE("a run of steps ends in the middle of an epoch, and the loop with it") {
  const std::uint64_t ranks = world().size();
  Options options = memory_options(2);
  options.run.steps = 10;  // an epoch has 4
  Feeder feeder(options, world(), parts(8 * ranks));
  std::vector<std::uint64_t> steps;
  while (feeder.next_epoch()) steps.push_back(serve_epoch(feeder).steps);
  CHECK(steps == std::vector<std::uint64_t>{4, 4, 2});
  CHECK(feeder.epochs_completed() == 2);
  CHECK(feeder.steps() == 10);
  feeder.close();
}

TEST_CASE("a stop ends both loops, asked for within an epoch or between two") {
  const std::uint64_t ranks = world().size();
  for (const bool is_between : {false, true}) {
    Options options = memory_options(2);
    options.run.epochs = 100;
    Feeder feeder(options, world(), parts(32 * ranks));
    std::uint64_t epochs = 0;
    while (feeder.next_epoch()) {
      while (auto batch = feeder.next()) {
        if (!is_between && batch->step() == 20 && world().rank() == 0) feeder.request_stop();
      }
      ++epochs;
      if (is_between && epochs == 2 && world().rank() == 0) feeder.request_stop();
    }
    CHECK(feeder.was_stopped());
    CHECK(feeder.epochs_completed() == (is_between ? 2 : 1));
    CHECK(epochs == (is_between ? 3 : 2));
    CHECK(is_alike(std::to_string(feeder.steps())));
    CHECK_FALSE(feeder.next_epoch());
    feeder.close();
  }
}

TEST_CASE("a break leaves the epoch open, and the next loop goes on in it") {
  const std::uint64_t ranks = world().size();
  Options options = memory_options(2);
  Feeder feeder(options, world(), parts(16 * ranks));
  CHECK(feeder.next_epoch());
  for (int i = 0; i < 3; ++i) CHECK(feeder.next()->is_fresh());
  CHECK(feeder.next_epoch());
  CHECK(feeder.epochs_completed() == 0);
  CHECK(serve_epoch(feeder).fresh.size() == 5);
  CHECK_FALSE(feeder.next_epoch());
  feeder.close();
}

TEST_CASE("a run goes on between two epochs with the next, and within one with what is left of it") {
  const std::uint64_t ranks = world().size();
  Options options = memory_options(2);
  options.run.epochs = 3;
  std::string between;
  std::string within;
  {
    Feeder feeder(options, world(), parts(16 * ranks));
    CHECK(feeder.next_epoch());
    (void)serve_epoch(feeder);
    between = feeder.state();
    CHECK(feeder.next_epoch());
    for (int i = 0; i < 3; ++i) (void)feeder.next();
    within = feeder.state();
    feeder.close();
  }
  for (const bool is_between : {true, false}) {
    CAPTURE(is_between);
    Feeder feeder(options, world(), parts(16 * ranks));
    feeder.restore_state(is_between ? between : within);
    CHECK(feeder.epochs_completed() == 1);
    CHECK(feeder.next_epoch());
    CHECK(serve_epoch(feeder).fresh.size() == (is_between ? 8 : 5));
    CHECK(feeder.next_epoch());
    CHECK(serve_epoch(feeder).fresh.size() == 8);
    CHECK_FALSE(feeder.next_epoch());
    CHECK(feeder.steps() == 24);
    feeder.close();
  }
}

// Such a rank has planned into the next epoch, as the loop will continue with it: nothing else is
// ready.
TEST_CASE("a rank that goes on with nothing left of the epoch serves padding that has samples") {
  const std::uint64_t ranks = world().size();
  for (const MpiMode mode : {MpiMode::local, MpiMode::lockstep}) {
    Options options = memory_options(2);
    options.run.epochs = 2;
    std::string state;
    {
      Feeder alone(options, *solo_communicator(), parts(4 * ranks));
      for (std::uint64_t batch = 0; batch + 1 < 2 * ranks; ++batch) CHECK(alone.next()->is_fresh());
      state = alone.state();
    }
    options.mpi.mode = mode;
    Feeder feeder(options, world(), parts(4 * ranks));
    feeder.restore_state(state);
    CHECK(feeder.next_epoch());
    const EpochSeen first = serve_epoch(feeder);
    CHECK(first.steps == 1);
    CHECK(first.fresh.size() == (world().rank() + 1 == ranks ? 1 : 0));
    CHECK(feeder.next_epoch());
    CHECK(serve_epoch(feeder).fresh.size() == 2);
    CHECK_FALSE(feeder.next_epoch());
    feeder.close();
  }
}

TEST_CASE("an evaluation is one epoch") {
  Options options = memory_options(4);
  options.run.eval = true;
  Feeder feeder(options, world(), parts(61));
  CHECK(feeder.next_epoch());
  std::uint64_t samples = 0;
  while (auto batch = feeder.next()) samples += batch->size();
  CHECK_FALSE(feeder.next_epoch());
  feeder.close();
  std::uint64_t all = 0;
  for (const std::string& of_rank : gather_texts(std::to_string(samples))) all += std::stoull(of_rank);
  CHECK(all == 61);
}

TEST_CASE("the two kinds of loop do not mix") {
  {
    Feeder feeder(memory_options(2), world(), parts(64));
    CHECK(feeder.next());
    CHECK(error_of([&] { (void)feeder.next_epoch(); }).find("before the first next()") != std::string::npos);
  }
  {
    Feeder feeder(memory_options(2), world(), parts(64));
    CHECK(feeder.next_epoch());
    const std::string state = feeder.state();
    CHECK(error_of([&] { feeder.restore_state(state); }).find("next_epoch()") != std::string::npos);
    CHECK(feeder.next());
  }
  if (world().size() == 1) return;
  Feeder feeder(memory_options(2), world(), parts(64));
  const std::string error = error_of([&] {
    if (world().rank() == 0) {
      (void)feeder.next();
    } else {
      (void)feeder.next_epoch();
    }
  });
  CHECK(contains(error, "rank 1 calls next_epoch() and rank 0 does not"));
}

TEST_CASE("an error ends the loops of all ranks at the same step") {
  Options options = memory_options(2);
  options.max_bad = std::int64_t{0};
  options.run.epochs = 5;
  const bool is_bad = world().rank() == world().size() - 1;
  std::atomic<std::uint64_t> reads{0};
  const std::uint64_t ranks = world().size();
  Feeder feeder(options, world(), parts(16 * ranks, [&](std::uint64_t) {
                  if (is_bad && ++reads == 21) throw SampleError("is broken on purpose");
                }));
  const std::string error = error_of([&] {
    while (feeder.next_epoch()) {
      while (auto batch = feeder.next()) batch.reset();
    }
  });
  CHECK(contains(error, "bad sample"));
  CHECK(is_alike(std::to_string(feeder.steps())));
  CHECK(error_of([&] { (void)feeder.next_epoch(); }) == error);
  feeder.close();
}

}  // namespace
}  // namespace forebay::test_mpi_epochs
