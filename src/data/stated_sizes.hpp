#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "record_table.hpp"

namespace forebay::data {

// The size of an image as its annotation states it. An annotation's boxes are of an image of this size, which tells
// whether the EXIF orientation has turned it.
struct StatedSize {
  std::int32_t width = 0;  // 0: not stated
  std::int32_t height = 0;

  [[nodiscard]] bool is_known() const noexcept { return width > 0 && height > 0; }
  friend bool operator==(const StatedSize&, const StatedSize&) = default;
};

// The number of a kind in a list that `numbers` has the numbers of; a new one is appended. Where there is no room for
// one more stated size, the kind without it. Nothing where the list is full.
[[nodiscard]] std::optional<std::uint16_t> number_of_kind(RecordTable::Kind kind, std::vector<RecordTable::Kind>& kinds,
                                                          std::map<RecordTable::Kind, std::uint16_t>& numbers);

// The kind of an image file whose annotation states this size; where it is no size, of one without.
[[nodiscard]] RecordTable::Kind kind_of_size(std::int64_t width, std::int64_t height) noexcept;

// Writes stated sizes into a table, as kinds of its samples. One thread.
class StatedSizes {
 public:
  // Of the samples from `first` on, which are image files and the last that the table has.
  void note(StatedSize size, std::size_t first, RecordTable& table);

  // Samples whose size was stated and is not in the table: there are more sizes than kinds.
  [[nodiscard]] std::uint64_t left_out() const noexcept { return left_out_; }

 private:
  [[nodiscard]] std::uint16_t kind_of(StatedSize size, RecordTable& table);

  std::map<RecordTable::Kind, std::uint16_t> numbers_;
  std::uint64_t left_out_ = 0;
};

// What an index notes where samples were left out.
[[nodiscard]] std::string sizes_left_out_note(std::uint64_t samples);

}  // namespace forebay::data
