// Writes a shard: header, tables, records, index, originals (docs/packing.md). One thread adds
// samples in order. Records go to the file through a buffer; the columns of the index stay in
// memory until finish().
//
// The header is written last, over the block of zeros that was reserved for it, so an unfinished
// shard has no magic number. Only then does PartFile give the file its name.

#include "shard_writer.hpp"

#include <algorithm>

#include <forebay/error.hpp>

#include "base/crc32c.hpp"
#include "data/fields.hpp"
#include "data/index_image.hpp"
#include "data/record_checksum.hpp"
#include "read_back.hpp"

namespace forebay::archive {

ShardWriter::ShardWriter(const Dataset& dataset, const PackSettings& settings, const PackPlan& plan,
                         std::uint32_t number, std::span<const std::byte> tables)
    : file_(settings.out / data::pack_shard_name(number, plan.shards()), PartFile::IfBusy::fail) {
  header_.set = plan.set;
  header_.number = number;
  header_.count = plan.shards();
  header_.first = plan.firsts[number];
  index_.format = dataset.format();
  index_.samples = settings.samples;
  index_.has_regions = dataset.sample(0).box.has_value();
  if (const data::IndexImage* image = data::image_of(dataset)) index_.has_difficult = image->record().origin.difficult;
  index_.classes = dataset.classes();
  index_.counts = dataset.counts();
  for (const Field& field : dataset.fields()) {
    index_.fields.push_back({.field = field, .values = {}, .ends = {}, .lengths = {}});
    if (data::is_of_bytes(field.kind)) originals_.files.emplace_back();
  }
  file_.fill_to(data::kPackBlock);
  header_.tables = add_part(tables, tables.size());
}

// A sample that shares a record is left out for the same reason as the first one.
const std::string& ShardWriter::add(const Sample& sample, std::string_view key, const PackedSample& packed) {
  if (!packed.shares) problem_ = packed.problem;
  if (!problem_.empty()) {
    index_.left_out.push_back({.path = std::string(key), .reason = problem_, .bad = true});
    return problem_;
  }
  if (packed.shares) {
    repeat_record();
  } else {
    add_record(packed);
  }
  add_fields(packed);
  index_.label.push_back(static_cast<std::int32_t>(sample.label));
  index_.keys.add(key);
  if (!index_.has_regions) return problem_;
  const Box& box = *sample.box;
  for (const std::int32_t side : {box.left, box.top, box.right, box.bottom}) index_.sides.push_back(side);
  index_.flags.push_back((sample.difficult ? data::RecordTable::kDifficult : 0U) |
                         (sample.truncated ? data::RecordTable::kTruncated : 0U));
  return problem_;
}

// Records begin at multiples of kPackAlign. The checksum covers image and fields together.
void ShardWriter::add_record(const PackedSample& packed) {
  index_.offset.push_back(file_.size() + buffer_.size());
  index_.length.push_back(static_cast<std::uint32_t>(packed.image.size()));
  index_.kind.push_back(kind_number(packed.kind));
  originals_.stored.push_back(packed.stored);
  originals_.hash.push_back(packed.hash);
  originals_.bytes.push_back(packed.bytes);
  originals_.width.push_back(packed.width);
  originals_.height.push_back(packed.height);
  originals_.orientation.push_back(packed.orientation);
  std::uint32_t sum = crc32c(packed.image);
  put(packed.image);
  for (std::size_t f = 0; f < index_.fields.size(); ++f) {
    if (!data::is_of_bytes(index_.fields[f].field.kind)) continue;
    sum = crc32c(packed.fields[f].bytes, sum);
    put(packed.fields[f].bytes);
  }
  const std::uint32_t masked = masked_crc32c(sum);
  put(std::as_bytes(std::span(&masked, 1)));
  const std::uint64_t end = file_.size() + buffer_.size();
  buffer_.resize(buffer_.size() + (data::rounded_up(end, data::kPackAlign) - end));
  // Chosen: large enough for a file system to write efficiently.
  constexpr std::size_t kFlushed = std::size_t{4} << 20U;
  if (buffer_.size() >= kFlushed) flush();
}

// The next sample refers to the same record as the previous one.
void ShardWriter::repeat_record() {
  const auto repeat = [](auto& column) { column.push_back(column.back()); };
  repeat(index_.offset);
  repeat(index_.length);
  repeat(index_.kind);
  repeat(originals_.stored);
  repeat(originals_.hash);
  repeat(originals_.bytes);
  repeat(originals_.width);
  repeat(originals_.height);
  repeat(originals_.orientation);
}

void ShardWriter::add_fields(const PackedSample& packed) {
  std::size_t in_file = 0;
  for (std::size_t f = 0; f < index_.fields.size(); ++f) {
    data::PackIndex::InField& stored = index_.fields[f];
    const PackedSample::InField& field = packed.fields[f];
    if (!data::is_of_bytes(stored.field.kind)) {
      stored.values.insert(stored.values.end(), field.bytes.begin(), field.bytes.end());
      stored.ends.push_back(stored.values.size());
      continue;
    }
    data::StringTable& files = originals_.files[in_file++];
    if (packed.shares) {
      stored.lengths.push_back(stored.lengths.back());
      files.add(std::string(files[files.size() - 1]));
    } else {
      stored.lengths.push_back(field.is_absent ? data::PackIndex::InField::kAbsent
                                               : static_cast<std::uint32_t>(field.bytes.size()));
      files.add(field.file);
    }
  }
}

std::uint16_t ShardWriter::kind_number(const data::RecordTable::Kind& kind) {
  const auto [place, is_new] = kind_numbers_.try_emplace(kind, static_cast<std::uint16_t>(index_.kinds.size()));
  if (is_new) require_few_kinds(index_.kinds.size() + 1);
  if (is_new) index_.kinds.push_back(kind);
  return place->second;
}

void ShardWriter::put(std::span<const std::byte> bytes) { buffer_.insert(buffer_.end(), bytes.begin(), bytes.end()); }

void ShardWriter::flush() {
  file_.append(buffer_);
  buffer_.clear();
}

data::PackPart ShardWriter::add_part(std::span<const std::byte> bytes, std::uint64_t raw_bytes) {
  data::PackPart part{.offset = file_.size(), .bytes = bytes.size(), .raw_bytes = raw_bytes, .crc = crc32c(bytes)};
  file_.append(bytes);
  file_.fill_to(data::rounded_up(file_.size(), data::kPackBlock));
  return part;
}

// kPackSlack bytes follow the last record, too.
void ShardWriter::finish() {
  flush();
  file_.fill_to(data::rounded_up(file_.size() + data::kPackSlack, data::kPackBlock));
  std::uint64_t raw_bytes = 0;
  const std::vector<std::byte> index = data::pack_index_bytes(index_, raw_bytes);
  header_.index = add_part(index, raw_bytes);
  const std::vector<std::byte> originals = data::pack_originals_bytes(originals_, raw_bytes);
  header_.originals = add_part(originals, raw_bytes);
  header_.samples = index_.offset.size();
  header_.file_bytes = file_.size();
  file_.overwrite(data::pack_header_block(header_));
  file_.finish();
}

}  // namespace forebay::archive
