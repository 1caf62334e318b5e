// The part of ScanDecoder that deals with points: locate() finds the positions where decoding can
// begin in the middle of a scan, for the index; the other functions begin at such a position and
// check that decoding arrives at the next one. Called on decoder threads, and by `forebay index
// --decode-index`.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "scan_decoder.hpp"

namespace forebay::jpeg {

// REQUIRES: at_.has(at_.bits).
ScanPoint ScanDecoder::point() const noexcept {
  const scan::Bits& bits = at_.bits;
  const std::size_t place = at_.begun_at + at_.window->place_of(bits.next - (bits.count + 7) / 8);
  ScanPoint here;
  here.bit = static_cast<std::uint32_t>(place * 8 + (8 - bits.count % 8) % 8);
  for (std::size_t i = 0; i < here.predictors.size(); ++i) {
    here.predictors[i] = static_cast<std::int16_t>(at_.predictors[i]);
  }
  return here;
}

// A point stores its bit offset in 32 bits, so files of half a gigabyte have no points.
bool ScanDecoder::locate(std::vector<std::byte>& packed) {
  if (bytes_.size() > std::numeric_limits<std::uint32_t>::max() / 8) return false;
  const std::int32_t step = ScanPoints::step_of(*frame_);
  for (; next_row_ < frame_->mcus_down; ++next_row_) {
    for (std::int32_t x = 0; x < frame_->mcus_across; x += step) {
      ScanPoints::append(packed, *frame_, point());
      if (!skip_mcus(std::min(step, frame_->mcus_across - x))) return false;
    }
  }
  return true;
}

std::optional<ScanPoint> ScanDecoder::point_behind(std::int32_t mcu_row, std::int32_t mcu) const noexcept {
  const std::int32_t number = (mcu - 1) / points_.step() + 1;
  if (number < ScanPoints::points_of_row(*frame_)) return points_.at(mcu_row, number);
  if (mcu_row + 1 < frame_->mcus_down) return points_.at(mcu_row + 1, 0);
  return std::nullopt;
}

void ScanDecoder::begin_restarts(std::int64_t mcu) noexcept {
  if (restart_interval_ == 0) return;
  const std::int64_t passed = mcu / restart_interval_;
  const std::int64_t since = mcu % restart_interval_;
  // A point lies before the restart marker.
  const bool is_due = since == 0 && mcu > 0;
  until_restart_ = is_due ? 0 : restart_interval_ - static_cast<std::uint32_t>(since);
  next_restart_ = static_cast<unsigned>((is_due ? passed - 1 : passed) % 8);
}

// The window gets the bytes up to the first point at or after MCU `right` of the row; no more need
// be copied.
bool ScanDecoder::begin_at(std::int32_t mcu_row, std::int32_t number, std::int32_t right) noexcept {
  const ScanPoint from = points_.at(mcu_row, number);
  const auto behind = point_behind(mcu_row, right);
  // Up to that point's byte, and a byte that may be stuffed after it.
  const std::size_t end = behind ? std::min(behind->byte() + 2, bytes_.size()) : bytes_.size();
  at_.begun_at = from.byte();
  if (at_.begun_at > end) return false;
  const std::uint8_t* const at = at_.window->open(bytes_.subspan(at_.begun_at, end - at_.begun_at));
  const unsigned taken = from.bit % 8;
  at_.bits = {.buffer = std::uint64_t{*at} << 56U << taken, .count = 8 - taken, .next = at + 1};
  std::copy(from.predictors.begin(), from.predictors.end(), at_.predictors.begin());
  begin_restarts(std::int64_t{mcu_row} * frame_->mcus_across + std::int64_t{number} * points_.step());
  return true;
}

// Begins at the last point at or before the first wanted MCU; the few MCUs in between are parsed
// without values.
bool ScanDecoder::begin_row(std::int32_t mcu_row, const CoefficientRow& row) noexcept {
  const std::int32_t number = row.left() / points_.step();
  return begin_at(mcu_row, number, row.right()) && skip_mcus(row.left() - number * points_.step());
}

// If a point follows immediately, the position must equal it.
bool ScanDecoder::is_behind(std::int32_t mcu_row, const CoefficientRow& row) const noexcept {
  if (row.right() != frame_->mcus_across && row.right() % points_.step() != 0) return true;
  const auto behind = point_behind(mcu_row, row.right());
  return !behind || point() == *behind;
}

// The row may have been decoded already, as the lower row of a pair.
bool ScanDecoder::read_from_points(std::int32_t mcu_row, CoefficientRow& row) {
  if (ahead_row_ == mcu_row) {
    std::swap(row, ahead_);
    ahead_row_ = kNone;
    return true;
  }
  if (can_read_two(mcu_row, row)) return read_two(mcu_row, row);
  return begin_row(mcu_row, row) && read_mcus(row.right() - row.left(), row) && is_behind(mcu_row, row);
}

}  // namespace forebay::jpeg
