// The batches that one rank plans, in order: its own ranges of the ledger, epoch by epoch. If
// shards are assigned round-robin, the rank's ranges of an epoch are the "row" that is walked:
// block 0 of each of its shards, then block 1, and so on, which gives ascending batch numbers. If
// shards are contiguous, one range follows the other. The consumer thread calls next() as often as
// there is room, post() and apply() at exchanges, and complete() at agreed ends of epochs. After
// each change of the ledger the row is built anew (rebuild()).
//
// If epochs are served one after the other, `allowed_` is the last epoch that may be planned.
// Planning beyond it, a rank would take batches before slower ranks have handed over theirs.

#include "schedule.hpp"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include <forebay/error.hpp>

#include "selection.hpp"

namespace forebay::order {

Schedule::Schedule(const Order& order, Ledger ledger, std::uint32_t rank)
    : order_(order),
      ledger_(std::move(ledger)),
      rank_(rank),
      frontier_(ledger_.completed()),
      allowed_(ledger_.completed()) {
  row_.reserve(Ledger::most_ranges(ledger_.partition()));
  left_.resize(ledger_.partition().ranks);
  count_left(allowed_);
  rebuild();
}

// The row holds indexes of ranges. Planning a batch advances the begin of its range in the ledger.
std::optional<BatchRef> Schedule::next() {
  if (row_.empty() || awaits_order()) return std::nullopt;
  const auto ranges = ledger_.ranges();
  if (holds_back() && ranges[row_.front()].epoch > allowed_) return std::nullopt;
  while (ranges[row_[at_]].begin != block_) ++at_;  // begin_row() made sure that there is one
  const std::size_t range = row_[at_++];
  ledger_.plan(range);
  const BatchRange& planned = ranges[range];
  frontier_ = std::max(frontier_, planned.epoch);
  const BatchRef batch = order_.batch(planned.epoch, batch_of(ledger_.partition(), planned.shard, block_));
  // In a contiguous partition the range continues with its next block until it is used up.
  if (ledger_.partition().contiguous && planned.begin < planned.end) {
    --at_;
    ++block_;
    return batch;
  }
  if (ledger_.partition().contiguous) at_ = row_.size();
  while (at_ < row_.size() && ranges[row_[at_]].begin != block_) ++at_;
  if (at_ == row_.size()) begin_row();
  return batch;
}

std::optional<std::uint64_t> Schedule::upcoming() const noexcept {
  if (row_.empty()) return std::nullopt;
  return ledger_.ranges()[row_.front()].epoch;
}

// Any batch of the epoch will do. Ranks take different ones.
BatchRef Schedule::padding() const noexcept {
  BatchRef batch = order_.batch(ledger_.completed(), rank_ % order_.batches());
  batch.padding = true;
  return batch;
}

bool Schedule::is_at_end() const noexcept { return ledger_.is_all_open() && ledger_.ranges().empty(); }

bool Schedule::is_exhausted() const noexcept {
  return awaits_order() || (row_.empty() && (ledger_.is_all_open() || batches_of(ledger_.partition(), rank_) == 0));
}

bool Schedule::awaits_order() const noexcept {
  const auto& selection = order_.options().selection;
  return selection && !row_.empty() && !selection->knows(ledger_.ranges()[row_.front()].epoch);
}

bool Schedule::holds_back() const noexcept {
  const Partition& partition = ledger_.partition();
  return keep_epoch_order_ && partition.batches / partition.ranks >= kLong;
}

void Schedule::complete(std::uint64_t epoch) {
  if (epoch == ledger_.completed()) return;
  ledger_.complete(epoch);
  if (allowed_ < epoch) guess_left(allowed_ = epoch);
  allow_more();
  rebuild();
}

void Schedule::post(std::span<std::int64_t> planned) const {
  const auto ranges = ledger_.ranges();
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    planned[i] = ranges[i].owner == rank_ ? static_cast<std::int64_t>(ranges[i].begin) : 0;
  }
}

// Checks what the others say they have planned against what is known. Ranks of different builds
// would hand over different batches, and this is where it shows first.
void Schedule::apply(std::span<const std::int64_t> planned, std::span<const RankWork> ranks) {
  std::vector<BatchRange> ranges(ledger_.ranges().begin(), ledger_.ranges().end());
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    BatchRange& range = ranges[i];
    const auto begin = static_cast<std::uint64_t>(planned[i]);
    const bool is_own = range.owner == rank_;
    if (begin < range.begin || begin > range.end || (is_own && begin != range.begin)) {
      throw Error("the ranks do not agree on which batches are planned: of shard " + std::to_string(range.shard) +
                  " rank " + std::to_string(range.owner) + " has planned " + std::to_string(begin) + " of " +
                  std::to_string(range.end) + ", at least " + std::to_string(range.begin) +
                  " of them before; start all ranks with the same build of Forebay");
    }
    range.begin = begin;
  }
  rebalance(ranges, ranks,
            {.keep_epoch_order = keep_epoch_order_,
             .contiguous = ledger_.partition().contiguous,
             .last = holds_back() ? allowed_ + 1 : 0,
             .most_ranges = Ledger::cut_up_to(ledger_.partition())});
  ledger_.replace(std::move(ranges));
  allowed_ = ledger_.completed();
  for (std::size_t rank = 0; rank < left_.size(); ++rank) {
    left_[rank] = {.batches = 0, .pace = ranks[rank].pace, .is_tried = ranks[rank].is_tried};
  }
  all_keep_pace_ = keep_pace(left_);
  count_left(allowed_);
  allow_more();
  rebuild();
}

std::uint64_t Schedule::unplanned() const noexcept {
  return std::accumulate(left_.begin(), left_.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const Left& left) { return sum + left.batches; });
}

// All ranks agree on the counts: an exchange tells them how far each rank is, and from then on none
// plans batches of an epoch that is not allowed.
void Schedule::count_left(std::uint64_t epoch) noexcept {
  const auto ranges = ledger_.ranges();
  for (auto range = std::ranges::lower_bound(ranges, epoch, {}, &BatchRange::epoch);
       range != ranges.end() && range->epoch == epoch; ++range) {
    left_[range->owner].batches += range->end - range->begin;
  }
}

// Before the first exchange, ranks may have planned what would not be allowed now, unknown to the
// others. So this counts an upper bound for each rank, which allows too little rather than too
// much.
void Schedule::guess_left(std::uint64_t epoch) noexcept {
  for (Left& left : left_) left.batches += ledger_.to_serve(epoch) / left_.size() + 1;
}

// The next epoch may be planned once every rank will soon have planned what it has left, or if all
// keep pace.
void Schedule::allow_more() noexcept {
  const auto is_done_soon = [](const Left& left) { return left.batches * RankWork::kOne <= kLeftOver * left.pace; };
  while (allowed_ + 1 < ledger_.opened() && (all_keep_pace_ || std::ranges::all_of(left_, is_done_soon)))
    count_left(++allowed_);
}

// Whether every rank has been tried, and the slowest has at least three quarters of the fastest's
// pace.
bool Schedule::keep_pace(std::span<const Left> ranks) noexcept {
  const auto [slowest, fastest] = std::ranges::minmax(ranks, {}, &Left::pace);
  return slowest.pace > 0 && std::ranges::all_of(ranks, &Left::is_tried) && 4 * slowest.pace >= 3 * fastest.pace;
}

void Schedule::rebuild() {
  row_.clear();
  next_range_ = 0;
  begin_row();
}

// Goes to the next block in the row that some range has, or to the row of the next epoch.
void Schedule::begin_row() {
  const auto ranges = ledger_.ranges();
  std::erase_if(row_, [&](std::size_t range) { return ranges[range].begin == ranges[range].end; });
  if (row_.empty()) fill_row();
  at_ = 0;
  block_ = UINT64_MAX;
  if (ledger_.partition().contiguous && !row_.empty()) {
    block_ = ranges[row_.front()].begin;
    return;
  }
  for (const std::size_t range : row_) block_ = std::min(block_, ranges[range].begin);
}

void Schedule::fill_row() {
  const auto ranges = ledger_.ranges();
  for (; next_range_ < ranges.size(); ++next_range_) {
    const BatchRange& range = ranges[next_range_];
    if (!row_.empty() && range.epoch != ranges[row_.front()].epoch) return;
    if (range.owner != rank_ || range.begin == range.end || range.epoch >= ledger_.partition().epochs) continue;
    row_.push_back(next_range_);
  }
}

}  // namespace forebay::order
