#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ledger.hpp"

namespace forebay::order {

// The situation of one rank at an exchange.
struct RankWork {
  static constexpr std::uint64_t kOne = 1U << 16U;

  std::uint64_t backlog = 0;   // planned batches that are not served yet; they stay with the rank
  std::uint64_t pace = 0;      // fresh batches per step that had one to serve, times kOne
  std::uint64_t frontier = 0;  // latest epoch in which a batch is planned
  bool is_tried = true;        // the pace was measured over some steps
};

struct RebalanceRule {
  // Epochs are served one after the other. Then a rank whose frontier is past an epoch gets nothing
  // of that epoch: it would serve it after what it has planned of the later one, which must wait
  // until the earlier one is complete. Tolerances are in steps instead of batches, because the other
  // ranks wait for the end of the epoch.
  bool keep_epoch_order = false;
  // Whether ranks serve one shard after the other (Partition::contiguous).
  bool contiguous = false;
  // Epochs up to this one are redistributed, and those up to one after the latest in which a batch
  // is planned.
  std::uint64_t last = 0;
  // Once there are this many ranges, none is split any more.
  std::size_t most_ranges = Ledger::kCutUpTo;
};

// Redistributes undelivered batches that are not planned yet, from ranks that are behind to ranks
// that are ahead. All ranks should finish their parts of an epoch, and of all earlier ones, at the
// same time, so a rank's fair share of the work is its share of the pace. Epochs are treated oldest
// first. A rank whose work exceeds its share by a quarter, and by more than a few batches, gives
// away the excess, its last batches first. The ranks furthest below their shares get it. Nothing
// moves until some rank has served something.
//
// A function of its arguments alone, in integers, so that every rank computes the same. `ranges`:
// ascending by epoch; `begin` is the first block that is not planned; owners change and ranges are
// split in place. Takes time proportional to the ranges and the ranks for each redistributed epoch,
// and to the logarithm of the ranks for each range that moves.
void rebalance(std::vector<BatchRange>& ranges, std::span<const RankWork> ranks, const RebalanceRule& rule);

}  // namespace forebay::order
