#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace forebay {

// Whether the bytes begin as every JPEG file does (SOI, then a marker's FF).
[[nodiscard]] bool starts_as_jpeg(std::span<const std::byte> bytes) noexcept;

// What bytes that are not a JPEG look like, for people: "a PNG image", "HTML", "empty", ... Any thread may call.
[[nodiscard]] std::string describe_content(std::span<const std::byte> bytes);

}  // namespace forebay
