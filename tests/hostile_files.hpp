#pragma once

#include <doctest/doctest.h>
#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <random>
#include <string>

#include <forebay/error.hpp>

#include "dataset_support.hpp"
#include "support.hpp"

// Files that are cut, flipped and compressed.
namespace forebay::testing {

inline void write_gzip(const std::filesystem::path& path, const std::string& content) {
  std::filesystem::create_directories(path.parent_path());
  gzFile file = ::gzopen(path.c_str(), "wb");
  CHECK(::gzwrite(file, content.data(), static_cast<unsigned>(content.size())) == static_cast<int>(content.size()));
  CHECK(::gzclose(file) == Z_OK);
}

// Indexes the file and reads all that the index promises: whatever is in it, that ends in samples that can be read, or
// in errors of Forebay's.
inline void use_file(const std::filesystem::path& path, const std::string& format) {
  try {
    const auto dataset = build_dataset(options_for(path, format));
    for (std::uint64_t id = 0; id < dataset->size(); ++id) {
      try {
        (void)read_sample(*dataset, id);
      } catch (const SampleError&) {
      }
    }
  } catch (const ConfigError&) {
  }
}

// The same for the file cut after each of its bytes, and with random bytes changed.
inline void use_broken_files(const TemporaryDirectory& folder, const std::string& name, const std::string& content,
                             const std::string& format) {
  const std::size_t step = std::max<std::size_t>(1, content.size() / (kSanitized ? 300 : 1200));
  for (std::size_t length = 0; length < content.size(); length += step) {
    CAPTURE(length);
    replace_file(folder / name, content.substr(0, length));
    use_file(folder / name, format);
  }
  const unsigned seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < (kSanitized ? 200 : 1000); ++round) {
    std::string broken = content;
    for (auto left = random() % 4 + 1; left > 0; --left) {
      const std::size_t at = random() % broken.size();
      const auto kind = random() % 3;
      broken[at] = kind == 0   ? static_cast<char>(random())
                   : kind == 1 ? '\xFF'
                               : static_cast<char>(broken[at] ^ (1U << random() % 8));
    }
    replace_file(folder / name, broken);
    use_file(folder / name, format);
  }
}

}  // namespace forebay::testing
