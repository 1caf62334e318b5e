#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "jpeg/coefficients.hpp"
#include "jpeg/scan_decoder.hpp"
#include "plain_header.hpp"
#include "tile_writer.hpp"

namespace forebay::pack {

// Reads the coefficients of JPEG files into streams. Belongs to one thread; its memory is reused
// from file to file.
class JpegStreams {
 public:
  // Reads a file, makes streams() available, and returns the header. Null, without streams, for a
  // file that is damaged or not plain.
  [[nodiscard]] const PlainHeader* read(std::span<const std::byte> file);
  [[nodiscard]] const TileStreams& streams() const noexcept { return streams_; }

 private:
  std::optional<PlainHeader> header_;
  jpeg::ScanDecoder decoder_;
  jpeg::CoefficientRow row_;
  TileStreams streams_;
};

// A tile size large enough that starting a tile costs little, and small enough that a region can
// skip many tiles.
[[nodiscard]] TileGrid grid_for(const jpeg::JpegFrame& frame) noexcept;
// The number of lanes that is worthwhile for an image of this size.
[[nodiscard]] std::size_t lanes_for(const jpeg::JpegFrame& frame) noexcept;

}  // namespace forebay::pack
