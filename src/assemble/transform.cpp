#include "transform.hpp"

#include <cmath>
#include <cstring>
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
  }
  return options;
}

double normalised(const TransformOptions& options, std::size_t channel, std::size_t value) {
  if (options.dtype == DType::uint8) return static_cast<double>(value);
  return (static_cast<double>(value) - options.mean[channel]) / options.std[channel];
}

Crop crop_of(const TransformOptions& options, bool deterministic) {
  return deterministic && options.crop == Crop::random_resized ? Crop::center : options.crop;
}

template <typename Element>
void store(std::byte* to, std::uint32_t bits) noexcept {
  const auto element = static_cast<Element>(bits);
  std::memcpy(to, &element, sizeof element);
}

}  // namespace

Transform::Transform(const TransformOptions& options, std::uint64_t seed, bool deterministic)
    : height_(static_cast<std::int32_t>(checked(options).size[0])),
      width_(static_cast<std::int32_t>(options.size[1])),
      crop_(crop_of(options, deterministic)),
      center_fraction_(options.center_fraction),
      mirror_(deterministic ? 0 : options.mirror),
      random_region_(options.scale, options.ratio),
      dtype_(options.dtype),
      layout_(options.layout),
      seed_(seed) {
  for (std::size_t channel = 0; channel < 3; ++channel) {
    for (std::size_t value = 0; value < 256; ++value) {
      table_[channel][value] = encode(normalised(options, channel, value), dtype_);
    }
  }
}

std::size_t Transform::sample_bytes() const noexcept {
  return 3 * static_cast<std::size_t>(height_) * static_cast<std::size_t>(width_) * size_of(dtype_);
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
  switch (size_of(dtype_)) {
    case 4: return write<std::uint32_t>(scratch, out);
    case 2: return write<std::uint16_t>(scratch, out);
    default: return write<std::uint8_t>(scratch, out);
  }
}

void Transform::apply(const Image& image, const std::optional<Box>& box, std::uint64_t epoch, std::uint64_t position,
                      std::span<std::byte> out, Scratch& scratch) const {
  render(image, view(image.width, image.height, box, epoch, position), out, scratch);
}

template <typename Element>
void Transform::write(Scratch& scratch, std::span<std::byte> out) const {
  const auto width = static_cast<std::size_t>(width_);
  const auto plane = static_cast<std::size_t>(height_) * width;
  // Element (channel, pixel) stands at channel * channel_step + pixel * pixel_step.
  const std::size_t channel_step = (layout_ == Layout::nchw ? plane : 1) * sizeof(Element);
  const std::size_t pixel_step = (layout_ == Layout::nchw ? 1 : 3) * sizeof(Element);
  std::byte* to = out.data();
  for (std::int32_t y = 0; y < height_; ++y, to += width * pixel_step) {
    const std::uint8_t* const row = scratch.row(y);
    for (std::size_t channel = 0; channel < 3; ++channel) {
      std::byte* const first = to + channel * channel_step;
      const auto& values = table_[channel];
      for (std::size_t x = 0; x < width; ++x) {
        store<Element>(first + x * pixel_step, values[row[3 * x + channel]]);
      }
    }
  }
}

}  // namespace forebay
