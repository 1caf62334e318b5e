#include <sys/wait.h>
#include <unistd.h>
#include <forebay/feeder.hpp>
#include <ranges>

#include "memory_dataset.hpp"
#include "test.hpp"

// The Feeder as a program uses it, in one process with a dataset in memory: which batches are
// served, when they are reused, and how a run ends, is interrupted or fails.
namespace forebay::test_feeder {
namespace {

using namespace testing;

// Whether the batch's content belongs to its ids.
bool genuine(const Lease& batch) {
  const auto* pixels = batch.images().as<std::uint8_t>();
  for (std::size_t i = 0; i < batch.ids().size(); ++i) {
    if (batch.labels()[i] != static_cast<std::int64_t>(batch.ids()[i] % 10)) return false;
    for (std::size_t p = 0; p < MemoryDataset::kSide * MemoryDataset::kSide; ++p) {
      for (int channel = 0; channel < 3; ++channel) {
        if (*pixels++ != MemoryDataset::pixel(batch.ids()[i], p)) return false;
      }
    }
  }
  return true;
}

std::vector<std::vector<std::uint64_t>> fresh_batches(Feeder& feeder) {
  std::vector<std::vector<std::uint64_t>> batches;
  while (auto batch = feeder.next()) {
    CHECK(genuine(*batch));
    if (batch->is_fresh()) batches.emplace_back(batch->ids().begin(), batch->ids().end());
  }
  return batches;
}

TEST_CASE("an epoch serves every sample once, the last batch short, and then ends") {
  Feeder feeder(memory_options(8), parts(37));
  CHECK(feeder.batches_per_epoch() == 5);
  std::multiset<std::uint64_t> served;
  std::uint64_t steps = 0;
  while (auto batch = feeder.next()) {
    CHECK(batch->step() == steps++);
    CHECK(batch->is_fresh());
    CHECK(batch->epoch() == 0);
    CHECK(batch->size() == (batch->batch() == 4 ? 5 : 8));
    CHECK(genuine(*batch));
    served.insert(batch->ids().begin(), batch->ids().end());
  }
  CHECK(steps == 5);
  CHECK(served.size() == 37);
  CHECK(std::set<std::uint64_t>(served.begin(), served.end()).size() == 37);
  CHECK_FALSE(feeder.next().has_value());
  CHECK(feeder.epochs_completed() == 1);

  const Summary summary = feeder.summary();
  CHECK(summary.steps == 5);
  CHECK(summary.fresh == 5);
  CHECK(summary.fresh_fraction == 1);
  CHECK(summary.epochs == 1);
  CHECK(summary.bytes_read == 37 * 16);
}

TEST_CASE("drop_last drops the short batch") {
  Options options = memory_options(8);
  options.dataset.drop_last = true;
  Feeder feeder(options, parts(37));
  CHECK(fresh_batches(feeder).size() == 4);
}

TEST_CASE("epochs are shuffled differently, the same seed gives the same run for any number of threads") {
  Options options = memory_options(4);
  options.run.epochs = 2;
  std::vector<std::vector<std::vector<std::uint64_t>>> runs;
  for (const std::int64_t threads : {1, 2, 8}) {
    options.workers.io = threads;
    options.workers.decode = threads;
    Feeder feeder(options, parts(40));
    runs.push_back(fresh_batches(feeder));
  }
  CHECK(runs[0].size() == 20);
  CHECK(runs[0] == runs[1]);
  CHECK(runs[0] == runs[2]);
  CHECK_FALSE(std::equal(runs[0].begin(), runs[0].begin() + 10, runs[0].begin() + 10));
}

TEST_CASE("run.steps ends after that many steps, across epochs") {
  Options options = memory_options(4);
  options.run.steps = 23;
  Feeder feeder(options, parts(40));
  CHECK(fresh_batches(feeder).size() == 23);
  CHECK(feeder.epochs_completed() == 2);
}

TEST_CASE("evaluation serves in order, once, and never reuses") {
  Options options = memory_options(8);
  options.run.eval = true;
  options.run.epochs = 3;
  options.dataset.drop_last = true;
  options.policy.name = "interval";
  options.policy.interval = 3;
  Feeder feeder(options, parts(20));
  std::uint64_t next = 0;
  while (auto batch = feeder.next()) {
    CHECK(batch->is_fresh());
    for (const std::uint64_t id : batch->ids()) CHECK(id == next++);
  }
  CHECK(next == 20);
  CHECK(feeder.summary().steps == 3);
  CHECK(feeder.summary().reused == 0);
}

TEST_CASE("an exhausted queue is bridged by reuse, and fresh batches go on in order") {
  Options options = memory_options(2);
  options.policy.name = "greedy";
  options.workers.io = 1;
  Gate gate;
  gate.open(2);  // one batch
  Feeder feeder(options, parts(8, [&](std::uint64_t) { gate.pass(); }));
  std::vector<std::uint64_t> first;
  for (std::uint64_t step = 0; step < 50; ++step) {
    const auto batch = feeder.next();
    REQUIRE(batch);
    CHECK(batch->use_index() == step);
    CHECK(genuine(*batch));
    if (step == 0) first.assign(batch->ids().begin(), batch->ids().end());
    CHECK(std::ranges::equal(batch->ids(), first));
  }
  gate.open();
  std::uint64_t fresh = 1;
  while (auto batch = feeder.next()) fresh += batch->is_fresh() ? 1 : 0;
  CHECK(fresh == 4);
  const Summary summary = feeder.summary();
  CHECK(summary.reused >= 49);
  CHECK(summary.uses_max >= 50);
  CHECK(summary.exhausted_steps >= 49);
}

TEST_CASE("a pool spreads reuse over its batches") {
  Options options = memory_options(2);
  options.policy.name = "greedy";
  options.policy.pick = Pick::least_used;
  options.queue.pool = 3;
  options.workers.io = 1;
  Gate gate;
  gate.open(6);  // three batches
  Feeder feeder(options, parts(8, [&](std::uint64_t) { gate.pass(); }));
  std::map<std::uint64_t, std::uint64_t> uses;
  for (int after_third = 0; after_third < 300; after_third += uses.size() == 3 ? 1 : 0) {
    const auto batch = feeder.next();
    REQUIRE(batch);
    CHECK(genuine(*batch));
    if (!batch->is_fresh()) CHECK(batch->use_index() == std::ranges::min(uses | std::views::values));
    CHECK(batch->use_index() == uses[batch->batch()]++);
  }
  CHECK(uses.size() == 3);
  gate.open();
  feeder.request_stop();
}

TEST_CASE("once the last batch is ready nothing is saved up: the rest is served fresh") {
  for (const char* policy : {"greedy", "watermark", "proportional"}) {
    CAPTURE(policy);
    Options options = memory_options(2);
    options.policy.name = policy;
    options.queue.capacity = 16;
    std::atomic<int> reads{0};
    Feeder feeder(options, parts(20, [&](std::uint64_t) { ++reads; }));
    REQUIRE(feeder.next());
    while (reads < 20) std::this_thread::yield();
    // Blocked time grows only while no slot is being filled, so then all ten batches are ready.
    const double blocked_s = feeder.summary().blocked_s;
    while (feeder.summary().blocked_s == blocked_s) std::this_thread::yield();
    std::uint64_t reused = 0;
    while (auto batch = feeder.next()) reused += batch->is_fresh() ? 0 : 1;
    CHECK(reused <= 1);
  }
}

TEST_CASE("max_uses ends reuse: the trainer waits, or gets an error") {
  Options options = memory_options(2);
  options.policy.name = "greedy";
  options.policy.max_uses = 3;
  options.workers.io = 1;
  Gate gate;
  gate.open(2);
  SUBCASE("wait") {
    Feeder feeder(options, parts(4, [&](std::uint64_t) { gate.pass(); }));
    for (int step = 0; step < 3; ++step) CHECK(feeder.next()->use_index() == static_cast<std::uint64_t>(step));
    gate.open();
    const auto batch = feeder.next();  // waits
    REQUIRE(batch);
    CHECK(batch->is_fresh());
  }
  SUBCASE("error") {
    options.policy.on_max_uses = OnMaxUses::error;
    Feeder feeder(options, parts(4, [&](std::uint64_t) { gate.pass(); }));
    std::string message;
    int steps = 0;
    try {
      for (; steps < 10; ++steps) (void)feeder.next();
    } catch (const Error& error) {
      message = error.what();
    }
    CHECK(contains(message, "max_uses"));
    CHECK(steps == 3);
    gate.open();
  }
}

TEST_CASE("leases outlive the feeder, and too many of them are an error") {
  auto feeder = std::make_unique<Feeder>(memory_options(2), parts(100));
  auto first = feeder->next();
  auto second = feeder->next();
  REQUIRE(first);
  REQUIRE(second);
  CHECK_THROWS_WITH_AS((void)feeder->next(), doctest::Contains("queue.max_leases"), Error);
  first->release();
  auto third = feeder->next();
  REQUIRE(third);
  feeder.reset();
  CHECK(genuine(*second));
  CHECK(genuine(*third));
}

TEST_CASE("request_stop ends the run, also while next() would wait") {
  Options options = memory_options(2);
  options.workers.io = 1;
  Gate gate;
  gate.open(2);
  Feeder feeder(options, parts(100, [&](std::uint64_t) { gate.pass(); }));
  REQUIRE(feeder.next());
  feeder.request_stop();
  CHECK_FALSE(feeder.next().has_value());
  CHECK_FALSE(feeder.next().has_value());
  gate.open();
}

TEST_CASE("a program may end a wait by throwing, and the next call makes the same step") {
  struct Interrupted {};
  for (const MpiMode mode : {MpiMode::local, MpiMode::lockstep}) {
    Options options = memory_options(2);
    options.workers.io = 1;
    options.mpi.mode = mode;
    options.run.steps = 3;
    Gate gate;
    gate.open(2);
    bool interrupts = false;
    Parts made = parts(100, [&](std::uint64_t) { gate.pass(); });
    made.while_waiting = [&] {
      if (interrupts) throw Interrupted();
    };
    Feeder feeder(options, std::move(made));
    REQUIRE(feeder.next());
    interrupts = true;
    for (int i = 0; i < 3; ++i) CHECK_THROWS_AS((void)feeder.next(), Interrupted);
    CHECK(feeder.steps() == 1);
    gate.open();
    interrupts = false;
    for (const std::uint64_t step : {1U, 2U}) {
      const auto batch = feeder.next();
      REQUIRE(batch);
      CHECK(batch->step() == step);
      CHECK(batch->is_fresh());
      CHECK(batch->batch() == step);
    }
    CHECK_FALSE(feeder.next().has_value());
    CHECK(feeder.summary().steps == 3);
  }
}

TEST_CASE("a lease that has ended has nothing, and says so") {
  Feeder feeder(memory_options(2), parts(100));
  auto batch = feeder.next();
  REQUIRE(batch);
  Lease kept = *std::move(batch);
  const auto check_ended = [](const Lease& ended) {
    CHECK(ended.size() + ended.rows() + ended.epoch() + ended.batch() == 0);
    CHECK(ended.labels().empty());
    CHECK(ended.ids().empty());
    CHECK(ended.views().empty());
    CHECK(ended.images().data == nullptr);
    CHECK(ended.images().bytes() == 0);
    CHECK_THROWS_WITH_AS((void)ended.field(0), "Lease::field(): the lease has ended; call it before release()", Error);
    CHECK_THROWS_AS((void)ended.field("label"), Error);
    CHECK_THROWS_AS((void)ended.field_on_host(1), Error);
    CHECK_THROWS_AS((void)ended.counts(2), Error);
    CHECK_THROWS_AS(ended.copy_to_host({}), Error);
  };
  check_ended(*batch);
  CHECK(genuine(kept));
  kept.release();
  check_ended(kept);
}

TEST_CASE("a program may end the constructor's wait by throwing") {
  Gate gate;
  Parts made = parts(100, [&](std::uint64_t) { gate.pass(); });
  made.while_waiting = [&] {
    gate.open();  // lets the readers end
    throw std::logic_error("enough");
  };
  CHECK_THROWS_WITH_AS(Feeder(memory_options(2), std::move(made)), "enough", std::logic_error);
}

TEST_CASE("a program may end the wait of close() for a slow read by throwing, and closes again") {
  struct Interrupted {};
  Options options = memory_options(2);
  options.workers.io = 1;
  Gate gate;
  gate.open(2);
  bool is_closing = false;
  std::atomic<int> reads{0};
  Parts made = parts(100, [&](std::uint64_t) {
    ++reads;
    gate.pass();
  });
  made.while_waiting = [&] {
    if (is_closing) throw Interrupted();
  };
  Feeder feeder(options, std::move(made));
  REQUIRE(feeder.next());
  REQUIRE(eventually([&] { return reads > 2; }));  // the slow read is in progress
  is_closing = true;
  for (int i = 0; i < 3; ++i) CHECK_THROWS_AS(feeder.close(), Interrupted);
  CHECK_FALSE(feeder.next().has_value());
  gate.open();
  is_closing = false;
  feeder.close();
  CHECK(feeder.summary().steps == 1);
}

TEST_CASE("a stop flag that is set before the first batch ends the run at once") {
  std::atomic<bool> stop{true};
  Gate gate;
  Parts made = parts(100, [&](std::uint64_t) { gate.pass(); });
  made.stop = &stop;
  Feeder feeder(memory_options(2), std::move(made));
  CHECK_FALSE(feeder.next().has_value());
  gate.open();
}

TEST_CASE("the watchdog turns starvation into an error that says what the threads do, reuse or not") {
  Options options = memory_options(2);
  // Long enough, even on a busy machine, for the first batch to arrive and for the decoders to
  // become idle.
  options.policy.watchdog_s = 2;
  options.workers.io = 1;
  for (const char* policy : {"block", "greedy"}) {
    CAPTURE(policy);
    options.policy.name = policy;
    Gate gate;
    gate.open(2);  // one batch
    Feeder feeder(options, parts(100, [&](std::uint64_t) { gate.pass(); }));
    const std::string message = testing::error_of<WatchdogError>([&] {
      for (std::uint64_t step = 0; step < 100'000'000; ++step) (void)feeder.next();
    });
    CHECK(contains(message, "no fresh batch for"));
    CHECK(contains(message, "1 reader reading from the store"));
    CHECK(contains(message, "memory/"));
    CHECK(contains(message, "2 decoders waiting for work"));
    gate.open();
  }
}

TEST_CASE("the constructor fails when a worker does, and when the first batch never comes") {
  Options options = memory_options(2);
  CHECK_THROWS_WITH(
      Feeder(options, parts(100, [](std::uint64_t) { throw std::runtime_error("the store is on fire"); })),
      doctest::Contains("the store is on fire"));
  options.policy.watchdog_s = 0.1;
  options.storage.latency_ms = 1e7;
  CHECK_THROWS_AS(Feeder(options, parts(100)), WatchdogError);
}

TEST_CASE("bad options and bad parts are named") {
  Options options = memory_options(2);
  options.policy.name = "gredy";
  CHECK_THROWS_WITH_AS(Feeder(options, parts(4)), doctest::Contains("policy.name"), ConfigError);
  options.run.eval = true;  // asks no policy
  CHECK_NOTHROW(Feeder(options, parts(4)));
  options = memory_options(0);
  CHECK_THROWS_WITH_AS(Feeder(options, parts(4)), doctest::Contains("dataset.batch_size"), ConfigError);
  options = memory_options(8);
  options.dataset.drop_last = true;
  CHECK_THROWS_AS(Feeder(options, parts(4)), ConfigError);
}

constexpr unsigned kLimitS = 60;

// Runs `body` in a forked process and returns its exit code; not 0 if that takes too long.
int in_a_fork(const std::function<int()>& body) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::alarm(kLimitS);
    ::_exit(body());
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool is_refused(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return std::string_view(error.what()).find("fork") != std::string_view::npos;
  }
  return false;
}

TEST_CASE("in a fork every call that could wait for a thread is refused, and the parent's run continues") {
  auto feeder = std::make_unique<Feeder>(memory_options(8), parts(40));
  auto batch = feeder->next();
  REQUIRE(batch);
  CHECK_FALSE(feeder->is_forked());
  const int refused = in_a_fork([&] {
    const std::vector<std::function<void()>> calls{
        [&] { (void)feeder->next(); },
        [&] { (void)feeder->next_epoch(); },
        [&] { (void)feeder->state(); },
        [&] { feeder->save("never-written"); },
        [&] { feeder->finish_saves(); },
        [&] { feeder->restore("never-read"); },
        [&] { (void)feeder->restore_if_present("never-read"); },
        [&] { feeder->restore_state("{}"); },
        [&] { (void)feeder->summary(); },
        [&] { (void)feeder->profile(); },
        [&] { feeder->close(); },
        [&] { feeder->require_own_process(); },
    };
    for (std::size_t i = 0; i < calls.size(); ++i) {
      if (!is_refused(calls[i])) return static_cast<int>(i) + 1;
    }
    feeder->request_stop();
    batch->release();
    if (!feeder->is_forked() || feeder->steps() != 1) return 100;
    feeder.reset();  // joins nothing
    return 0;
  });
  CHECK(refused == 0);
  int steps = 1;
  while (feeder->next()) ++steps;
  CHECK(steps == 5);
  CHECK_NOTHROW(feeder->close());
}

TEST_CASE("a fork makes feeders of its own, also out of one that had a feeder before") {
  if (testing::kSanitized) return;  // ThreadSanitizer kills a forked process that starts threads
  Feeder feeder(memory_options(8), parts(16));
  REQUIRE(feeder.next());
  const int served = in_a_fork([&] {
    Feeder own(memory_options(8), parts(40));
    int steps = 0;
    while (own.next()) ++steps;
    feeder = std::move(own);  // destroys the inherited feeder
    return steps == 5 && !feeder.is_forked() ? in_a_fork([&] { return feeder.is_forked() ? 0 : 2; }) : 1;
  });
  CHECK(served == 0);
  CHECK(feeder.next());
}

}  // namespace
}  // namespace forebay::test_feeder
