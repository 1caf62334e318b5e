#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <forebay/tensor.hpp>

// With transform.when = "dequeue" a slot holds canvases: of each sample the whole image, or its box of it, as bytes
// and small enough for a place of fixed size. Each serving makes a tensor of them, with a view of its own.
namespace forebay {

// What is known of one canvas beside its pixels.
struct CanvasInfo {
  std::int32_t width = 0;  // of the sample's part of the image as displayed
  std::int32_t height = 0;
  std::int32_t canvas_width = 0;  // pixels of it that are here: each side is the smaller of the image's and the place's
  std::int32_t canvas_height = 0;
};
static_assert(sizeof(CanvasInfo) == 16);

// How canvases lie in a slot: the places of all samples one after the other, then the CanvasInfo of each. A place has
// rows of `width` RGB pixels, of which the first canvas_width of the first canvas_height rows are used.
struct CanvasFormat {
  std::uint32_t batch_size = 1;
  std::int64_t height = 0;
  std::int64_t width = 0;

  [[nodiscard]] constexpr std::size_t row_bytes() const noexcept { return 3 * static_cast<std::size_t>(width); }
  [[nodiscard]] constexpr std::size_t place_bytes() const noexcept {
    return row_bytes() * static_cast<std::size_t>(height);
  }
  // Where the infos begin: aligned for vectors.
  [[nodiscard]] constexpr std::size_t infos_offset() const noexcept {
    return (place_bytes() * batch_size + 255) / 256 * 256;
  }
  [[nodiscard]] constexpr std::size_t batch_bytes() const noexcept {
    return infos_offset() + batch_size * sizeof(CanvasInfo);
  }
};

// All that rendering needs to know, in plain numbers, so that it can be copied to a device. Made by assembly
// (assemble/canvas.hpp) from the options.
struct RenderPlan {
  enum class View : std::uint8_t { whole, center, random };
  static constexpr std::size_t kRatioBits = 32;

  CanvasFormat canvas;
  std::int32_t height = 0;  // of a sample of the result
  std::int32_t width = 0;
  DType dtype = DType::float32;
  Layout layout = Layout::nchw;
  View view = View::random;
  double center_fraction = 1;
  double mirror = 0;                           // probability
  std::array<double, 2> scale{1, 1};           // random: share of the area
  std::array<double, 2> ratio{1, 1};           // random: width / height
  std::array<double, kRatioBits> ratio_roots;  // (ratio[1] / ratio[0]) ^ (1/2, 1/4, 1/8, ...)
  std::uint64_t seed = 0;
  // The element of each value of each channel, as bits of dtype.
  std::array<std::array<std::uint32_t, 256>, 3> table;

  [[nodiscard]] std::size_t sample_bytes() const noexcept {
    return 3 * static_cast<std::size_t>(height) * static_cast<std::size_t>(width) * size_of(dtype);
  }
};

// One serving of a batch of canvases.
struct RenderBatch {
  const std::byte* canvases = nullptr;  // a slot in CanvasFormat, in memory of the device
  std::uint32_t size = 0;               // samples
  std::uint64_t epoch = 0;
  std::uint64_t first_position = 0;  // of the first sample within the epoch; the others follow
  std::uint64_t use_index = 0;
};

// Makes a tensor of a batch of canvases. What a sample shows depends on (seed, epoch, position, use_index) only, and
// its bytes are the same on every device.
class CanvasRenderer {
 public:
  virtual ~CanvasRenderer() = default;
  // Puts it on the stream (host: does it). `out`: the first element of [size, 3, height, width] or
  // [size, height, width, 3] in memory of the device, aligned to 256. One thread at a time. Throws Error.
  virtual void render(const RenderBatch& batch, std::byte* out, StreamView stream) = 0;
};

}  // namespace forebay
