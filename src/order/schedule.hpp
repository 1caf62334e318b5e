#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <forebay/order.hpp>

#include "ledger.hpp"
#include "rebalance.hpp"

namespace forebay::order {

// The batches that one rank serves, in order: its ranges of the ledger, by epoch and then by
// number. Planned batches stay with this rank; the rest may be handed to another. Called on the
// consumer thread; nothing here waits.
class Schedule {
 public:
  // Holding ranks back (holds_back()) is worthwhile from this many batches per rank and epoch on.
  static constexpr std::uint64_t kLong = 32;

  // `order` must outlive the schedule.
  Schedule(const Order& order, Ledger ledger, std::uint32_t rank);

  // Plans this rank's next batch; none if nothing may be planned now.
  [[nodiscard]] std::optional<BatchRef> next();
  // The epoch of this rank's next batch, whether or not it may be planned yet.
  [[nodiscard]] std::optional<std::uint64_t> upcoming() const noexcept;
  // A batch for padding, for a rank that has none: it belongs to another rank and is never served
  // fresh.
  [[nodiscard]] BatchRef padding() const noexcept;

  // Whether this rank has nothing left in the open epochs, but more epochs follow or other ranks
  // have something left.
  [[nodiscard]] bool is_idle() const noexcept { return row_.empty() && !is_at_end(); }
  // Whether nothing is left for this rank to plan, as far as it knows.
  [[nodiscard]] bool is_exhausted() const noexcept;
  // Whether the program has yet to give the order of the next epoch; until then nothing of that
  // epoch can be planned.
  [[nodiscard]] bool awaits_order() const noexcept;
  // The latest epoch in which this rank has planned a batch.
  [[nodiscard]] std::uint64_t frontier() const noexcept { return frontier_; }
  // Whether epochs are served one after the other and are long. Planned batches of a later epoch
  // would have to wait for those that the rank takes over from an earlier one. So while a rank
  // lags, an epoch may be planned only once hardly anything of the earlier ones is left to plan on
  // any rank; until then a rank that has planned its part plans nothing. While all ranks keep pace,
  // every open epoch may be planned. Equal on all ranks.
  [[nodiscard]] bool holds_back() const noexcept;
  // Whether, as of the last exchange, the pace of every rank is known and is at least three
  // quarters of the fastest. Equal on all ranks.
  [[nodiscard]] bool all_keep_pace() const noexcept { return all_keep_pace_; }
  // The batches of the allowed epochs that were not planned as of the last exchange. Equal on all
  // ranks.
  [[nodiscard]] std::uint64_t unplanned() const noexcept;
  [[nodiscard]] const Ledger& ledger() const noexcept { return ledger_; }

  // From now on epochs are served one after the other, as far as nothing is planned yet. Call before
  // the first complete() and apply(), on all ranks.
  void keep_epoch_order() noexcept { keep_epoch_order_ = true; }

  // --- at agreed steps, alike on all ranks ---
  void complete(std::uint64_t epoch);
  // Sets what this rank posts for each range of the ledger: how far it has planned, and 0 for the
  // ranges of others. Nothing may be planned until apply().
  void post(std::span<std::int64_t> planned) const;
  // Applies rebalance() to the sums of what all ranks posted and to the situation of each rank.
  // Throws Error for sums that are impossible if all ranks run the same build.
  void apply(std::span<const std::int64_t> planned, std::span<const RankWork> ranks);

 private:
  // The next epoch is allowed when each rank can serve what it has left to plan within this many
  // steps.
  static constexpr std::uint64_t kLeftOver = 8;

  // What a rank had not planned of the allowed epochs as of the last exchange, and its pace then.
  struct Left {
    std::uint64_t batches = 0;
    std::uint64_t pace = 0;
    bool is_tried = false;
  };

  [[nodiscard]] static bool keep_pace(std::span<const Left> ranks) noexcept;
  [[nodiscard]] bool is_at_end() const noexcept;
  void count_left(std::uint64_t epoch) noexcept;
  void guess_left(std::uint64_t epoch) noexcept;
  void allow_more() noexcept;
  void rebuild();
  void begin_row();
  void fill_row();

  const Order& order_;
  Ledger ledger_;
  std::uint32_t rank_;
  bool keep_epoch_order_ = false;
  std::uint64_t frontier_ = 0;
  std::uint64_t allowed_;   // the latest epoch that may be planned
  std::vector<Left> left_;  // by rank
  // keep_pace(left_). Cached, because it is asked for each planned batch, and a job can have
  // 100,000 ranks.
  bool all_keep_pace_ = false;
  // Indexes of this rank's ranges in the oldest epoch that has any left, by shard. Blocks are
  // planned one after the other, each for all ranges that begin with it; in a contiguous partition,
  // one range after the other. Both give batches in ascending order.
  std::vector<std::size_t> row_;
  std::size_t at_ = 0;          // index in row_
  std::uint64_t block_ = 0;     // the block being planned
  std::size_t next_range_ = 0;  // ranges of the ledger before this one are in no later row
};

}  // namespace forebay::order
