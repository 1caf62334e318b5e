#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include <forebay/feeder.hpp>

#include "memory_dataset.hpp"

namespace forebay::testing {

// A feeder's parts: a MemoryDataset of so many samples, and all else as it comes.
inline Parts parts(std::uint64_t samples, MemoryDataset::Hook before_read = {}) {
  return {.dataset = std::make_shared<MemoryDataset>(samples, std::move(before_read))};
}

}  // namespace forebay::testing
