#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "piece.hpp"

namespace forebay {

// How one rank is doing at an exchange.
struct RankWork {
  static constexpr std::uint64_t kPace = 1U << 16U;

  std::uint64_t backlog = 0;   // batches planned and not served yet: they stay
  std::uint64_t pace = 0;      // batches served fresh per step on which it had one to serve, times kPace
  std::uint64_t frontier = 0;  // latest epoch of which a batch is planned
  bool is_tried = true;        // the pace was seen over some steps
};

// Deals what is left, and nobody has planned, out anew between the ranks that are behind and those that are ahead. For
// each epoch, oldest first, every rank should have done its part of it and of all before it at the same time: its share
// of the work is its share of the pace. A rank whose work is a quarter above its share, and by more than a few batches,
// gives what is too much of it, the last batches first; the ranks that are furthest below theirs get it. What is dealt
// are the epochs up to `last`, or to the one after the latest of which a batch is planned.
// A function of its arguments alone, in integers: every rank computes the same.
// `pieces`: ascending by epoch; `begin` is the first block that is not planned; owners change and pieces are cut in
// place. Pieces are not cut when there are Ledger::kMostPieces of them. `keep_epoch_order`: a rank whose frontier is
// past an epoch gets nothing of that epoch, because it will serve what it has planned of the later one only after the
// earlier one is complete; and a few batches are those of so many steps, because the others wait for the end of the
// epoch. Nothing moves while nobody has served anything.
void hand_over(std::vector<Piece>& pieces, std::span<const RankWork> ranks, bool keep_epoch_order,
               std::uint64_t last = 0);

}  // namespace forebay
