// The states of jobs stay small, whatever their ranks have handed over.

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <forebay/random.hpp>

#include "order/job_state.hpp"
#include "order/ledger.hpp"
#include "order/rebalance.hpp"
#include "states.hpp"
#include "support.hpp"

namespace forebay {
namespace {

using testing::blocks_of;
using testing::job;
using testing::leave;
using testing::put_in_order;

constexpr std::size_t kLimit = std::size_t{64} << 10U;

void check_round_trip(const JobState& state) { CHECK(parse_state(to_text(state), "a state") == state); }

TEST_CASE("what ranks leave without hand-over takes a few bytes per rank") {
  Random random(5);
  for (const std::uint32_t ranks : {1U, 4U, 64U, 512U, 1024U}) {
    CAPTURE(ranks);
    JobState state = job(1024, ranks, 1'000'003, 12, 2);
    const std::uint64_t base = 1'000'000 / ranks * 3 / 4;
    leave(state, [&](std::uint32_t) { return base + random.below(1 + 500'000 / ranks); });
    check_round_trip(state);
    const std::size_t size = to_text(state).size();
    MESSAGE(ranks << " ranks: " << size << " bytes for " << state.left.size() << " ranges");
    CHECK(size < 1400 + 32 * ranks);
  }
}

TEST_CASE("the worst states stay below 64 KiB") {
  const std::uint64_t seed = 7;
  CAPTURE(seed);
  Random random(seed);
  // Three epochs of a large dataset (5 million batches each), every shard somewhere else and with any rank; 1,024
  // ranges are cut off and with another one.
  for (const std::uint32_t ranks : {2U, 300U, 1023U, 1024U}) {
    CAPTURE(ranks);
    JobState state = job(1024, ranks, 1024 * 5'000ULL + 500, 100, 3);
    const auto anybody = [&] { return static_cast<std::uint32_t>(random.below(ranks)); };
    for (std::uint64_t i = 0; i < 3072; ++i) {
      const auto shard = static_cast<std::uint32_t>(i % 1024);
      const std::uint64_t epoch = 100 + i / 1024;
      const std::uint64_t begin = 1'000 + random.below(3'000);
      const std::uint64_t cut = i % 3 == 0 ? begin + 1 + random.below(900) : begin;
      if (cut > begin) {
        state.left.push_back({.epoch = epoch, .begin = begin, .end = cut, .shard = shard, .owner = anybody()});
      }
      state.left.push_back(
          {.epoch = epoch, .begin = cut, .end = blocks_of(state, shard), .shard = shard, .owner = anybody()});
    }
    REQUIRE(state.left.size() == 4 * 1024);
    check_round_trip(state);
    const std::size_t size = to_text(state).size();
    MESSAGE("large epochs, " << ranks << " ranks: " << size << " bytes");
    CHECK(size < kLimit);
  }
  // Thousands of epochs of a small dataset, in each of them one shard left, and 768 ranges with another rank.
  for (const std::uint64_t batches : {1U, 2U, 64U, 1024U, 2000U}) {
    CAPTURE(batches);
    constexpr std::uint32_t ranks = 1024;
    JobState state = job(1024, ranks, batches, 1'000'000, 3072);
    for (std::uint64_t epoch = state.epochs; epoch < state.opened; ++epoch) {
      const auto shard = static_cast<std::uint32_t>(random.below(std::min<std::uint64_t>(batches, 1024)));
      state.left.push_back(
          {.epoch = epoch, .begin = 0, .end = blocks_of(state, shard), .shard = shard, .owner = shard});
      const auto other = (shard + 1) % static_cast<std::uint32_t>(std::min<std::uint64_t>(batches, 1024));
      if (epoch % 4 != 0 || other == shard) continue;
      state.left.push_back(
          {.epoch = epoch, .begin = 0, .end = blocks_of(state, other), .shard = other, .owner = (other + 512) % ranks});
    }
    put_in_order(state);
    check_round_trip(state);
    const std::size_t size = to_text(state).size();
    MESSAGE("3072 epochs of " << batches << " batches: " << size << " bytes for " << state.left.size() << " ranges");
    CHECK(size < kLimit);
  }
}

TEST_CASE("a job whose ranks hand everything over again and again has a small state") {
  for (const std::uint64_t batches : {1024ULL * 40, 50'000'000ULL}) {
    for (const std::uint32_t ranks : {2U, 8U, 64U, 512U}) {
      if (testing::kSanitized && ranks > 8) break;
      for (const std::uint64_t slow : {0U, 300U, 8000U}) {
        CAPTURE(batches);
        CAPTURE(ranks);
        CAPTURE(slow);
        Ledger ledger({.batches = batches, .shards = 1024, .ranks = ranks, .epochs = UINT64_MAX}, 1000, 1000, {},
                      ranks);
        for (std::uint32_t round = 0; round < 12; ++round) {
          // Another rank is the only fast one each time.
          std::vector<RankWork> works(ranks, {.backlog = 4, .pace = slow, .frontier = 1000});
          works[round % ranks].pace = 65'536;
          std::vector<BatchRange> ranges(ledger.ranges().begin(), ledger.ranges().end());
          rebalance(ranges, works, {});
          ledger.replace(ranges);
          if (round % 4 != 0 && round != 11) continue;
          JobState state = job(1024, ranks, batches, 1000, static_cast<std::uint32_t>(ledger.opened() - 1000));
          state.left.assign(ledger.ranges().begin(), ledger.ranges().end());
          CHECK(to_text(state).size() < kLimit / 2);
        }
      }
    }
  }
}

}  // namespace
}  // namespace forebay
