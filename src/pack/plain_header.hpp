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

// The parts of the header of a sequential, Huffman-coded 8-bit JPEG file, with one scan of one or three components,
// that concern its scan. Colours and quantisers are not included, because a scan does not depend on them.
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

  // Nothing for any other file, and for unusual headers.
  [[nodiscard]] static std::optional<PlainHeader> read(std::span<const std::byte> file);
};

}  // namespace forebay::pack
