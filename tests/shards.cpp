#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <forebay/error.hpp>
#include <forebay/order.hpp>

#include "order/ledger.hpp"
#include "order/rebalance.hpp"
#include "order/schedule.hpp"

namespace forebay {
namespace {

// Batches of one sample each.
Order order_of(std::uint64_t batches) {
  return Order(OrderOptions{.samples = batches, .batch_size = 1, .shuffle = false});
}

std::vector<BatchRef> planned(Schedule& schedule, std::uint64_t most = UINT64_MAX) {
  std::vector<BatchRef> batches;
  while (batches.size() < most) {
    const std::optional<BatchRef> batch = schedule.next();
    if (!batch) break;
    batches.push_back(*batch);
  }
  return batches;
}

std::uint64_t size_of(const std::vector<BatchRange>& ranges, std::uint32_t owner) {
  std::uint64_t size = 0;
  for (const BatchRange& range : ranges) size += range.owner == owner ? range.end - range.begin : 0;
  return size;
}

std::string error_of(const Partition& partition) {
  try {
    const Ledger ledger(partition);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("the ranks' batches are all batches, each once, in ascending order, by the shard rule") {
  for (const std::uint32_t shards : {7U, 8U, 13U, 64U, 1024U})
    for (const std::uint64_t batches : {1ULL, 13ULL, 21ULL, 333ULL, 1000ULL, 2999ULL})
      for (std::uint32_t ranks = 1; ranks <= 7; ++ranks) {
        CAPTURE(shards);
        CAPTURE(batches);
        CAPTURE(ranks);
        const Order order = order_of(batches);
        const Partition partition{.batches = batches, .shards = shards, .ranks = ranks, .epochs = 1};
        std::set<std::uint64_t> served;
        bool as_the_rule_says = true;
        for (std::uint32_t rank = 0; rank < ranks; ++rank) {
          Schedule schedule(order, Ledger(partition), rank);
          const std::vector<BatchRef> own = planned(schedule);
          CHECK(own.size() == batches_of(partition, rank));
          CHECK(own.size() <= most_batches(partition));
          CHECK(schedule.is_exhausted());
          std::uint64_t next_at_least = 0;
          for (const BatchRef& batch : own) {
            as_the_rule_says &= batch.batch % shards % ranks == rank && batch.batch >= next_at_least &&
                                batch.epoch == 0 && !batch.padding && served.insert(batch.batch).second;
            next_at_least = batch.batch + 1;
          }
        }
        CHECK(as_the_rule_says);
        CHECK(served.size() == batches);
        CHECK(*served.rbegin() == batches - 1);
      }
}

TEST_CASE("an epoch has as many steps as the rank with the most batches, also where that is not the first") {
  Partition partition{.batches = 20'000, .shards = 1024, .ranks = 48};
  CHECK(most_batches(partition) == 430);  // where 417 would do for equal shares
  partition.contiguous = true;
  CHECK(most_batches(partition) > batches_of(partition, 0));
}

TEST_CASE("every epoch deals the same batches to a rank, and no epoch beyond the last is planned") {
  const Order order = order_of(125);
  const Partition partition{.batches = 125, .shards = 16, .ranks = 3, .epochs = 3};
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    Schedule schedule(order, Ledger(partition), rank);
    const std::vector<BatchRef> all = planned(schedule);
    const std::uint64_t own = batches_of(partition, rank);
    REQUIRE(all.size() == 3 * own);
    for (std::uint64_t i = own; i < all.size(); ++i) {
      CHECK(all[i].epoch == i / own);
      CHECK(all[i].batch == all[i - own].batch);
    }
    CHECK(schedule.is_exhausted());
  }
}

TEST_CASE("a rank plans on in later epochs while an earlier one is not complete, but not without end") {
  const Order order = order_of(3000);
  const Partition partition{.batches = 3000, .shards = 1024, .ranks = 2};
  Schedule schedule(order, Ledger(partition), 0);
  const std::uint64_t first = planned(schedule).size();
  CHECK(first >= 2 * batches_of(partition, 0));
  CHECK(first <= 8 * batches_of(partition, 0));
  CHECK(schedule.is_idle());
  CHECK_FALSE(schedule.is_exhausted());
  schedule.complete(1);
  CHECK(planned(schedule).size() == batches_of(partition, 0));
}

TEST_CASE("a rank without batches has another rank's to pad with, and none to serve") {
  const Order order = order_of(3);
  const Partition partition{.batches = 3, .shards = 1024, .ranks = 7};
  for (std::uint32_t rank = 0; rank < 7; ++rank) {
    CAPTURE(rank);
    Schedule schedule(order, Ledger(partition), rank);
    CHECK(schedule.next().has_value() == (rank < 3));
    CHECK(schedule.is_exhausted() == (rank >= 3));
    CHECK(schedule.padding().padding);
    CHECK(schedule.padding().batch == rank % 3);
  }
}

TEST_CASE("more ranks than virtual shards are refused by the setting's name") {
  CHECK(error_of({.batches = 5, .shards = 3, .ranks = 4}).find("mpi.virtual_shards = 3") != std::string::npos);
  CHECK(error_of({.batches = 5, .shards = 4, .ranks = 4}).empty());
}

TEST_CASE("what was left of a job is dealt out to fewer and to more ranks, oldest epoch first") {
  const Order order = order_of(40);
  const std::vector<BatchRange> left{{.epoch = 3, .begin = 2, .end = 5, .shard = 0, .owner = 0},
                                     {.epoch = 3, .begin = 4, .end = 5, .shard = 5, .owner = 1},
                                     {.epoch = 4, .begin = 0, .end = 5, .shard = 0, .owner = 0},
                                     {.epoch = 4, .begin = 1, .end = 3, .shard = 5, .owner = 0}};
  for (const std::uint32_t ranks : {1U, 2U, 3U, 8U}) {
    CAPTURE(ranks);
    const Partition partition{.batches = 40, .shards = 8, .ranks = ranks, .epochs = 5};
    std::set<std::pair<std::uint64_t, std::uint64_t>> served;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      const Ledger ledger(partition, 3, 5, left, 2);
      CHECK(ledger.to_serve(3) == 4);
      CHECK(ledger.to_serve(4) == 7);
      Schedule schedule(order, ledger, rank);
      std::pair<std::uint64_t, std::uint64_t> last{0, 0};
      for (const BatchRef& batch : planned(schedule)) {
        const std::pair now{batch.epoch, batch.batch};
        CHECK(served.insert(now).second);
        CHECK(now > last);
        last = now;
        // With two ranks as before each keeps its ranges, else shard v goes to rank v mod P.
        if (ranks == 2) CHECK(rank == (batch.epoch == 3 && batch.batch % 8 == 5 ? 1 : 0));
        if (ranks != 2) CHECK(rank == batch.batch % 8 % ranks);
      }
    }
    CHECK(served.size() == 11);
    CHECK(served.contains({3, 16}));
    CHECK(served.contains({3, 37}));
    CHECK_FALSE(served.contains({4, 5}));
  }
}

TEST_CASE("epochs after the saved ones are dealt out as usual") {
  const Order order = order_of(6);
  const Partition partition{.batches = 6, .shards = 6, .ranks = 1, .epochs = 4};
  Schedule schedule(order, Ledger(partition, 1, 2, {{.epoch = 1, .begin = 0, .end = 1, .shard = 4, .owner = 0}}, 1), 0);
  const auto batches = planned(schedule);
  REQUIRE(batches.size() == 1 + 6 + 6);
  CHECK(batches[0] == BatchRef{.epoch = 1, .batch = 4, .size = 1});
  CHECK(batches[1] == BatchRef{.epoch = 2, .batch = 0, .size = 1});
  CHECK(batches.back() == BatchRef{.epoch = 3, .batch = 5, .size = 1});
}

TEST_CASE("nothing is handed over between ranks that keep pace, nor before a rank has served something") {
  std::vector<BatchRange> ranges;
  for (std::uint32_t shard = 0; shard < 16; ++shard) ranges.push_back({0, 10 + shard % 3, 40, shard, shard % 4});
  const std::vector<BatchRange> before = ranges;
  std::vector<RankWork> ranks(4, {.backlog = 19, .pace = 0, .frontier = 0});
  rebalance(ranges, ranks, {});
  CHECK(ranges == before);
  for (std::size_t rank = 0; rank < 4; ++rank) ranks[rank].pace = 100 + 3 * rank;
  rebalance(ranges, ranks, {});
  CHECK(ranges == before);
}

TEST_CASE("a slow rank keeps its share, the others take the rest evenly, and nothing is lost") {
  std::vector<BatchRange> ranges;
  for (std::uint32_t shard = 0; shard < 16; ++shard) ranges.push_back({0, 0, 50, shard, shard % 4});
  std::vector<RankWork> ranks(4, {.backlog = 10, .pace = 100, .frontier = 0});
  ranks[2].pace = 20;
  rebalance(ranges, ranks, {});
  tidy(ranges);
  std::uint64_t total = 0;
  for (std::uint32_t rank = 0; rank < 4; ++rank) total += size_of(ranges, rank);
  CHECK(total == 800);
  // Its share of all 840, less what it has planned; shares are rounded down, so a few batches stay.
  CHECK(size_of(ranges, 2) >= 840 * 20 / 320 - 10);
  CHECK(size_of(ranges, 2) <= 840 * 20 / 320 - 10 + 3);
  for (const std::uint32_t rank : {0U, 1U, 3U}) {
    CHECK(size_of(ranges, rank) >= 251);
    CHECK(size_of(ranges, rank) <= 253);
  }
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i].shard == ranges[i - 1].shard) CHECK(ranges[i].begin == ranges[i - 1].end);
  }
}

TEST_CASE("a stalled rank gives away all that it has not planned, the last batches first") {
  std::vector<BatchRange> ranges{{0, 2, 30, 0, 0}, {0, 3, 30, 1, 1}};
  std::vector<RankWork> ranks{{.backlog = 5, .pace = 0, .frontier = 0}, {.backlog = 5, .pace = 7, .frontier = 0}};
  rebalance(ranges, ranks, {});
  CHECK(size_of(ranges, 0) == 0);
  CHECK(size_of(ranges, 1) == 55);

  ranges = {{0, 2, 30, 0, 0}, {0, 3, 10, 1, 1}};
  ranks[0].pace = 7;
  rebalance(ranges, ranks, {});
  tidy(ranges);
  REQUIRE(ranges.size() == 3);
  CHECK(ranges[0].owner == 0);
  CHECK(ranges[0].begin == 2);
  CHECK(ranges[1].owner == 1);
  CHECK(ranges[1].end == 30);
}

TEST_CASE("a rank gets nothing of an epoch that it has gone past when epochs are served in order") {
  const std::vector<BatchRange> ranges{{0, 0, 60, 0, 0}, {1, 0, 60, 0, 0}, {1, 0, 60, 1, 1}};
  std::vector<RankWork> ranks{{.backlog = 0, .pace = 10, .frontier = 0}, {.backlog = 9, .pace = 10, .frontier = 1}};
  std::vector<BatchRange> dealt = ranges;
  rebalance(dealt, ranks, {.keep_epoch_order = true});
  CHECK(std::ranges::none_of(dealt, [](const BatchRange& range) { return range.epoch == 0 && range.owner == 1; }));
  CHECK(std::ranges::any_of(
      dealt, [](const BatchRange& range) { return range.epoch == 1 && range.shard == 0 && range.owner == 1; }));
  dealt = ranges;
  rebalance(dealt, ranks, {});
  CHECK(std::ranges::any_of(dealt, [](const BatchRange& range) { return range.epoch == 0 && range.owner == 1; }));
}

TEST_CASE("tidy sorts, drops what is empty and joins neighbours of one owner") {
  std::vector<BatchRange> ranges{
      {0, 5, 9, 1, 2}, {0, 2, 2, 0, 1}, {0, 1, 5, 1, 2}, {0, 9, 11, 1, 0}, {1, 11, 12, 1, 0}};
  tidy(ranges);
  CHECK(ranges == std::vector<BatchRange>{{0, 1, 9, 1, 2}, {0, 9, 11, 1, 0}, {1, 11, 12, 1, 0}});
  ranges = {{0, 2, 2, 0, 1}};
  tidy(ranges);
  CHECK(ranges.empty());
}

}  // namespace
}  // namespace forebay
