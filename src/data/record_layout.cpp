// Lays out the content of an index: where each part is, and the bytes of the head. Also takes and
// compares the stamps by which files of records are recognised.
//
// Writing (make_dataset): layout_of() goes through the table once to find the width of each column,
// place() computes where each part begins, and write_table() writes the parts in that order and
// frees the table as it goes. Reading (read_record_layout): the head is read, and every count in it
// is compared with the size of the content before it is used for anything; then place() must end
// exactly at the end of the content. The order in which place() and write_table() go through the
// parts is the file format, so they must agree.
//
// Labels and boxes are stored even if their numbers could be computed, see layout_of(). The layout
// is written and read on the thread that builds or opens the dataset; any thread may take or
// compare a stamp.

#include "record_layout.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <forebay/error.hpp>
#include <limits>

#include "base/retry.hpp"
#include "record_table.hpp"

namespace forebay::data {
namespace {

// Writes or reads all members of the head, in the order of the file.
template <typename Codec, typename Layout>
void code_head(Codec& codec, Layout& layout) {
  auto kinds = static_cast<std::uint32_t>(layout.kinds.size());
  codec(layout.classes, kinds);
  for (std::uint32_t i = 0; i < kinds; ++i) {
    // One at a time, because a damaged count must not decide how much is allocated.
    if constexpr (!std::is_const_v<Layout>) layout.kinds.emplace_back();
    auto& kind = layout.kinds[i];
    codec(kind.encoding, kind.width, kind.height, kind.channels, kind.planar, kind.bgr, kind.checked);
  }
  codec(layout.sources, layout.samples, layout.path_bytes, layout.key_bytes, layout.held_bytes, layout.video_bytes);
  codec(layout.rule.frames, layout.rule.stride, layout.are_windows);
  codec(layout.has_regions, layout.has_records);
  for (auto& column : layout.columns) codec(column.width, column.first, column.step);
  auto fields = static_cast<std::uint32_t>(layout.fields.size());
  codec(fields);
  for (std::uint32_t i = 0; i < fields; ++i) {
    if constexpr (!std::is_const_v<Layout>) layout.fields.emplace_back();
    auto& stored = layout.fields[i];
    auto& field = stored.field;
    codec(field.name, field.kind, field.dtype, field.shape, field.classes, field.min_visible, field.mean, field.std,
          field.colours);
    codec(stored.has_values, stored.has_records, stored.value_bytes);
    for (auto& column : stored.columns) codec(column.width, column.first, column.step);
  }
}

// Compares by division, because the product of an image's extents could overflow.
void check_kind(const RecordTable::Kind& kind, const IndexImage& image) {
  image.require(kind.encoding <= Encoding::video, "it names an unknown encoding");
  image.require(kind.width >= 0 && kind.height >= 0, "its images have an impossible size");
  if (kind.encoding != Encoding::raw) return;
  const auto largest = static_cast<std::int64_t>(kLargestSampleFile);
  image.require(kind.width > 0 && kind.height > 0 && (kind.channels == 1 || kind.channels == 3) &&
                    kind.width <= largest / kind.height / kind.channels,
                "its images have an impossible shape");
}

// Each stored row takes at least one byte, so the size of the content bounds their number. Computed
// rows take none, so only their numbers can be checked; record_dataset.cpp checks both ends of each
// column.
void check_column(const RecordColumn& column, const IndexImage& image) {
  const auto [rows, at, first, step, width] = column;
  const bool is_width = width <= 2 || width == 4 || width == 8;
  image.require(is_width && (column.is_computed() || rows <= image.content_bytes()),
                "a column has more rows than there are bytes");
  // If the last number fits into 64 bits, so do all others, because the sequence is monotonic.
  std::int64_t last = 0;
  const bool overflows = rows > 0 && (__builtin_mul_overflow(step, static_cast<std::int64_t>(rows - 1), &last) ||
                                      __builtin_add_overflow(first, last, &last));
  image.require(!overflows, "a column runs out of range");
}

// The number of rows of a field's column. Of two layouts, values in the index need only their ends,
// and bytes in files need a source and, if they are records, their place in it.
std::uint64_t field_rows(const StoredField& stored, std::size_t column, std::uint64_t samples) {
  switch (column) {
    case StoredField::end: return stored.has_values ? samples : 0;
    case StoredField::source: return stored.has_values ? 0 : samples;
    default: return stored.has_records ? samples : 0;
  }
}

void check_field(StoredField& stored, std::uint64_t samples, const IndexImage& image) {
  const Field& field = stored.field;
  image.require(
      field.kind <= FieldKind::bytes && field.dtype <= DType::float64 && field.shape.size() <= forebay::Shape::kMost,
      "a field is of an unknown kind");
  image.require(stored.value_bytes <= image.content_bytes() && !(stored.has_values && stored.has_records),
                "the values of a field are larger than what follows");
  for (std::size_t i = 0; i < StoredField::kColumns; ++i) {
    stored.columns[i].rows = field_rows(stored, i, samples);
    check_column(stored.columns[i], image);
  }
}

// `content <= kMost` ensures that sums of counts cannot overflow further down.
RecordLayout read_head(const IndexImage& image, std::uint64_t bytes) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 48U;  // more than any index has
  const std::vector<std::byte> head = image.content(sizeof(bytes), bytes);
  IndexReader reader(head, image.origin());
  RecordLayout layout;
  code_head(reader, layout);
  reader.expect_end();
  image.require(!layout.kinds.empty(), "it does not say what its samples are");
  for (const RecordTable::Kind& kind : layout.kinds) check_kind(kind, image);
  const std::uint64_t content = image.content_bytes();
  image.require(content <= kMost && layout.sources <= content && layout.samples <= kMost &&
                    layout.path_bytes <= content && layout.key_bytes <= content && layout.held_bytes <= content &&
                    layout.video_bytes <= content && (!layout.has_regions || layout.samples <= content),
                "a count is larger than what follows");
  for (std::size_t i = 0; i < RecordLayout::kColumns; ++i) {
    layout.columns[i].rows = RecordLayout::is_by_source(i) ? layout.sources : layout.samples;
    check_column(layout.columns[i], image);
  }
  for (StoredField& stored : layout.fields) check_field(stored, layout.samples, image);
  return layout;
}

// A number of a column, from the table. Parts that the table lacks read as 0 in every row, which
// makes a computed column without bytes. The size of a file whose records are held is stored as its
// bitwise complement, which is negative for every size.
std::int64_t number_in(const RecordTable& table, std::size_t column, std::uint64_t row) {
  const auto whole = [](auto number) { return static_cast<std::int64_t>(number); };
  switch (column) {
    case RecordLayout::path_end: return whole(table.sources.ends()[row]);
    case RecordLayout::file_bytes: {
      if (row >= table.stamps.size()) return 0;
      const auto bytes = whole(table.stamps[row].bytes);
      return table.stamps[row].is_held ? ~bytes : bytes;
    }
    case RecordLayout::file_sum: return row < table.stamps.size() ? whole(table.stamps[row].sum) : 0;
    case RecordLayout::video_end: return row < table.videos.size() ? whole(table.videos.ends()[row]) : 0;
    case RecordLayout::source: return table.source[row];
    case RecordLayout::number:
      if (!table.record.empty()) return table.record[row].number;
      return table.region.empty() ? 0 : table.region[row].object;
    case RecordLayout::flags: return table.region.empty() ? 0 : table.region[row].flags;
    case RecordLayout::offset:
      if (!table.clip.empty()) return whole(table.clip[row].first);
      return table.record.empty() ? 0 : whole(table.record[row].offset);
    case RecordLayout::length:
      if (!table.clip.empty()) return whole(table.clip[row].frames);
      return table.record.empty() ? 0 : table.record[row].length;
    case RecordLayout::before: return table.record.empty() ? 0 : table.record[row].before;
    case RecordLayout::after: return table.record.empty() ? 0 : table.record[row].after;
    case RecordLayout::key_end: return table.keys.size() == 0 ? 0 : whole(table.keys.ends()[row]);
    case RecordLayout::kind: return table.kind.empty() ? 0 : table.kind[row];
    default: return table.label[row];
  }
}

std::int64_t number_in(const RecordTable::FieldColumn& field, std::size_t column, std::uint64_t row) {
  switch (column) {
    case StoredField::end: return static_cast<std::int64_t>(field.ends[row]);
    case StoredField::source:
      return field.source[row] == RecordTable::FieldColumn::kMissing ? -1 : std::int64_t{field.source[row]};
    case StoredField::offset: return static_cast<std::int64_t>(field.record[row].offset);
    case StoredField::length: return field.record[row].length;
    default: return field.record[row].number;
  }
}

// A wrong number of rows is a bug in a format's builder, not damage; hence a plain Error.
StoredField stored_field(const RecordTable::FieldColumn& field, std::uint64_t samples) {
  StoredField stored;
  stored.field = field.field;
  stored.has_values = field.has_values();
  stored.has_records = !field.record.empty();
  stored.value_bytes = field.values.size();
  const std::size_t rows = stored.has_values ? field.ends.size() : field.source.size();
  if (rows != samples || (stored.has_records && field.record.size() != samples)) {
    throw Error("field \"" + field.field.name + "\": a builder gave it " + std::to_string(rows) + " rows for " +
                std::to_string(samples) + " samples");
  }
  for (std::size_t i = 0; i < StoredField::kColumns; ++i) {
    stored.columns[i] =
        column_of(field_rows(stored, i, samples), [&](std::uint64_t row) { return number_in(field, i, row); });
  }
  return stored;
}

RecordLayout layout_of(const RecordTable& table) {
  RecordLayout layout;
  layout.classes = table.classes;
  layout.kinds = table.kinds;
  layout.sources = table.sources.size();
  layout.samples = table.source.size();
  layout.path_bytes = table.sources.bytes().size();
  layout.key_bytes = table.keys.bytes().size();
  layout.held_bytes = table.held.size();
  layout.video_bytes = table.videos.bytes().size();
  layout.rule = table.rule;
  layout.are_windows = table.are_windows;
  layout.has_regions = !table.region.empty();
  layout.has_records = !table.record.empty();
  const bool has_labels = std::ranges::any_of(table.label, [](std::int32_t label) { return label >= 0; });
  for (std::size_t i = 0; i < RecordLayout::kColumns; ++i) {
    const std::uint64_t rows = RecordLayout::is_by_source(i) ? layout.sources : layout.samples;
    // Labels are stored even if they happen to be regular: the layout must not depend on the order of samples.
    const bool may_compute = i != RecordLayout::label || !has_labels;
    layout.columns[i] = column_of(
        rows, [&](std::uint64_t row) { return number_in(table, i, row); }, may_compute);
  }
  for (const auto& field : table.fields) layout.fields.push_back(stored_field(field, layout.samples));
  return layout;
}

// Frees each part once it is written, so that table and index are never both in memory as a whole.
// The boxes come directly before the labels, and by then all columns that need sources, regions,
// records and clips have been written.
void write_table(IndexWriter& writer, const RecordLayout& layout, RecordTable& table) {
  for (std::size_t i = 0; i < RecordLayout::kColumns; ++i) {
    if (i == RecordLayout::label) {
      for (const RecordTable::Region& region : table.region) writer(region.box);
      table.source = {};
      table.region = {};
      table.record = {};
      table.clip = {};
    }
    write_column(writer, layout.columns[i], [&](std::uint64_t row) { return number_in(table, i, row); });
  }
  writer.column(table.sources.bytes());
  writer.column(table.keys.bytes());
  writer.column(table.held);
  writer.column(table.videos.bytes());
  for (std::size_t i = 0; i < layout.fields.size(); ++i) {
    for (std::size_t column = 0; column < StoredField::kColumns; ++column) {
      write_column(writer, layout.fields[i].columns[column],
                   [&](std::uint64_t row) { return number_in(table.fields[i], column, row); });
    }
    writer.column(table.fields[i].values);
    table.fields[i] = {};
  }
  table = {};
}

// Stamps are taken with patient reads. During a run the readers themselves retry after a failure of
// the store, so is_still() does not.
using ReadAt = void (*)(const OpenFile&, std::size_t, std::span<std::byte>);

// 8 KiB: a single read at the beginning of a file, where formats have their headers, and quick
// enough for the start of every run.
std::uint64_t sum_of_head(const OpenFile& file, ReadAt read) {
  std::array<std::byte, 8192> buffer;
  const auto head = std::span(buffer).first(std::min(buffer.size(), file.size));
  read(file, 0, head);
  return chunk_sum(head);
}

// The sum of a whole file up to 1 MiB. For a larger one, of its first 256 KiB, which include both
// meta pages of an LMDB environment, one of which changes with every transaction; and of 64 blocks
// of 4 KiB, the last of them at the file's end, where gzip has its checksum.
std::uint64_t sum_of_blocks(const OpenFile& file, ReadAt read) {
  constexpr std::size_t kWhole = std::size_t{1} << 20U;
  constexpr std::size_t kBegin = std::size_t{256} << 10U;
  constexpr std::size_t kBlock = 4096;
  constexpr std::size_t kBlocks = 64;
  std::vector<std::byte> bytes(file.size <= kWhole ? file.size : kBegin + kBlocks * kBlock);
  const std::span all(bytes);
  if (file.size <= kWhole) {
    read(file, 0, all);
    return chunk_sum(all);
  }
  read(file, 0, all.first(kBegin));
  const std::size_t step = (file.size - kBegin - kBlock) / (kBlocks - 1);
  for (std::size_t i = 0; i < kBlocks; ++i) {
    const std::size_t at = i + 1 == kBlocks ? file.size - kBlock : kBegin + i * step;
    read(file, at, all.subspan(kBegin + i * kBlock, kBlock));
  }
  return chunk_sum(all);
}

}  // namespace

std::vector<std::byte> RecordLayout::head() const {
  IndexWriter writer;
  code_head(writer, *this);
  return writer.take();
}

// Parts follow each other without alignment: readers copy numbers out and never point to them.
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
  keys = paths + path_bytes;
  held = keys + key_bytes;
  videos = held + held_bytes;
  at = videos + video_bytes;
  for (StoredField& field : fields) {
    for (RecordColumn& column : field.columns) {
      column.at = at;
      at += column.bytes();
    }
    field.values = at;
    at += field.value_bytes;
  }
  end = at;
}

// The end must match exactly: content that is longer than its counts imply is not an index of this
// version.
RecordLayout read_record_layout(const IndexImage& image) {
  const auto head_bytes = image.value<std::uint64_t>(0);
  RecordLayout layout = read_head(image, head_bytes);
  layout.place(head_bytes);
  image.require(layout.end == image.content_bytes(), "its size is not what its counts say");
  return layout;
}

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

// Source numbers have 32 bits in the table, and the highest is FieldColumn::kMissing.
std::uint32_t RecordTable::add_source(std::string_view path) {
  if (sources.size() >= std::numeric_limits<std::uint32_t>::max()) throw Error("an index holds at most 2^32 - 1 files");
  sources.add(path);
  return static_cast<std::uint32_t>(sources.size() - 1);
}

// `stamps` may be shorter than `sources`: the last sources without a stamp are whole files.
std::uint32_t RecordTable::add_source(std::string_view path, const Stamp& stamp) {
  stamps.resize(sources.size());  // earlier ones are whole files
  stamps.push_back(stamp);
  return add_source(path);
}

std::int64_t RecordTable::modified_of(const OpenFile& file) {
  if (file.remote != nullptr) return 0;
  // A file written twice within one tick of the file system's clock has the same time both times.
  constexpr std::int64_t kSecond = 1'000'000'000;
  struct stat status {};
  if (::fstat(file.descriptor.get(), &status) != 0) throw system_failure("cannot inspect it", errno);
  const std::int64_t modified = status.st_mtim.tv_sec * kSecond + status.st_mtim.tv_nsec;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return modified < std::chrono::nanoseconds(now).count() - 2 * kSecond ? modified : 0;
}

RecordTable::Stamp RecordTable::stamp_of(const OpenFile& file) {
  const ReadAt read = read_at_patiently;
  if (file.remote != nullptr) {  // its head came with the first answer
    return {.bytes = file.size,
            .sum = sum_of_head(file, read),
            .modified = std::bit_cast<std::int64_t>(file.remote->identity())};
  }
  return {.bytes = file.size,
          .sum = sum_of_head(file, read),
          .spread = sum_of_blocks(file, read),
          .modified = modified_of(file)};
}

bool RecordTable::is_still(const OpenFile& file, const Stamp& stamp) {
  const ReadAt read = read_at;
  if (file.size != stamp.bytes || sum_of_head(file, read) != stamp.sum) return false;
  const bool is_unmodified = stamp.modified != 0 && modified_of(file) == stamp.modified;
  return is_unmodified || stamp.spread == 0 || sum_of_blocks(file, read) == stamp.spread;
}

std::string record_name(std::string_view path, std::uint64_t number, std::string_view key) {
  std::string name(path);
  name.append("[record ").append(std::to_string(number));
  if (!key.empty()) name.append(", ").append(key);
  return name.append("]");
}

// Of files that are samples themselves nothing was read, and nothing is to be known.
std::uint64_t sum_of_files(const Dataset& dataset) {
  const IndexImage* const image = image_of(dataset);
  if (image == nullptr || image->record().spreads.empty()) return 0;
  const std::vector<std::uint64_t>& spreads = image->record().spreads;
  const RecordLayout layout = read_record_layout(*image);
  bool is_known = false;
  for (std::uint64_t file = 0; file < spreads.size(); ++file) {
    if (spreads[file] == 0 && layout.numbers<1>(*image, RecordLayout::file_bytes, file)[0] != 0) return 0;
    is_known = is_known || spreads[file] != 0;
  }
  return is_known ? chunk_sum(std::as_bytes(std::span(spreads))) : 0;
}

// Modification times and versions go into the record and not into the content, because a copy of
// the data has others but must have the same fingerprint; the sums of blocks, because reading them
// from a store would take many requests for each file.
std::unique_ptr<Dataset> make_dataset(IndexRecord record, RecordTable table, std::span<const std::byte> state) {
  for (const RecordTable::Stamp& stamp : table.stamps) {
    record.modified.push_back(stamp.modified);
    record.spreads.push_back(stamp.spread);
  }
  RecordLayout layout = layout_of(table);
  const std::vector<std::byte> head = layout.head();
  layout.place(head.size());
  const auto write = [&](IndexWriter& writer) {
    writer(std::uint64_t{head.size()});
    writer.column(head);
    write_table(writer, layout, table);
  };
  auto bytes = seal_index(record, layout.end, write, state);
  return restore_index(index_in_memory(owned_bytes(std::move(bytes)), "the index of " + record.origin.path));
}

}  // namespace forebay::data
