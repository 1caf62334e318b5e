#pragma once

// The inputs that are kept for a target beside its seeds, in tests/fuzz/corpus/TARGET.tar, which
// scripts/fuzz writes.

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "dataset_support.hpp"
#include "support.hpp"

namespace forebay::fuzz {

struct KeptInput {
  std::string name;
  std::string bytes;
};

inline std::filesystem::path corpus() { return testing::source_dir() / "tests" / "fuzz" / "corpus"; }

// Reads an archive of regular files with short names in ustar format, as scripts/fuzz has tar write
// it.
inline std::vector<KeptInput> kept_inputs(const std::filesystem::path& archive) {
  constexpr std::size_t kBlock = 512;
  constexpr std::size_t kSizeAt = 124;
  constexpr std::size_t kSizeDigits = 11;
  const std::string tar = testing::read_text(archive);
  std::vector<KeptInput> inputs;
  for (std::size_t at = 0; at + kBlock <= tar.size() && tar[at] != '\0';) {
    const std::size_t size = std::stoul(tar.substr(at + kSizeAt, kSizeDigits), nullptr, 8);
    inputs.push_back({tar.substr(at, tar.find('\0', at) - at), tar.substr(at + kBlock, size)});
    at += kBlock + (size + kBlock - 1) / kBlock * kBlock;
  }
  return inputs;
}

}  // namespace forebay::fuzz
