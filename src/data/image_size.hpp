#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/file_io.hpp"

namespace forebay::data {

// The orientation, 1 to 8, that the EXIF data of an APP1 segment states (the segment's bytes after its length field,
// from "Exif\0\0" on); 1 = as stored. Anything absent, damaged or out of range is 1: an image is not worth refusing
// for its metadata. Reads the first directory only and never past `segment`. Any thread may call.
// Layout: CIPA DC-008 (Exif 2.32), sections 4.6.2 and 4.6.4, tag 0x0112.
[[nodiscard]] int exif_orientation(std::span<const std::byte> segment) noexcept;

// The same of EXIF data without those six bytes, as other files have it: a TIFF structure.
[[nodiscard]] int tiff_orientation(std::span<const std::byte> structure) noexcept;

// Whether `segment` is an EXIF one at all; APP1 also carries XMP.
[[nodiscard]] bool is_exif(std::span<const std::byte> segment) noexcept;

struct ImageExtent {
  std::int32_t width = 0;
  std::int32_t height = 0;
};

// The size of an image file as it is displayed, after its EXIF turn, from its header alone: what the decoder of such a
// file will find. For annotations that are relative to it. Throws SampleError where the header does not say. Any
// thread.
[[nodiscard]] ImageExtent displayed_size(const OpenFile& file);

}  // namespace forebay::data
