#include "transform.hpp"

#include <forebay/random.hpp>

#include "region.hpp"

namespace forebay {

Transform::Transform(const TransformOptions& options, std::uint64_t seed, bool deterministic, Stores stores,
                     const Kernels& kernels)
    : rule_(view_rule(checked(options), deterministic)),
      seed_(seed),
      conversion_(conversion_of(options, stores == Stores::streaming)),
      convert_(trusted_convert(kernels, conversion_)) {}

Transform::Stores Transform::stores_for(const TransformOptions& options, std::uint64_t batch_size) noexcept {
  constexpr double kFrom = 16e6;
  // In floating point nothing overflows, whatever the options.
  const double bytes = 3.0 * static_cast<double>(options.size[0]) * static_cast<double>(options.size[1]) *
                       static_cast<double>(size_of(options.dtype)) * static_cast<double>(batch_size);
  return bytes >= kFrom ? Stores::streaming : Stores::normal;
}

std::size_t Transform::sample_bytes() const noexcept {
  return 3 * static_cast<std::size_t>(rule_.height) * static_cast<std::size_t>(rule_.width) *
         size_of(conversion_.dtype);
}

Transform::View Transform::choose_view(const Box& box, std::uint64_t epoch, std::uint64_t position) const noexcept {
  return ::forebay::choose_view(rule_, box, key64(seed_, kAugmentation, epoch, position));
}

Transform::View Transform::view(std::int32_t width, std::int32_t height, const std::optional<Box>& box,
                                std::uint64_t epoch, std::uint64_t position) const {
  return choose_view(clamp_to_image(box, width, height), epoch, position);
}

std::int32_t Transform::shrink_of(const View& view) const noexcept {
  std::int32_t shrink = 1;
  while (shrink < 8 && view.region.width() >= 2 * shrink * rule_.width &&
         view.region.height() >= 2 * shrink * rule_.height) {
    shrink *= 2;
  }
  return shrink;
}

void Transform::render(const Image& image, const View& view, std::span<std::byte> out, Scratch& scratch) const {
  begin(image, view, scratch);
  write(out, [&](std::int32_t y) { return scratch.row(y); });
}

void Transform::apply(const Image& image, const std::optional<Box>& box, std::uint64_t epoch, std::uint64_t position,
                      std::span<std::byte> out, Scratch& scratch) const {
  render(image, view(image.width, image.height, box, epoch, position), out, scratch);
}

}  // namespace forebay
