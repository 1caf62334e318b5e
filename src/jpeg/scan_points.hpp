#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "coefficients.hpp"

namespace forebay::jpeg {

// Where the entropy-coded data of an MCU begin, before the restart marker if one comes first.
struct ScanPoint {
  std::uint32_t bit = 0;  // of the scan's bytes as they lie in the file, the first one on top
  std::array<std::int16_t, JpegFrame::kMostComponents> predictors{};

  [[nodiscard]] std::size_t byte() const noexcept { return bit / 8; }
  friend bool operator==(const ScanPoint&, const ScanPoint&) = default;
};

// The points of a file: in each row of MCUs one at its begin, and one at each multiple of 128 pixels. So a decoder can
// begin near any MCU. Whatever the bytes hold, the points are only where it begins; the owner of the bytes knows
// whether they are the file's.
class ScanPoints {
 public:
  ScanPoints() = default;
  // REQUIRES: `packed` has bytes_of(frame) bytes, and stays
  ScanPoints(const JpegFrame& frame, std::span<const std::byte> packed) noexcept;

  // MCUs from point to point.
  [[nodiscard]] static std::int32_t step_of(const JpegFrame& frame) noexcept;
  [[nodiscard]] static std::int32_t points_of_row(const JpegFrame& frame) noexcept;
  [[nodiscard]] static std::size_t bytes_of(const JpegFrame& frame) noexcept;
  // Appends a point; they follow each other row by row.
  static void append(std::vector<std::byte>& packed, const JpegFrame& frame, const ScanPoint& point);

  [[nodiscard]] bool empty() const noexcept { return packed_.empty(); }
  [[nodiscard]] std::int32_t step() const noexcept { return step_; }
  // REQUIRES: 0 <= mcu_row < mcus_down; 0 <= number < points_of_row()
  [[nodiscard]] ScanPoint at(std::int32_t mcu_row, std::int32_t number) const noexcept;

 private:
  std::span<const std::byte> packed_;
  std::size_t components_ = 0;
  std::int32_t of_row_ = 0;
  std::int32_t step_ = 0;
};

}  // namespace forebay::jpeg
