#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "jpeg/coefficients.hpp"
#include "pack_kernels.hpp"
#include "packed_jpeg.hpp"
#include "packed_tile.hpp"

namespace forebay::pack {

// The coefficients of a packed JPEG file, decoded tile by tile; only tiles with wanted coefficients
// are decoded.
//
// The bytes are not trusted: they are refused with a SampleError or give some coefficients. Nothing
// outside of them is read, and nothing outside the requested row is written.
//
// An object belongs to one thread. Its memory is reused from image to image, but more than
// kKeptBytes is freed once kPatience consecutive images have not needed it.
class PackedCoefficients final : public jpeg::CoefficientSource {
 public:
  static constexpr std::size_t kKeptBytes = std::size_t{32} << 20;
  static constexpr int kPatience = 64;

  // `kernels` must outlive it.
  explicit PackedCoefficients(const PackKernels& kernels = supported_pack_kernels().front(),
                              std::size_t kept_bytes = kKeptBytes)
      : kernels_(&kernels), kept_bytes_(kept_bytes) {}

  // Both arguments must stay valid. Throws SampleError if the tiles do not fit an image of this
  // size.
  void open(const PackedJpeg& packed, const jpeg::JpegFrame& frame);

  // See CoefficientSource. Throws SampleError if a tile is damaged. REQUIRES: open() was called.
  [[nodiscard]] bool read(std::int32_t mcu_row, jpeg::CoefficientRow& row) override;

  // Bytes of memory that are kept for the next image.
  [[nodiscard]] std::size_t held() const noexcept;

 private:
  void give_back() noexcept;
  void load_tiles(std::int32_t tile_row, const jpeg::CoefficientRow& row);

  const PackKernels* kernels_;
  std::size_t kept_bytes_;
  const PackedJpeg* packed_ = nullptr;
  const jpeg::JpegFrame* frame_ = nullptr;
  TileGrid grid_;
  std::span<const std::byte> bytes_;  // all tiles
  std::vector<std::size_t> bounds_;   // where each tile begins, and the end
  std::vector<PackedTile> tiles_;     // the wanted tiles of one row
  std::int32_t tile_row_ = -1;        // the row of tiles that is loaded
  std::size_t needed_ = 0;            // bytes of this image's largest row of tiles
  int unneeded_ = 0;                  // consecutive images that needed at most kept_bytes_
};

}  // namespace forebay::pack
