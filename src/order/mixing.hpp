#pragma once

#include <cstdint>

#include <forebay/order.hpp>

namespace forebay::order {

// How well the order of an epoch is mixed, compared with a shuffle of all samples. Any thread may
// call these functions.
struct Mixing {
  double displacement = 0;  // mean distance of a sample from its place, over that of a shuffle
  double neighbours = 0;    // correlation of the storage places of consecutive samples; 0 in a shuffle
  double together = 0;      // most samples of a batch that lie within `run` places in storage; mean
};
// Looks at `batches` batches spread over the epoch. REQUIRES: run is at least 1.
[[nodiscard]] Mixing mixing_of(const Order& order, std::uint64_t epoch, std::uint64_t run, std::uint64_t batches = 256);

// For an order of parts: how many times as often as in a shuffle two samples of one batch are
// together in a batch of the next epoch. REQUIRES: options.parts is at least 1.
[[nodiscard]] double meetings(const OrderOptions& options) noexcept;

}  // namespace forebay::order
