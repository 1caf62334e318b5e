#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_io.hpp"
#include "index_image.hpp"
#include "record_table.hpp"

namespace forebay::data {

// A column of integers in as few bytes as possible: none if number(row) = first + step * row for all rows, else 1, 2, 4
// or 8 bytes each, in two's complement.
struct RecordColumn {
  std::uint64_t rows = 0;
  std::uint64_t at = 0;  // where it begins in the content
  std::int64_t first = 0;
  std::int64_t step = 0;
  std::uint8_t width = 0;

  [[nodiscard]] bool is_computed() const noexcept { return width == 0; }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return rows * width; }
  // The numbers in N rows, with one look-up. Throws Error if the index is damaged. REQUIRES: row + N <= rows.
  template <std::size_t N>
  [[nodiscard]] std::array<std::int64_t, N> numbers(const IndexImage& image, std::uint64_t row) const {
    std::array<std::int64_t, N> numbers;
    std::array<std::byte, N * sizeof(std::int64_t)> bytes;
    if (!is_computed()) image.read(at + row * width, std::span(bytes).first(N * width));
    for (std::size_t i = 0; i < N; ++i) {
      std::uint64_t number = 0;
      std::memcpy(&number, bytes.data() + i * width, width);
      const unsigned above = 64 - 8 * width;  // bits above the stored ones, to be filled with the sign
      numbers[i] = is_computed() ? first + step * static_cast<std::int64_t>(row + i)
                                 : static_cast<std::int64_t>(number << above) >> above;
    }
    return numbers;
  }
};

// The column that stores number(row) for each row; as an arithmetic sequence only if it `may_compute`.
template <typename Number>
[[nodiscard]] RecordColumn column_of(std::uint64_t rows, Number&& number, bool may_compute = true) {
  RecordColumn column;
  column.rows = rows;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  std::int64_t most = std::numeric_limits<std::int64_t>::min();
  std::int64_t before = 0;
  bool is_regular = may_compute;
  for (std::uint64_t row = 0; row < rows; ++row) {
    const auto value = static_cast<std::int64_t>(number(row));
    least = std::min(least, value);
    most = std::max(most, value);
    std::int64_t step = 0;
    const bool overflows = __builtin_sub_overflow(value, before, &step);
    if (row == 0) column.first = value;
    if (row == 1) column.step = step;
    if (row > 0 && (overflows || step != column.step)) is_regular = false;
    before = value;
  }
  if (is_regular || rows == 0) return column;
  column.first = column.step = 0;
  const auto holds = [&]<typename T>(T) {
    return least >= std::numeric_limits<T>::min() && most <= std::numeric_limits<T>::max();
  };
  column.width = holds(std::int8_t{}) ? 1 : holds(std::int16_t{}) ? 2 : holds(std::int32_t{}) ? 4 : 8;
  return column;
}

// Appends the bytes of such a column.
template <typename Number>
void write_column(IndexWriter& writer, const RecordColumn& column, Number&& number) {
  for (std::uint64_t row = 0; row < column.rows && !column.is_computed(); ++row) {
    const std::int64_t value = number(row);
    writer.bytes(std::as_bytes(std::span(&value, 1)).first(column.width));
  }
}

// Dataset::source() for a record that several samples may share as regions of it: a number above all sample ids.
// Nothing if the record's position does not fit into one.
[[nodiscard]] constexpr std::optional<std::uint64_t> shared_record(std::uint64_t file, std::uint64_t offset) noexcept {
  constexpr unsigned kOffsetBits = 40;
  constexpr unsigned kFileBits = 23;
  if (file >> kFileBits != 0 || offset >> kOffsetBits != 0) return std::nullopt;
  return std::uint64_t{1} << (kFileBits + kOffsetBits) | file << kOffsetBits | offset;
}

// A field of all samples: either values in the index, or for each sample a source and perhaps a record in it.
struct StoredField {
  enum Column : std::size_t { end, source, offset, length, number };
  static constexpr std::size_t kColumns = number + 1;

  Field field;
  bool has_values = false;
  bool has_records = false;
  std::uint64_t value_bytes = 0;
  std::array<RecordColumn, kColumns> columns;  // unused ones have no rows
  std::uint64_t values = 0;                    // where they begin in the content

  // The largest number allowed in a column.
  [[nodiscard]] std::int64_t most_of(std::size_t column, std::uint64_t sources) const noexcept {
    switch (column) {
      case source: return static_cast<std::int64_t>(sources) - 1;
      case end: return static_cast<std::int64_t>(value_bytes);
      case length: return static_cast<std::int64_t>(kLargestSampleFile);
      default: return std::numeric_limits<std::int64_t>::max();
    }
  }
  // A sample's number, checked. Throws Error naming the index. `sources`: the number of sources.
  [[nodiscard]] std::int64_t number_of(const IndexImage& image, std::size_t column, std::uint64_t id,
                                       std::uint64_t sources) const {
    const std::int64_t value = columns[column].numbers<1>(image, id)[0];
    image.require(value >= (column == source ? -1 : 0) && value <= most_of(column, sources),
                  "a field has a number that is out of range");
    return value;
  }
};

// The content of an index: the head; the columns, those by source first; the boxes; the labels; the bytes of all paths;
// those of all keys; the bytes held by the index itself; the tables of videos; the columns and values of each field.
struct RecordLayout {
  enum Column : std::size_t {
    path_end,
    file_bytes,  // if its records are held: ~bytes, below 0
    file_sum,
    video_end,
    source,
    number,
    flags,
    offset,  // for clips: the first frame that may be shown
    length,  // for clips: the number of these frames
    before,
    after,
    key_end,
    kind,
    label,
  };
  static constexpr std::size_t kColumns = label + 1;
  [[nodiscard]] static constexpr bool is_by_source(std::size_t column) noexcept { return column <= video_end; }

  std::vector<std::string> classes;
  std::vector<RecordTable::Kind> kinds;
  std::uint64_t sources = 0;
  std::uint64_t samples = 0;
  std::uint64_t path_bytes = 0;
  std::uint64_t key_bytes = 0;
  std::uint64_t held_bytes = 0;
  std::uint64_t video_bytes = 0;
  video::ClipRule rule{.frames = 0};  // no frames: samples are not clips
  bool are_windows = false;
  bool has_regions = false;
  bool has_records = false;  // else samples are whole files, or regions of them
  std::array<RecordColumn, kColumns> columns;
  std::vector<StoredField> fields;
  // Where they begin in the content.
  std::uint64_t boxes = 0;
  std::uint64_t paths = 0;
  std::uint64_t keys = 0;
  std::uint64_t held = 0;
  std::uint64_t videos = 0;
  std::uint64_t end = 0;

  // The valid range of a column's numbers, and the error for others.
  struct Limits {
    std::int64_t least = 0;
    std::int64_t most = 0;
    std::string_view problem;
  };
  [[nodiscard]] Limits limits_of(std::size_t column) const noexcept {
    const auto below = [](std::uint64_t count) { return static_cast<std::int64_t>(count) - 1; };
    constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();
    switch (column) {
      case path_end: return {0, below(path_bytes + 1), "its texts are out of order"};
      case video_end: return {0, below(video_bytes + 1), "its texts are out of order"};
      case key_end: return {0, below(key_bytes + 1), "its texts are out of order"};
      case file_bytes:
      case file_sum: return {std::numeric_limits<std::int64_t>::min(), kAny, {}};
      case source: return {0, below(sources), "a sample names a file that is not listed"};
      case before:
      case after:
      case length: return {0, below(kLargestSampleFile + 1), "a record is larger than a sample may be"};
      case kind: return {0, below(kinds.size()), "a sample has an unknown kind"};
      case label: return {-1, below(classes.size()), "a sample names a class that is not listed"};
      default: return {0, kAny, "a number is negative"};
    }
  }

  // The numbers in N rows from `row` on. Every use of a column's numbers goes through this function, which checks them.
  // Throws Error naming the index.
  template <std::size_t N>
  [[nodiscard]] std::array<std::int64_t, N> numbers(const IndexImage& image, std::size_t column,
                                                    std::uint64_t row) const {
    const auto values = columns[column].template numbers<N>(image, row);
    const Limits limits = limits_of(column);
    for (const std::int64_t value : values) {
      image.require(value >= limits.least && value <= limits.most, limits.problem);
    }
    return values;
  }

  [[nodiscard]] bool has_clips() const noexcept { return rule.frames > 0; }
  // The head as bytes, without their count, which precedes them.
  [[nodiscard]] std::vector<std::byte> head() const;
  // Assigns offsets to all parts after a head of this size.
  void place(std::uint64_t head_bytes) noexcept;
};

// The layout described by the content's head. Throws Error if make_dataset() cannot have written it, as far as can be
// determined without reading the columns, whose numbers are checked on use.
[[nodiscard]] RecordLayout read_record_layout(const IndexImage& image);

}  // namespace forebay::data
