#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <forebay/dataset.hpp>
#include <forebay/field.hpp>

#include "base/file_io.hpp"
#include "record_table.hpp"

// A shard of a packed dataset: a header, tables of the codec, samples, and two indexes, only the first of which a run
// needs. docs/packing.md describes the file; its numbers are little-endian.
namespace forebay::data {

struct Hash128 {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  friend bool operator==(const Hash128&, const Hash128&) = default;
};
// XXH3-128. Any thread.
[[nodiscard]] Hash128 hash128(std::span<const std::byte> bytes) noexcept;
[[nodiscard]] std::string hex(const Hash128& hash);

inline constexpr std::string_view kPackEnding = ".fbpack";
inline constexpr std::array<char, 8> kPackMagic{'\x93', 'F', 'B', 'P', 'A', 'C', 'K', '\n'};
inline constexpr std::uint32_t kPackVersion = 1;
inline constexpr std::uint64_t kPackBlock = 4096;  // the header's size; every part begins at a multiple
inline constexpr std::uint64_t kPackAlign = 16;    // every sample begins at a multiple of this
inline constexpr std::uint64_t kLargestPackIndex = std::uint64_t{2} << 30U;  // also before compression
inline constexpr std::uint64_t kLargestPackTables = std::uint64_t{64} << 20U;
inline constexpr std::uint64_t kPackSlack = 64;  // bytes after each sample in the file that may be read with it

[[nodiscard]] constexpr std::uint64_t rounded_up(std::uint64_t number, std::uint64_t to) noexcept {
  return (number + to - 1) / to * to;
}
// "00003-of-00012.fbpack".
[[nodiscard]] std::string pack_shard_name(std::uint32_t number, std::uint32_t count);

// A part of the file other than samples. Indexes are compressed (zlib); `raw_bytes` is their size before.
struct PackPart {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t raw_bytes = 0;
  std::uint32_t crc = 0;  // CRC-32C of the bytes in the file
  std::uint32_t unused = 0;

  [[nodiscard]] std::uint64_t end() const noexcept { return offset + bytes; }
};

// The first bytes of the file; the rest of their block is zero.
struct PackHeader {
  std::array<char, 8> magic = kPackMagic;
  std::uint32_t version = kPackVersion;
  std::uint32_t crc = 0;  // CRC-32C of the block, with zeros here
  Hash128 set;            // the same in all shards of a set
  std::uint32_t number = 0;
  std::uint32_t count = 0;       // shards of the set
  std::uint64_t first = 0;       // number of its first sample in the original dataset
  std::uint64_t samples = 0;     // in this shard
  std::uint64_t file_bytes = 0;  // size of the shard
  PackPart tables;               // the codec's tables; empty if nothing is packed with them
  PackPart index;
  PackPart originals;
};
static_assert(sizeof(PackHeader) == 160 && std::is_trivially_copyable_v<PackHeader>);

// How an image is stored.
enum class PackStored : std::uint8_t {
  as_is,         // its own bytes
  coefficients,  // a re-encoded JPEG file, from which the original bytes can be restored
  pixels,        // decoded, perhaps resized: the original bytes are lost
};

// The index that a run needs. The part about the set is the same in all of its shards.
struct PackIndex {
  struct InField {
    Field field;
    // One of the two, by sample: where its values end, for fields whose elements are in the index; or the number of its
    // bytes, which follow the image and the preceding fields, or kAbsent if the sample lacks the field.
    std::vector<std::byte> values;
    std::vector<std::uint64_t> ends;
    std::vector<std::uint32_t> lengths;

    static constexpr std::uint32_t kAbsent = UINT32_MAX;
    [[nodiscard]] std::uint32_t length(std::size_t sample) const {
      return lengths[sample] == kAbsent ? 0 : lengths[sample];
    }
  };

  // Of the set.
  std::string format;                        // the original dataset's
  SampleUnit samples = SampleUnit::objects;  // the value of dataset.samples
  bool has_regions = false;                  // samples are cropped objects
  bool has_difficult = true;                 // packed with dataset.difficult = true
  std::vector<std::string> classes;
  IndexCounts counts;

  // Of the shard.
  std::vector<RecordTable::Kind> kinds;
  std::vector<Skipped> left_out;  // paths as names
  // By sample.
  std::vector<std::uint64_t> offset;  // offset of its image in the file
  std::vector<std::uint32_t> length;
  std::vector<std::uint16_t> kind;
  std::vector<std::int32_t> label;
  std::vector<std::int32_t> sides;   // left, top, right, bottom of each region
  std::vector<std::uint32_t> flags;  // of each region
  StringTable keys;                  // names in the original dataset, as given by SampleNames
  std::vector<InField> fields;

  // The bytes of a sample's fields in the file. The image and the fields are followed by their masked CRC-32C.
  [[nodiscard]] std::uint64_t field_bytes(std::size_t sample) const;
};

// A description of the original files.
struct PackOriginals {
  // By sample.
  std::vector<PackStored> stored;
  std::vector<Hash128> hash;         // of the original image bytes, or of the pixels
  std::vector<std::uint64_t> bytes;  // and their number
  std::vector<std::uint32_t> width;  // as displayed; 0: unknown
  std::vector<std::uint32_t> height;
  std::vector<std::uint8_t> orientation;  // of a JPEG file, 1 to 8; 0: unknown
  // For each field stored in the file: the path of each sample's file relative to the original's folder; "" for other
  // fields.
  std::vector<StringTable> files;
};

// What identifies a shard's set and its position in it.
struct PackMember {
  PackHeader header;
  // The last bytes of its tables, PackTables::key(), a hash of the preceding ones; 0 if it has none. The CRC-32C in the
  // header cannot distinguish tables: for bytes that end with their own CRC-32C it is always the same.
  std::uint32_t tables_key = 0;
};

// An open shard whose header has been checked.
struct PackShard {
  OpenFile file;
  PackHeader header;
  std::uint32_t tables_key = 0;

  [[nodiscard]] PackMember member() const noexcept { return {.header = header, .tables_key = tables_key}; }
};

// All below throw SampleError, without the file's name, for a file that cannot be read or is damaged: "byte 4096: ...".
[[nodiscard]] PackShard open_pack_shard(const std::string& path);
[[nodiscard]] std::vector<std::byte> read_pack_tables(const PackShard& shard);
// All of its numbers have been checked against each other and the file's size.
[[nodiscard]] PackIndex read_pack_index(const PackShard& shard);
[[nodiscard]] PackOriginals read_pack_originals(const PackShard& shard, const PackIndex& index);

// The parts as compressed bytes; `raw_bytes` receives the uncompressed size. Throws Error if it is too large.
[[nodiscard]] std::vector<std::byte> pack_index_bytes(const PackIndex& index, std::uint64_t& raw_bytes);
[[nodiscard]] std::vector<std::byte> pack_originals_bytes(const PackOriginals& originals, std::uint64_t& raw_bytes);
// The block that contains the header.
[[nodiscard]] std::vector<std::byte> pack_header_block(PackHeader header);

// "" if these are all shards of one set, in order; otherwise what is wrong: which one is missing or belongs to another
// set.
[[nodiscard]] std::string problem_of_pack(std::span<const PackMember> shards, std::span<const std::string> names);

// Sorts names of shards by their numbers, which have five or more digits.
void sort_pack_names(std::vector<std::string>& names);

}  // namespace forebay::data
