#include "jpeg_streams.hpp"

#include <algorithm>

#include "pack_kernels.hpp"

namespace forebay::pack {
namespace {

// The unit in which a region is decoded. Smaller tiles decode less that is not shown; larger ones
// need fewer lengths and fill the lanes better. The sizes are a choice.
constexpr std::int32_t kTileWidth = 256;  // pixels
constexpr std::int32_t kTileHeight = 128;
// Blocks per tile. Fewer are read equally fast from one lane, which needs no lengths.
constexpr std::size_t kBlocksForLanes = 128;

// A side in MCUs: at least one, and no more than the image has.
constexpr std::int32_t mcus_of(std::int32_t pixels, std::int32_t sampling, std::int32_t most) noexcept {
  return std::clamp(pixels / (8 * sampling), 1, std::max(most, 1));
}

}  // namespace

const PlainHeader* JpegStreams::read(std::span<const std::byte> file) {
  header_ = PlainHeader::read(file);
  if (!header_) return nullptr;
  const jpeg::JpegFrame& frame = header_->frame;
  jpeg::ScanDecoder::Scan scan;
  scan.restart_interval = header_->restart_interval;
  scan.bytes = file.subspan(header_->size);
  scan.wanted = {0, 0, frame.mcus_across, frame.mcus_down};
  for (std::size_t k = 0; k < frame.components; ++k) scan.codes[k] = {header_->codes[k].dc, header_->codes[k].ac};
  // An MCU takes at least one bit.
  if (frame.mcus_across > static_cast<std::int64_t>(scan.bytes.size()) * 8 / frame.mcus_down) return nullptr;
  if (!decoder_.open(frame, scan)) return nullptr;
  streams_.begin(frame, grid_for(frame));
  for (std::int32_t y = 0; y < frame.mcus_down; ++y) {
    row_.reset(frame, frame.components, scan.wanted);
    if (!decoder_.read(y, row_)) return nullptr;
    streams_.add(y, row_);
  }
  return decoder_.finish(frame.mcus_down) && decoder_.at_end_of_image() ? &*header_ : nullptr;
}

TileGrid grid_for(const jpeg::JpegFrame& frame) noexcept {
  return {.mcus_across = frame.mcus_across,
          .mcus_down = frame.mcus_down,
          .width = mcus_of(kTileWidth, frame.max_h, frame.mcus_across),
          .height = mcus_of(kTileHeight, frame.max_v, frame.mcus_down)};
}

// Counts the blocks of both kinds, luma and chroma.
std::size_t lanes_for(const jpeg::JpegFrame& frame) noexcept {
  const TileGrid grid = grid_for(frame);
  std::size_t blocks = static_cast<std::size_t>(grid.width) * static_cast<std::size_t>(grid.height);
  blocks *= blocks_of_mcu(0, frame) + blocks_of_mcu(1, frame);
  return blocks < kBlocksForLanes ? 1 : kLanes;
}

}  // namespace forebay::pack
