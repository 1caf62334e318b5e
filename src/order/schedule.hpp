#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <forebay/order.hpp>

#include "hand_over.hpp"
#include "ledger.hpp"

namespace forebay {

// Which batches one rank serves, and in which order: its pieces of the ledger, by epoch and then by number. What is
// planned stays this rank's; what is not may be handed to another. The consumer thread plans; nothing here waits.
class Schedule {
 public:
  // From so many batches per rank and epoch on it is worth while to hold ranks back (holds_back()).
  static constexpr std::uint64_t kLong = 32;

  // `order` must outlive the schedule. `keep_epoch_order`: epochs are served one after the other.
  Schedule(const Order& order, Ledger ledger, std::uint32_t rank, bool keep_epoch_order = false);

  // Plans this rank's next batch; nothing when it has none left in the opened epochs of the run.
  [[nodiscard]] std::optional<BatchRef> next();
  // Epoch of the next batch of this rank, whether it may be planned yet or not.
  [[nodiscard]] std::optional<std::uint64_t> upcoming() const noexcept;
  // A batch to pad with for a rank that has none: another rank's, never to be served fresh.
  [[nodiscard]] BatchRef padding() const noexcept;

  // Nothing is left to plan in the opened epochs, but the run is longer or others have something left.
  [[nodiscard]] bool is_idle() const noexcept { return row_.empty() && !is_at_end(); }
  // Nothing is left to plan for this rank, for all that is known of it.
  [[nodiscard]] bool is_exhausted() const noexcept;
  // The latest epoch of which it planned a batch.
  [[nodiscard]] std::uint64_t frontier() const noexcept { return frontier_; }
  // Epochs are served one after the other, and are long. What is planned of a later epoch stands in the way of what is
  // left of an earlier one and might be taken over. So while a rank lags, an epoch is planned only when hardly anything
  // is left to plan of those before it, on any rank; until then a rank that has planned its part has nothing to plan.
  // While all keep pace every opened epoch may be planned. Equal on all ranks.
  [[nodiscard]] bool holds_back() const noexcept;
  // As of the last exchange the pace of every rank was seen, and no rank has less than three quarters of the pace of
  // the fastest. Equal on all ranks.
  [[nodiscard]] bool all_keep_pace() const noexcept;
  // Batches that the job may plan and had not planned at the last exchange. Equal on all ranks.
  [[nodiscard]] std::uint64_t unplanned() const noexcept;
  [[nodiscard]] const Ledger& ledger() const noexcept { return ledger_; }

  // As `keep_epoch_order` in the constructor, for what is not planned yet. Before the first complete() and apply(), on
  // all ranks.
  void keep_epoch_order() noexcept { keep_epoch_order_ = true; }

  // --- at agreed steps, alike on all ranks ---
  void complete(std::uint64_t epoch);
  // What this rank posts of each piece of the ledger: how far it planned, 0 for the pieces of others. Until apply()
  // nothing may be planned.
  void post(std::span<std::int64_t> planned) const;
  // The sums of what all ranks posted, and how far each is: hands over what the rule says.
  void apply(std::span<const std::int64_t> planned, std::span<const RankWork> ranks);

 private:
  // Steps in which a rank will serve what it has left to plan of an epoch when the next one is allowed.
  static constexpr std::uint64_t kLeftOver = 8;

  // What a rank had not planned of the epochs that are allowed, as of the last exchange, and its pace then.
  struct Left {
    std::uint64_t batches = 0;
    std::uint64_t pace = 0;
    bool is_tried = false;
  };

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
  // The own pieces of the oldest epoch that has any left, by shard. Its blocks are planned one after the other: of each
  // block the pieces that begin with it, which is the ascending order of the batches.
  std::vector<std::size_t> row_;
  std::size_t at_ = 0;       // in row_
  std::uint64_t block_ = 0;  // that is being planned
  std::size_t behind_ = 0;   // pieces of the ledger before this are not in a later row
};

}  // namespace forebay
