// queue.capacity = "auto": the ring that grows, when it grows, how much memory it takes, and that
// nothing else depends on it.
#include <forebay/feeder.hpp>

#include "job/start_checks.hpp"
#include "memory_dataset.hpp"
#include "read/queues.hpp"
#include "ring/queue_growth.hpp"
#include "ring/slot_ring.hpp"
#include "test.hpp"

namespace forebay::test_queue_growth {

using namespace forebay::job;
using namespace forebay::read;
using namespace forebay::ring;

namespace {

using namespace testing;

// Batches of 9 MB each, large enough for the queue to start with two.
Options large_batches() {
  Options options = memory_options(1);
  options.transform.size = {864, 864};
  options.transform.dtype = DType::float32;
  options.workers.io = 1;
  options.queue = {.capacity = 0, .pool = 1, .max_leases = 1};
  options.policy.name = "greedy";
  return options;
}

constexpr std::int64_t kSlot = 864LL * 864 * 3 * 4 + 4096;

// How many slots' worth of memory was taken since there were `before` bytes. Not measurable under
// sanitizers.
std::uint64_t slots_taken(std::uint64_t before) {
  const std::uint64_t now = testing::kSanitized ? before : std::max(before, resident_bytes());
  return (now - before) / static_cast<std::uint64_t>(kSlot);
}

TEST_CASE("a ring that grows lends slots that were never used, and claims no more than it may hold") {
  SlotRing ring({2, 5}, 7, UINT64_MAX);
  std::atomic<bool> stopped{false};
  std::set<std::uint32_t> slots;
  const auto claim_all = [&](std::uint64_t turns) {
    SlotRing::Claim claim{};
    while (slots.size() < turns) {
      REQUIRE(ring.claim(stopped, claim));
      CHECK(slots.insert(claim.slot).second);
      ring.publish(claim.turn);
    }
  };
  claim_all(2);
  CHECK(slots == std::set<std::uint32_t>{0, 1});
  CHECK(ring.depth() == 2);
  ring.grow(1);  // it never shrinks
  CHECK(ring.capacity() == 2);
  ring.want(3);
  CHECK(ring.capacity() == 2);
  ring.pass();
  CHECK(ring.capacity() == 3);
  claim_all(3);
  ring.grow(4096);
  CHECK(ring.capacity() == 5);
  CHECK(ring.most_capacity() == 5);
  claim_all(5);
  CHECK(ring.depth() == 5);
  stopped = true;
  SlotRing::Claim claim{};
  CHECK_FALSE(ring.claim(stopped, claim));  // a sixth claim would block
}

TEST_CASE("a queue grows for steps that lacked a batch, and only where more room would have had it") {
  QueueGrowth growth({2, 16});
  Signals signals;
  const auto step = [&](Decision decision, double seconds, std::uint64_t batches) {
    signals.now_s += seconds;
    signals.produced += batches;
    ++signals.step;
    return growth.decided(decision, signals);
  };
  for (int i = 0; i < 100; ++i) CHECK(step(Decision::fresh, 0.1, 1) == 2);
  SUBCASE("a pause under a policy that reuses") {
    CHECK(step(Decision::reuse, 0.1, 0) == 2);
    CHECK(step(Decision::reuse, 0.3, 0) == 6);  // 3.6 batches behind, at nine tenths of the pace
    CHECK(step(Decision::reuse, 0.1, 0) == 12);
    CHECK(step(Decision::reuse, 100, 0) == 16);
    CHECK(step(Decision::reuse, 100, 0) == 16);
  }
  SUBCASE("a wait that production, always at work, could not have avoided") {
    signals.waited_s = 1;
    CHECK(step(Decision::fresh, 1, 1) == 2);
  }
  SUBCASE("a wait after a full queue had stopped production for longer than a batch takes") {
    signals.blocked_s = 0.3;
    signals.waited_s = 0.9;
    CHECK(step(Decision::fresh, 1, 1) > 2);
  }
  SUBCASE("time in which production was stopped is no pause") {
    signals.blocked_s = 10;
    CHECK(step(Decision::reuse, 10, 1) == 2);
  }
}

// One step: the sample of its batch, and how often the batch was served before.
using Step = std::pair<std::uint64_t, std::uint64_t>;

bool step_into(std::vector<Step>& steps, Feeder& feeder) {
  const auto batch = feeder.next();
  if (batch) steps.emplace_back(batch->ids()[0], batch->use_index());
  return batch.has_value();
}

std::vector<std::uint64_t> fresh_of(const std::vector<Step>& steps) {
  std::vector<std::uint64_t> ids;
  for (const auto& [id, uses] : steps) {
    if (uses == 0) ids.push_back(id);
  }
  return ids;
}

std::vector<Step> run_of(const Options& options, std::uint64_t batches) {
  std::vector<Step> steps;
  Feeder feeder(options, parts(batches));
  while (step_into(steps, feeder)) {
  }
  return steps;
}

TEST_CASE("memory is taken as the queue grows, which changes neither the batches nor their order, nor a replay") {
  constexpr std::uint64_t kBatches = 30;
  const testing::TemporaryDirectory dir;
  Options options = large_batches();
  options.queue.memory = 7 * kSlot;
  options.telemetry.dir = dir.path().string();
  options.telemetry.per_step = false;
  options.policy.max_wait_ms = 1;  // a spinning trainer would make more steps than can be recorded
  std::vector<Step> steps;
  {
    Gate gate;
    gate.open(12);
    const std::uint64_t before = resident_bytes();
    Feeder feeder(options, parts(kBatches, [&](std::uint64_t) { gate.pass(); }));
    const std::uint64_t taken = slots_taken(before);
    CHECK(taken < feeder.summary().queue_capacity + 3);  // one resident batch, and the threads' own memory
    CHECK(contains(feeder.describe(), "ring of 7 slots (2 to 6 ready, 1 resident, 0 leased)"));
    for (int fresh = 0; fresh < 12; fresh += steps.back().second == 0 ? 1 : 0) REQUIRE(step_into(steps, feeder));
    // Nothing arrives: each step reuses, until the pause has lasted as long as three batches take.
    CHECK(testing::eventually([&] { return step_into(steps, feeder) && feeder.summary().queue_capacity == 6; }));
    gate.open();
    while (step_into(steps, feeder)) {
    }
    CHECK(feeder.summary().queue_capacity == 6);
    CHECK(slots_taken(before) < 9);
  }
  options.telemetry.dir = "";
  options.policy.name = "replay";
  options.policy.recording = dir.path().string();
  CHECK(run_of(options, kBatches) == steps);
  options.policy.name = "block";
  options.queue.capacity = 6;
  CHECK(fresh_of(run_of(options, kBatches)) == fresh_of(steps));
}

TEST_CASE("small batches get their whole queue at once, and too few bytes are refused with what is needed") {
  Options options = memory_options(4);
  options.queue = {.capacity = 0, .pool = 4, .max_leases = 2};
  CHECK(Feeder(options, parts(8)).summary().queue_capacity == 16);
  options = large_batches();
  options.queue.memory = 3 * kSlot;
  options.mpi.mode = MpiMode::lockstep;  // which needs more than mpi.lag = 2
  CHECK_THROWS_WITH_AS(Feeder(options, parts(8)), doctest::Contains("holds 3 batches of"), ConfigError);
  options.queue.memory = 4 * kSlot;
  CHECK(Feeder(options, parts(8)).summary().queue_capacity == 3);
}

constexpr std::uint64_t kSeed = 20261121;

EncodedSample sample(std::uint64_t turn, std::uint32_t index) {
  EncodedSample encoded;
  encoded.request.turn = turn;
  encoded.request.index = index;
  return encoded;
}

TEST_CASE("samples of earlier batches come first, whichever thread pushed them, and when") {
  for (const std::uint32_t capacity : {1U, 2U, 7U, 16U, 33U, 200U}) {
    CAPTURE(capacity);
    EncodedQueue queue(capacity);
    // If many turns are possible, several share a bucket, and their samples may come in any order.
    const std::uint64_t group = (capacity + 31) / 32;
    Random random(kSeed);
    for (std::uint64_t newest : {std::uint64_t{capacity} - 1, std::uint64_t{capacity} + 12345}) {
      queue.begin_turn(newest);
      std::vector<EncodedSample> samples;
      for (std::uint64_t turn = newest + 1 - capacity; turn <= newest; ++turn) {
        for (std::uint32_t index = 0; index < 3; ++index) samples.push_back(sample(turn, index));
      }
      for (std::size_t i = samples.size() - 1; i > 0; --i) std::swap(samples[i], samples[random.below(i + 1)]);
      const std::size_t half = samples.size() / 2;
      std::thread([&] { queue.push(std::span(samples).first(half)); }).join();
      queue.push(std::span(samples).subspan(half));
      CHECK(queue.size_guess() == samples.size());

      std::vector<std::uint64_t> turns;
      std::array<EncodedSample, 5> taken;
      while (turns.size() < samples.size()) {
        const std::size_t count = queue.take(std::span(taken).first(1 + random.below(5)));
        for (std::size_t i = 0; i < count; ++i) turns.push_back(taken[i].request.turn / group);
      }
      CHECK(std::ranges::is_sorted(turns));
      CHECK(queue.size_guess() == 0);
    }
  }
}

TEST_CASE("every sample is taken exactly once by one of many threads, and no thread waits for ever") {
  constexpr std::uint32_t kCapacity = 4;
  constexpr std::uint64_t kTurns = 3000;
  constexpr std::uint32_t kBatch = 6;
  EncodedQueue queue(kCapacity);
  std::vector<std::atomic<std::uint32_t>> taken(kTurns);
  std::atomic<std::uint64_t> total{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 3; ++thread) {
    threads.emplace_back([&] {
      std::array<EncodedSample, 4> out;
      while (const std::size_t count = queue.take(out)) {
        for (std::size_t i = 0; i < count; ++i) taken[out[i].request.turn].fetch_add(1U << (5 * out[i].request.index));
        total += count;
      }
    });
  }
  std::atomic<std::uint64_t> next{0};
  // Not all at once, so that threads must wait.
  const auto push = [&] {
    for (std::uint64_t turn = next++; turn < kTurns; turn = next++) {
      if (!testing::eventually([&] { return total + kCapacity * kBatch > (turn + 2) * kBatch; })) return;
      std::vector<EncodedSample> samples;
      for (std::uint32_t index = 0; index < kBatch; ++index) samples.push_back(sample(turn, index));
      queue.push(samples);
    }
  };
  std::thread other(push);
  push();
  other.join();
  CHECK(testing::eventually([&] { return total == kTurns * kBatch; }));
  queue.close();
  for (std::thread& thread : threads) thread.join();
  CHECK(std::ranges::all_of(taken, [](const auto& bits) { return bits == 0x2108421U; }));
}

TEST_CASE("a closed queue wakes all waiting threads and gives nothing more") {
  EncodedQueue queue(2);
  std::vector<std::thread> threads;
  std::atomic<int> ended{0};
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      std::array<EncodedSample, 2> out;
      if (queue.take(out) == 0) ++ended;
    });
  }
  queue.close();
  for (std::thread& thread : threads) thread.join();
  CHECK(ended == 4);
  std::vector<EncodedSample> late{sample(0, 0)};
  queue.push(late);
  std::array<EncodedSample, 2> out;
  CHECK(queue.take(out) == 0);
}

TEST_CASE("a thread wakes for every element while those awake hold one each, though others took many at once") {
  QueueGate gate;
  gate.add(16);
  CHECK(gate.take(16) == 16);
  constexpr int kThreads = 4;
  std::atomic<int> holding{0};
  std::atomic<int> met{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      if (gate.take(thread % 2 == 0 ? 1 : 16) == 0) return;
      ++holding;
      if (testing::eventually([&] { return holding == kThreads; })) ++met;
    });
  }
  for (int element = 0; element < kThreads; ++element) {
    gate.add(1);
    CHECK(testing::eventually([&] { return gate.size_guess() == 0; }));
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(met == kThreads);

  // All at once: a thread that leaves elements behind wakes the next.
  threads.clear();
  holding = met = 0;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&] {
      if (gate.take(1) == 0) return;
      ++holding;
      if (testing::eventually([&] { return holding == kThreads; })) ++met;
    });
  }
  gate.add(kThreads);
  for (std::thread& thread : threads) thread.join();
  CHECK(met == kThreads);
}

}  // namespace
}  // namespace forebay::test_queue_growth
