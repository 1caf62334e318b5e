// Draws masks from polygons and run lengths, with the same pixels as pycocotools (rleFrPoly in
// maskApi.c). The edges of a polygon are followed in steps of a fifth of a pixel, and each crossing
// of the middle of a pixel column is recorded. The sorted crossings are the borders of runs, which
// count pixels down one column after the other. The index made the input from an annotation, but it
// may be damaged, so every position and length is checked. Called by MaskField on a decoder thread.

#include "mask_drawer.hpp"

#include <algorithm>
#include <cstdlib>
#include <forebay/error.hpp>
#include <string>
#include <utility>

namespace forebay::make {
namespace {

constexpr std::int32_t kFine = data::MaskShape::kFine;
// The middle of a column or row lies between this fifth of its pixel and the next.
constexpr std::int32_t kMiddle = kFine / 2;

// The quotient rounded up. C++ rounds towards zero, which is already up for negative numbers.
constexpr std::int32_t divided_up(std::int32_t number, std::int32_t by) noexcept {
  return number / by + (number % by > 0 ? 1 : 0);
}

// Sets pixels [begin, end), numbered down one column after the other.
void fill_pixels(std::uint64_t begin, std::uint64_t end, std::uint8_t value, Mask& mask) {
  const auto height = static_cast<std::uint64_t>(mask.height);
  const auto width = static_cast<std::size_t>(mask.width);
  while (begin < end) {
    const std::uint64_t row = begin % height;
    const std::uint64_t count = std::min(end - begin, height - row);
    std::uint8_t* to = mask.values.data() + row * width + begin / height;
    for (std::uint64_t i = 0; i < count; ++i, to += width) *to = value;
    begin += count;
  }
}

std::uint64_t pixels_in(const Mask& mask) noexcept {
  return static_cast<std::uint64_t>(mask.width) * static_cast<std::uint64_t>(mask.height);
}

}  // namespace

// Visits the next point of an outline. Records a crossing if the step passes the middle of a pixel
// column inside the mask.
void MaskDrawer::visit(std::int32_t x, std::int32_t y, const Mask& mask) {
  const std::int32_t left = std::min(x, x_);
  const std::int32_t top = std::min(y, y_);
  const bool is_crossing = x != x_ && left >= kMiddle && left % kFine == kMiddle && left / kFine < mask.width;
  x_ = x;
  y_ = y;
  if (!is_crossing) return;
  const std::int32_t row = std::clamp(divided_up(top - kMiddle, kFine), 0, mask.height);
  turns_.push_back(static_cast<std::uint64_t>(left / kFine) * static_cast<std::uint64_t>(mask.height) +
                   static_cast<std::uint64_t>(row));
}

// Steps along the longer axis of the edge. Points are computed from the end with the smaller
// coordinate, so an edge has the same points in both directions; conversions truncate towards zero.
// All of this, and the order of the floating-point operations, decides about single pixels. It is
// pycocotools' arithmetic and must stay as it is.
void MaskDrawer::follow_edge(std::size_t from, std::size_t to, const Mask& mask) {
  const std::int32_t wide = std::abs(shape_.x[to] - shape_.x[from]);
  const std::int32_t high = std::abs(shape_.y[to] - shape_.y[from]);
  const bool is_flat = wide >= high;
  const std::int32_t steps = std::max(wide, high);
  const bool is_turned = is_flat ? shape_.x[from] > shape_.x[to] : shape_.y[from] > shape_.y[to];
  if (is_turned) std::swap(from, to);
  const std::int32_t x = shape_.x[from];
  const std::int32_t y = shape_.y[from];
  const std::int32_t rise = is_flat ? shape_.y[to] - y : shape_.x[to] - x;
  const double slope = steps == 0 ? 0 : static_cast<double>(rise) / steps;
  const auto beside = [&](std::int32_t start, std::int32_t step) {
    // NOLINTNEXTLINE(bugprone-incorrect-roundings): as the published algorithm rounds
    return static_cast<std::int32_t>(start + slope * step + 0.5);
  };
  for (std::int32_t i = 0; i <= steps; ++i) {
    const std::int32_t step = is_turned ? steps - i : i;
    is_flat ? visit(x + step, beside(y, step), mask) : visit(beside(x, step), y + step, mask);
  }
}

void MaskDrawer::follow_outline(const Mask& mask) {
  turns_.clear();
  const std::size_t corners = shape_.x.size();
  const auto is_far = [](std::int32_t place) { return std::abs(std::int64_t{place}) > data::MaskShape::kFarthest; };
  if (shape_.y.size() != corners || std::ranges::any_of(shape_.x, is_far) || std::ranges::any_of(shape_.y, is_far) ||
      shape_.outline() > data::MaskShape::kLongest) {
    throw SampleError("a mask with a polygon that is damaged");
  }
  if (corners == 0) return;
  x_ = shape_.x.front();
  y_ = shape_.y.front();
  for (std::size_t i = 0; i < corners; ++i) follow_edge(i, i + 1 == corners ? 0 : i + 1, mask);
}

void MaskDrawer::draw_polygon(std::uint8_t value, Mask& out) {
  follow_outline(out);
  std::ranges::sort(turns_);
  // As in pycocotools, a last unpaired crossing begins a run that extends to the end.
  if (turns_.size() % 2 != 0) turns_.push_back(pixels_in(out));
  for (std::size_t i = 0; i < turns_.size(); i += 2) fill_pixels(turns_[i], turns_[i + 1], value, out);
}

// COCO's uncompressed run lengths: outside and inside in turn, outside first.
void MaskDrawer::draw_runs(std::uint8_t value, Mask& out) const {
  if (shape_.width != out.width || shape_.height != out.height) {
    throw SampleError("a mask with runs for " + std::to_string(shape_.width) + "x" + std::to_string(shape_.height) +
                      " pixels in one of " + std::to_string(out.width) + "x" + std::to_string(out.height));
  }
  const std::uint64_t pixels = pixels_in(out);
  std::uint64_t at = 0;
  bool is_inside = false;
  for (const std::uint32_t run : shape_.runs) {
    if (run > pixels - at) throw SampleError("a mask with runs of more pixels than it has");
    if (is_inside) fill_pixels(at, at + run, value, out);
    at += run;
    is_inside = !is_inside;
  }
}

// Draws the shapes in the order of their parts; later ones cover earlier ones.
void MaskDrawer::draw(std::span<const std::byte> bytes, const ImageOptions& options, Mask& out) {
  data::PackReader reader(bytes.subspan(data::drawn_mask_signature().size()));
  reader(out.width, out.height);
  if (out.width < 1 || out.height < 1) throw SampleError("a mask without pixels");
  require_permitted_size("mask", out.width, out.height, options);
  out.values.assign(pixels_in(out), 0);
  while (!reader.is_at_end()) {
    std::uint8_t value = 0;
    std::uint64_t length = 0;
    reader(value, length);
    data::PackReader shapes = reader.part(length);
    while (!shapes.is_at_end()) {
      data::code_shape(shapes, shape_);
      shape_.kind == data::MaskShape::Kind::polygon ? draw_polygon(value, out) : draw_runs(value, out);
    }
  }
}

}  // namespace forebay::make
