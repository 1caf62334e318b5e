// Processes each decoded image: chooses the view (crop and mirror) from (seed, epoch, position)
// alone, then takes rows from the resizer, converts and stores them. Transform holds what is the
// same for all samples of a run and is shared by all decoder threads; what changes is in each
// thread's scratch. OperatedTransform adds operations that need the whole view in memory first.

#include "transform.hpp"

#include <cstring>
#include <utility>

#include <forebay/random.hpp>

#include "image.hpp"
#include "operation_chain.hpp"

namespace forebay::make {

Transform::Transform(const TransformOptions& options, std::uint64_t seed, bool deterministic, Stores stores,
                     const Kernels& kernels)
    : rule_(view_rule(checked(options), deterministic)),
      crop_(crop_rule(options, deterministic)),
      fill_(fill_pixel(options.fill, options.channels)),
      seed_(seed),
      conversion_(conversion_of(options, stores == Stores::streaming)),
      convert_(trusted_convert(kernels, conversion_)) {}

// Stores past the caches leave the caches to the decoders. They pay off for batches so large that
// they leave the caches anyway before the trainer reads them. The limit is a choice
// (docs/design.md, "From pixels to a slot").
Transform::Stores Transform::stores_for(const TransformOptions& options, std::uint64_t batch_size) noexcept {
  constexpr double kFrom = 16e6;
  // Computed in floating point, which cannot overflow whatever the options are.
  const double bytes = static_cast<double>(options.channels) * static_cast<double>(options.size[0]) *
                       static_cast<double>(options.size[1]) * static_cast<double>(size_of(options.dtype)) *
                       static_cast<double>(batch_size);
  return bytes >= kFrom ? Stores::streaming : Stores::normal;
}

std::size_t Transform::sample_bytes() const noexcept {
  return conversion_.channels * static_cast<std::size_t>(rule_.height) * static_cast<std::size_t>(rule_.width) *
         size_of(conversion_.dtype);
}

Transform::View Transform::choose_view(const Box& box, std::uint64_t epoch, std::uint64_t position) const {
  const std::uint64_t key = key64(seed_, kAugmentation, epoch, position);
  if (crop_) {
    Random random(key);
    const bool is_mirrored = random.uniform() < rule_.mirror;
    const ViewAxes axes = crop_->axes_of(box, random);
    return {shown_region(axes), is_mirrored, axes, pixels_of(axes)};
  }
  const auto [region, mirror] = ::forebay::make::choose_view(rule_, box, key);
  if (rule_.kind != ViewRule::Kind::center) {
    return {region, mirror, axes_of(region, rule_.width, rule_.height), region};
  }
  const ViewAxes axes = central_axes(box, rule_.width, rule_.height, rule_.center_fraction);
  return {shown_region(axes), mirror, axes, pixels_of(axes)};
}

void Transform::begin(const Image& image, const View& view, Scratch& scratch) const {
  if (image.shrink > 1) {  // the pixels are not those of the full-size image
    return scratch.begin(image, image.place_of(view.region), rule_.width, rule_.height, view.mirror);
  }
  begin_exactly(scratch, image, view.axes, view.pixels, view.mirror, fill_);
}

Transform::View Transform::view(std::int32_t width, std::int32_t height, const std::optional<Box>& box,
                                std::uint64_t epoch, std::uint64_t position) const {
  return choose_view(clamp_to_image(box, width, height), epoch, position);
}

// The largest of libjpeg's scales 2, 4 and 8 that leaves at least as many pixels as the view shows.
// An image whose view has a border is not shrunk.
std::int32_t Transform::shrink_of(const View& view) const noexcept {
  std::int32_t shrink = 1;
  if (!view.axes.across.is_inside() || !view.axes.down.is_inside()) return shrink;
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

OperatedTransform::OperatedTransform(Transform transform, OperationChain operations, std::uint64_t seed,
                                     const Kernels& kernels)
    : transform_(std::move(transform)), operations_(std::move(operations)), seed_(seed), recolour_(kernels.recolour) {}

// Colour and erase at the end of the chain are applied row by row in store(); all other operations
// are called with the whole view.
void OperatedTransform::render(const Image& image, const Transform::View& view, std::uint64_t epoch,
                               std::uint64_t position, std::span<std::byte> out, Transform::Scratch& resizer,
                               Scratch& scratch) const {
  // Use index 0: the sample is stored as it was first made, and every use serves the same bytes.
  const std::uint64_t key = operations_key(seed_, epoch, position, 0);
  transform_.begin(image, view, resizer);
  if (operations_.can_render_later()) {
    return store([&](std::int32_t y) { return resizer.row(y); }, key, out, scratch);
  }
  const std::int32_t width = transform_.width();
  const std::int32_t height = transform_.height();
  scratch.view.resize(static_cast<std::size_t>(width) * static_cast<std::size_t>(height));
  const PixelView pixels{.pixels = scratch.view, .width = width, .height = height};
  for (std::int32_t y = 0; y < height; ++y) {
    const std::span<Pixel> row = pixels.row(y);
    std::memcpy(row.data(), resizer.row(y), row.size_bytes());
  }
  operations_.call(pixels, key);
  const auto row_at = [&](std::int32_t y) { return reinterpret_cast<const std::uint8_t*>(pixels.row(y).data()); };
  store(row_at, key, out, scratch);
}

template <class RowAt>
void OperatedTransform::store(const RowAt& row_at, std::uint64_t key, std::span<std::byte> out,
                              Scratch& scratch) const {
  const std::int32_t width = transform_.width();
  const std::int32_t height = transform_.height();
  const PixelChange change = draw_change(operations_.pixels(), width, height, key);
  const RowChanger changer(change, recolour_, static_cast<std::size_t>(width));
  scratch.row.resize(static_cast<std::size_t>(width) * kPixelBytes);
  transform_.write(out, [&](std::int32_t y) {
    const std::uint8_t* const row = row_at(y);
    if (!changer.changes(y)) return row;
    changer.change(y, row, scratch.row.data());
    return static_cast<const std::uint8_t*>(scratch.row.data());
  });
}

}  // namespace forebay::make
