#include "record_table.hpp"

#include <algorithm>
#include <array>
#include <forebay/error.hpp>
#include <limits>

#include "record_layout.hpp"

namespace forebay {
namespace {

// A row of a column, as the table has it.
std::int64_t number_in(const RecordTable& table, std::size_t column, std::uint64_t row) {
  const auto whole = [](auto number) { return static_cast<std::int64_t>(number); };
  switch (column) {
    case RecordLayout::path_end: return whole(table.sources.ends()[row]);
    case RecordLayout::file_bytes: return table.stamps.empty() ? 0 : whole(table.stamps[row].bytes);
    case RecordLayout::file_sum: return table.stamps.empty() ? 0 : whole(table.stamps[row].sum);
    case RecordLayout::source: return table.source[row];
    case RecordLayout::number:
      if (!table.region.empty()) return table.region[row].object;
      return table.record.empty() ? 0 : table.record[row].number;
    case RecordLayout::flags: return table.region.empty() ? 0 : table.region[row].flags;
    case RecordLayout::offset: return table.record.empty() ? 0 : whole(table.record[row].offset);
    case RecordLayout::length: return table.record.empty() ? 0 : table.record[row].length;
    case RecordLayout::kind: return table.kind.empty() ? 0 : table.kind[row];
    default: return table.label[row];
  }
}

RecordLayout layout_of(const RecordTable& table) {
  RecordLayout layout;
  layout.classes = table.classes;
  layout.kinds = table.kinds;
  layout.sources = table.sources.size();
  layout.samples = table.source.size();
  layout.path_bytes = table.sources.bytes().size();
  layout.held_bytes = table.held.size();
  layout.has_regions = !table.region.empty();
  layout.has_records = !table.record.empty();
  const bool has_labels = std::ranges::any_of(table.label, [](std::int32_t label) { return label >= 0; });
  for (std::size_t i = 0; i < RecordLayout::kColumns; ++i) {
    const std::uint64_t rows = RecordLayout::is_by_source(i) ? layout.sources : layout.samples;
    // Labels that happen to be regular stand there all the same: what they are is not a matter of their arrangement.
    const bool may_compute = i != RecordLayout::label || !has_labels;
    layout.columns[i] = column_of(
        rows, [&](std::uint64_t row) { return number_in(table, i, row); }, may_compute);
  }
  return layout;
}

// Frees what is written: what is being built and what it was built from are never both there whole.
void write_table(IndexWriter& writer, const RecordLayout& layout, RecordTable& table) {
  for (std::size_t i = 0; i < RecordLayout::kColumns; ++i) {
    if (i == RecordLayout::label) {
      for (const RecordTable::Region& region : table.region) writer.value(region.box);
      table.source = {};
      table.region = {};
      table.record = {};
    }
    write_column(writer, layout.columns[i], [&](std::uint64_t row) { return number_in(table, i, row); });
  }
  writer.column(table.sources.bytes());
  writer.column(table.held);
  table = {};
}

}  // namespace

void StringTable::reserve(std::size_t count, std::size_t bytes) {
  ends_.reserve(count);
  bytes_.reserve(bytes);
}

void StringTable::add(std::string_view text) {
  bytes_.insert(bytes_.end(), text.begin(), text.end());
  ends_.push_back(bytes_.size());
}

std::string_view StringTable::operator[](std::size_t i) const noexcept {
  const std::size_t begin = i == 0 ? 0 : ends_[i - 1];
  return {bytes_.data() + begin, ends_[i] - begin};
}

std::uint32_t RecordTable::add_source(std::string_view path) {
  if (sources.size() >= std::numeric_limits<std::uint32_t>::max()) throw Error("an index holds at most 2^32 - 1 files");
  sources.add(path);
  return static_cast<std::uint32_t>(sources.size() - 1);
}

std::uint32_t RecordTable::add_source(std::string_view path, const OpenFile& file) {
  stamps.push_back(stamp_of(file));
  return add_source(path);
}

RecordTable::Stamp stamp_of(const OpenFile& file) {
  std::array<std::byte, 4096> buffer;
  const auto head = std::span(buffer).first(std::min(buffer.size(), file.size));
  read_at(file.descriptor, 0, head);
  return {.bytes = file.size, .sum = chunk_sum(head)};
}

std::unique_ptr<Dataset> make_dataset(const IndexRecord& record, RecordTable table) {
  RecordLayout layout = layout_of(table);
  const std::vector<std::byte> head = layout.head();
  layout.place(head.size());
  auto bytes = seal_index(record, layout.end, [&](IndexWriter& writer) {
    writer.value<std::uint64_t>(head.size());
    writer.column(head);
    write_table(writer, layout, table);
  });
  return restore_index(index_in_memory(owned_bytes(std::move(bytes)), "the index of " + record.origin.path));
}

}  // namespace forebay
