#include "transform.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include <forebay/error.hpp>
#include <forebay/random.hpp>

#include "number_format.hpp"

namespace forebay {
namespace {

// Sets these random numbers apart from others of the same seed, epoch and position.
constexpr std::uint64_t kAugmentation = 0x61756d656e74;

void require(bool holds, const char* message) {
  if (!holds) throw ConfigError(message);
}

// Written so that a NaN does not pass.
bool is_positive_range(const std::array<double, 2>& range) {
  return range[0] > 0 && range[0] <= range[1] && std::isfinite(range[1]);
}

// The float numbers that a pixel value is multiplied with and that is then added.
std::array<float, 3> scales(const TransformOptions& options) {
  std::array<float, 3> values{};
  for (std::size_t channel = 0; channel < 3; ++channel) values[channel] = static_cast<float>(1 / options.std[channel]);
  return values;
}

std::array<float, 3> offsets(const TransformOptions& options) {
  std::array<float, 3> values{};
  for (std::size_t channel = 0; channel < 3; ++channel) {
    values[channel] = static_cast<float>(-options.mean[channel] / options.std[channel]);
  }
  return values;
}

const TransformOptions& checked(const TransformOptions& options) {
  for (const auto side : options.size) {
    require(side >= 1 && side <= Resampling::kMaxSide, "transform.size: height and width must be 1 to 262144");
  }
  require(is_positive_range(options.scale) && options.scale[1] <= 1,
          "transform.scale must be [low, high] with 0 < low <= high <= 1");
  require(is_positive_range(options.ratio), "transform.ratio must be [low, high] with 0 < low <= high");
  require(options.center_fraction > 0 && options.center_fraction <= 1,
          "transform.center_fraction must be more than 0 and at most 1");
  require(options.mirror >= 0 && options.mirror <= 1, "transform.mirror is a probability: 0 to 1");
  for (std::size_t channel = 0; channel < 3; ++channel) {
    require(std::isfinite(options.mean[channel]), "transform.mean must be finite numbers");
    require(std::isfinite(options.std[channel]) && options.std[channel] > 0, "transform.std must be more than 0");
    require(std::isfinite(scales(options)[channel]) && std::isfinite(offsets(options)[channel]),
            "transform.std is so small that 1 / std or mean / std is no float32 number");
  }
  return options;
}

Crop crop_of(const TransformOptions& options, bool deterministic) {
  return deterministic && options.crop == Crop::random_resized ? Crop::center : options.crop;
}

Conversion conversion_of(const TransformOptions& options, bool stream) {
  Conversion conversion;
  conversion.dtype = options.dtype;
  conversion.layout = options.layout;
  conversion.width = static_cast<std::size_t>(options.size[1]);
  conversion.plane = static_cast<std::size_t>(options.size[0]) * conversion.width;
  conversion.stream = stream;
  conversion.scale = scales(options);
  conversion.offset = offsets(options);
  for (std::size_t channel = 0; channel < 3; ++channel) {
    for (std::size_t value = 0; value < 256; ++value) {
      const float normalised =
          std::fma(static_cast<float>(value), conversion.scale[channel], conversion.offset[channel]);
      conversion.table[channel][value] =
          encode(options.dtype == DType::uint8 ? static_cast<double>(value) : normalised, options.dtype);
    }
  }
  return conversion;
}

// Whether the kernels compute what the table holds: every value of every channel is tried. They do not on a processor
// without fused multiply-add.
bool reproduces_table(const Kernels& kernels, Conversion conversion) {
  constexpr std::size_t kValues = 256;
  std::array<std::uint8_t, kValues * kPixelBytes> row{};
  for (std::size_t value = 0; value < kValues; ++value) {
    std::fill_n(row.data() + value * kPixelBytes, 3, static_cast<std::uint8_t>(value));
  }
  conversion.width = conversion.plane = kValues;
  conversion.stream = false;
  std::array<std::byte, 3 * kValues * 4> given{};
  std::array<std::byte, 3 * kValues * 4> expected{};
  kernels.convert(row.data(), conversion, given.data());
  scalar_kernels().convert(row.data(), conversion, expected.data());
  return given == expected;
}

}  // namespace

Transform::Transform(const TransformOptions& options, std::uint64_t seed, bool deterministic, Stores stores,
                     const Kernels& kernels)
    : height_(static_cast<std::int32_t>(checked(options).size[0])),
      width_(static_cast<std::int32_t>(options.size[1])),
      crop_(crop_of(options, deterministic)),
      center_fraction_(options.center_fraction),
      mirror_(deterministic ? 0 : options.mirror),
      random_region_(options.scale, options.ratio),
      seed_(seed),
      conversion_(conversion_of(options, stores == Stores::streaming)),
      convert_(reproduces_table(kernels, conversion_) ? kernels.convert : scalar_kernels().convert) {}

Transform::Stores Transform::stores_for(const TransformOptions& options, std::uint64_t batch_size) noexcept {
  constexpr double kFrom = 16e6;
  // In floating point nothing overflows, whatever the options.
  const double bytes = 3.0 * static_cast<double>(options.size[0]) * static_cast<double>(options.size[1]) *
                       static_cast<double>(size_of(options.dtype)) * static_cast<double>(batch_size);
  return bytes >= kFrom ? Stores::streaming : Stores::normal;
}

std::size_t Transform::sample_bytes() const noexcept {
  return 3 * static_cast<std::size_t>(height_) * static_cast<std::size_t>(width_) * size_of(conversion_.dtype);
}

Transform::View Transform::choose_view(const Box& box, std::uint64_t epoch, std::uint64_t position) const noexcept {
  Random random(key64(seed_, kAugmentation, epoch, position));
  const bool mirror = random.uniform() < mirror_;
  switch (crop_) {
    case Crop::none: return {box, mirror};
    case Crop::center: return {central_region(box, width_, height_, center_fraction_), mirror};
    case Crop::random_resized: return {random_region_.draw(box, random), mirror};
  }
  return {box, mirror};
}

Transform::View Transform::view(std::int32_t width, std::int32_t height, const std::optional<Box>& box,
                                std::uint64_t epoch, std::uint64_t position) const {
  if (width > Resampling::kMaxSide || height > Resampling::kMaxSide) {
    throw SampleError("image of " + std::to_string(width) + "x" + std::to_string(height) + " pixels: a side may have " +
                      std::to_string(Resampling::kMaxSide) + " at most");
  }
  return choose_view(clamp_to_image(box, width, height), epoch, position);
}

std::int32_t Transform::shrink_of(const View& view) const noexcept {
  std::int32_t shrink = 1;
  while (shrink < 8 && view.region.width() >= 2 * shrink * width_ && view.region.height() >= 2 * shrink * height_) {
    shrink *= 2;
  }
  return shrink;
}

void Transform::render(const Image& image, const View& view, std::span<std::byte> out, Scratch& scratch) const {
  scratch.begin(image, image.place_of(view.region), width_, height_, view.mirror);
  write(scratch, out);
}

void Transform::apply(const Image& image, const std::optional<Box>& box, std::uint64_t epoch, std::uint64_t position,
                      std::span<std::byte> out, Scratch& scratch) const {
  render(image, view(image.width, image.height, box, epoch, position), out, scratch);
}

void Transform::write(Scratch& scratch, std::span<std::byte> out) const {
  const std::size_t step =
      conversion_.width * (conversion_.layout == Layout::nchw ? 1 : 3) * size_of(conversion_.dtype);
  std::byte* to = out.data();
  for (std::int32_t y = 0; y < height_; ++y, to += step) convert_(scratch.row(y), conversion_, to);
  if (conversion_.stream) finish_streaming();
}

}  // namespace forebay
