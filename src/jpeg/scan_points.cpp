#include "scan_points.hpp"

#include <algorithm>
#include <cstring>

namespace forebay::jpeg {
namespace {

// A choice: decoding begins 64 pixels before a region on average, and a point of a colour image
// takes 10 bytes.
constexpr std::int32_t kPixelsBetweenPoints = 128;

constexpr std::size_t point_bytes(std::size_t components) noexcept {
  return sizeof(std::uint32_t) + components * sizeof(std::int16_t);
}

}  // namespace

ScanPoints::ScanPoints(const JpegFrame& frame, std::span<const std::byte> packed) noexcept
    : packed_(packed), components_(frame.components), of_row_(points_of_row(frame)), step_(step_of(frame)) {}

std::int32_t ScanPoints::step_of(const JpegFrame& frame) noexcept {
  return std::max(1, kPixelsBetweenPoints / (std::int32_t{CoefficientRow::kSide} * frame.max_h));
}

std::int32_t ScanPoints::points_of_row(const JpegFrame& frame) noexcept {
  return (frame.mcus_across - 1) / step_of(frame) + 1;
}

std::size_t ScanPoints::bytes_of(const JpegFrame& frame) noexcept {
  return static_cast<std::size_t>(points_of_row(frame)) * static_cast<std::size_t>(frame.mcus_down) *
         point_bytes(frame.components);
}

void ScanPoints::append(std::vector<std::byte>& packed, const JpegFrame& frame, const ScanPoint& point) {
  const auto put = [&](std::span<const std::byte> bytes) { packed.insert(packed.end(), bytes.begin(), bytes.end()); };
  put(std::as_bytes(std::span(&point.bit, 1)));
  put(std::as_bytes(std::span(point.predictors).first(frame.components)));
}

ScanPoint ScanPoints::at(std::int32_t mcu_row, std::int32_t number) const noexcept {
  const auto index =
      static_cast<std::size_t>(mcu_row) * static_cast<std::size_t>(of_row_) + static_cast<std::size_t>(number);
  const std::byte* const from = packed_.data() + index * point_bytes(components_);
  ScanPoint point;
  std::memcpy(&point.bit, from, sizeof(point.bit));
  std::memcpy(point.predictors.data(), from + sizeof(point.bit), components_ * sizeof(std::int16_t));
  return point;
}

}  // namespace forebay::jpeg
