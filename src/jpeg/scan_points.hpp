#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "coefficients.hpp"

namespace forebay::jpeg {

// Where the entropy-coded data of an MCU begins. If a restart marker precedes the MCU, the point
// lies before the marker.
struct ScanPoint {
  std::uint32_t bit = 0;  // offset in the scan as stored; a byte's first bit is its top one
  std::array<std::int16_t, JpegFrame::kMostComponents> predictors{};

  [[nodiscard]] std::size_t byte() const noexcept { return bit / 8; }
  friend bool operator==(const ScanPoint&, const ScanPoint&) = default;
};

// The entry points of a file: one at the start of each row of MCUs, and one at each multiple of 128
// pixels, so that a decoder can begin near any MCU. They are not validated here; the owner of the
// bytes knows whether they belong to the file. A view of bytes; any thread may read it.
class ScanPoints {
 public:
  ScanPoints() = default;
  // REQUIRES: `packed` has bytes_of(frame) bytes and stays valid.
  ScanPoints(const JpegFrame& frame, std::span<const std::byte> packed) noexcept;

  // MCUs from one point to the next.
  [[nodiscard]] static std::int32_t step_of(const JpegFrame& frame) noexcept;
  [[nodiscard]] static std::int32_t points_of_row(const JpegFrame& frame) noexcept;
  [[nodiscard]] static std::size_t bytes_of(const JpegFrame& frame) noexcept;
  // Appends a point; points are added row by row.
  static void append(std::vector<std::byte>& packed, const JpegFrame& frame, const ScanPoint& point);

  [[nodiscard]] bool empty() const noexcept { return packed_.empty(); }
  [[nodiscard]] std::int32_t step() const noexcept { return step_; }
  // REQUIRES: 0 <= mcu_row < mcus_down; 0 <= number < points_of_row().
  [[nodiscard]] ScanPoint at(std::int32_t mcu_row, std::int32_t number) const noexcept;

 private:
  std::span<const std::byte> packed_;
  std::size_t components_ = 0;
  std::int32_t of_row_ = 0;
  std::int32_t step_ = 0;
};

}  // namespace forebay::jpeg
