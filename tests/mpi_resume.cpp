#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <forebay/feeder.hpp>

#include "memory_dataset.hpp"
#include "mpi_world.hpp"
#include "once_audit.hpp"
#include "once_case.hpp"
#include "once_identity.hpp"
#include "order/job_state.hpp"
#include "support.hpp"

// A small part of experiments/exactly_once.
namespace forebay::testing {
namespace {

constexpr std::uint64_t kSeed = 20261121;
constexpr std::uint64_t kJobs = kSanitized ? 5 : 20;

// kJobs jobs of the seed from `first` on, each changed by `change`.
void check_jobs(std::uint64_t first, const std::function<OnceCase(OnceCase)>& change) {
  Stage stage(MPI_COMM_WORLD);
  const TemporaryDirectory mine;
  const std::filesystem::path directory = stage.gather(mine.path().string())[0];
  const OnceLimits limits{.world = stage.size(), .samples = 1500, .served = 2500, .sleep_ms = 60};
  MESSAGE("seed ", kSeed);
  OnceTotals totals;
  for (std::uint64_t number = first; number < first + kJobs; ++number) {
    const OnceCase job = change(draw_case(kSeed, number, limits));
    const OnceResult result = run_case(job, stage, directory);
    totals += result.totals;
    if (stage.rank() != 0) continue;
    CAPTURE(number);
    CAPTURE(describe(job));
    for (const std::string& violation : result.violations) FAIL_CHECK(violation);
  }
  if (stage.rank() == 0) {
    CHECK(totals.resumes > kJobs / 2);
    if (stage.size() > 1) CHECK(totals.rank_changes > 0);
  }
  (void)stage.gather("");  // rank 0's folder is not needed any more
}

TEST_CASE("every batch is served exactly once, however the job is stopped and goes on") {
  check_jobs(1, [](OnceCase job) { return job; });
}

TEST_CASE("so it is in windows of shards") { check_jobs(101, in_windows); }

TEST_CASE("so it is on containers, in either order") {
  check_jobs(201, [](OnceCase job) {
    job = in_container(std::move(job));
    return job.number % 2 == 0 ? in_windows(std::move(job)) : job;
  });
}

TEST_CASE("a job that goes on serves bit for bit what one that never stopped does") {
  Stage stage(MPI_COMM_WORLD);
  for (const IdentityRow& row : check_identity(stage.size(), stage)) {
    CAPTURE(row.mode);
    CAPTURE(row.threads);
    CHECK(row.compared == row.stops * row.ranks * kComparedBatches);
    for (const std::string& violation : row.violations) FAIL_CHECK(violation);
  }
}

// Ranks that wait for the others at the end of an epoch have nothing resident yet when the job begins in that place.
TEST_CASE("a rank that goes on with nothing left of the epoch serves padding that has samples") {
  const std::uint64_t ranks = world().size();
  for (const MpiMode mode : {MpiMode::local, MpiMode::lockstep}) {
    Options options = memory_options(2);
    options.run.epochs = 2;
    options.mpi.epoch_end = EpochEnd::reuse;
    const auto parts = [&] {
      Parts made;
      made.dataset = std::make_shared<MemoryDataset>(4 * ranks);
      return made;
    };
    // One rank serves all of the epoch but the last batch, which is the last rank's.
    std::string state;
    {
      Feeder alone(options, *solo_communicator(), parts());
      for (std::uint64_t batch = 0; batch + 1 < 2 * ranks; ++batch) CHECK(alone.next()->is_fresh());
      state = alone.state();
    }
    options.mpi.mode = mode;
    Feeder feeder(options, world(), parts());
    feeder.restore_state(state);
    std::uint64_t fresh = 0;
    for (bool is_first = true; auto batch = feeder.next(); is_first = false) {
      CHECK(batch->size() == 2);
      if (is_first) CHECK(batch->is_fresh() == (world().rank() + 1 == ranks));
      if (batch->is_fresh()) ++fresh;
    }
    CHECK(fresh == 2 + (world().rank() + 1 == ranks ? 1 : 0));
    CHECK(feeder.epochs_completed() == 2);
    feeder.close();
  }
}

// As after a state whose ranges were handed over, or once ranks with fewer batches in an epoch have run ahead.
TEST_CASE("in lockstep a rank with nothing left of the epochs that are open does not hold up the others") {
  if (world().size() == 1) return;
  constexpr std::uint64_t kEnough = 100;  // fresh batches
  Options options = memory_options(1);
  options.policy.name = "greedy";
  options.policy.max_uses = 0;
  options.run.steps = 2'000'000;
  options.mpi.mode = MpiMode::lockstep;
  const auto feeder = [&] {
    Parts parts;
    parts.dataset = std::make_shared<MemoryDataset>(1024);  // so many shards that only three epochs are open
    return std::make_unique<Feeder>(options, world(), std::move(parts));
  };
  const std::string text = [&] {
    const auto before = feeder();
    JobState state = parse_state(before->state(), "memory");
    for (BatchRange& range : state.left) range.owner = 0;
    before->close();
    return to_text(state);
  }();
  const auto resumed = feeder();
  resumed->restore_state(text);
  std::uint64_t fresh = 0;
  bool is_enough = false;  // alike on all ranks
  while (const auto batch = is_enough ? std::nullopt : resumed->next()) {
    fresh += batch->is_fresh() ? 1 : 0;
    is_enough = batch->job_fresh_samples() >= kEnough;
  }
  CHECK(is_enough);
  CHECK((fresh >= kEnough) == (world().rank() == 0));
  resumed->close();
}

TEST_CASE("what would restore a feeder that was closed is an error, whether there is a file or not") {
  const TemporaryDirectory mine;
  const std::filesystem::path there = mine.path() / "there.state";
  Parts parts;
  parts.dataset = std::make_shared<MemoryDataset>(16);
  Feeder feeder(memory_options(2), world(), parts);
  feeder.save(there);  // rank 0 writes its own
  const std::string state = feeder.state();
  feeder.close();
  for (const auto& file : {there, mine.path() / "absent.state"}) {
    CHECK_THROWS_WITH_AS(feeder.restore(file), doctest::Contains("close()"), Error);
    CHECK_THROWS_WITH_AS((void)feeder.restore_if_present(file), doctest::Contains("close()"), Error);
  }
  CHECK_THROWS_WITH_AS(feeder.restore_state(state), doctest::Contains("close()"), Error);
  CHECK_FALSE(feeder.next());
}

}  // namespace
}  // namespace forebay::testing
