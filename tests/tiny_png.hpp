#pragma once

#include <zlib.h>

#include <array>
#include <cstdint>
#include <string>

namespace forebay::testing {

inline std::string png_number(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> static_cast<unsigned>(shift));
  return bytes;
}

inline std::string png_chunk(const std::string& type, const std::string& content) {
  const std::string covered = type + content;
  const auto crc = ::crc32(0, reinterpret_cast<const Bytef*>(covered.data()), static_cast<uInt>(covered.size()));
  return png_number(static_cast<std::uint32_t>(content.size())) + covered + png_number(static_cast<std::uint32_t>(crc));
}

// A PNG of one grey pixel.
inline std::string tiny_png(int grey) {
  std::array<Bytef, 64> packed{};
  const std::array<Bytef, 2> row{0, static_cast<Bytef>(grey)};
  uLongf length = packed.size();
  if (::compress(packed.data(), &length, row.data(), row.size()) != Z_OK) return {};
  return std::string("\x89PNG\r\n\x1A\n") +
         png_chunk("IHDR", png_number(1) + png_number(1) + std::string("\x08\0\0\0\0", 5)) +
         png_chunk("IDAT", std::string(reinterpret_cast<const char*>(packed.data()), length)) + png_chunk("IEND", "");
}

}  // namespace forebay::testing
