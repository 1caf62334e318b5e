#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "jpeg/coefficients.hpp"
#include "jpeg/huffman_table.hpp"

namespace forebay::pack {

// What the header of a sequential, Huffman-coded JPEG file of 8 bits, with one scan of one or three components, says
// about its scan. Not which colours they are, nor their quantisers: of those a scan is independent.
struct PlainHeader {
  struct Codes {
    jpeg::HuffmanCode dc;
    jpeg::HuffmanCode ac;
  };

  jpeg::JpegFrame frame;
  std::array<Codes, jpeg::JpegFrame::kMostComponents> codes{};
  std::uint32_t restart_interval = 0;  // MCUs; 0: none
  // Where its marker segments begin, the frame's, and where the scan's bytes do.
  std::vector<std::size_t> segments;
  std::size_t frame_segment = 0;
  std::size_t size = 0;

  // Nothing for every other file, and for headers in which something is odd.
  [[nodiscard]] static std::optional<PlainHeader> read(std::span<const std::byte> file);
};

}  // namespace forebay::pack
