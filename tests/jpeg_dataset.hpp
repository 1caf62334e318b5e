#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "memory_dataset.hpp"

namespace forebay::testing {

// A MemoryDataset whose samples are JPEG files.
class JpegDataset final : public Dataset {
 public:
  explicit JpegDataset(std::vector<std::vector<std::byte>> files, std::optional<Box> box = std::nullopt)
      : files_(std::move(files)), box_(box) {}

  [[nodiscard]] std::string_view format() const noexcept override { return "memory"; }
  [[nodiscard]] std::uint64_t size() const noexcept override { return files_.size(); }
  [[nodiscard]] const std::vector<std::string>& classes() const noexcept override { return base_.classes(); }
  [[nodiscard]] Sample sample(std::uint64_t /*id*/) const override {
    Sample sample;
    sample.label = 0;
    sample.box = box_;
    return sample;
  }
  [[nodiscard]] std::string name(std::uint64_t id) const override { return base_.name(id); }
  void read(std::uint64_t id, ReadTarget& target) const override {
    std::ranges::copy(files_[id], target.reserve(files_[id].size()).begin());
  }
  [[nodiscard]] const std::vector<Skipped>& skipped() const noexcept override { return base_.skipped(); }
  [[nodiscard]] IndexCounts counts() const noexcept override { return {.images = files_.size()}; }
  [[nodiscard]] std::vector<std::byte> serialize() const override { return base_.serialize(); }

 private:
  MemoryDataset base_{1};
  std::vector<std::vector<std::byte>> files_;
  std::optional<Box> box_;
};

}  // namespace forebay::testing
