#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ledger.hpp"

namespace forebay::order {

// The state of one rank at an exchange.
struct RankWork {
  static constexpr std::uint64_t kPace = 1U << 16U;

  std::uint64_t backlog = 0;   // batches planned but not served yet: they stay
  std::uint64_t pace = 0;      // batches served fresh per step that had one to serve, times kPace
  std::uint64_t frontier = 0;  // latest epoch of which a batch is planned
  bool is_tried = true;        // the pace was measured over some steps
};

struct RebalanceRule {
  // A rank whose frontier is past an epoch gets nothing of that epoch, because it will serve what it has planned of the
  // later one only after the earlier one is complete; and "a few batches" means those of a few steps, because the
  // others wait for the end of the epoch.
  bool keep_epoch_order = false;
  // Whether ranks serve one shard after the other (Partition).
  bool contiguous = false;
  // The epochs redistributed are those up to this one, or up to the one after the latest that has a planned batch.
  std::uint64_t last = 0;
  // Once there are this many ranges, no more are split.
  std::size_t most_ranges = Ledger::kCutUpTo;
};

// Redistributes undelivered batches that are not yet planned, from ranks that are behind to ranks that are ahead. For
// each epoch, oldest first, all ranks should finish their parts of it and of all earlier ones at the same time: a
// rank's share of the work is its share of the pace. A rank whose work is a quarter above its share, and by more than a
// few batches, gives away the excess, its last batches first; the ranks that are furthest below their shares get it. A
// function of its arguments alone, in integers: every rank computes the same. `ranges`: ascending by epoch; `begin` is
// the first block that is not planned; owners change and ranges are split in place. Nothing moves until a rank has
// served something. Takes time proportional to the ranges and the ranks of each redistributed epoch, and to the
// logarithm of the ranks for each range that moves.
void rebalance(std::vector<BatchRange>& ranges, std::span<const RankWork> ranks, const RebalanceRule& rule);

}  // namespace forebay::order
