#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/file_io.hpp"

namespace forebay::data {

// The orientation, 1 to 8, that the EXIF data of an APP1 segment states (the segment's bytes after its length field,
// from "Exif\0\0" on); 1 = as stored. Anything absent, damaged or out of range gives 1: metadata are no reason to
// refuse an image. Reads the first directory only and never past `segment`. Any thread may call. Layout: CIPA DC-008
// (Exif 2.32), sections 4.6.2 and 4.6.4, tag 0x0112.
[[nodiscard]] int exif_orientation(std::span<const std::byte> segment) noexcept;

// The same for EXIF data without those six bytes, as in other files: a TIFF structure.
[[nodiscard]] int tiff_orientation(std::span<const std::byte> structure) noexcept;

// Whether `segment` is an EXIF segment; APP1 also carries XMP.
[[nodiscard]] bool is_exif(std::span<const std::byte> segment) noexcept;

struct ImageExtent {
  std::int32_t width = 0;  // 0: not known
  std::int32_t height = 0;

  [[nodiscard]] bool is_known() const noexcept { return width > 0 && height > 0; }
  friend bool operator==(const ImageExtent&, const ImageExtent&) = default;
};

// The size of an image file as displayed, after its EXIF rotation, from its header alone: the size that its decoder
// will find. For annotations relative to it. Throws SampleError if the header does not state it. Any thread.
[[nodiscard]] ImageExtent displayed_size(const OpenFile& file);

}  // namespace forebay::data
