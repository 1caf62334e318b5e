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

// The batches that one rank serves, in order: its ranges of the ledger, by epoch and then by number. Planned batches
// stay with this rank; the rest may be handed to another. The consumer thread plans; nothing here waits.
class Schedule {
 public:
  // With at least this many batches per rank and epoch, holding ranks back pays off (holds_back()).
  static constexpr std::uint64_t kLong = 32;

  // `order` must outlive the schedule. `keep_epoch_order`: epochs are served one after the other.
  Schedule(const Order& order, Ledger ledger, std::uint32_t rank, bool keep_epoch_order = false);

  // Plans this rank's next batch; nothing if it has none left in the open epochs of the run.
  [[nodiscard]] std::optional<BatchRef> next();
  // Epoch of the next batch of this rank, whether it may be planned yet or not.
  [[nodiscard]] std::optional<std::uint64_t> upcoming() const noexcept;
  // A batch to pad with, for a rank that has none: it is another rank's and is never served fresh.
  [[nodiscard]] BatchRef padding() const noexcept;

  // Whether nothing is left to plan in the open epochs, but more epochs follow or other ranks have something left.
  [[nodiscard]] bool is_idle() const noexcept { return row_.empty() && !is_at_end(); }
  // Whether nothing is left for this rank to plan, as far as it knows.
  [[nodiscard]] bool is_exhausted() const noexcept;
  // Whether the program has still to give the order of the next epoch; until then nothing of it can be planned.
  [[nodiscard]] bool awaits_order() const noexcept;
  // The latest epoch of which it has planned a batch.
  [[nodiscard]] std::uint64_t frontier() const noexcept { return frontier_; }
  // Whether epochs are served one after the other and are long. Planned batches of a later epoch would have to wait
  // behind those that a rank takes over from an earlier one. So while a rank lags, an epoch is planned only once hardly
  // anything of the earlier ones is left to plan on any rank; until then a rank that has planned its part has nothing
  // to plan. While all ranks keep pace, every open epoch may be planned. Equal on all ranks.
  [[nodiscard]] bool holds_back() const noexcept;
  // Whether, as of the last exchange, the pace of every rank is known and at least three quarters of the fastest. Equal
  // on all ranks.
  [[nodiscard]] bool all_keep_pace() const noexcept { return all_keep_pace_; }
  // Batches that the job may plan and had not planned as of the last exchange. Equal on all ranks.
  [[nodiscard]] std::uint64_t unplanned() const noexcept;
  [[nodiscard]] const Ledger& ledger() const noexcept { return ledger_; }

  // Sets `keep_epoch_order` (see the constructor) for what is not yet planned. Call before the first complete() and
  // apply(), on all ranks.
  void keep_epoch_order() noexcept { keep_epoch_order_ = true; }

  // --- at agreed steps, alike on all ranks ---
  void complete(std::uint64_t epoch);
  // What this rank posts for each range of the ledger: how far it has planned, 0 for the ranges of others. Nothing may
  // be planned until apply().
  void post(std::span<std::int64_t> planned) const;
  // Applies the rule to the sums of what all ranks posted and to the state of each. Throws Error for sums that are
  // impossible if all ranks run the same build.
  void apply(std::span<const std::int64_t> planned, std::span<const RankWork> ranks);

 private:
  // The next epoch is allowed when each rank can serve what it has left to plan of this one in so many steps.
  static constexpr std::uint64_t kLeftOver = 8;

  // What a rank had not planned of the allowed epochs, as of the last exchange, and its pace then.
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
  bool keep_epoch_order_;
  std::uint64_t frontier_ = 0;
  std::uint64_t allowed_;   // the latest epoch that may be planned
  std::vector<Left> left_;  // by rank
  // Of `left_`; kept, because each plan of a batch asks for it and a job can have 100,000 ranks.
  bool all_keep_pace_ = false;
  // This rank's ranges of the oldest epoch that has any left, by shard. Blocks are planned one after the other, each
  // for all ranges that begin with it; where the partition is contiguous, one range after the other. Both give the
  // batches in ascending order.
  std::vector<std::size_t> row_;
  std::size_t at_ = 0;       // in row_
  std::uint64_t block_ = 0;  // the one being planned
  std::size_t behind_ = 0;   // ranges of the ledger before this are not in a later row
};

}  // namespace forebay::order
