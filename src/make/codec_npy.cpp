// NumPy arrays as images, one codec per decoder thread. open() parses the header (data/npy.hpp) and
// decides which dimensions are rows, columns and channels. The decode functions then visit all
// pixels in that order, whatever the array's memory order and byte order are; bytes that lie in
// that order are copied.

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include <forebay/error.hpp>

#include "codecs.hpp"
#include "data/npy.hpp"

namespace forebay::make {
namespace {

// Arrays as images: (height, width), (height, width, channels) or (channels, height, width), with 1
// or 3 channels. If the shape is ambiguous, channels come last.
class NpyCodec final : public Codec {
 public:
  CodecHeader open(std::span<const std::byte> bytes) override {
    array_ = data::parse_npy(bytes);
    const auto& shape = array_.shape;
    const auto is_channels = [](std::int64_t extent) { return extent == 1 || extent == 3; };
    if (array_.dimensions == 2) {
      rows_ = 0, columns_ = 1, channels_ = kNone;
    } else if (array_.dimensions == 3 && is_channels(shape[2])) {
      rows_ = 0, columns_ = 1, channels_ = 2;
    } else if (array_.dimensions == 3 && is_channels(shape[0])) {
      rows_ = 1, columns_ = 2, channels_ = 0;
    } else {
      throw refusal("as an image it must be (height, width), (height, width, 1 or 3) or (1 or 3, height, width)");
    }
    constexpr std::int64_t kMostSide = std::numeric_limits<std::int32_t>::max();
    for (const std::int64_t side : {shape[rows_], shape[columns_]}) {
      if (side < 1 || side > kMostSide) throw refusal("as an image its sides must be 1 or more, and fit 32 bits");
    }
    return {.width = static_cast<std::int32_t>(shape[columns_]),
            .height = static_cast<std::int32_t>(shape[rows_]),
            // Bytes (uint8 and bool) are ordinary pixels. Everything else is served as numbers; a
            // plain image takes their upper byte.
            .wide_channels = array_.element_bytes == 1 && array_.kind != 'i' ? 0
                             : is_single()                                   ? 1
                                                                             : 3};
  }

  void decode(std::span<std::uint8_t> rgb) override {
    if (array_.kind != 'u' || array_.element_bytes > 2) throw refusal("images are uint8 or uint16");
    const std::int64_t step = is_single() ? 0 : array_.steps()[channels_];
    std::uint8_t* to = rgb.data();
    if (const std::uint8_t* const bytes = pixels_in_order()) {
      if (!is_single()) {
        std::memcpy(to, bytes, rgb.size());
        return;
      }
      for (std::size_t i = 0; i < rgb.size() / 3; ++i) {
        for (std::size_t channel = 0; channel < 3; ++channel) to[3 * i + channel] = bytes[i];
      }
      return;
    }
    for_each_pixel([&](std::int64_t at) {
      for (std::int64_t channel = 0; channel < 3; ++channel) *to++ = upper_byte(at + channel * step);
    });
  }

  void decode_indices(std::span<std::uint8_t> indices) override {
    if (!is_single() || array_.element_bytes != 1 || array_.kind == 'i')
      throw refusal("a mask is uint8 or bool, with one channel");
    std::uint8_t* to = indices.data();
    if (const std::uint8_t* const bytes = pixels_in_order()) {
      std::memcpy(to, bytes, indices.size());
      return;
    }
    for_each_pixel([&](std::int64_t at) { *to++ = upper_byte(at); });
  }

  void decode_wide(std::span<float> values) override {
    const int channels = is_single() ? 1 : 3;
    const std::int64_t step = is_single() ? 0 : array_.steps()[channels_];
    float* to = values.data();
    for_each_pixel([&](std::int64_t at) {
      for (int channel = 0; channel < channels; ++channel) {
        const double value = array_.real(static_cast<std::size_t>(at + channel * step));
        // Converting a number beyond the range of float is undefined behaviour; the caller refuses
        // infinity.
        constexpr float kMost = std::numeric_limits<float>::max();
        *to++ = std::fabs(value) <= kMost ? static_cast<float>(value) : std::numeric_limits<float>::infinity();
      }
    });
  }

 private:
  [[nodiscard]] bool is_single() const noexcept { return channels_ == kNone || array_.shape[channels_] == 1; }

  static constexpr std::size_t kNone = data::NpyArray::kMostDimensions;

  [[nodiscard]] SampleError refusal(const std::string& what) const {
    return SampleError("npy array of " + array_.dtype() + " " + array_.shape_text() + ": " + what);
  }

  // The array's elements, if they are bytes in the order of the result; otherwise null.
  [[nodiscard]] const std::uint8_t* pixels_in_order() const noexcept {
    const auto steps = array_.steps();
    const std::int64_t channels = is_single() ? 1 : 3;
    const bool is_in_order = array_.element_bytes == 1 && (channels == 1 || steps[channels_] == 1) &&
                             steps[columns_] == channels && steps[rows_] == channels * array_.shape[columns_];
    return is_in_order ? reinterpret_cast<const std::uint8_t*>(array_.elements.data()) : nullptr;
  }
  // Calls visit(index of the pixel's first element) for each pixel, row by row.
  template <class Visit>
  void for_each_pixel(const Visit& visit) const {
    const auto steps = array_.steps();
    for (std::int64_t y = 0; y < array_.shape[rows_]; ++y) {
      for (std::int64_t x = 0; x < array_.shape[columns_]; ++x) visit(y * steps[rows_] + x * steps[columns_]);
    }
  }
  [[nodiscard]] std::uint8_t upper_byte(std::int64_t at) const noexcept {
    const std::size_t last = array_.big_endian ? 0 : array_.element_bytes - 1;
    return std::to_integer<std::uint8_t>(array_.elements[static_cast<std::size_t>(at) * array_.element_bytes + last]);
  }

  data::NpyArray array_;
  std::size_t rows_ = 0;  // index of the dimension
  std::size_t columns_ = 1;
  std::size_t channels_ = kNone;
};

}  // namespace

const CodecKind codecs::npy{
    .matches = data::starts_as_npy, .make = [] { return std::unique_ptr<Codec>(new NpyCodec); }, .library = {}};

}  // namespace forebay::make
