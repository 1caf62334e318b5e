#include "operated_transform.hpp"

#include <cstring>
#include <utility>

#include "row_changer.hpp"

namespace forebay {

OperatedTransform::OperatedTransform(const Transform& transform, OperationChain operations, std::uint64_t seed,
                                     const Kernels& kernels)
    : transform_(transform), operations_(std::move(operations)), seed_(seed), recolour_(kernels.recolour) {}

void OperatedTransform::render(const Image& image, const ImageView& view, std::uint64_t epoch, std::uint64_t position,
                               std::span<std::byte> out, Transform::Scratch& resizer, Scratch& scratch) const {
  // Made once: a sample that is stored as it was first made has one use.
  const std::uint64_t key = operations_key(seed_, epoch, position, 0);
  transform_.begin(image, view, resizer);
  if (operations_.has_twin()) {
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

}  // namespace forebay
