#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "index_video.hpp"

namespace forebay::video {

// A file of which the last blocks are kept: what a demuxer has read is read once more where packets are compared, and a
// file may be an object in a store, where each read is a request.
class KeptBlocks {
 public:
  explicit KeptBlocks(const VideoSource& source) : source_(source) {}

  [[nodiscard]] std::uint64_t bytes() const noexcept { return source_.bytes; }
  // REQUIRES: these are bytes of the file.
  void read(std::uint64_t offset, std::span<std::byte> to) {
    while (!to.empty()) {
      const std::uint64_t number = offset / kBlock;
      const auto from = std::span(block(number)).subspan(static_cast<std::size_t>(offset - number * kBlock));
      const auto part = from.first(std::min(from.size(), to.size()));
      std::ranges::copy(part, to.begin());
      to = to.subspan(part.size());
      offset += part.size();
    }
  }

 private:
  static constexpr std::size_t kBlock = std::size_t{1} << 20U;
  static constexpr std::size_t kKept = 4;
  struct Block {
    std::uint64_t number = UINT64_MAX;
    std::vector<std::byte> bytes;
  };

  const std::vector<std::byte>& block(std::uint64_t number) {
    const auto known = std::ranges::find(blocks_, number, &Block::number);
    if (known != blocks_.end()) return known->bytes;
    Block& replaced = blocks_[next_++ % kKept];
    replaced.number = UINT64_MAX;  // the read may fail
    replaced.bytes.resize(static_cast<std::size_t>(std::min<std::uint64_t>(kBlock, source_.bytes - number * kBlock)));
    source_.read(number * kBlock, replaced.bytes);
    replaced.number = number;
    return replaced.bytes;
  }

  const VideoSource& source_;
  std::array<Block, kKept> blocks_;
  std::size_t next_ = 0;
};

}  // namespace forebay::video
