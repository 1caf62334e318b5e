#pragma once

#include <cstdint>
#include <memory>

namespace forebay {

// A keyed bijection of [0, size) in O(1) memory: a generalized Feistel network over rows and columns, whose product is
// `size` or slightly more, with cycle walking (Black and Rogaway, "Ciphers with Arbitrary Finite Domains",
// 2002). The result depends on integers only, so it is the same on every machine and compiler. Immutable; any thread
// may call.
class Permutation {
 public:
  Permutation(std::uint64_t size, std::uint64_t seed, std::uint64_t epoch) noexcept;

  // REQUIRES: position < size. Returns the element at that position.
  [[nodiscard]] std::uint64_t operator()(std::uint64_t position) const noexcept;

 private:
  static constexpr int kRounds = 6;

  std::uint64_t size_;
  std::uint64_t rows_;     // at most 2^32, as columns_
  std::uint64_t columns_;  // rows_ * columns_ < size_ + rows_
  std::uint64_t keys_[kRounds] = {};
};

// A global batch: positions [batch * batch_size, batch * batch_size + size) of an epoch.
struct BatchRef {
  std::uint64_t epoch = 0;
  std::uint64_t batch = 0;  // number within the epoch
  std::uint32_t size = 0;   // samples; less than batch_size only for the last batch of an epoch
  // Another rank's batch, planned so that this one has something to show: it may be served only as padding, never as
  // fresh.
  bool padding = false;

  friend bool operator==(const BatchRef&, const BatchRef&) = default;
};

class Selection;

// Positions begin ... end-1 of an epoch.
struct PositionRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  [[nodiscard]] std::uint64_t size() const noexcept { return end - begin; }
  [[nodiscard]] bool contains(std::uint64_t position) const noexcept { return position >= begin && position < end; }
  friend bool operator==(const PositionRange&, const PositionRange&) = default;
};

struct OrderOptions {
  std::uint64_t samples = 0;  // in an epoch
  std::uint32_t batch_size = 1;
  std::uint64_t seed = 0;
  bool shuffle = true;
  bool drop_last = true;
  // What dataset.split, fraction and weights leave of the dataset, `samples` positions in all. Null: every sample once.
  std::shared_ptr<const Selection> selection = nullptr;
  // Above 0: the order suits sequential reads. Runs of `run` consecutive samples are shuffled, and then the samples
  // within each window of about `window` samples. 0: all samples are shuffled at once.
  std::uint64_t window = 0;
  std::uint64_t run = 32;
  // Above 0: the samples are divided into this many parts, the same in every epoch, and each part is shuffled. Batches
  // are assigned contiguously over `shards` virtual shards, and a part holds the batches that one of `parts` ranks
  // would have. A share `exchange` of the samples, different ones in every epoch, may go to any part.
  std::uint32_t parts = 0;
  std::uint32_t shards = 1;
  double exchange = 0;
};

// Maps (epoch, position) to sample ids, independently of the number of ranks. O(1) memory and time unless samples are
// selected. Immutable; any thread may call.
class Order {
 public:
  // Throws ConfigError if there are no samples, or no batch (drop_last with fewer samples than one batch).
  explicit Order(const OrderOptions& options);

  [[nodiscard]] const OrderOptions& options() const noexcept { return options_; }
  // Batches in an epoch, over all ranks.
  [[nodiscard]] std::uint64_t batches() const noexcept { return batches_; }
  // The global batch with this number. REQUIRES: number < batches().
  [[nodiscard]] BatchRef batch(std::uint64_t epoch, std::uint64_t number) const noexcept;
  // The sample at a position of an epoch. REQUIRES: position < samples.
  [[nodiscard]] std::uint64_t sample(std::uint64_t epoch, std::uint64_t position) const noexcept;
  // Samples are shuffled in windows, so that neighbours in storage are served close together.
  [[nodiscard]] bool is_windowed() const noexcept { return options_.window > 0 && options_.shuffle; }
  // Each rank has consecutive batches rather than every n-th one: in windows and in parts.
  [[nodiscard]] bool is_contiguous() const noexcept {
    return is_windowed() || (options_.parts > 0 && options_.shuffle);
  }
  // The window that contains a position; without windows, all positions. REQUIRES: position < samples.
  [[nodiscard]] PositionRange window(std::uint64_t position) const noexcept;
  // The replacement at (epoch, position) after `attempt` bad samples, counted from 1: a function of seed, epoch,
  // position and attempt alone.
  [[nodiscard]] std::uint64_t replacement(std::uint64_t epoch, std::uint64_t position,
                                          std::uint32_t attempt) const noexcept;

 private:
  [[nodiscard]] std::uint64_t place_at(std::uint64_t epoch, std::uint64_t position) const noexcept;
  // The sample at a position, as a number within the selection.
  [[nodiscard]] std::uint64_t number_at(std::uint64_t epoch, std::uint64_t position) const noexcept;

  OrderOptions options_;
  std::uint64_t batches_ = 0;
};

}  // namespace forebay
