// The bytes of a shard of a packed dataset, and every check on them; docs/packing.md describes the
// format. Used by the packer (tools/archive), by dataset_pack.cpp, which builds an index from
// shards, and by `forebay unpack`.
//
// Reading checks from the outside in: the header block and its CRC, that each part lies within the
// file, the CRC of a part before it is inflated, and then every number in it against the others.
// What passes can be used without further checks. Errors name the damaged byte; the caller adds the
// file's name.

#include "pack_shard.hpp"

#include <zlib.h>
#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <new>

#include <forebay/error.hpp>

#include "base/crc32c.hpp"
#include "base/limits.hpp"
#include "base/text.hpp"
#include "container_bytes.hpp"
#include "file_nature.hpp"
#include "pack_coder.hpp"
#include "record_checksum.hpp"
#include "store/files.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace forebay::data {
namespace {

// Limits for entries that take much more memory than bytes in the index. A shard has fewer samples
// than kMostLeftOut.
constexpr std::uint32_t kMostLeftOut = std::uint32_t{1} << 23U;
constexpr std::uint32_t kMostFields = 4096;

// Throws Error if the part exceeds the readers' limit: the writer must not make a shard that nobody
// can open.
std::vector<std::byte> require_readable(std::vector<std::byte> bytes, std::uint64_t raw_bytes) {
  if (std::max<std::uint64_t>(bytes.size(), raw_bytes) <= kLargestPackIndex) return bytes;
  throw Error("the index of a shard would have " + std::to_string(raw_bytes) + " bytes, more than the " +
              std::to_string(kLargestPackIndex) + " that it may have; pack with a smaller --shard-size");
}

// Too many extents make push_back() throw Error; check_pack_field() refuses extents that make no
// sense.
template <typename Coder, typename Field>
void code_field(Coder& coder, Field& field) {
  auto extents = static_cast<std::uint32_t>(field.shape.size());
  coder(field.name, field.kind, field.dtype, extents);
  for (std::uint32_t i = 0; i < extents; ++i) {
    if constexpr (!std::is_const_v<Field>) field.shape.push_back(0);
    coder(field.shape[i]);
  }
  coder(field.classes, field.min_visible);
  for (std::size_t i = 0; i < 3; ++i) coder(field.mean[i], field.std[i]);
}

// One function writes and reads, so that the two orders cannot differ. `checked` is not stored:
// every record of a pack has a checksum.
template <typename Coder, typename Index>
void code_index(Coder& coder, Index& index) {
  constexpr bool kReads = !std::is_const_v<Index>;
  coder(index.format, index.samples, index.has_regions, index.classes);
  coder(index.counts.images, index.counts.annotations, index.counts.objects);
  auto kinds = static_cast<std::uint32_t>(index.kinds.size());
  auto left_out = static_cast<std::uint32_t>(index.left_out.size());
  auto fields = static_cast<std::uint32_t>(index.fields.size());
  coder(kinds, left_out, fields);
  // One at a time, because a damaged count must not decide how much is allocated.
  if constexpr (kReads) {
    const bool has_few = kinds <= RecordTable::kMostKinds && left_out <= kMostLeftOut;
    if (!has_few) throw SampleError("its index is damaged: it has more kinds or samples than there can be");
    if (fields > kMostFields) throw SampleError("its index is damaged: it has more fields than there can be");
  }
  for (std::uint32_t i = 0; i < kinds; ++i) {
    if constexpr (kReads) index.kinds.emplace_back();
    auto& kind = index.kinds[i];
    coder(kind.encoding, kind.width, kind.height, kind.channels, kind.planar, kind.bgr);
    if constexpr (kReads) kind.checked = true;
  }
  for (std::uint32_t i = 0; i < left_out; ++i) {
    if constexpr (kReads) index.left_out.emplace_back();
    coder(index.left_out[i].path, index.left_out[i].reason);
  }
  coder(index.offset, index.length, index.kind, index.label, index.sides, index.flags, index.keys);
  for (std::uint32_t i = 0; i < fields; ++i) {
    if constexpr (kReads) index.fields.emplace_back();
    auto& stored = index.fields[i];
    code_field(coder, stored.field);
    coder(stored.values, stored.ends, stored.lengths);
  }
  // Only where they say something, at the end, so that other packs are what they always were.
  const auto has_colours = [](const auto& stored) { return !stored.field.colours.empty(); };
  if constexpr (kReads) {
    if (coder.is_at_end()) return;
  } else {
    if (index.has_difficult && std::ranges::none_of(index.fields, has_colours)) return;
  }
  for (auto& stored : index.fields) coder(stored.field.colours);
  coder(index.has_difficult);
}

template <typename Coder, typename Originals>
void code_originals(Coder& coder, Originals& originals) {
  coder(originals.stored, originals.hash, originals.bytes, originals.width, originals.height, originals.orientation);
  auto files = static_cast<std::uint32_t>(originals.files.size());
  coder(files);
  if constexpr (!std::is_const_v<Originals>) {
    if (files > kMostFields) throw SampleError("its index is damaged: it has more fields than there can be");
  }
  for (std::uint32_t i = 0; i < files; ++i) {
    if constexpr (!std::is_const_v<Originals>) originals.files.emplace_back();
    coder(originals.files[i]);
  }
}

// Level 6, zlib's default: an index is written once, and higher levels gain little on columns of
// numbers.
std::vector<std::byte> deflated(const std::vector<std::byte>& bytes) {
  constexpr int kLevel = 6;
  uLongf size = ::compressBound(bytes.size());
  std::vector<std::byte> compressed(size);
  const int result = ::compress2(reinterpret_cast<Bytef*>(compressed.data()), &size,
                                 reinterpret_cast<const Bytef*>(bytes.data()), bytes.size(), kLevel);
  if (result != Z_OK) throw std::bad_alloc();
  compressed.resize(size);
  return compressed;
}

std::vector<std::byte> read_part(const PackShard& shard, const PackPart& part) {
  std::vector<std::byte> bytes(part.bytes);
  read_at(shard.file, part.offset, bytes);
  if (crc32c(bytes) == part.crc) return bytes;
  throw at_byte(part.offset, "the " + std::to_string(part.bytes) +
                                 " bytes there are damaged: they do not match the CRC-32C in the header");
}

// The header says how large the result is; check_part has bounded it, and any other size is damage.
std::vector<std::byte> inflated(const PackShard& shard, const PackPart& part) {
  const std::vector<std::byte> compressed = read_part(shard, part);
  std::vector<std::byte> bytes(part.raw_bytes);
  uLongf size = bytes.size();
  const int result = ::uncompress(reinterpret_cast<Bytef*>(bytes.data()), &size,
                                  reinterpret_cast<const Bytef*>(compressed.data()), compressed.size());
  if (result == Z_MEM_ERROR) throw std::bad_alloc();
  if (result != Z_OK || size != bytes.size()) throw at_byte(part.offset, "its index cannot be decompressed");
  return bytes;
}

// Inflates a part and decodes it with `decode`. Errors get the part's offset in the file, unless
// they already name a byte.
template <typename Decode>
void decode_part(const PackShard& shard, const PackPart& part, Decode&& decode) {
  try {
    const std::vector<std::byte> bytes = inflated(shard, part);
    PackReader reader(bytes);
    decode(reader);
    reader.expect_end();
  } catch (const std::bad_alloc&) {
    throw out_of_memory("for the " + std::to_string(part.raw_bytes) + " bytes of a shard's index");
  } catch (const SampleError& error) {
    if (error.is_transient() || std::string_view(error.what()).starts_with("byte ")) throw;
    throw at_byte(part.offset, error.what());
  } catch (const Error& error) {  // for a value that no field may have
    throw at_byte(part.offset, error.what());
  }
}

// Throws SampleError unless `holds`.
void require(bool holds, std::string_view problem) {
  if (!holds) throw SampleError("its index is damaged: " + std::string(problem));
}

void check_pack_kind(const RecordTable::Kind& kind) {
  require(kind.encoding <= Encoding::raw, "a kind of image is unknown");
  require(kind.width >= 0 && kind.height >= 0, "images have an impossible size");
  if (kind.encoding != Encoding::raw) return;
  const auto most = static_cast<std::int64_t>(kLargestSampleFile);
  require(kind.width > 0 && kind.height > 0 && (kind.channels == 1 || kind.channels == 3) &&
              kind.width <= most / kind.height / kind.channels,
          "images have an impossible shape");
}

void check_pack_field(const PackIndex::InField& stored, std::size_t samples) {
  const Field& field = stored.field;
  require(field.kind <= FieldKind::bytes && field.dtype <= DType::float64, "a field is of an unknown kind");
  require(std::ranges::all_of(field.shape, [](std::int64_t extent) { return extent > 0; }),
          "a field has an impossible shape");
  const bool has_values = stored.ends.size() == samples && stored.lengths.empty();
  const bool has_bytes = stored.lengths.size() == samples && stored.ends.empty() && stored.values.empty();
  require(has_values || has_bytes, "a field has not a value for each sample");
  if (has_bytes) return;
  require(std::ranges::is_sorted(stored.ends) && (samples == 0 || stored.ends.back() == stored.values.size()),
          "the values of a field are out of order");
}

// Samples must not overlap, except that a sample may have the same record as the one before:
// objects of one image share a record.
void check_place(const PackIndex& index, std::size_t i) {
  if (i == 0) return;
  const std::uint64_t end = index.offset[i - 1] + index.length[i - 1] + index.field_bytes(i - 1) + kRecordSum;
  if (index.offset[i] >= end) return;
  const bool is_same = index.offset[i] == index.offset[i - 1] && index.length[i] == index.length[i - 1] &&
                       index.kind[i] == index.kind[i - 1] &&
                       std::ranges::all_of(index.fields, [i](const PackIndex::InField& field) {
                         return field.lengths.empty() || field.lengths[i] == field.lengths[i - 1];
                       });
  require(is_same, "samples overlap");
}

// kPackSlack bytes of the file follow every sample, so that a decoder that reads a little beyond a
// sample's end stays within the file.
void check_sample(const PackIndex& index, const PackHeader& header, std::size_t i) {
  require(index.kind[i] < index.kinds.size(), "a sample is of an unknown kind");
  require(index.label[i] >= -1 && index.label[i] < static_cast<std::int64_t>(index.classes.size()),
          "a sample has a class that is not listed");
  const std::uint64_t fields = index.field_bytes(i);
  const std::uint64_t bytes = index.length[i] + fields;
  require(index.length[i] > 0 && index.length[i] <= kLargestSampleFile && fields <= kLargestSampleFile,
          "a sample has an impossible size");
  const std::uint64_t first = std::max(kPackBlock, header.tables.end());
  require(index.offset[i] >= first && index.offset[i] % kPackAlign == 0 && index.offset[i] <= header.index.offset &&
              bytes + kRecordSum + kPackSlack <= header.index.offset - index.offset[i],
          "a sample lies outside of where samples are");
  check_place(index, i);
  if (!index.has_regions) return;
  const auto side = [&](std::size_t number) { return index.sides[4 * i + number]; };
  require(side(0) >= 0 && side(1) >= 0 && side(0) < side(2) && side(1) < side(3), "a region has no area");
  require(index.flags[i] <= (RecordTable::kDifficult | RecordTable::kTruncated), "a region has unknown flags");
}

// The sizes of columns are checked first, because the checks of each sample index all of them.
void check_index(const PackIndex& index, const PackHeader& header) {
  const auto samples = static_cast<std::size_t>(header.samples);
  require(index.samples <= SampleUnit::images, "it has samples of an unknown kind");
  require(index.kinds.size() <= RecordTable::kMostKinds, "it has more kinds of images than there can be");
  const std::size_t regions = index.has_regions ? samples : 0;
  require(index.offset.size() == samples && index.length.size() == samples && index.kind.size() == samples &&
              index.label.size() == samples && index.keys.size() == samples && index.sides.size() == 4 * regions &&
              index.flags.size() == regions,
          "a column has not a row for each sample");
  for (const RecordTable::Kind& kind : index.kinds) check_pack_kind(kind);
  for (const PackIndex::InField& stored : index.fields) check_pack_field(stored, samples);
  for (std::size_t i = 0; i < samples; ++i) check_sample(index, header, i);
}

// Limits the memory that a damaged header can demand: a sparse file may have any size at no cost,
// and few compressed bytes may claim to inflate to many.
void check_part(const PackPart& part, const PackHeader& header) {
  // zlib's documentation gives 1032:1 as the limit of deflate's compression; this leaves some room.
  constexpr std::uint64_t kMostByZlib = 1100;
  const bool is_of_tables = &part == &header.tables;
  if (std::max(part.bytes, part.raw_bytes) > (is_of_tables ? kLargestPackTables : kLargestPackIndex)) {
    throw at_byte(0, "its header is damaged: a part is larger than any can be");
  }
  const bool is_within = part.offset >= kPackBlock && part.offset % kPackBlock == 0 &&
                         part.offset <= header.file_bytes && part.bytes <= header.file_bytes - part.offset;
  if (is_within && part.raw_bytes <= part.bytes * kMostByZlib) return;
  throw at_byte(0, "its header is damaged: a part lies outside of the file");
}

}  // namespace

Hash128 hash128(std::span<const std::byte> bytes) noexcept {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {.low = hash.low64, .high = hash.high64};
}

std::string hex(const Hash128& hash) { return forebay::hex(hash.high, 16) + forebay::hex(hash.low, 16); }

std::string pack_shard_name(std::uint32_t number, std::uint32_t count) {
  const auto digits = [](std::uint32_t value) {
    constexpr std::size_t kDigits = 5;
    std::string text = std::to_string(value);
    return text.insert(0, text.size() < kDigits ? kDigits - text.size() : 0, '0');
  };
  return digits(number) + "-of-" + digits(count) + std::string(kPackEnding);
}

std::uint64_t PackIndex::field_bytes(std::size_t sample) const {
  std::uint64_t bytes = 0;
  for (const InField& stored : fields) bytes += stored.lengths.empty() ? 0 : stored.length(sample);
  return bytes;
}

std::vector<std::byte> pack_index_bytes(const PackIndex& index, std::uint64_t& raw_bytes) {
  PackWriter writer;
  code_index(writer, index);
  raw_bytes = writer.bytes().size();
  return require_readable(deflated(writer.bytes()), raw_bytes);
}

std::vector<std::byte> pack_originals_bytes(const PackOriginals& originals, std::uint64_t& raw_bytes) {
  PackWriter writer;
  code_originals(writer, originals);
  raw_bytes = writer.bytes().size();
  return require_readable(deflated(writer.bytes()), raw_bytes);
}

// The CRC covers the whole block, with zeros in its own place.
std::vector<std::byte> pack_header_block(PackHeader header) {
  std::vector<std::byte> block(kPackBlock);
  header.crc = 0;
  std::memcpy(block.data(), &header, sizeof header);
  header.crc = crc32c(block);
  std::memcpy(block.data(), &header, sizeof header);
  return block;
}

// Compares the whole block with the one that its header would produce, which also finds bytes after
// the header that are not zero.
PackShard open_pack_shard(const std::string& path) {
  PackShard shard{.file = store::open_regular(path), .header = {}};
  if (const std::string nature = nature_of_file(shard.file); !nature.empty()) {
    throw SampleError("the file is " + nature);
  }
  PackHeader& header = shard.header;
  std::array<std::byte, kPackBlock> block{};
  if (shard.file.size < block.size()) {
    throw at_byte(shard.file.size, "it ends within the header of a shard, which has 4096 bytes");
  }
  read_at(shard.file, 0, block);
  std::memcpy(&header, block.data(), sizeof header);
  if (header.magic != kPackMagic) throw at_byte(0, "it does not begin as a shard of a packed dataset");
  if (header.version != kPackVersion) {
    throw at_byte(8, "it has version " + std::to_string(header.version) + " of the format; this program reads " +
                         std::to_string(kPackVersion));
  }
  const std::vector<std::byte> expected = pack_header_block(header);
  if (!std::ranges::equal(expected, block)) throw at_byte(0, "its header is damaged: its CRC-32C is wrong");
  if (header.file_bytes != shard.file.size) {
    throw at_byte(shard.file.size, "it ends here, but should have " + std::to_string(header.file_bytes) + " bytes");
  }
  for (const PackPart* part : {&header.tables, &header.index, &header.originals}) check_part(*part, header);
  const bool is_numbered = header.number < header.count;
  const bool are_countable = header.samples <= header.index.raw_bytes && header.first <= UINT64_MAX - header.samples;
  if (!is_numbered || !are_countable) {
    throw at_byte(0, "its header is damaged: its numbers are impossible");
  }
  if (header.tables.bytes >= sizeof shard.tables_key) {
    read_at(shard.file, header.tables.end() - sizeof shard.tables_key,
            std::as_writable_bytes(std::span(&shard.tables_key, 1)));
  }
  return shard;
}

std::vector<std::byte> read_pack_tables(const PackShard& shard) { return read_part(shard, shard.header.tables); }

PackIndex read_pack_index(const PackShard& shard) {
  PackIndex index;
  decode_part(shard, shard.header.index, [&](PackReader& reader) { code_index(reader, index); });
  try {
    check_index(index, shard.header);
  } catch (const SampleError& error) {
    throw at_byte(shard.header.index.offset, error.what());
  }
  return index;
}

PackOriginals read_pack_originals(const PackShard& shard, const PackIndex& index) {
  PackOriginals originals;
  decode_part(shard, shard.header.originals, [&](PackReader& reader) {
    code_originals(reader, originals);
    const std::size_t samples = index.offset.size();
    const auto in_file = std::ranges::count_if(index.fields, [](const auto& field) { return field.ends.empty(); });
    require(originals.stored.size() == samples && originals.hash.size() == samples &&
                originals.bytes.size() == samples && originals.width.size() == samples &&
                originals.height.size() == samples && originals.orientation.size() == samples &&
                (samples == 0 || originals.files.size() == static_cast<std::size_t>(in_file)),
            "a column has not a row for each sample");
    for (const PackStored stored : originals.stored) require(stored <= PackStored::pixels, "a sample is of no kind");
    for (const StringTable& names : originals.files) require(names.size() == samples, "a file's name is missing");
    for (std::size_t i = 1; i < samples; ++i) {
      if (index.offset[i] != index.offset[i - 1]) continue;
      require(originals.hash[i] == originals.hash[i - 1] && originals.stored[i] == originals.stored[i - 1],
              "a sample has the record of the one before, and another original");
    }
  });
  return originals;
}

// Reports the most helpful problem first: a shard of another set explains a missing one, but not
// the other way round.
std::string problem_of_pack(std::span<const PackMember> shards, std::span<const std::string> names) {
  const PackMember& first = shards.front();
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const PackHeader& header = shards[i].header;
    if (header.set != first.header.set || header.count != first.header.count) {
      return names[i] + " belongs to another packed set than " + names[0];
    }
    if (header.tables.bytes != first.header.tables.bytes || shards[i].tables_key != first.tables_key) {
      return names[i] + " was packed with other tables than " + names[0] +
             "; pack the dataset again into this folder, which rewrites the shards that do not match";
    }
    if (names[i] != pack_shard_name(header.number, header.count)) {
      return names[i] + " is shard " + pack_shard_name(header.number, header.count) + ", renamed";
    }
    if (header.number != i) break;
    const bool follows = i == 0 || header.first >= shards[i - 1].header.first + shards[i - 1].header.samples;
    if (!follows) return names[i] + " has samples that " + names[i - 1] + " has, too";
  }
  for (std::uint32_t i = 0; i < first.header.count; ++i) {
    if (i < shards.size() && shards[i].header.number == i) continue;
    return "shard " + pack_shard_name(i, first.header.count) +
           " is missing; pack the dataset again into this folder, which adds what is missing, or copy it here";
  }
  return {};
}

// Compares by length first, because numbers above 99999 have six digits.
void sort_pack_names(std::vector<std::string>& names) {
  std::ranges::sort(names, {}, [](const std::string& name) { return std::pair(name.size(), std::string_view(name)); });
}

}  // namespace forebay::data
