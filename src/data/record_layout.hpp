#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "record_column.hpp"
#include "record_table.hpp"

namespace forebay {

// The content of an index: the head; the columns, those by source first; the boxes; the labels; the bytes of all paths;
// the bytes that the index holds itself.
struct RecordLayout {
  enum Column : std::size_t { path_end, file_bytes, file_sum, source, number, flags, offset, length, kind, label };
  static constexpr std::size_t kColumns = label + 1;
  [[nodiscard]] static constexpr bool is_by_source(std::size_t column) noexcept { return column <= file_sum; }

  std::vector<std::string> classes;
  std::vector<RecordTable::Kind> kinds;
  std::uint64_t sources = 0;
  std::uint64_t samples = 0;
  std::uint64_t path_bytes = 0;
  std::uint64_t held_bytes = 0;
  bool has_regions = false;
  bool has_records = false;  // else samples are whole files, or regions of them
  std::array<RecordColumn, kColumns> columns;
  // Where they begin in the content.
  std::uint64_t boxes = 0;
  std::uint64_t paths = 0;
  std::uint64_t held = 0;
  std::uint64_t end = 0;

  // The head as bytes, without their number, which comes first.
  [[nodiscard]] std::vector<std::byte> head() const;
  // Gives everything its place behind a head of this size.
  void place(std::uint64_t head_bytes) noexcept;
};

// The layout that the content's head describes. Throws Error when that is none of make_dataset()'s, as far as it shows
// without reading the columns; their numbers are checked when they are used.
[[nodiscard]] RecordLayout read_record_layout(const IndexImage& image);

}  // namespace forebay
