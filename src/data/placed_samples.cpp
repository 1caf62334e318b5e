#include "placed_samples.hpp"

#include <algorithm>
#include <string>

#include <forebay/error.hpp>

namespace forebay::data {

// Ranges that are equal are shared (two fields of one member) and count once; those that overlap in
// part cannot be read into two places by one request. A checksum fixes what is read: nothing beyond
// it may be added.
bool enclose(std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges, Placement& placement) {
  std::ranges::sort(ranges);
  ranges.erase(std::unique(ranges.begin(), ranges.end()), ranges.end());
  std::uint64_t wanted = 0;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    if (i > 0 && ranges[i].first < ranges[i - 1].second) return false;
    wanted += ranges[i].second - ranges[i].first;
  }
  const auto [begin, last] = std::pair(ranges.front().first, ranges.back().second);
  const bool is_checked = placement.before + placement.after > 0;
  if (is_checked) return begin >= placement.begin() && last <= placement.end();
  placement.before = placement.offset - begin;
  placement.after = last - placement.offset - placement.length;
  placement.idle = last - begin - wanted;
  return true;
}

// Only fields of kind bytes have a room of fixed size in the batch; others are checked when they
// are decoded.
bool fits_batch(const Field& field, std::uint64_t bytes) noexcept {
  return field.kind != FieldKind::bytes || bytes <= field.sample_bytes();
}

SampleError too_large_for_batch(const Field& field, std::uint64_t bytes) {
  const auto counted = [](std::uint64_t count) { return std::to_string(count) + (count == 1 ? " byte" : " bytes"); };
  return SampleError(counted(bytes) + ", but a batch has room for " + counted(field.sample_bytes()) +
                     " of each sample (most)");
}

}  // namespace forebay::data
