#include <forebay/feeder.hpp>

#include "measure/recording.hpp"
#include "memory_dataset.hpp"
#include "mpi_world.hpp"
#include "test.hpp"

// The Feeder on the ranks of an MPI job: the batches that they serve together, lockstep mode,
// evaluation, and stops and errors that end all ranks at one step. Runs under mpirun.
namespace forebay::test_mpi_feeder {

using namespace forebay::measure;

namespace {

using namespace testing;

// Fresh batches by (epoch, number), and how many steps the rank made.
struct Served {
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::vector<std::uint64_t>> fresh;
  std::uint64_t steps = 0;
  std::uint64_t samples = 0;
};

Served serve_all(Feeder& feeder) {
  Served served;
  while (auto batch = feeder.next()) {
    ++served.steps;
    if (!batch->is_fresh() || batch->size() == 0) continue;
    served.samples += batch->size();
    const bool is_new = served.fresh
                            .emplace(std::pair(batch->epoch(), batch->batch()),
                                     std::vector<std::uint64_t>(batch->ids().begin(), batch->ids().end()))
                            .second;
    CHECK(is_new);
  }
  return served;
}

// What all ranks served, as text, on every rank. Checks that they made the same number of steps.
std::vector<std::string> everybodys(const Served& served) {
  std::string mine = std::to_string(served.steps) + "\n";
  for (const auto& [key, ids] : served.fresh) {
    mine += std::to_string(key.first) + "/" + std::to_string(key.second) + ":";
    for (const std::uint64_t id : ids) mine += " " + std::to_string(id);
    mine += "\n";
  }
  const auto communicator = world().duplicate();
  auto texts = communicator->all_gather(mine);
  CHECK(communicator->close(10));
  std::vector<std::string> lines;
  const std::string steps = texts[0].substr(0, texts[0].find('\n'));
  for (const std::string& text : texts) {
    CHECK(text.substr(0, text.find('\n')) == steps);
    std::size_t at = text.find('\n') + 1;
    while (at < text.size()) {
      const std::size_t end = text.find('\n', at);
      lines.push_back(text.substr(at, end - at));
      at = end + 1;
    }
  }
  std::ranges::sort(lines);
  return lines;
}

// What a single rank without MPI serves.
std::vector<std::string> alone(const Options& options, std::uint64_t size) {
  Feeder feeder(options, *solo_communicator(), parts(size));
  const Served served = serve_all(feeder);
  std::vector<std::string> lines;
  for (const auto& [key, ids] : served.fresh) {
    std::string line = std::to_string(key.first) + "/" + std::to_string(key.second) + ":";
    for (const std::uint64_t id : ids) line += " " + std::to_string(id);
    lines.push_back(line);
  }
  std::ranges::sort(lines);
  return lines;
}

void check_ranks_serve_what_one_serves(MpiMode mode, const std::string& policy, std::uint64_t size,
                                       EpochEnd epoch_end) {
  Options options = memory_options(4);
  options.policy.name = policy;
  options.run.epochs = 2;
  options.mpi.mode = mode;
  options.mpi.epoch_end = epoch_end;
  Feeder feeder(options, world(), parts(size));
  const Served served = serve_all(feeder);
  CHECK(feeder.epochs_completed() == 2);
  feeder.close();
  options.mpi.mode = MpiMode::local;
  CHECK(everybodys(served) == alone(options, size));
}

TEST_CASE("the ranks together serve what one rank serves, each batch once, in the same number of steps") {
  for (const MpiMode mode : {MpiMode::local, MpiMode::lockstep}) {
    for (const char* policy : {"adaptive", "block", "greedy", "proportional"}) {
      for (const std::uint64_t size : {1, 7, 61, 128, 200}) {
        for (const EpochEnd epoch_end : {EpochEnd::next, EpochEnd::reuse}) {
          CAPTURES(static_cast<int>(mode), policy, size);
          check_ranks_serve_what_one_serves(mode, policy, size, epoch_end);
        }
      }
    }
  }
}

TEST_CASE("a slow rank does not keep the others from reusing, and nobody stops early") {
  Options options = memory_options(2);
  options.workers.io = 1;  // so that the two reads that pass are those of the first batch
  options.policy.name = "greedy";
  testing::Gate gate;
  const bool slow = world().rank() == world().size() - 1;
  gate.open(slow ? 2 : INT64_MAX / 2);
  Feeder feeder(options, world(), parts(64, [&](std::uint64_t) { gate.pass(); }));
  Served served;
  // The slow rank's second batch arrives only after the others have made many steps; all make the
  // same number.
  while (auto batch = feeder.next()) {
    ++served.steps;
    if (batch->step() == 200) gate.open();
    if (batch->is_fresh()) {
      served.fresh.emplace(std::pair(batch->epoch(), batch->batch()),
                           std::vector<std::uint64_t>(batch->ids().begin(), batch->ids().end()));
    }
  }
  CHECK(served.steps > 200);
  feeder.close();
  CHECK(everybodys(served) == alone(options, 64));
}

// The decisions, one character per step: fresh or reuse.
std::string decisions_of(Feeder& feeder, const std::function<void(std::uint64_t step)>& after = {}) {
  std::string decisions;
  while (auto batch = feeder.next()) {
    decisions += batch->is_fresh() ? 'f' : 'r';
    if (after) after(batch->step());
  }
  return decisions;
}

void check_alike(const std::string& decisions) {
  const auto communicator = world().duplicate();
  for (const std::string& theirs : communicator->all_gather(decisions)) CHECK(theirs == decisions);
  CHECK(communicator->close(10));
}

TEST_CASE("a rank that waits for another one's trainer says for how long") {
  Options options = memory_options(4);
  options.policy.name = "greedy";
  options.run.steps = 60;
  Feeder feeder(options, world(), parts(400));
  const bool is_slow = world().size() > 1 && world().rank() == 0;
  while (auto batch = feeder.next()) {
    if (is_slow) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  const Summary summary = feeder.summary();
  CHECK((summary.census_waits > 0) == (summary.census_wait_s > 0));
  CHECK(summary.census_wait_s <= summary.stall_s);
  if (world().size() == 1) CHECK(summary.census_waits == 0);
  if (world().size() > 1 && !is_slow) CHECK(summary.census_waits > 0);
}

TEST_CASE("lockstep: all ranks decide alike, and no fresh decision waits for a slow rank's batch") {
  for (const char* policy : {"adaptive", "greedy", "watermark"}) {
    CAPTURE(policy);
    Options options = memory_options(2);
    options.workers.io = 1;  // so that the reads let through are those of the first batches
    options.policy.name = policy;
    options.mpi.mode = MpiMode::lockstep;
    testing::Gate gate;
    const bool slow = world().rank() == world().size() - 1;
    gate.open(slow ? 6 : INT64_MAX / 2);
    Feeder feeder(options, world(), parts(256, [&](std::uint64_t) { gate.pass(); }));
    // A rank that waited for the slow rank's fourth batch would never reach step 200, which lets it
    // through.
    const std::string decisions = decisions_of(feeder, [&](std::uint64_t step) {
      if (step == 200) gate.open();
    });
    feeder.close();
    CHECK(std::ranges::count(decisions.substr(0, 200), 'f') <= 3);
    CHECK(std::ranges::count(decisions, 'f') == 128 / world().size());
    check_alike(decisions);
  }
}

TEST_CASE("lockstep: a cap on uses makes all ranks wait together") {
  Options options = memory_options(2);
  options.policy.name = "greedy";
  options.policy.max_uses = 2;
  options.mpi.mode = MpiMode::lockstep;
  const bool slow = world().rank() == 0;
  Feeder feeder(options, world(), parts(64, [&](std::uint64_t) {
                  if (slow) std::this_thread::sleep_for(std::chrono::milliseconds(1));  // emulates latency
                }));
  const std::string decisions = decisions_of(feeder);
  CHECK(feeder.summary().uses_max <= 2 + 3);  // padding at the end is beyond the cap
  feeder.close();
  check_alike(decisions);
}

TEST_CASE("lockstep: a stop of one rank ends all at the same step") {
  Options options = memory_options(2);
  options.run.epochs = 1000;
  options.mpi.mode = MpiMode::lockstep;
  Feeder feeder(options, world(), parts(64));
  const std::string decisions = decisions_of(feeder, [&](std::uint64_t step) {
    if (world().rank() == 0 && step == 50) feeder.request_stop();
  });
  feeder.close();
  CHECK(decisions.size() > 50);
  CHECK(decisions.size() <= 60);
  check_alike(decisions);
}

TEST_CASE("evaluation: every sample once, ranks that have none left get empty batches") {
  for (const std::uint64_t size : {1, 9, 40}) {
    Options options = memory_options(4);
    options.run.eval = true;
    Feeder feeder(options, world(), parts(size));
    const Served served = serve_all(feeder);
    feeder.close();
    CHECK(everybodys(served) == alone(options, size));
  }
}

// epoch, batch and use_index of each step.
std::vector<std::array<std::uint64_t, 3>> steps_of(const Options& options) {
  Feeder feeder(options, world(), parts(61));
  std::vector<std::array<std::uint64_t, 3>> steps;
  while (auto batch = feeder.next()) {
    steps.push_back({batch->epoch(), batch->batch(), batch->use_index()});
    std::this_thread::sleep_for(std::chrono::microseconds(50));  // compute: a spinning trainer cannot be recorded
  }
  return steps;
}

TEST_CASE("a run is repeated on every rank, and ends for all where the shortest recording does") {
  const auto communicator = world().duplicate();
  const testing::TemporaryDirectory mine;
  const std::string dir = communicator->all_gather(mine.path().string())[0];
  const std::uint32_t rank = world().rank();
  for (const EpochEnd epoch_end : {EpochEnd::next, EpochEnd::reuse}) {
    Options options = memory_options(4);
    options.policy.name = "greedy";
    options.policy.pick = Pick::least_used;
    options.queue.pool = 3;
    options.run.epochs = 4;
    options.mpi.epoch_end = epoch_end;
    options.storage.latency_ms = rank == 0 ? 0.2 : 1;
    options.storage.jitter = 2;
    options.telemetry.dir = dir + (epoch_end == EpochEnd::next ? "/next" : "/reuse");
    const auto recorded = steps_of(options);

    Options again = options;
    again.policy.name = "replay";
    again.policy.recording = options.telemetry.dir;
    again.telemetry.dir = "";
    again.storage.latency_ms = rank == 0 ? 0.5 : 0;
    CHECK(steps_of(again) == recorded);

    // As if the ranks had been killed one after another.
    const std::uint64_t left = 10 + (rank + 1) % world().size();  // fewer than the fresh steps of a rank, 16 of four
    const auto file = recording_file(options.telemetry.dir, rank);
    Recording recording = read_recording(file);
    CHECK(recording.fresh.size() == recorded.size());
    REQUIRE(recorded.size() > left);
    std::ofstream(file, std::ios::trunc) << header_line(recording.header);
    for (std::uint64_t step = 0; step < left; ++step) {
      const bool fresh = DecisionRuns::Cursor().is_set(recording.fresh, step);
      const std::vector<std::uint64_t> run{fresh ? 1U : 0U, fresh ? 0U : 1U};
      std::ofstream(file, std::ios::app) << decisions_line(step, run);
    }
    const auto cut = steps_of(again);
    CHECK(cut == decltype(recorded)(recorded.begin(), recorded.begin() + 10));
  }
  CHECK(communicator->close(10));
}

TEST_CASE("a stop on one rank ends all ranks at the same step, also those that would wait") {
  Options options = memory_options(2);
  options.workers.io = 1;  // so that the reads let through are those of the first batches
  options.run.steps = 1'000'000;
  testing::Gate gate;
  const bool starved = world().size() > 1 && world().rank() == 0;
  gate.open(starved ? 8 : INT64_MAX / 2);  // rank 0 gets four batches, then waits for ever
  Feeder feeder(options, world(), parts(64, [&](std::uint64_t) { gate.pass(); }));
  Served served;
  while (auto batch = feeder.next()) {
    ++served.steps;
    if (batch->step() == 3 && world().rank() == world().size() - 1) feeder.request_stop();
    REQUIRE(served.steps < 1000);
  }
  gate.open();
  feeder.close();
  (void)everybodys(served);
}

TEST_CASE("an error on one rank ends all ranks at the same step with that rank's cause") {
  const std::uint32_t failing = world().size() - 1;
  for (const char* policy : {"block", "greedy"}) {
    Options options = memory_options(2);
    options.policy.name = policy;
    options.run.steps = 1'000'000;
    options.queue.capacity = 2;
    options.on_bad = OnBad::fail;
    std::atomic<bool> started{false};
    Feeder feeder(options, world(), parts(64, [&](std::uint64_t) {
                    if (world().rank() == failing && started) throw std::runtime_error("the disk caught fire");
                  }));
    started = true;
    std::uint64_t steps = 0;
    std::string cause;
    try {
      while (feeder.next()) ++steps;
    } catch (const std::exception& error) {
      cause = error.what();
    }
    CHECK(contains(cause, "the disk caught fire"));
    if (world().size() > 1) CHECK(cause.find("rank " + std::to_string(failing) + ": ") == 0);
    feeder.close();
    Served served;
    served.steps = steps;
    (void)everybodys(served);
  }
}

TEST_CASE("a rank that cannot start ends the constructor on all ranks") {
  const std::uint32_t failing = world().size() - 1;
  Options options = memory_options(2);
  options.on_bad = OnBad::fail;
  CHECK_THROWS_WITH_AS(Feeder(options, world(),
                              parts(64,
                                    [&](std::uint64_t) {
                                      if (world().rank() == failing) throw std::runtime_error("no such disk");
                                    })),
                       doctest::Contains("no such disk"), std::runtime_error);
}

TEST_CASE("ranks that run with different options are told so") {
  if (world().size() == 1) return;
  Options options = memory_options(2);
  options.seed = world().rank();
  CHECK_THROWS_WITH_AS(Feeder(options, world(), parts(64)), doctest::Contains("seed = "), ConfigError);
}

TEST_CASE("the budget of bad samples counts over all ranks and epochs") {
  Options options = memory_options(4);
  options.run.epochs = 4;
  const auto hook = [](std::uint64_t id) {
    if (id % 10 == 3) throw SampleError("is broken on purpose");
  };
  options.max_bad = std::int64_t{9};
  {
    Feeder feeder(options, world(), parts(100, hook));
    CHECK_THROWS_WITH_AS((void)serve_all(feeder), doctest::Contains("max_bad"), Error);
  }
  options.max_bad = std::int64_t{10};
  Feeder feeder(options, world(), parts(100, hook));
  (void)serve_all(feeder);
  CHECK(feeder.summary().bad_samples == 10);
}

}  // namespace
}  // namespace forebay::test_mpi_feeder
