#include "hand_over.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <tuple>

#include "ledger.hpp"

namespace forebay {
namespace {

// A smaller difference is due to uneven shards and a noisy queue. In batches; where the others wait for the end of an
// epoch, in steps, and at least one batch, so that a slow rank is tried again.
constexpr std::uint64_t kTolerated = 4;

std::uint64_t size_of(const Piece& piece) { return piece.end - piece.begin; }

// The share of the total that the pace deserves, rounded down, or to the nearest with `rest` = paces / 2. 128 bits
// because both factors may be large.
std::uint64_t share(std::uint64_t total, std::uint64_t pace, std::uint64_t paces, std::uint64_t rest = 0) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>((static_cast<Wide>(total) * pace + rest) / paces);
}

class Dealer {
 public:
  Dealer(std::vector<Piece>& pieces, std::span<const RankWork> ranks, bool keep_epoch_order, bool contiguous)
      : pieces_(pieces),
        ranks_(ranks),
        keep_epoch_order_(keep_epoch_order),
        contiguous_(contiguous),
        work_(ranks.size()),
        movable_(ranks.size()) {
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      work_[rank] = ranks[rank].backlog;
      paces_ += ranks[rank].pace;
      fastest_ = std::max(fastest_, ranks[rank].pace);
    }
  }

  void deal(std::uint64_t last) {
    if (paces_ == 0) return;
    last = std::max(last, 1 + std::ranges::max(ranks_, {}, &RankWork::frontier).frontier);
    for (std::size_t first = 0; first < pieces_.size() && pieces_[first].epoch <= last;) {
      std::size_t end = first;
      while (end < pieces_.size() && pieces_[end].epoch == pieces_[first].epoch) ++end;
      deal_epoch(first, end);
      first = end;
    }
    pieces_.insert(pieces_.end(), cut_.begin(), cut_.end());
  }

 private:
  void deal_epoch(std::size_t first, std::size_t end) {
    std::ranges::fill(movable_, 0);
    for (std::size_t i = first; i < end; ++i) movable_[pieces_[i].owner] += size_of(pieces_[i]);
    for (std::size_t rank = 0; rank < work_.size(); ++rank) work_[rank] += movable_[rank];
    const std::uint64_t total = std::accumulate(work_.begin(), work_.end(), std::uint64_t{0});
    for (std::uint32_t giver = 0; giver < work_.size(); ++giver) {
      const std::uint64_t fair = share(total, ranks_[giver].pace, paces_);
      if (movable_[giver] == 0 || work_[giver] <= fair + std::max(fair / 4, tolerated(giver))) continue;
      give(giver, std::min(work_[giver] - fair, movable_[giver]), total, first, end);
    }
  }

  [[nodiscard]] std::uint64_t tolerated(std::uint32_t rank) const {
    if (!keep_epoch_order_) return kTolerated;
    return std::max<std::uint64_t>(1, share(kTolerated, ranks_[rank].pace, fastest_));
  }

  void give(std::uint32_t giver, std::uint64_t surplus, std::uint64_t total, std::size_t first, std::size_t end) {
    const std::uint64_t epoch = pieces_[first].epoch;
    // The batches that it would serve last are given away first.
    std::vector<std::size_t> own;
    for (std::size_t i = first; i < end; ++i) {
      if (pieces_[i].owner == giver && size_of(pieces_[i]) > 0) own.push_back(i);
    }
    std::ranges::sort(own, {}, [&](std::size_t i) {
      const std::uint64_t shard = pieces_[i].shard;
      return contiguous_ ? std::tuple(shard, pieces_[i].end) : std::tuple(pieces_[i].end, shard);
    });
    // One rank gets all that it lacks before the next gets any: adjacent pieces then go to one rank, which keeps saved
    // states small.
    while (surplus > 0 && !own.empty()) {
      const auto [taker, room] = furthest_below(total, epoch);
      if (room == 0) return;
      const std::uint64_t moved = give_to(taker, std::min(surplus, room), own);
      work_[giver] -= moved;
      work_[taker] += moved;
      surplus -= moved;
    }
  }

  // Hands at most `most` batches, from the last of these pieces, to a rank and drops them from the list. Returns how
  // many.
  std::uint64_t give_to(std::uint32_t taker, std::uint64_t most, std::vector<std::size_t>& own) {
    std::uint64_t moved = 0;
    while (moved < most && !own.empty()) {
      Piece& piece = pieces_[own.back()];
      const std::uint64_t wanted = most - moved;
      if (size_of(piece) <= wanted) {
        piece.owner = taker;
        moved += size_of(piece);
        own.pop_back();
      } else if (pieces_.size() + cut_.size() < Ledger::kMostPieces) {
        piece.end -= wanted;
        cut_.push_back({piece.epoch, piece.end, piece.end + wanted, piece.shard, taker});
        moved = most;
      } else {
        own.pop_back();  // it must not be cut, so it stays
      }
    }
    return moved;
  }

  // The rank that is furthest below its share, the lowest of equals, and by how many batches.
  [[nodiscard]] std::tuple<std::uint32_t, std::uint64_t> furthest_below(std::uint64_t total,
                                                                        std::uint64_t epoch) const {
    std::uint32_t best = 0;
    std::uint64_t most = 0;
    for (std::uint32_t rank = 0; rank < work_.size(); ++rank) {
      if (keep_epoch_order_ && ranks_[rank].frontier > epoch) continue;
      const std::uint64_t fair = share(total, ranks_[rank].pace, paces_, keep_epoch_order_ ? paces_ / 2 : 0);
      if (fair <= work_[rank] || fair - work_[rank] <= most) continue;
      best = rank;
      most = fair - work_[rank];
    }
    return {best, most};
  }

  std::vector<Piece>& pieces_;
  std::span<const RankWork> ranks_;
  bool keep_epoch_order_;
  bool contiguous_;
  std::uint64_t paces_ = 0;
  std::uint64_t fastest_ = 0;
  std::vector<std::uint64_t> work_;     // by rank: all that it has to serve up to the epoch being dealt
  std::vector<std::uint64_t> movable_;  // by rank: of that epoch, not planned
  std::vector<Piece> cut_;
};

}  // namespace

void hand_over(std::vector<Piece>& pieces, std::span<const RankWork> ranks, bool keep_epoch_order, std::uint64_t last,
               bool contiguous) {
  Dealer(pieces, ranks, keep_epoch_order, contiguous).deal(last);
}

}  // namespace forebay
