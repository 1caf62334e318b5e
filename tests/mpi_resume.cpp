#include <unistd.h>
#include <forebay/feeder.hpp>

#include "dataset_support.hpp"
#include "memory_dataset.hpp"
#include "mpi_world.hpp"
#include "once_job.hpp"
#include "order/job_state.hpp"
#include "states.hpp"
#include "test.hpp"

using namespace forebay::order;

namespace forebay {
namespace {

using namespace testing;

// Resuming under mpirun: a small part of experiments/exactly_once, special cases, and tests of the
// checker itself.

constexpr std::uint64_t kSeed = 20261121;
constexpr std::uint64_t kJobs = kSanitized ? 5 : 20;

// Runs kJobs random jobs from number `first` on, each modified by `change`.
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
    CAPTURES(number, describe(job));
    for (const std::string& violation : result.violations) FAIL_CHECK(violation);
  }
  if (stage.rank() == 0) {
    CHECK(totals.resumes > kJobs / 2);
    if (stage.size() > 1) CHECK(totals.rank_changes > 0);
  }
  (void)stage.gather("");  // all ranks have finished with rank 0's folder
}

TEST_CASE("every batch is served exactly once, however the job is stopped and goes on") {
  check_jobs(1, [](OnceCase job) { return job; });
}

TEST_CASE("so it is in windows of shards") { check_jobs(101, in_windows); }

TEST_CASE("so it is in parts, each for a node") { check_jobs(301, in_parts); }

TEST_CASE("so it is on containers, in either order") {
  check_jobs(201, [](OnceCase job) {
    job = in_container(std::move(job));
    return job.number % 2 == 0 ? in_windows(std::move(job)) : job;
  });
}

TEST_CASE("a job that goes on serves bit for bit what one that never stopped does") {
  Stage stage(MPI_COMM_WORLD);
  for (const IdentityRow& row : check_identity(stage.size(), stage)) {
    CAPTURES(row.mode, row.threads);
    CHECK(row.compared == row.stops * row.ranks * kComparedBatches);
    for (const std::string& violation : row.violations) FAIL_CHECK(violation);
  }
}

// Ranks that resume at the end of an epoch, where they wait for the others, have no resident batch
// yet.
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
    // One rank serves all of the epoch except its last batch, which belongs to the last rank.
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

// This is so after resuming from a state with handed-over ranges, or if ranks with fewer batches
// per epoch have run ahead.
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
    parts.dataset = std::make_shared<MemoryDataset>(1024);  // so many batches that only three epochs are open
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
  bool is_enough = false;  // the same on all ranks
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
  feeder.save(there);  // rank 0 writes the file
  const std::string state = feeder.state();
  feeder.close();
  for (const auto& file : {there, mine.path() / "absent.state"}) {
    CHECK_THROWS_WITH_AS(feeder.restore(file), doctest::Contains("close()"), Error);
    CHECK_THROWS_WITH_AS((void)feeder.restore_if_present(file), doctest::Contains("close()"), Error);
  }
  CHECK_THROWS_WITH_AS(feeder.restore_state(state), doctest::Contains("close()"), Error);
  CHECK_FALSE(feeder.next());
}

// The checker of random jobs detects every fault that it is meant to detect; it is given made-up
// observations.

constexpr std::uint64_t kBatchSize = 2;
constexpr std::uint64_t kBatches = 8;
constexpr std::uint64_t kSecond_ns = 1'000'000'000;

// A job of two ranks in lockstep; rank 0 requests a stop at step 6.
OnceCase stopped_job() {
  OnceCase job{.number = 1, .samples = kBatches * kBatchSize, .bad = {}, .parts = {}};
  Part part;
  part.ranks = 2;
  part.is_logged = true;
  part.stop = StopBy::request;
  part.steps = 6;
  part.options = memory_options(kBatchSize);
  part.options.dataset.shuffle = false;
  part.options.mpi.mode = MpiMode::lockstep;
  part.options.mpi.lag = 1;
  part.options.mpi.virtual_shards = 4;
  part.options.policy.max_uses = 4;
  job.parts.push_back(part);
  return job;
}

std::uint64_t count_fresh(const std::string& steps) {
  return static_cast<std::uint64_t>(std::ranges::count(steps, 'f'));
}

// The observations of ranks that are served this, a letter per step: fresh, reuse or padding.
std::vector<Seen> seen_by(const std::vector<std::string>& served) {
  const auto ranks = static_cast<std::uint32_t>(served.size());
  const std::size_t steps = served[0].size();
  std::vector<Seen> seen(ranks);
  JobState state = job(4, ranks, kBatches, 0, 1);
  leave(state, [&](std::uint32_t rank) { return count_fresh(served[rank]); });
  state.steps = steps;
  state.fresh_samples = 0;
  for (const std::string& letters : served) state.fresh_samples += kBatchSize * count_fresh(letters);
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    Seen& mine = seen[rank];
    std::uint64_t uses = 0;
    std::uint64_t batch = rank;
    for (std::size_t step = 0; step < steps; ++step) {
      const bool is_fresh = served[rank][step] == 'f';
      uses = is_fresh ? 0 : uses + 1;
      std::uint64_t known = 0;  // up to two steps before
      for (const std::string& letters : served) {
        known += step > 1 ? kBatchSize * count_fresh(letters.substr(0, step - 1)) : 0;
      }
      mine.steps.push_back({.job_fresh_samples = known,
                            .fresh_samples = is_fresh ? kBatchSize : 0,
                            .use_index = uses,
                            .is_padding = served[rank][step] == 'p' ? 1U : 0U});
      if (!is_fresh) continue;
      mine.fresh.push_back({.epoch = 0, .batch = batch, .step = step});
      batch += ranks;
    }
    mine.states.push_back({steps, to_text(state)});
    mine.steps_at_end = steps;
    mine.has_ended = 1;
    mine.was_stopped = 1;
    mine.is_logged = 1;
    mine.asked_to_stop_ns = rank == 0 ? kSecond_ns : 0;
    mine.closed_ns = 2 * kSecond_ns;
  }
  return seen;
}

std::vector<std::string> found_in(const OnceCase& job, const std::vector<Seen>& seen) {
  OnceAudit audit(job);
  audit.add(seen);
  return audit.violations();
}

std::string lines_of(const std::vector<std::string>& violations) {
  std::string text;
  for (const std::string& violation : violations) text += violation + "\n";
  return text;
}

bool is_named(const std::vector<std::string>& violations, const std::string& what) {
  return std::ranges::any_of(violations, [&](const std::string& violation) { return contains(violation, what); });
}

TEST_CASE("the checker finds what ranks may not serve") {
  struct Fault {
    std::vector<std::string> served;
    const char* what;  // the violation; nullptr: none
  };
  const std::vector<Fault> faults{
      {{"frfrfrr", "frfrfrr"}, nullptr},
      {{"fffprrr", "ffffrrr"}, "rank 0 is padded at step 3"},  // because its waits were broken
      {{"frfrfrr", "frfrprr"}, "rank 1 is padded at step 4"},
      {{"frfrfrr", "frfrrfr"}, "rank 1 reuses at step 4, which is fresh on others"},
      {{"frfrrrr", "frfrrrr"}, "serves a batch 5 times at step 6, and max_uses is 4"},
      {{"frfrppp", "frfrppp"}, nullptr},  // padding may exceed the cap
      {{"frfrfrrr", "frfrfrrr"}, "was stopped only after 8 steps"},
  };
  for (const Fault& fault : faults) {
    const std::vector<std::string> found = found_in(stopped_job(), seen_by(fault.served));
    CAPTURES(fault.served[0], fault.served[1], lines_of(found));
    CHECK((fault.what == nullptr ? found.empty() : is_named(found, fault.what)));
  }
}

TEST_CASE("the checker finds what is lost, doubled, handed over, late or not alike") {
  using Ranks = std::vector<Seen>;
  struct Fault {
    const char* what;
    std::function<void(Ranks&)> change;
  };
  const std::vector<Fault> faults{
      {"has lost batches of epoch 0", [](Ranks& ranks) { ranks[1].fresh.pop_back(); }},
      {"epoch 0, batch 0 is served fresh once more, by rank 1",
       [](Ranks& ranks) { ranks[1].fresh.push_back(ranks[0].fresh[0]); }},
      {"twice or although it was served",
       [](Ranks& ranks) {
         for (Seen& seen : ranks) seen.states = seen_by({"frfrrrr", "frfrrrr"})[0].states;
       }},
      {"epoch 0, batch 8 does not exist", [](Ranks& ranks) { ranks[0].fresh[0].batch = kBatches; }},
      {"6 batches were handed over", [](Ranks& ranks) { std::swap(ranks[0].fresh, ranks[1].fresh); }},
      {"out of order", [](Ranks& ranks) { std::swap(ranks[0].fresh[0].batch, ranks[0].fresh[1].batch); }},
      {"a stop took 20999 ms", [](Ranks& ranks) { ranks[1].closed_ns = 22 * kSecond_ns - 1; }},
      {"made 6 and 7 steps", [](Ranks& ranks) { ranks[1].steps.pop_back(); }},
      {"differ in job_fresh_samples or epochs_completed at step 3",
       [](Ranks& ranks) { ++ranks[1].steps[3].job_fresh_samples; }},
      {"job_fresh_samples() is 5 at step 3 and should be 4",
       [](Ranks& ranks) {
         for (Seen& seen : ranks) ++seen.steps[3].job_fresh_samples;
       }},
      {"epochs_completed() is 1 at step 6",
       [](Ranks& ranks) {
         for (Seen& seen : ranks) seen.steps[6].epochs_completed = 1;
       }},
      {"end differently", [](Ranks& ranks) { ranks[1].was_stopped = 0; }},
      {"have different states", [](Ranks& ranks) { ranks[1].states[0].text += ' '; }},
      {"cannot be read",
       [](Ranks& ranks) {
         for (Seen& seen : ranks) seen.states[0].text.pop_back(), seen.states[0].text.pop_back();
       }},
      {"steps() is 6 at the end",
       [](Ranks& ranks) {
         for (Seen& seen : ranks) --seen.steps_at_end;
       }},
      {"its samples are others", [](Ranks& ranks) { ranks[0].complaints.emplace_back("its samples are others"); }},
  };
  for (const Fault& fault : faults) {
    std::vector<Seen> seen = seen_by({"frfrfrr", "frfrfrr"});
    fault.change(seen);
    const std::vector<std::string> found = found_in(stopped_job(), seen);
    CAPTURES(fault.what, lines_of(found));
    CHECK(is_named(found, fault.what));
  }
  OnceCase unasked = stopped_job();
  unasked.parts[0].stop = StopBy::end;
  CHECK(is_named(found_in(unasked, seen_by({"frfrfrr", "frfrfrr"})), "was stopped though nobody asked"));
}

TEST_CASE("the checker finds a record that says something else than was served") {
  const TemporaryDirectory folder;
  const std::string use_of_step_1 = R"({"decision":"reuse","padding":false,"use_index":1})";
  const auto check = [&](const std::string& step_1, const std::string& decisions) {
    write_file(folder.path() / "steps.0.jsonl", R"({"decision":"fresh","padding":false,"use_index":0})"
                                                "\n" +
                                                    step_1 + "\n" +
                                                    R"({"decision":"fresh","padding":false,"use_index":0})"
                                                    "\n");
    write_file(folder.path() / "decisions.0.jsonl", "{}\n" + decisions + "\n");
    Seen seen = seen_by({"frf", "frf"})[0];
    return check_logs(folder.path(), 0, 0, seen);
  };
  CHECK(check(use_of_step_1, R"({"runs":[1,1,1]})").empty());
  CHECK(is_named(check(R"({"decision":"reuse","padding":false,"use_index":2})", R"({"runs":[1,1,1]})"),
                 "the line of step 1 says"));
  CHECK(is_named(check(use_of_step_1, R"({"runs":[3]})"), "step 1 is recorded as fresh"));
  CHECK(is_named(check(use_of_step_1, R"({"runs":[1,1,1],"padded":[1,1,1]})"), "a reuse, padded"));
  CHECK(is_named(check(use_of_step_1, R"({"runs":[1,1]})"), "2 of 3 decisions are recorded"));
}

TEST_CASE("the checker finds what a job leaves in shared memory") {
  Stage stage(MPI_COMM_WORLD);
  const TemporaryDirectory mine;
  const std::filesystem::path directory = stage.gather(mine.path().string())[0];
  const OnceCase job = draw_case(1, 1, {.world = stage.size(), .samples = 20, .served = 40, .sleep_ms = 1});
  CHECK(lines_of(run_case(job, stage, directory).violations) == "");
  (void)stage.gather("");  // all ranks have looked
  const std::string name = "forebay-" + std::to_string(::getpid()) + "-left";
  const std::filesystem::path left = std::filesystem::path("/dev/shm") / name;
  write_file(left, "");
  (void)stage.gather("");  // each rank has written its own
  const OnceResult result = run_case(job, stage, directory);
  (void)stage.gather("");  // all ranks have looked
  std::filesystem::remove(left);
  CHECK(is_named(result.violations, "left in /dev/shm: " + name));
  CHECK(result.violations.size() == stage.size());
}

}  // namespace
}  // namespace forebay
