// The rule by which ranks hand batches over at an exchange: pure, in integers, and computed by
// every rank from the same numbers, so that all come to the same ledger. Epoch by epoch: a rank
// deserves a share of what is left in proportion to its pace; one that is beyond its share by more
// than a quarter gives, those furthest below theirs take, until givers are at their share. Costs n
// log n in ranges and ranks, since it runs inside a step.
//
// A giver gives the batches that it would serve last, so that its own plan is not disturbed; one
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

// A smaller difference is due to uneven shards and a noisy queue. In batches; where the others wait for the end of an
// epoch, in steps, and at least one batch, so that a slow rank is tried again.
constexpr std::uint64_t kTolerated = 4;

std::uint64_t size_of(const BatchRange& range) { return range.end - range.begin; }

// The share of the total that the pace deserves, rounded down, or to the nearest with `rest` = paces / 2. 128 bits
// because both factors may be large.
std::uint64_t share(std::uint64_t total, std::uint64_t pace, std::uint64_t paces, std::uint64_t rest = 0) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>((static_cast<Wide>(total) * pace + rest) / paces);
}

// The ranges of one epoch by their owners.
class Owned {
 public:
  Owned(std::span<const BatchRange> ranges, std::size_t first, std::size_t end, std::size_t ranks)
      : ends_(ranks + 1), numbers_(end - first) {
    // ends_[r + 1] first counts what rank r has, then says where that begins, and in the end where it ends.
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

// The ranks that are below their shares, the one that is furthest below first, the lowest of equals. What is kept of a
// rank may be out of date and is looked at again when its turn comes, so that a batch that changes hands costs the
// logarithm of the ranks and not a look at each.
class Takers {
 public:
  struct Taker {
    std::uint64_t room = 0;  // batches
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

// `work_` is what each rank has to serve up to the epoch that is being dealt, the batches it has
// planned included.
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

  // Epochs beyond the furthest that anybody has planned in are left as they are: nothing is known
  // of them.
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
    // A taker never gives in the same epoch: it is filled to its share, and a giver is beyond that
    // by a batch at least. So what the givers own is what they own now.
    const Owned owned(ranges_, first, end, work_.size());
    Takers takers;
    for (std::uint32_t rank = 0; rank < work_.size(); ++rank) takers.add({room(rank), rank});
    for (const std::uint32_t giver : givers) give(giver, owned.of(giver), takers);
  }

  // A quarter more than its share, and at least the tolerance: smaller differences are noise, and
  // each hand-over makes ranges shorter.
  [[nodiscard]] bool gives(std::uint32_t rank) const {
    const std::uint64_t fair = share(total_, ranks_[rank].pace, paces_);
    return movable_[rank] > 0 && work_[rank] > fair + std::max(fair / 4, tolerated(rank));
  }

  [[nodiscard]] std::uint64_t tolerated(std::uint32_t rank) const {
    if (!rule_.keep_epoch_order) return kTolerated;
    return std::max<std::uint64_t>(1, share(kTolerated, ranks_[rank].pace, fastest_));
  }

  // Batches that a rank may be given.
  [[nodiscard]] std::uint64_t room(std::uint32_t rank) const {
    if (rule_.keep_epoch_order && ranks_[rank].frontier > epoch_) return 0;
    const std::uint64_t fair = share(total_, ranks_[rank].pace, paces_, rule_.keep_epoch_order ? paces_ / 2 : 0);
    return fair - std::min(fair, work_[rank]);
  }

  void give(std::uint32_t giver, std::span<const std::size_t> owned, Takers& takers) {
    const std::uint64_t fair = share(total_, ranks_[giver].pace, paces_);
    std::uint64_t surplus = std::min(work_[giver] - fair, movable_[giver]);
    // The batches that it would serve last are given away first.
    std::vector<std::size_t> own;
    std::ranges::copy_if(owned, std::back_inserter(own), [&](std::size_t i) { return size_of(ranges_[i]) > 0; });
    std::ranges::sort(own, {}, [&](std::size_t i) {
      const std::uint64_t shard = ranges_[i].shard;
      return rule_.contiguous ? std::tuple(shard, ranges_[i].end) : std::tuple(ranges_[i].end, shard);
    });
    // One rank gets all that it lacks before the next gets any: adjacent ranges then go to one rank, which keeps saved
    // states small.
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

  // Hands at most `most` batches, from the last of these ranges, to a rank and drops them from the list. Returns how
  // many.
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
        own.pop_back();  // it must not be cut, so it stays
      }
    }
    return moved;
  }

  std::vector<BatchRange>& ranges_;
  std::span<const RankWork> ranks_;
  RebalanceRule rule_;
  std::uint64_t paces_ = 0;
  std::uint64_t fastest_ = 0;
  std::vector<std::uint64_t> work_;     // by rank: all that it has to serve up to the epoch being dealt
  std::vector<std::uint64_t> movable_;  // by rank: of that epoch, not planned
  std::vector<BatchRange> cut_;
  std::uint64_t epoch_ = 0;  // the one being dealt
  std::uint64_t total_ = 0;  // of `work_`; the same however much is given
};

}  // namespace

void rebalance(std::vector<BatchRange>& ranges, std::span<const RankWork> ranks, const RebalanceRule& rule) {
  Dealer(ranges, ranks, rule).deal();
}

}  // namespace forebay::order
