#pragma once

#include <new>

#include "make/canvas.hpp"
#include "make/canvas_maker.hpp"
#include "support.hpp"
#include "twin_renderer.hpp"

namespace forebay::testing {

// Noise with runs of extreme values: the hardest case for rounding, and the largest sums.
inline make::Image noise_image(std::int32_t width, std::int32_t height) {
  Random random(key64(7, width, height));
  make::Image image;
  image.resize(width, height);
  image.pixels.resize(static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * 3);
  for (std::size_t i = 0; i < image.pixels.size(); ++i) {
    const bool extreme = i / 40 % 3 == 0;
    image.pixels[i] = extreme ? (i / 120 % 2 == 0 ? 255 : 0) : static_cast<std::uint8_t>(random.bits());
  }
  return image;
}

// Zeroed memory, aligned like device memory. Nothing follows it, so that AddressSanitizer detects
// reads past its end.
class AlignedBytes {
 public:
  explicit AlignedBytes(std::size_t bytes)
      : size_(bytes), memory_(static_cast<std::byte*>(::operator new (bytes, std::align_val_t{kAlignment}))) {
    std::fill_n(memory_.get(), size_, std::byte{0});
  }
  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return {memory_.get(), size_}; }

 private:
  static constexpr std::size_t kAlignment = 256;
  struct Free {
    void operator()(std::byte* memory) const noexcept { ::operator delete (memory, std::align_val_t{kAlignment}); }
  };
  std::size_t size_;
  std::unique_ptr<std::byte, Free> memory_;
};

// A slot of canvases. It ends where its memory ends, so that AddressSanitizer detects reads past
// its end.
class CanvasSlot {
 public:
  CanvasSlot(const TransformOptions& options, std::uint32_t batch_size)
      : format_(make::canvas_format(options, batch_size)), maker_(options), memory_(format_.batch_bytes()) {}

  void put(std::uint32_t index, const make::Image& image, const std::optional<Box>& box = {}) {
    make::Resizer scratch;
    maker_.render(image, maker_.view(image.width, image.height, box), format_.place(bytes(), index), scratch);
  }

  [[nodiscard]] std::span<std::byte> bytes() noexcept { return memory_.bytes(); }
  [[nodiscard]] const make::CanvasFormat& format() const noexcept { return format_; }
  [[nodiscard]] make::RenderBatch batch(std::uint64_t epoch = 0, std::uint64_t first_position = 0,
                                        std::uint64_t use_index = 0) noexcept {
    return {.canvases = bytes().data(),
            .size = format_.batch_size,
            .epoch = epoch,
            .first_position = first_position,
            .use_index = use_index};
  }

 private:
  make::CanvasFormat format_;
  make::CanvasMaker maker_;
  AlignedBytes memory_;
};

}  // namespace forebay::testing
