#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include <forebay/random.hpp>

#include "eventually.hpp"
#include "read/queues.hpp"

namespace {

using namespace forebay;

constexpr std::uint64_t kSeed = 20261121;

EncodedSample sample(std::uint64_t turn, std::uint32_t index) {
  EncodedSample encoded;
  encoded.request.turn = turn;
  encoded.request.index = index;
  return encoded;
}

}  // namespace

TEST_CASE("samples of earlier batches come first, whichever thread pushed them, and when") {
  for (const std::uint32_t capacity : {1U, 2U, 7U, 16U, 33U, 200U}) {
    CAPTURE(capacity);
    EncodedQueue queue(capacity);
    // If there may be many turns, several share a bucket, and their samples may come in any order.
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
  // Not all at once, so that threads have to wait.
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

  // All at once: whoever leaves some behind wakes the next.
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
