#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <forebay/dataset.hpp>

#include "data/pack_shard.hpp"
#include "pack/jpeg_packer.hpp"
#include "pack/pack_tables.hpp"
#include "pack_check.hpp"
#include "sample_bytes.hpp"

namespace forebay::archive {

// An open shard: everything except its records.
struct ReadShard {
  std::string name;  // of its file
  data::PackShard shard;
  std::optional<pack::PackTables> tables;
  data::PackIndex index;
  data::PackOriginals originals;
  StorePatience patience = {};  // with the store

  // Whether the sample shares its record with the sample before it.
  [[nodiscard]] bool shares(std::size_t sample) const noexcept {
    return sample > 0 && index.offset[sample] == index.offset[sample - 1];
  }
};
// All functions below throw Error, naming the file, if the store keeps failing, which says nothing
// about the set.

// Reads the header only. Throws SampleError, without the file's name.
[[nodiscard]] data::PackShard open_shard_back(const std::filesystem::path& folder, const std::string& name);
// Throws SampleError, without the file's name.
[[nodiscard]] ReadShard read_shard_back(const std::filesystem::path& folder, const std::string& name);

// The bytes of a sample's image and fields, checked.
struct ReadRecord {
  std::vector<std::byte> bytes;  // of the record in the file
  std::vector<std::byte> image;  // the original's, or pixels
  // One per field that is stored in records; they refer to `bytes`.
  std::vector<std::span<const std::byte>> fields;
};

// Reads records of a shard. Used by one thread.
class RecordReader {
 public:
  // `shard` must outlive it.
  explicit RecordReader(const ReadShard& shard) : shard_(shard) {}

  // Throws SampleError("byte N: ...") if the record is damaged or does not give back what was
  // packed.
  [[nodiscard]] ReadRecord read(std::size_t sample);

 private:
  [[nodiscard]] std::vector<std::byte> original(std::span<const std::byte> image, std::size_t sample);

  const ReadShard& shard_;
  std::optional<pack::JpegPacker> packer_;
};

// Throws ConfigError if a set has more kinds of images than a run can tell apart.
void require_few_kinds(std::size_t kinds);

// Adds the shard's counts to the tally.
void add_to_tally(const ReadShard& shard, PackTally& tally);

// The names of the shards in a folder, sorted. Throws ConfigError if there are none.
[[nodiscard]] std::vector<std::string> shards_in(const std::filesystem::path& folder);

}  // namespace forebay::archive
