#include "jpeg_holder.hpp"

#include <algorithm>
#include <cstring>

#include "held_math.hpp"

namespace forebay {
namespace {

// What the inverse DCT of a block cannot exceed where this much or less is in it: the first coefficient counts once and
// each other one twice, for their shares of a sample, 1 / 8 and 1 / 4 at most. Then no sample is outside -500..500, nor
// a value between the passes outside -16000..16000, which is within PixelKernels::transform's bounds.
constexpr std::uint32_t kSurelyExact = 4000;

}  // namespace

bool JpegHolder::transforms(std::size_t component, std::size_t row_of_mcu) {
  const std::size_t stride = row_.stride(component) * CoefficientRow::kSide + PixelKernels::kSlack;
  if (samples_.size() < CoefficientRow::kSide * stride) samples_.resize(CoefficientRow::kSide * stride);
  return kernels_->transform(row_.blocks(component, row_of_mcu), row_.extents(component, row_of_mcu),
                             row_.stride(component), held_.frame.component[component].quantiser.data(), samples_.data(),
                             stride);
}

static_assert(2 * PixelKernels::kMostQuantiser <= INT16_MAX, "it is a weight");

bool JpegHolder::hold_row(std::size_t component, std::size_t row_of_mcu, std::int32_t row) {
  const HeldComponent& here = held_.component[component];
  const auto& quantiser = held_.frame.component[component].quantiser;
  RecordWeights weights;
  for (std::size_t k = 0; k < kBlockSize; ++k) {
    weights[k] = static_cast<std::int16_t>((k == 0 ? 1 : 2) * quantiser[kNaturalOrder[k]]);
  }
  bool is_doubtful = false;
  const std::int16_t* const blocks = row_.blocks(component, row_of_mcu);
  const std::uint8_t* const extents = row_.extents(component, row_of_mcu);
  const auto across = static_cast<std::size_t>(here.across);
  std::byte* const lengths = place_.data() + here.lengths_at + across * static_cast<std::size_t>(row);
  std::byte* group = place_.data() + here.groups_at + 4 * static_cast<std::size_t>(row * here.groups_across());
  for (std::size_t block = 0; block < across; ++block) {
    if (block % kGroupBlocks == 0) {
      const auto begin = static_cast<std::uint32_t>(end_);
      std::memcpy(group, &begin, sizeof begin);
      group += sizeof begin;
    }
    if (end_ + kMostRecordBytes + kHeldSlack > place_.size()) return false;
    auto* const record = reinterpret_cast<std::uint8_t*>(place_.data() + end_);
    const std::size_t bytes = records_->write(blocks + CoefficientRow::place_of(block), extents[block], weights,
                                              kSurelyExact, record, is_doubtful);
    if (bytes == 0) return false;
    lengths[block] = static_cast<std::byte>(bytes);
    end_ += bytes;
  }
  return !is_doubtful || transforms(component, row_of_mcu);
}

bool JpegHolder::hold(const JpegFrame& frame, int orientation, CoefficientSource& source, const HoldRequest& request) {
  const Box& box = request.region;
  const HoldLimits& limits = request.limits;
  const std::span<std::byte> place = request.place;
  if (box.width() > limits.width || box.height() > limits.height) return false;
  if (expanded_row_bytes(box.width()) * static_cast<std::size_t>(box.height()) > limits.expanded) return false;
  const Box stored = stored_box(box, frame.width, frame.height, orientation);
  held_ = {.frame = frame,
           .mcus = needed_mcus(frame, stored, frame.components),
           .orientation = orientation,
           .left = box.left,
           .top = box.top};
  std::size_t at = sizeof held_;
  std::size_t samples = 0;
  for (std::size_t k = 0; k < frame.components; ++k) {
    HeldComponent& here = held_.component[k];
    here.across = held_.mcus.width() * frame.component[k].h;
    here.down = held_.mcus.height() * frame.component[k].v;
    samples += plane_bytes(here);
    if (samples > limits.expanded) return false;
    here.groups_at = static_cast<std::uint32_t>(at);
    at += 4 * static_cast<std::size_t>(here.groups());
    here.lengths_at = static_cast<std::uint32_t>(at);
    at = (at + static_cast<std::size_t>(here.across) * static_cast<std::size_t>(here.down) + 3) / 4 * 4;
  }
  if (at > place.size()) return false;
  place_ = place.first(std::min<std::size_t>(place.size(), UINT32_MAX));
  end_ = at;
  std::memcpy(place.data(), &held_, sizeof held_);
  for (std::int32_t mcu_row = held_.mcus.top; mcu_row < held_.mcus.bottom; ++mcu_row) {
    row_.reset(frame, frame.components, held_.mcus);
    if (!source.read(mcu_row, row_)) return false;
    for (std::size_t k = 0; k < frame.components; ++k) {
      const std::int32_t rows = frame.component[k].v;
      for (std::int32_t row = 0; row < rows; ++row) {
        if (!hold_row(k, static_cast<std::size_t>(row), (mcu_row - held_.mcus.top) * rows + row)) return false;
      }
    }
  }
  return true;
}

}  // namespace forebay
