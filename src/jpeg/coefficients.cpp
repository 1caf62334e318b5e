#include "coefficients.hpp"

#include <algorithm>
#include <new>

namespace forebay::jpeg {
namespace {

constexpr std::align_val_t kAlignment{64};

// Division rounded up, for positive numbers.
std::int32_t quotient_up(std::int32_t dividend, std::int32_t divisor) noexcept {
  return (dividend + divisor - 1) / divisor;
}

}  // namespace

// As in ITU-T T.81 (A.1.1): an MCU covers 8 * max_h by 8 * max_v pixels, and the size of a
// component is that of the image, scaled by its sampling factors and rounded up.
void JpegFrame::complete() noexcept {
  max_h = max_v = 1;
  for (std::size_t k = 0; k < components; ++k) {
    max_h = std::max(max_h, component[k].h);
    max_v = std::max(max_v, component[k].v);
  }
  constexpr std::int32_t kSide = 8;
  mcus_across = quotient_up(width, kSide * max_h);
  mcus_down = quotient_up(height, kSide * max_v);
  for (std::size_t k = 0; k < components; ++k) {
    component[k].width = quotient_up(width * component[k].h, max_h);
    component[k].height = quotient_up(height * component[k].v, max_v);
  }
}

void CoefficientRow::Free::operator()(std::int16_t* memory) const noexcept { ::operator delete(memory, kAlignment); }

// All coefficients are 0 afterwards, because entropy decoding writes only those that are not. Each
// row of blocks begins with a whole group, so that vector code need not consider where a row ends.
void CoefficientRow::reset(const JpegFrame& frame, std::size_t components, const McuRegion& region) {
  components_ = components;
  left_ = region.left;
  right_ = region.right;
  std::size_t total = 0;
  for (std::size_t k = 0; k < components; ++k) {
    const std::size_t width = static_cast<std::size_t>(region.width()) * static_cast<std::size_t>(frame.component[k].h);
    const std::size_t stride = (width + kGroup - 1) / kGroup * kGroup;
    parts_[k] = {.first = total, .width = width, .stride = stride};
    total += stride * static_cast<std::size_t>(frame.component[k].v);
  }
  if (total > capacity_) {
    capacity_ = 0;
    coefficients_.reset();
    coefficients_.reset(
        static_cast<std::int16_t*>(::operator new(total* kBlockSize * sizeof(std::int16_t), kAlignment)));
    extents_ = std::make_unique<std::uint8_t[]>(total);
    capacity_ = total;
  }
  std::fill_n(coefficients_.get(), total * kBlockSize, std::int16_t{0});
  std::fill_n(extents_.get(), total, std::uint8_t{0});
}

}  // namespace forebay::jpeg
