#include "stated_sizes.hpp"

namespace forebay::data {

// Each stated size is a kind of its own, and there are 65536 numbers of kinds. When they run out,
// further sizes are dropped (the image is then not compared with its size), and a few numbers are
// kept for kinds without one.
std::optional<std::uint16_t> number_of_kind(RecordTable::Kind kind, std::vector<RecordTable::Kind>& kinds,
                                            std::map<RecordTable::Kind, std::uint16_t>& numbers) {
  constexpr std::size_t kOthers = 64;  // room for kinds without a stated size
  if (const auto known = numbers.find(kind); known != numbers.end()) return known->second;
  const bool has_size = kind.encoding == Encoding::image && kind.width > 0;
  if (kinds.size() < RecordTable::kMostKinds - (has_size ? kOthers : 0)) {
    const auto number = static_cast<std::uint16_t>(kinds.size());
    kinds.push_back(kind);
    return numbers[kind] = number;
  }
  if (!has_size) return std::nullopt;
  kind.width = kind.height = 0;
  return number_of_kind(kind, kinds, numbers);
}

RecordTable::Kind kind_of_size(std::int64_t width, std::int64_t height) noexcept {
  constexpr std::int64_t kLargest = 1'000'000'000;
  if (width <= 0 || height <= 0 || width > kLargest || height > kLargest) return {};
  return {.width = static_cast<std::int32_t>(width), .height = static_cast<std::int32_t>(height)};
}

// The column of kinds exists only from the first stated size on: a dataset without sizes needs
// none.
void StatedSizes::note(StatedSize size, std::size_t first, RecordTable& table) {
  const std::uint16_t kind = size.is_known() ? kind_of(size, table) : std::uint16_t{0};
  if (kind == 0 && table.kind.empty()) return;
  table.kind.resize(first, 0);
  table.kind.resize(table.source.size(), kind);
}

std::uint16_t StatedSizes::kind_of(StatedSize size, RecordTable& table) {
  RecordTable::Kind kind = table.kinds.front();
  kind.width = size.width;
  kind.height = size.height;
  const std::uint16_t number = number_of_kind(kind, table.kinds, numbers_).value_or(0);
  if (table.kinds[number] != kind) ++left_out_;
  return number;
}

std::string sizes_left_out_note(std::uint64_t samples) {
  return "the sizes that " + std::to_string(samples) + " annotations state are not compared with their images: there " +
         "are more than " + std::to_string(RecordTable::kMostKinds) + " different ones";
}

}  // namespace forebay::data
