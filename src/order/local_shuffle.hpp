#pragma once

#include <cstdint>

#include <forebay/order.hpp>

#include "ledger.hpp"

namespace forebay::order {

// A bijection of [0, options.samples) for OrderOptions::parts: the seed gives every sample a home
// part, and each epoch shuffles every part. If the last batch is dropped, a part has room for a few
// more samples than it serves; which of them are left out differs by epoch. A pure function of its
// arguments and the epoch, in O(1) time and memory, by four Permutations. Immutable; any thread may
// call.
class LocalShuffle {
 public:
  // `batches`: per epoch. REQUIRES: options.parts and options.shards are at least 1.
  LocalShuffle(const OrderOptions& options, std::uint64_t batches) noexcept;

  // The place of the sample at a position of an epoch. REQUIRES: position < options.samples.
  [[nodiscard]] std::uint64_t operator()(std::uint64_t epoch, std::uint64_t position) const noexcept;

  // The range of homes of a part, and the place with a given home. REQUIRES: part < options.parts; home <
  // options.samples.
  [[nodiscard]] PositionRange homes(std::uint64_t part) const noexcept {
    return {.begin = begin(part, samples_), .end = begin(part + 1, samples_)};
  }
  [[nodiscard]] std::uint64_t place(std::uint64_t home) const noexcept;

 private:
  // Where a part begins if the parts share `count` in proportion to the positions that they serve.
  [[nodiscard]] std::uint64_t begin(std::uint64_t part, std::uint64_t count) const noexcept;
  [[nodiscard]] std::uint64_t size(std::uint64_t part, std::uint64_t count) const noexcept {
    return begin(part + 1, count) - begin(part, count);
  }
  // The part whose share contains a number. REQUIRES: number < count.
  [[nodiscard]] std::uint64_t part_of(std::uint64_t number, std::uint64_t count) const noexcept;

  Partition partition_;  // the partition's ranks are the parts
  std::uint64_t samples_;
  std::uint64_t batch_size_;
  std::uint64_t served_;     // positions that are part of a batch
  std::uint64_t exchanged_;  // how many of them are exchanged
  std::uint64_t seed_;
};

}  // namespace forebay::order
