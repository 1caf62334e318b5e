#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <forebay/dataset.hpp>

namespace forebay::data {

// Keeps what a dataset reads. The next read replaces it, in the same memory if that is large enough.
struct MemoryTarget final : ReadTarget {
  [[nodiscard]] std::span<std::byte> reserve(std::size_t size) override {
    bytes.resize(size);
    return bytes;
  }

  std::vector<std::byte> bytes;
};

}  // namespace forebay::data
