#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <forebay/dataset.hpp>

namespace forebay {

// Where the bytes of a sample lie: of its image, and of all its fields.
struct Placement {
  std::uint64_t source = 0;  // number of the file
  std::uint64_t offset = 0;  // of the image
  std::uint64_t length = 0;
  // Bytes around the image that are read too: fields lie there, or a checksum covers them.
  std::uint64_t before = 0;
  std::uint64_t after = 0;
  std::uint64_t idle = 0;                  // of those, bytes that are neither
  std::vector<std::uint64_t> fields = {};  // bytes of each field, also of those that the index holds

  [[nodiscard]] std::uint64_t begin() const noexcept { return offset - before; }
  [[nodiscard]] std::uint64_t end() const noexcept { return offset + length + after; }
};

// A dataset that knows where its samples lie, and reads a whole sample, or several, by one request. Any thread may
// call.
class PlacedSamples {
 public:
  virtual ~PlacedSamples() = default;
  // Nothing for a sample that is a whole file, that the index holds itself, or that has a field elsewhere, none where
  // it should have one, or one that is too large for a batch. REQUIRES: id < size().
  [[nodiscard]] virtual std::optional<Placement> placement(std::uint64_t id) const = 0;
  // Fills `parts` with the samples of `ids`, by one request: for each its image, of Placement::length bytes, then its
  // fields. Throws SampleError when that fails or any of them is damaged; it does not say which. REQUIRES: all have
  // placements in one source, ascending, none beginning before the end of the last.
  virtual void read_together(std::span<const std::uint64_t> ids, std::span<const std::span<std::byte>> parts) const = 0;
};

// Has the placement of an image enclose these ranges of its file, from the first byte of each to past its last: the
// image's own and its fields'. False when that cannot be: they overlap without being the same, or a checksum covers the
// image and not all of them.
[[nodiscard]] bool enclose(std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges, Placement& placement);

// Whether a field of so many bytes can be served at all.
[[nodiscard]] bool fits_batch(const Field& field, std::uint64_t bytes) noexcept;
// The error of one that cannot.
[[nodiscard]] SampleError too_large_for_batch(const Field& field, std::uint64_t bytes);

// The dataset as such a one; null for a dataset of the program's own, and where samples are whole files.
[[nodiscard]] const PlacedSamples* placed_samples(const Dataset& dataset) noexcept;

}  // namespace forebay
