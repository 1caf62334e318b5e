#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <forebay/view.hpp>

#include "base/device_function.hpp"
#include "canvas.hpp"
#include "jpeg/coefficients.hpp"

// JPEG coefficients in the place of a canvas (transform.hold = "coefficients"): what the entropy decoding of a file
// gives, in a form that any block can be read from without those before it.
//
// A place: HeldJpeg; for each component where the groups of its blocks begin, 32 bits each, and how long the record of
// each block is, a byte each; the records; kHeldSlack bytes of anything. A group is up to kGroupBlocks blocks beside
// each other in one row, whose records follow each other. Numbers are little endian. held_math.hpp says what a record
// is.
namespace forebay {

constexpr std::int32_t kGroupBlocks = 32;
// Readers of records may look at so many bytes behind the last one.
constexpr std::size_t kHeldSlack = 8;
// Bytes of a record at most: the first 16 bits, widths and masks of all octets, and 63 values of 14 bits.
constexpr std::size_t kMostRecordBytes = 2 + 4 + 8 + (63 * 14 + 7) / 8;

struct HeldComponent {
  std::int32_t across = 0;       // blocks
  std::int32_t down = 0;         // likewise
  std::uint32_t groups_at = 0;   // in the place, bytes
  std::uint32_t lengths_at = 0;  // likewise

  [[nodiscard]] constexpr std::int32_t groups_across() const noexcept {
    return (across + kGroupBlocks - 1) / kGroupBlocks;
  }
  [[nodiscard]] constexpr std::int32_t groups() const noexcept { return groups_across() * down; }
};

// What the beginning of a place says of its image.
struct HeldJpeg {
  JpegFrame frame;
  McuRegion mcus;                // that are here
  std::int32_t orientation = 1;  // EXIF
  std::int32_t left = 0;         // of the sample's part, in the image as displayed
  std::int32_t top = 0;
  std::array<HeldComponent, JpegFrame::kMostComponents> component{};
};
static_assert(sizeof(HeldJpeg) < 1024 && alignof(HeldJpeg) <= 16);

// What an image that is held may become when it is expanded, so that whoever does so needs memory of a fixed size: with
// 8 there is room for all that fits a place, but for images with hardly anything in them.
constexpr std::size_t kMostExpansion = 8;
[[nodiscard]] FOREBAY_HOST_DEVICE constexpr std::size_t most_expanded(const CanvasFormat& format) noexcept {
  return kMostExpansion * format.place_bytes();
}

// From one row to the next of an expanded part: as rows of canvases.
[[nodiscard]] FOREBAY_HOST_DEVICE constexpr std::size_t expanded_row_bytes(std::int32_t width) noexcept {
  return (3 * static_cast<std::size_t>(width) + 15) / 16 * 16;
}

}  // namespace forebay
