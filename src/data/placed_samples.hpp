#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <forebay/dataset.hpp>

namespace forebay {

// Where the bytes of a sample lie.
struct Placement {
  std::uint64_t source = 0;  // number of the file
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  // Bytes around them that are read too, because a checksum covers them.
  std::uint64_t before = 0;
  std::uint64_t after = 0;

  [[nodiscard]] std::uint64_t begin() const noexcept { return offset - before; }
  [[nodiscard]] std::uint64_t end() const noexcept { return offset + length + after; }
};

// A dataset that knows where its samples lie, and reads several by one request. Any thread may call.
class PlacedSamples {
 public:
  virtual ~PlacedSamples() = default;
  // Nothing for a sample that is a whole file, or that the index holds itself. REQUIRES: id < size().
  [[nodiscard]] virtual std::optional<Placement> placement(std::uint64_t id) const = 0;
  // Fills bytes[i], of Placement::length bytes, with those of ids[i]: by one request. Throws SampleError when that
  // fails or any of them is damaged; it does not say which. REQUIRES: all have placements in one source, ascending,
  // none beginning before the end of the last.
  virtual void read_together(std::span<const std::uint64_t> ids, std::span<const std::span<std::byte>> bytes) const = 0;
};

// The dataset as such a one; null for a dataset of the program's own, and where samples are whole files.
[[nodiscard]] const PlacedSamples* placed_samples(const Dataset& dataset) noexcept;

}  // namespace forebay
