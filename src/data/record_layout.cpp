#include "record_layout.hpp"

#include <algorithm>
#include <limits>

namespace forebay {
namespace {

void write_kind(IndexWriter& writer, const RecordTable::Kind& kind) {
  writer.value(kind.encoding);
  writer.value(kind.width);
  writer.value(kind.height);
  writer.value(kind.channels);
  writer.value<std::uint8_t>(kind.planar ? 1 : 0);
}

RecordTable::Kind read_kind(IndexReader& reader, const IndexImage& image) {
  RecordTable::Kind kind;
  const auto encoding = reader.value<std::uint8_t>();
  image.require(encoding <= static_cast<std::uint8_t>(Encoding::raw), "it names an encoding that there is not");
  kind.encoding = static_cast<Encoding>(encoding);
  kind.width = reader.value<std::int32_t>();
  kind.height = reader.value<std::int32_t>();
  kind.channels = reader.value<std::int32_t>();
  kind.planar = reader.flag();
  if (kind.encoding != Encoding::raw) return kind;
  const auto largest = static_cast<std::int64_t>(kLargestSampleFile);
  image.require(kind.width > 0 && kind.height > 0 && (kind.channels == 1 || kind.channels == 3) &&
                    kind.width <= largest / kind.height / kind.channels,
                "its images have no shape");
  return kind;
}

RecordColumn read_column(IndexReader& reader, const IndexImage& image, std::uint64_t rows) {
  RecordColumn column;
  column.rows = rows;
  column.width = reader.value<std::uint8_t>();
  column.first = reader.value<std::int64_t>();
  column.step = reader.value<std::int64_t>();
  const bool is_width = column.width <= 2 || column.width == 4 || column.width == 8;
  image.require(is_width && (column.is_computed() || rows <= image.content_bytes()),
                "a column has more rows than there are bytes");
  // So that no number of it is out of what 64 bits hold: they only rise or only fall.
  std::int64_t last = 0;
  const bool overflows = rows > 0 && (__builtin_mul_overflow(column.step, static_cast<std::int64_t>(rows - 1), &last) ||
                                      __builtin_add_overflow(column.first, last, &last));
  image.require(!overflows, "a column runs out of range");
  return column;
}

RecordLayout read_head(const IndexImage& image, std::uint64_t bytes) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 48U;  // more samples than any run counts
  const std::vector<std::byte> head = image.content(sizeof(bytes), bytes);
  IndexReader reader(head, image.origin());
  RecordLayout layout;
  layout.classes = reader.texts();
  for (auto left = reader.value<std::uint8_t>(); left > 0; --left) layout.kinds.push_back(read_kind(reader, image));
  image.require(!layout.kinds.empty(), "it does not say what its samples are");
  layout.sources = reader.value<std::uint64_t>();
  layout.samples = reader.value<std::uint64_t>();
  layout.path_bytes = reader.value<std::uint64_t>();
  layout.held_bytes = reader.value<std::uint64_t>();
  layout.has_regions = reader.flag();
  layout.has_records = reader.flag();
  const std::uint64_t content = image.content_bytes();
  image.require(content <= kMost && layout.sources <= content && layout.samples <= kMost &&
                    layout.path_bytes <= content && layout.held_bytes <= content &&
                    (!layout.has_regions || layout.samples <= content),
                "a count is larger than what follows");
  for (std::size_t i = 0; i < RecordLayout::kColumns; ++i) {
    layout.columns[i] = read_column(reader, image, RecordLayout::is_by_source(i) ? layout.sources : layout.samples);
  }
  reader.expect_end();
  return layout;
}

}  // namespace

std::vector<std::byte> RecordLayout::head() const {
  IndexWriter writer;
  writer.texts(classes);
  writer.value(static_cast<std::uint8_t>(kinds.size()));
  for (const auto& each : kinds) write_kind(writer, each);
  writer.value(sources);
  writer.value(samples);
  writer.value(path_bytes);
  writer.value(held_bytes);
  writer.value<std::uint8_t>(has_regions ? 1 : 0);
  writer.value<std::uint8_t>(has_records ? 1 : 0);
  for (const RecordColumn& column : columns) {
    writer.value(column.width);
    writer.value(column.first);
    writer.value(column.step);
  }
  return writer.take();
}

void RecordLayout::place(std::uint64_t head_bytes) noexcept {
  std::uint64_t at = sizeof(head_bytes) + head_bytes;
  for (std::size_t i = 0; i < kColumns; ++i) {
    if (i == label) {
      boxes = at;
      at += has_regions ? samples * sizeof(Box) : 0;
    }
    columns[i].at = at;
    at += columns[i].bytes();
  }
  paths = at;
  held = paths + path_bytes;
  end = held + held_bytes;
}

RecordLayout read_record_layout(const IndexImage& image) {
  const auto head_bytes = image.value<std::uint64_t>(0);
  RecordLayout layout = read_head(image, head_bytes);
  layout.place(head_bytes);
  image.require(layout.end == image.content_bytes(), "its size is not what its counts say");
  return layout;
}

}  // namespace forebay
