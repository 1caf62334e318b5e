#include "schedule.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace forebay {

Schedule::Schedule(const Order& order, Ledger ledger, std::uint32_t rank)
    : order_(order), ledger_(std::move(ledger)), rank_(rank), frontier_(ledger_.completed()) {
  queue_.reserve(Ledger::most_pieces(ledger_.deal()));
  rebuild();
}

bool Schedule::later(const Next& a, const Next& b) noexcept {
  return std::tie(a.epoch, a.batch) > std::tie(b.epoch, b.batch);
}

std::optional<BatchRef> Schedule::next() {
  if (queue_.empty()) return std::nullopt;
  std::ranges::pop_heap(queue_, later);
  const Next next = queue_.back();
  queue_.pop_back();
  ledger_.plan(next.piece);
  enqueue(next.piece);
  frontier_ = std::max(frontier_, next.epoch);
  return order_.batch(next.epoch, next.batch);
}

std::optional<std::uint64_t> Schedule::upcoming() const noexcept {
  if (queue_.empty()) return std::nullopt;
  return queue_.front().epoch;
}

BatchRef Schedule::padding() const noexcept {
  BatchRef batch = order_.batch(ledger_.completed(), rank_ % order_.batches());
  batch.padding = true;
  return batch;
}

bool Schedule::is_at_end() const noexcept { return ledger_.is_all_open() && ledger_.pieces().empty(); }

bool Schedule::is_exhausted() const noexcept {
  return queue_.empty() && (ledger_.is_all_open() || batches_of(ledger_.deal(), rank_) == 0);
}

void Schedule::complete(std::uint64_t epoch) {
  if (epoch == ledger_.completed()) return;
  ledger_.complete(epoch);
  rebuild();
}

void Schedule::post(std::span<std::int64_t> planned) const {
  const auto pieces = ledger_.pieces();
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    planned[i] = pieces[i].owner == rank_ ? static_cast<std::int64_t>(pieces[i].begin) : 0;
  }
}

void Schedule::apply(std::span<const std::int64_t> planned, std::span<const RankWork> ranks, bool keep_epoch_order) {
  std::vector<Piece> pieces(ledger_.pieces().begin(), ledger_.pieces().end());
  for (std::size_t i = 0; i < pieces.size(); ++i) pieces[i].begin = static_cast<std::uint64_t>(planned[i]);
  hand_over(pieces, ranks, keep_epoch_order);
  ledger_.replace(std::move(pieces));
  rebuild();
}

void Schedule::enqueue(std::size_t piece) {
  const Piece& next = ledger_.pieces()[piece];
  if (next.begin == next.end) return;
  queue_.push_back({next.epoch, next.begin * ledger_.deal().shards + next.shard, piece});
  std::ranges::push_heap(queue_, later);
}

void Schedule::rebuild() {
  queue_.clear();
  const auto pieces = ledger_.pieces();
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].owner == rank_ && pieces[i].epoch < ledger_.deal().epochs) enqueue(i);
  }
}

}  // namespace forebay
