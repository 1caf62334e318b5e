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

// The parts of a JPEG file's header that concern its scan, for a sequential, Huffman-coded 8-bit
// file with one scan of one or three components. Colours and quantisers are not included, because a
// scan does not depend on them. Any thread may call read().
struct PlainHeader {
  struct Codes {
    jpeg::HuffmanCode dc;
    jpeg::HuffmanCode ac;
  };

  jpeg::JpegFrame frame;
  std::array<Codes, jpeg::JpegFrame::kMostComponents> codes{};
  std::uint32_t restart_interval = 0;  // in MCUs; 0: none
  // Offsets of the marker segments, of the frame's segment, and of the end of the header.
  std::vector<std::size_t> segments;
  std::size_t frame_segment = 0;
  std::size_t size = 0;

  // None for any other file, and for unusual headers.
  [[nodiscard]] static std::optional<PlainHeader> read(std::span<const std::byte> file);
};

}  // namespace forebay::pack
