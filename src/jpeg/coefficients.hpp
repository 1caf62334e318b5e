#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

// The interface between the entropy decoding of a sequential JPEG file and the computation of its
// pixels.
namespace forebay::jpeg {

// The number of coefficients of a block.
inline constexpr std::size_t kBlockSize = 64;

// The index in natural order (row by row) of the coefficient at each zigzag position.
inline constexpr std::array<std::uint8_t, kBlockSize> kNaturalOrder{
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48,
    41, 34, 27, 20, 13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23,
    30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63};

enum class JpegColour : std::uint8_t { grey, ycbcr, rgb };

struct JpegComponent {
  // Sampling factors: samples per max_h x max_v pixels, 1 to 4. The only component of a file has 1
  // x 1, whatever the file says, because its scan has one block per MCU.
  std::int32_t h = 1;
  std::int32_t v = 1;
  std::array<std::uint16_t, kBlockSize> quantiser{};  // in natural order

  // Set by complete(): the size in samples, without the padding of the last blocks.
  std::int32_t width = 0;
  std::int32_t height = 0;
};

// The parts of a file's header that concern its coefficients.
struct JpegFrame {
  static constexpr std::size_t kMostComponents = 3;

  std::int32_t width = 0;  // in pixels, as stored
  std::int32_t height = 0;
  JpegColour colour = JpegColour::grey;
  std::size_t components = 1;  // 1 if grey, else 3
  std::array<JpegComponent, kMostComponents> component{};

  // Set by complete().
  std::int32_t max_h = 1;
  std::int32_t max_v = 1;
  std::int32_t mcus_across = 0;
  std::int32_t mcus_down = 0;

  // Computes the members that are marked as set by it. REQUIRES: width and height 1 to 65535; 1 or
  // 3 components, as `colour` says; h and v 1 to 4.
  void complete() noexcept;
};

// A rectangle of MCUs.
struct McuRegion {
  std::int32_t left = 0;
  std::int32_t top = 0;
  std::int32_t right = 0;
  std::int32_t bottom = 0;

  [[nodiscard]] constexpr std::int32_t width() const noexcept { return right - left; }
  [[nodiscard]] constexpr std::int32_t height() const noexcept { return bottom - top; }
  friend bool operator==(const McuRegion&, const McuRegion&) = default;
};

// The quantised coefficients of one row of MCUs, between two columns. Component k has v rows of
// (right - left) * h blocks, side by side. The blocks of MCU x, if it has 2 x 2 of them, are 2 * x
// and 2 * x + 1 of both rows. The memory is reused from image to image.
//
// Four blocks make a group: first row 0 of each of the four, eight coefficients long, then row 1 of
// each, and so on, so that a vector holds a row of several blocks. place_of() gives the offset of a
// block in its row of blocks, kPlaces the offset of each zigzag position within the block.
//
// A source finds all coefficients 0. It writes those that are not, and the extent of each block.
// Belongs to one thread.
class CoefficientRow {
 public:
  // Blocks per group; rows are padded to a multiple of it.
  static constexpr std::size_t kGroup = 4;
  static constexpr std::size_t kSide = 8;

  [[nodiscard]] static constexpr std::size_t place_of(std::size_t block) noexcept {
    return block / kGroup * kGroup * kBlockSize + block % kGroup * kSide;
  }
  static constexpr std::array<std::uint8_t, kBlockSize> kPlaces = [] {
    std::array<std::uint8_t, kBlockSize> places{};
    for (std::size_t k = 0; k < kBlockSize; ++k) {
      const std::size_t at = kNaturalOrder[k];
      places[k] = static_cast<std::uint8_t>(at / kSide * kGroup * kSide + at % kSide);
    }
    return places;
  }();

  CoefficientRow() = default;

  // Makes room for MCUs [region.left, region.right) of the first `components` components, all 0.
  // Allocates only for more blocks than ever before.
  void reset(const JpegFrame& frame, std::size_t components, const McuRegion& region);

  // How many components are wanted, from the first on: 1 for luma only. The others need not be
  // written.
  [[nodiscard]] std::size_t components() const noexcept { return components_; }
  // The MCU columns that have room are [left(), right()); MCU left() is at x = 0.
  [[nodiscard]] std::int32_t left() const noexcept { return left_; }
  [[nodiscard]] std::int32_t right() const noexcept { return right_; }

  // Row `row` of the blocks of a component, aligned to 64 bytes. REQUIRES: component <
  // components(); row < its v.
  [[nodiscard]] std::int16_t* blocks(std::size_t component, std::size_t row) noexcept {
    return coefficients_.get() + (parts_[component].first + row * parts_[component].stride) * kBlockSize;
  }
  // For each of these blocks a zigzag position after which all coefficients are 0; 0 if the block
  // has only its first coefficient. Whoever fills a block sets it.
  [[nodiscard]] std::uint8_t* extents(std::size_t component, std::size_t row) noexcept {
    return extents_.get() + parts_[component].first + row * parts_[component].stride;
  }
  // Blocks per row, without and with padding.
  [[nodiscard]] std::size_t width(std::size_t component) const noexcept { return parts_[component].width; }
  [[nodiscard]] std::size_t stride(std::size_t component) const noexcept { return parts_[component].stride; }

 private:
  struct Part {
    std::size_t first = 0;  // index of the first block
    std::size_t width = 0;  // in blocks
    std::size_t stride = 0;
  };
  struct Free {
    void operator()(std::int16_t* memory) const noexcept;
  };

  std::unique_ptr<std::int16_t[], Free> coefficients_;
  std::unique_ptr<std::uint8_t[]> extents_;
  std::size_t capacity_ = 0;  // in blocks
  std::array<Part, JpegFrame::kMostComponents> parts_{};
  std::size_t components_ = 0;
  std::int32_t left_ = 0;
  std::int32_t right_ = 0;
};

// A source of coefficients: an entropy decoder, or memory.
class CoefficientSource {
 public:
  CoefficientSource() = default;
  CoefficientSource(const CoefficientSource&) = delete;
  CoefficientSource& operator=(const CoefficientSource&) = delete;
  virtual ~CoefficientSource() = default;

  // Fills the part of MCU row `mcu_row` for which `row` has room. Each row is requested at most
  // once, from the top; the first and last rows may be skipped. Returns false if it cannot supply
  // the coefficients; `row` is then unspecified, and the pixel stage stops. The pixel stage does not
  // catch exceptions.
  [[nodiscard]] virtual bool read(std::int32_t mcu_row, CoefficientRow& row) = 0;
};

}  // namespace forebay::jpeg
