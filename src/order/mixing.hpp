#pragma once

#include <cstdint>

#include <forebay/order.hpp>

namespace forebay {

// How well the order of an epoch is mixed, beside a shuffle of all samples.
struct Mixing {
  double displacement = 0;  // mean distance of a sample from its place in storage, over that of a shuffle (samples / 3)
  double neighbours = 0;    // correlation of the places in storage of samples that are served one after the other; 0
  double together = 0;      // mean over the batches: most samples of one that lie within `run` places in storage
};
// Looks at `batches` batches spread over the epoch. REQUIRES: run is at least 1.
[[nodiscard]] Mixing mixing_of(const Order& order, std::uint64_t epoch, std::uint64_t run, std::uint64_t batches = 256);

}  // namespace forebay
