// The rule by which ranks hand over batches at an exchange. It is pure, uses integers, and every
// rank computes it from the same numbers, so that all arrive at the same ledger. It goes epoch by
// epoch. A rank's fair share of what is left is in proportion to its pace. A rank that is above its
// share by more than a quarter gives until it is at its share; those furthest below their shares
// take. Costs n log n in ranges and ranks, since it runs inside a step.
//
// A rank gives away the batches that it would serve last, which does not disturb its own plan. One
// taker gets all that it lacks before the next gets any, which keeps ranges long.

#include "rebalance.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <numeric>
#include <tuple>

#include "ledger.hpp"

namespace forebay::order {
namespace {

// Smaller differences come from uneven shards and a noisy queue. In batches. If the other ranks
// wait for the end of an epoch: in steps, and at least one batch, so that a slow rank is tried
// again.
constexpr std::uint64_t kTolerated = 4;

std::uint64_t size_of(const BatchRange& range) { return range.end - range.begin; }

// The share of the total for a pace, rounded down, or to nearest with `rest` = paces / 2. In 128
// bits, because both factors may be large.
std::uint64_t share(std::uint64_t total, std::uint64_t pace, std::uint64_t paces, std::uint64_t rest = 0) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>((static_cast<Wide>(total) * pace + rest) / paces);
}

// The ranges of one epoch, grouped by owner.
class Owned {
 public:
  Owned(std::span<const BatchRange> ranges, std::size_t first, std::size_t end, std::size_t ranks)
      : ends_(ranks + 1), numbers_(end - first) {
    // A counting sort: ends_[r + 1] is first the number of ranges of rank r, then their end in
    // numbers_; ends_[r] is where they begin.
    for (std::size_t i = first; i < end; ++i) ++ends_[ranges[i].owner + 1];
    std::partial_sum(ends_.begin(), ends_.end(), ends_.begin());
    std::vector<std::size_t> at(ends_.begin(), ends_.end() - 1);
    for (std::size_t i = first; i < end; ++i) numbers_[at[ranges[i].owner]++] = i;
  }

  [[nodiscard]] std::span<const std::size_t> of(std::uint32_t rank) const {
    return std::span(numbers_).subspan(ends_[rank], ends_[rank + 1] - ends_[rank]);
  }

 private:
  std::vector<std::size_t> ends_;
  std::vector<std::size_t> numbers_;
};

// The ranks below their shares, in a heap: the furthest below first, and of equals the lowest.
// Entries may be out of date and are checked again when they come to the top. So a hand-over costs
// the logarithm of the number of ranks instead of a look at each.
class Takers {
 public:
  struct Taker {
    std::uint64_t room = 0;  // in batches
    std::uint32_t rank = 0;
  };

  // `room_of`: how many batches a rank is below its share now.
  template <typename RoomOf>
  [[nodiscard]] Taker furthest_below(RoomOf&& room_of) {
    while (!heap_.empty()) {
      std::ranges::pop_heap(heap_, comes_later);
      const Taker said = heap_.back();
      heap_.pop_back();
      const std::uint64_t room = room_of(said.rank);
      if (room == said.room) return said;
      add({room, said.rank});
    }
    return {};
  }
  void add(const Taker& taker) {
    if (taker.room == 0) return;
    heap_.push_back(taker);
    std::ranges::push_heap(heap_, comes_later);
  }

 private:
  static bool comes_later(const Taker& a, const Taker& b) noexcept {
    return std::tuple(a.room, b.rank) < std::tuple(b.room, a.rank);
  }

  std::vector<Taker> heap_;
};

// Deals out one epoch after the other. `work_` is what each rank has to serve up to the end of the
// current epoch, including the batches it has planned.
class Dealer {
 public:
  Dealer(std::vector<BatchRange>& ranges, std::span<const RankWork> ranks, const RebalanceRule& rule)
      : ranges_(ranges), ranks_(ranks), rule_(rule), work_(ranks.size()), movable_(ranks.size()) {
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      work_[rank] = ranks[rank].backlog;
      paces_ += ranks[rank].pace;
      fastest_ = std::max(fastest_, ranks[rank].pace);
    }
  }

  // Epochs after the furthest in which any rank has planned are left as they are, because nothing
  // is known about them.
  void deal() {
    if (paces_ == 0) return;
    const std::uint64_t last = std::max(rule_.last, 1 + std::ranges::max(ranks_, {}, &RankWork::frontier).frontier);
    for (std::size_t first = 0; first < ranges_.size() && ranges_[first].epoch <= last;) {
      std::size_t end = first;
      while (end < ranges_.size() && ranges_[end].epoch == ranges_[first].epoch) ++end;
      deal_epoch(first, end);
      first = end;
    }
    ranges_.insert(ranges_.end(), cut_.begin(), cut_.end());
  }

 private:
  void deal_epoch(std::size_t first, std::size_t end) {
    std::ranges::fill(movable_, 0);
    for (std::size_t i = first; i < end; ++i) movable_[ranges_[i].owner] += size_of(ranges_[i]);
    for (std::size_t rank = 0; rank < work_.size(); ++rank) work_[rank] += movable_[rank];
    epoch_ = ranges_[first].epoch;
    total_ = std::accumulate(work_.begin(), work_.end(), std::uint64_t{0});
    std::vector<std::uint32_t> givers;
    for (std::uint32_t rank = 0; rank < work_.size(); ++rank) {
      if (gives(rank)) givers.push_back(rank);
    }
    if (givers.empty()) return;
    // A taker never gives in the same epoch: it is filled up to its share, while a giver is at
    // least a batch above. So the ranges that givers own now are all that they will give from.
    const Owned owned(ranges_, first, end, work_.size());
    Takers takers;
    for (std::uint32_t rank = 0; rank < work_.size(); ++rank) takers.add({room(rank), rank});
    for (const std::uint32_t giver : givers) give(giver, owned.of(giver), takers);
  }

  // More than a quarter above its share, and by more than the tolerance: smaller differences are
  // noise, and each hand-over makes ranges shorter.
  [[nodiscard]] bool gives(std::uint32_t rank) const {
    const std::uint64_t fair = share(total_, ranks_[rank].pace, paces_);
    return movable_[rank] > 0 && work_[rank] > fair + std::max(fair / 4, tolerated(rank));
  }

  [[nodiscard]] std::uint64_t tolerated(std::uint32_t rank) const {
    if (!rule_.keep_epoch_order) return kTolerated;
    return std::max<std::uint64_t>(1, share(kTolerated, ranks_[rank].pace, fastest_));
  }

  // How many batches a rank may be given.
  [[nodiscard]] std::uint64_t room(std::uint32_t rank) const {
    if (rule_.keep_epoch_order && ranks_[rank].frontier > epoch_) return 0;
    const std::uint64_t fair = share(total_, ranks_[rank].pace, paces_, rule_.keep_epoch_order ? paces_ / 2 : 0);
    return fair - std::min(fair, work_[rank]);
  }

  void give(std::uint32_t giver, std::span<const std::size_t> owned, Takers& takers) {
    const std::uint64_t fair = share(total_, ranks_[giver].pace, paces_);
    std::uint64_t surplus = std::min(work_[giver] - fair, movable_[giver]);
    // The batches that it would serve last come last in `own`, and are given away first.
    std::vector<std::size_t> own;
    std::ranges::copy_if(owned, std::back_inserter(own), [&](std::size_t i) { return size_of(ranges_[i]) > 0; });
    std::ranges::sort(own, {}, [&](std::size_t i) {
      const std::uint64_t shard = ranges_[i].shard;
      return rule_.contiguous ? std::tuple(shard, ranges_[i].end) : std::tuple(ranges_[i].end, shard);
    });
    // One rank gets all that it lacks before the next gets any. Adjacent ranges then go to one
    // rank, which keeps saved states small.
    while (surplus > 0 && !own.empty()) {
      const auto taker = takers.furthest_below([this](std::uint32_t rank) { return room(rank); });
      if (taker.room == 0) break;
      const std::uint64_t moved = give_to(taker.rank, std::min(surplus, taker.room), own);
      work_[giver] -= moved;
      work_[taker.rank] += moved;
      surplus -= moved;
      takers.add({room(taker.rank), taker.rank});
    }
    takers.add({room(giver), giver});
  }

  // Hands over at most `most` batches, from the end of the last of these ranges, and drops ranges
  // that are used up from the list. Returns the number of batches.
  std::uint64_t give_to(std::uint32_t taker, std::uint64_t most, std::vector<std::size_t>& own) {
    std::uint64_t moved = 0;
    while (moved < most && !own.empty()) {
      BatchRange& range = ranges_[own.back()];
      const std::uint64_t wanted = most - moved;
      if (size_of(range) <= wanted) {
        range.owner = taker;
        moved += size_of(range);
        own.pop_back();
      } else if (ranges_.size() + cut_.size() < rule_.most_ranges) {
        range.end -= wanted;
        cut_.push_back({range.epoch, range.end, range.end + wanted, range.shard, taker});
        moved = most;
      } else {
        own.pop_back();  // must not be split, so it stays
      }
    }
    return moved;
  }

  std::vector<BatchRange>& ranges_;
  std::span<const RankWork> ranks_;
  RebalanceRule rule_;
  std::uint64_t paces_ = 0;
  std::uint64_t fastest_ = 0;
  std::vector<std::uint64_t> work_;     // by rank: all that it has to serve up to the current epoch
  std::vector<std::uint64_t> movable_;  // by rank: unplanned batches of the current epoch
  std::vector<BatchRange> cut_;
  std::uint64_t epoch_ = 0;  // the current epoch
  std::uint64_t total_ = 0;  // sum of `work_`; handing over does not change it
};

}  // namespace

void rebalance(std::vector<BatchRange>& ranges, std::span<const RankWork> ranks, const RebalanceRule& rule) {
  Dealer(ranges, ranks, rule).deal();
}

}  // namespace forebay::order
