#include "stored_picture.hpp"

#include <algorithm>
#include <cstddef>

#include "orientation.hpp"

namespace forebay {
namespace {

// Turned at a time: as many as stay in the first cache where rows become columns.
constexpr std::int32_t kRowsAtOnce = 16;

}  // namespace

ImageSize StoredPicture::size() const noexcept {
  return swaps_axes(orientation) ? ImageSize{height, width} : ImageSize{width, height};
}

void StoredPicture::show(const Box& region, Image& out) const {
  Box part = stored_box(region, width, height, orientation);
  // Only whole rows can be turned in place.
  if (orientation != 1) part = {0, part.top, width, part.bottom};
  const Box area = displayed_box(part, width, height, orientation);
  out.resize(area.width(), area.height());
  out.area = area;
  const auto row_bytes = static_cast<std::size_t>(width) * 3;
  const auto rows_from = [&](std::int32_t y) { return pixels.subspan(static_cast<std::size_t>(y) * row_bytes); };
  if (orientation == 1) {
    const auto left = static_cast<std::size_t>(part.left) * 3;
    const auto wanted = static_cast<std::size_t>(part.width()) * 3;
    for (std::int32_t y = 0; y < part.height(); ++y) {
      std::ranges::copy(rows_from(part.top + y).subspan(left, wanted), out.row(y));
    }
    return;
  }
  for (std::int32_t y = 0; y < part.height(); y += kRowsAtOnce) {
    const std::int32_t rows = std::min(kRowsAtOnce, part.height() - y);
    place_rows(rows_from(part.top + y), y, rows, width, part.height(), orientation, out);
  }
}

}  // namespace forebay
