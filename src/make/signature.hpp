#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace forebay::make {

// Whether the bytes begin like every JPEG file (SOI, then a marker's FF).
[[nodiscard]] inline bool starts_as_jpeg(std::span<const std::byte> bytes) noexcept {
  return bytes.size() >= 2 && bytes[0] == std::byte{0xff} && bytes[1] == std::byte{0xd8};
}

// Likewise for WebP and TIFF. They are here because builds without those libraries need them, too.
[[nodiscard]] bool starts_as_webp(std::span<const std::byte> bytes) noexcept;
[[nodiscard]] bool starts_as_tiff(std::span<const std::byte> bytes) noexcept;  // BigTIFF too

// Describes bytes that are not a JPEG, for messages: "a PNG image", "HTML", "empty", ... Any thread may call.
[[nodiscard]] std::string describe_content(std::span<const std::byte> bytes);

}  // namespace forebay::make
