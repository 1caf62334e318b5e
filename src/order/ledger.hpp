#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace forebay::order {

// Batches of one virtual shard in one epoch that one rank has yet to plan or to serve: blocks begin
// ... end-1 of the shard. batch_of() gives the batch of a block.
struct BatchRange {
  std::uint64_t epoch = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint32_t shard = 0;
  std::uint32_t owner = 0;  // rank

  friend bool operator==(const BatchRange&, const BatchRange&) = default;
};

// The initial assignment of an epoch's batches. Usually batch b belongs to virtual shard b mod V,
// and shard v to rank v mod P. Contiguous: each shard is a run of consecutive batches (lengths
// differ by at most one), and each rank has consecutive shards, so that it reads adjacent data.
struct Partition {
  std::uint64_t batches = 1;          // per epoch, over all ranks
  std::uint32_t shards = 1;           // V
  std::uint32_t ranks = 1;            // P
  std::uint64_t epochs = UINT64_MAX;  // of the run; UINT64_MAX = no end
  bool contiguous = false;
};

// The number of shards that have any batch.
[[nodiscard]] std::uint64_t used_shards(const Partition& partition) noexcept;
// The number of batches of a shard in an epoch.
[[nodiscard]] std::uint64_t blocks_of(const Partition& partition, std::uint32_t shard) noexcept;
// The batch of a block of a shard. REQUIRES: block < blocks_of(partition, shard).
[[nodiscard]] std::uint64_t batch_of(const Partition& partition, std::uint32_t shard, std::uint64_t block) noexcept;
// The shard of a batch, and its block there. REQUIRES: batch < partition.batches.
struct Block {
  std::uint32_t shard = 0;
  std::uint64_t block = 0;
};
[[nodiscard]] Block block_of(const Partition& partition, std::uint64_t batch) noexcept;
// The rank that owns a shard initially. REQUIRES: shard < used_shards(partition).
[[nodiscard]] std::uint32_t owner_of(const Partition& partition, std::uint32_t shard) noexcept;
// The first batch of an epoch that a rank owns initially, or where it would be. REQUIRES:
// partition.contiguous; rank <= partition.ranks.
[[nodiscard]] std::uint64_t first_batch_of(const Partition& partition, std::uint64_t rank) noexcept;
// How many batches of an epoch a rank owns initially; may be 0.
[[nodiscard]] std::uint64_t batches_of(const Partition& partition, std::uint32_t rank) noexcept;
// The maximum of batches_of() over all ranks: the steps of an epoch in which some rank is fresh at
// every step.
[[nodiscard]] std::uint64_t most_batches(const Partition& partition) noexcept;

// The undelivered batches of the open epochs, and their owners. Equal on all ranks at the same
// step, with one exception: `begin` of a range says how far its owner has planned, which the others
// only know as of the last exchange. Everything else changes at agreed steps, by agreed values.
//
// An epoch is opened before a rank may plan in it. At least two epochs are open, so that a rank
// that has done its part of one continues with the next. More are opened while there are few ranges
// in all, so that with many short epochs the ranks ahead of a slow one need not wait for its last
// batches. The limit on ranges keeps what must be exchanged and saved small.
//
// Used by the thread that calls next(). The functions on a Partition are pure; any thread may call.
class Ledger {
 public:
  // More than two epochs are opened only up to this many ranges. A single rank is never ahead of
  // another; it only has to fill its queue.
  static constexpr std::size_t kRanges = 3072;
  static constexpr std::size_t kRangesAlone = 256;
  // The most epochs that may be open, which bounds what is kept per epoch.
  static constexpr std::uint64_t kEpochs = 3072;
  // Once there are this many ranges, none is split any more. If the shards of two epochs are more
  // than that, as many ranges may be split as there are shards; otherwise only whole shards could
  // be handed over.
  static constexpr std::size_t kCutUpTo = kRanges + 1024;
  [[nodiscard]] static std::size_t cut_up_to(const Partition& partition) noexcept;
  // An upper bound. It exceeds cut_up_to() because, if only one epoch is open, another is opened
  // even with that many ranges.
  [[nodiscard]] static std::size_t most_ranges(const Partition& partition) noexcept;

  // A new run. Throws ConfigError, naming mpi.virtual_shards, if there are more ranks than shards.
  explicit Ledger(const Partition& partition);
  // A run that resumes. `completed` epochs are done; of those before `opened`, the ranges in `left`
  // are still to be served. If `ranks_before` equals the number of ranks, each keeps its ranges.
  // Otherwise ranges are reassigned: by shard or, if the partition is contiguous, in consecutive
  // equal shares. Throws ConfigError as above. REQUIRES: left is ascending by epoch, shard and
  // begin, within the partition's shards.
  Ledger(const Partition& partition, std::uint64_t completed, std::uint64_t opened, std::vector<BatchRange> left,
         std::uint32_t ranks_before);

  [[nodiscard]] const Partition& partition() const noexcept { return partition_; }
  // Epochs completed ... opened-1 are open.
  [[nodiscard]] std::uint64_t completed() const noexcept { return completed_; }
  [[nodiscard]] std::uint64_t opened() const noexcept { return opened_; }
  // Whether every epoch of the run is open.
  [[nodiscard]] bool is_all_open() const noexcept { return opened_ >= partition_.epochs; }
  // The batches of an epoch that the job has to serve after it started: all, or what was left when
  // it resumed.
  [[nodiscard]] std::uint64_t to_serve(std::uint64_t epoch) const noexcept;

  // Sorted by epoch, shard and begin.
  [[nodiscard]] std::span<const BatchRange> ranges() const noexcept { return ranges_; }

  // Records that the owner has planned the first block of the range with this index.
  void plan(std::size_t range) noexcept { ++ranges_[range].begin; }

  // --- at agreed steps, alike on all ranks ---
  // All epochs before `epoch` are served: drops their ranges and opens further epochs.
  void complete(std::uint64_t epoch);
  // Sets the ranges after an exchange, in which each `begin` became known: sorts them, drops what
  // is planned, merges adjacent ranges of one owner, and opens epochs if there is room.
  void replace(std::vector<BatchRange> ranges);

 private:
  void open_more();

  Partition partition_;
  std::uint64_t completed_ = 0;
  std::uint64_t opened_ = 0;
  std::uint64_t first_restored_ = 0;
  std::vector<std::uint64_t> restored_;  // to_serve() of the epochs from first_restored_ on
  std::vector<BatchRange> ranges_;
};

// Sorts ranges by epoch, shard and begin, drops empty ones, and merges adjacent ranges of one
// owner.
void tidy(std::vector<BatchRange>& ranges);

}  // namespace forebay::order
