// The rule by which batches change hands, against its plain definition, and in jobs of 100,000 ranks.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <tuple>
#include <vector>

#include <forebay/random.hpp>

#include "order/ledger.hpp"
#include "order/rebalance.hpp"
#include "support.hpp"

namespace forebay {
namespace {

std::uint64_t size_of(const BatchRange& range) { return range.end - range.begin; }

// rebalance(), with a look at every range for each rank that gives, and at every rank for each that takes.
class Definition {
 public:
  Definition(std::vector<BatchRange>& ranges, const std::vector<RankWork>& ranks, const RebalanceRule& rule)
      : ranges_(ranges), ranks_(ranks), rule_(rule) {
    for (const RankWork& rank : ranks) {
      work_.push_back(rank.backlog);
      paces_ += rank.pace;
      fastest_ = std::max(fastest_, rank.pace);
    }
  }

  void partition() {
    if (paces_ == 0) return;
    const std::uint64_t frontier = std::ranges::max(ranks_, {}, &RankWork::frontier).frontier;
    std::optional<std::uint64_t> dealt;
    for (std::size_t i = 0; i < ranges_.size(); ++i) {
      const std::uint64_t epoch = ranges_[i].epoch;
      if (dealt == epoch || epoch > std::max(rule_.last, frontier + 1)) continue;
      dealt = epoch;
      deal_epoch(epoch);
    }
    ranges_.insert(ranges_.end(), cut_.begin(), cut_.end());
  }

 private:
  void deal_epoch(std::uint64_t epoch) {
    std::vector<std::uint64_t> movable(ranks_.size(), 0);
    for (const BatchRange& range : ranges_) {
      if (range.epoch == epoch) movable[range.owner] += size_of(range);
    }
    for (std::size_t rank = 0; rank < work_.size(); ++rank) work_[rank] += movable[rank];
    const std::uint64_t total = std::accumulate(work_.begin(), work_.end(), std::uint64_t{0});
    for (std::uint32_t rank = 0; rank < work_.size(); ++rank) {
      const std::uint64_t fair = share(total, rank, 0);
      const std::uint64_t few =
          rule_.keep_epoch_order ? std::max<std::uint64_t>(1, 4 * ranks_[rank].pace / fastest_) : 4;
      if (work_[rank] <= fair + std::max(fair / 4, few)) continue;
      give(rank, epoch, total, std::min(work_[rank] - fair, movable[rank]));
    }
  }

  [[nodiscard]] std::uint64_t share(std::uint64_t total, std::uint32_t rank, std::uint64_t rest) const {
    return (total * ranks_[rank].pace + rest) / paces_;  // small numbers only
  }

  void give(std::uint32_t giver, std::uint64_t epoch, std::uint64_t total, std::uint64_t surplus) {
    std::vector<BatchRange*> own = in_order(giver, epoch);
    while (surplus > 0 && !own.empty()) {
      std::uint32_t taker = 0;
      std::uint64_t room = 0;
      for (std::uint32_t rank = 0; rank < work_.size(); ++rank) {
        if (rule_.keep_epoch_order && ranks_[rank].frontier > epoch) continue;
        const std::uint64_t fair = share(total, rank, rule_.keep_epoch_order ? paces_ / 2 : 0);
        if (fair <= work_[rank] + room) continue;
        taker = rank;
        room = fair - work_[rank];
      }
      if (room == 0) return;
      const std::uint64_t moved = give_to(taker, std::min(surplus, room), own);
      work_[giver] -= moved;
      work_[taker] += moved;
      surplus -= moved;
    }
  }

  // The range of which the rank would serve the last batch is the last.
  [[nodiscard]] std::vector<BatchRange*> in_order(std::uint32_t rank, std::uint64_t epoch) {
    std::vector<BatchRange*> own;
    for (BatchRange& range : ranges_) {
      if (range.epoch == epoch && range.owner == rank && size_of(range) > 0) own.push_back(&range);
    }
    std::ranges::sort(own, {}, [&](const BatchRange* range) {
      const std::uint64_t shard = range->shard;
      return rule_.contiguous ? std::tuple(shard, range->end) : std::tuple(range->end, shard);
    });
    return own;
  }

  std::uint64_t give_to(std::uint32_t taker, std::uint64_t most, std::vector<BatchRange*>& own) {
    std::uint64_t moved = 0;
    while (moved < most && !own.empty()) {
      BatchRange& last = *own.back();
      const std::uint64_t wanted = most - moved;
      if (size_of(last) > wanted && ranges_.size() + cut_.size() < rule_.most_ranges) {
        last.end -= wanted;
        cut_.push_back({last.epoch, last.end, last.end + wanted, last.shard, taker});
        return most;
      }
      if (size_of(last) <= wanted) {
        last.owner = taker;
        moved += size_of(last);
      }
      own.pop_back();
    }
    return moved;
  }

  std::vector<BatchRange>& ranges_;
  const std::vector<RankWork>& ranks_;
  RebalanceRule rule_;
  std::uint64_t paces_ = 0;
  std::uint64_t fastest_ = 0;
  std::vector<std::uint64_t> work_;
  std::vector<BatchRange> cut_;
};

TEST_CASE("it does what its definition says, whatever the ranges, the paces and the rule") {
  constexpr std::uint64_t seed = 23;
  CAPTURE(seed);
  Random random(seed);
  std::size_t moved = 0;
  for (int round = 0; round < (testing::kSanitized ? 300 : 3000); ++round) {
    CAPTURE(round);
    const std::uint64_t count = 1 + random.below(24);
    std::vector<RankWork> ranks;
    for (std::uint64_t rank = 0; rank < count; ++rank) {
      ranks.push_back({.backlog = random.below(6),
                       .pace = random.below(3) == 0 ? random.below(20) : 100 + random.below(4),
                       .frontier = random.below(3)});
    }
    std::vector<BatchRange> ranges;
    const std::uint64_t epochs = 1 + random.below(4);
    for (std::uint64_t epoch = 0; epoch < epochs; ++epoch) {
      for (std::uint32_t shard = 0; shard < 30; ++shard) {
        const std::uint64_t end = random.below(12);
        const auto owner = static_cast<std::uint32_t>(random.below(4) == 0 ? random.below(count) : shard % count);
        ranges.push_back({epoch, random.below(end + 1), end, shard, owner});
      }
    }
    const RebalanceRule rule{.keep_epoch_order = random.below(2) == 0,
                             .contiguous = random.below(2) == 0,
                             .last = random.below(4),
                             .most_ranges = ranges.size() + (random.below(2) == 0 ? 1000 : random.below(4))};
    std::vector<BatchRange> expected = ranges;
    Definition(expected, ranks, rule).partition();
    const std::vector<BatchRange> before = ranges;
    rebalance(ranges, ranks, rule);
    REQUIRE(ranges == expected);
    moved += ranges != before ? 1 : 0;
  }
  CHECK(moved > 100);
}

// The definition would look 10^10 times.
TEST_CASE("with 100,000 ranks, of which a quarter is slow, nobody keeps much more than its pace deserves") {
  constexpr std::uint32_t kRanks = testing::kSanitized ? 12'500 : 100'000;
  constexpr std::uint32_t kShards = testing::kSanitized ? 16'384 : 131'072;
  const Partition partition{.batches = std::uint64_t{200} * kShards, .shards = kShards, .ranks = kRanks};
  Ledger ledger(partition);
  std::vector<BatchRange> ranges(ledger.ranges().begin(), ledger.ranges().end());
  std::vector<RankWork> ranks(kRanks, {.backlog = 19, .pace = RankWork::kPace, .frontier = 0});
  for (std::uint32_t rank = 0; rank < kRanks; rank += 4) ranks[rank].pace = RankWork::kPace / 4;
  rebalance(ranges, ranks, {.most_ranges = Ledger::cut_up_to(partition)});
  CHECK(ranges.size() <= Ledger::cut_up_to(partition));
  std::vector<std::uint64_t> work(kRanks, 19);
  std::uint64_t total = 0;
  for (const BatchRange& range : ranges) {
    if (range.epoch > 0) continue;
    work[range.owner] += size_of(range);
    total += size_of(range);
  }
  CHECK(total == partition.batches);
  const std::uint64_t of_fast = (total + 19ULL * kRanks) / (kRanks - kRanks / 4 * 3 / 4);
  std::size_t too_much = 0;
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    const std::uint64_t fair = rank % 4 == 0 ? of_fast / 4 : of_fast;
    too_much += work[rank] > fair * 5 / 4 + 5 ? 1 : 0;
  }
  CHECK(too_much == 0);
  ledger.replace(ranges);
  CHECK(ledger.ranges().size() <= Ledger::most_ranges(partition));
}

}  // namespace
}  // namespace forebay
