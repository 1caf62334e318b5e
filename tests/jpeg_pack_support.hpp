#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "jpeg/libjpeg_images.hpp"
#include "jpeg_plain_files.hpp"
#include "jpeg_support.hpp"
#include "pack/jpeg_packer.hpp"

// Files to be packed, and tables for them.
namespace forebay::testing {

// With every kind of edge.
inline std::vector<std::vector<std::byte>> plain_files() {
  return plain_files({{1, 1}, {8, 8}, {17, 9}, {33, 70}, {150, 70}, {321, 290}});
}

inline std::vector<std::byte> packed(JpegPacker& packer, std::span<const std::byte> file) {
  auto bytes = packer.pack(file);
  REQUIRE(bytes.has_value());
  return *std::move(bytes);
}

}  // namespace forebay::testing
