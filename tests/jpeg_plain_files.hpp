#pragma once

#include "jpeg/libjpeg_images.hpp"
#include "jpeg_support.hpp"
#include "pack/jpeg_packer.hpp"
#include "pack/pack_tables.hpp"
#include "test.hpp"

namespace forebay::testing {

// Files of each size: grey and colour, with all common samplings, with optimised codes, with
// restart intervals.
inline std::vector<std::vector<std::byte>> plain_files(const std::vector<std::pair<int, int>>& sizes) {
  constexpr std::pair<int, int> kOne{1, 1};
  std::vector<std::vector<std::byte>> files;
  for (const auto& [width, height] : sizes) {
    for (const std::pair<int, int>& luma : {std::pair{0, 0}, {1, 1}, {2, 1}, {2, 2}, {1, 2}, {4, 1}}) {
      for (int way = 0; way < 3; ++way) {
        Recipe recipe;
        recipe.width = width;
        recipe.height = height;
        if (luma.first == 0) {
          recipe.input = recipe.stored = JCS_GRAYSCALE;
          recipe.components = 1;
        } else {
          recipe.sampling = {luma, kOne, kOne};
        }
        recipe.optimised = way == 1;
        recipe.restart_interval = way == 2 ? 3 : 0;
        files.push_back(make_jpeg(recipe));
      }
    }
  }
  return files;
}

inline pack::PackTables tables_for(const std::vector<std::vector<std::byte>>& files) {
  pack::PackTraining training;
  for (const auto& file : files) (void)training.add(file);
  return training.finish();
}

// Files to be packed, of sizes with every kind of edge.
inline std::vector<std::vector<std::byte>> plain_files() {
  return plain_files({{1, 1}, {8, 8}, {17, 9}, {33, 70}, {150, 70}, {321, 290}});
}

inline std::vector<std::byte> packed(pack::JpegPacker& packer, std::span<const std::byte> file) {
  auto bytes = packer.pack(file);
  REQUIRE(bytes.has_value());
  return *std::move(bytes);
}

}  // namespace forebay::testing
