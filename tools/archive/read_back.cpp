#include "read_back.hpp"

#include <algorithm>
#include <system_error>

#include <forebay/error.hpp>

#include "data/container_bytes.hpp"
#include "data/record_checksum.hpp"
#include "data/record_table.hpp"

namespace forebay::archive {
namespace {

namespace fs = std::filesystem;

// Reads header, tables, index and originals; RecordReader reads the records one by one.
ReadShard read_whole_shard(const fs::path& folder, const std::string& name) {
  ReadShard shard{.name = name,
                  .shard = data::open_pack_shard((folder / name).string()),
                  .tables = std::nullopt,
                  .index = {},
                  .originals = {}};
  if (const std::vector<std::byte> tables = data::read_pack_tables(shard.shard); !tables.empty()) {
    try {
      shard.tables = pack::PackTables::from_bytes(tables);
    } catch (const Error& error) {
      throw data::at_byte(shard.shard.header.tables.offset, error.what());
    }
  }
  shard.index = data::read_pack_index(shard.shard);
  shard.originals = data::read_pack_originals(shard.shard, shard.index);
  return shard;
}

}  // namespace

data::PackShard open_shard_back(const fs::path& folder, const std::string& name) {
  const std::string path = (folder / name).string();
  return read_from_store({}, path, [&] { return data::open_pack_shard(path); });
}

ReadShard read_shard_back(const fs::path& folder, const std::string& name) {
  return read_from_store({}, (folder / name).string(), [&] { return read_whole_shard(folder, name); });
}

// A JPEG file stored as coefficients is restored byte for byte; anything else is returned as it is
// stored.
std::vector<std::byte> RecordReader::original(std::span<const std::byte> image, std::size_t sample) {
  if (shard_.originals.stored[sample] != data::PackStored::coefficients) return {image.begin(), image.end()};
  const std::uint64_t offset = shard_.index.offset[sample];
  if (!shard_.tables) throw data::at_byte(offset, "it is packed with tables that the file does not have");
  if (!packer_) packer_.emplace(*shard_.tables);
  try {
    return packer_->unpack(image);
  } catch (const SampleError& error) {
    throw data::at_byte(offset, error.what());
  }
}

// There are two checks: the record's CRC detects damage on disk, the hash of the original tells
// whether restoring gave back what was packed.
ReadRecord RecordReader::read(std::size_t sample) {
  const data::PackIndex& index = shard_.index;
  const std::uint64_t offset = index.offset[sample];
  const std::size_t length = index.length[sample];
  ReadRecord record;
  record.bytes.resize(length + index.field_bytes(sample) + data::kRecordSum);
  read_from_store(shard_.patience, data::record_name(shard_.name, sample, index.keys[sample]),
                  [&] { read_at(shard_.shard.file, offset, record.bytes); });
  const std::span<const std::byte> all(record.bytes);
  data::require_record_sum({}, all.first(length), all.subspan(length), offset);
  std::size_t at = length;
  for (const data::PackIndex::InField& stored : index.fields) {
    if (stored.lengths.empty()) continue;
    record.fields.push_back(all.subspan(at, stored.length(sample)));
    at += stored.length(sample);
  }
  record.image = original(all.first(length), sample);
  if (data::hash128(record.image) == shard_.originals.hash[sample]) return record;
  throw SampleError("byte " + std::to_string(offset) +
                    ": what the record gives back does not have the hash of what was packed");
}

void require_few_kinds(std::size_t kinds) {
  if (kinds <= data::RecordTable::kMostKinds) return;
  throw ConfigError("the raw images of the set have more than " + std::to_string(data::RecordTable::kMostKinds) +
                    " shapes, so that no run could open it; pack with a smaller --pixels, or without");
}

// A record that several samples share counts once.
void add_to_tally(const ReadShard& shard, PackTally& tally) {
  const data::PackIndex& index = shard.index;
  tally.samples += index.offset.size();
  tally.file_bytes += shard.shard.header.file_bytes;
  for (std::size_t i = 0; i < index.offset.size(); ++i) {
    if (shard.shares(i)) continue;
    tally.original_bytes += shard.originals.bytes[i] + index.field_bytes(i);
    switch (shard.originals.stored[i]) {
      case data::PackStored::as_is: ++tally.as_is; break;
      case data::PackStored::coefficients: ++tally.coefficients; break;
      case data::PackStored::pixels: ++tally.pixels; break;
    }
  }
}

std::vector<std::string> shards_in(const fs::path& folder) {
  std::error_code error;
  std::vector<std::string> names;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.ends_with(data::kPackEnding)) names.push_back(name);
  }
  if (error) throw ConfigError(folder.string() + ": " + error.message());
  if (names.empty()) throw ConfigError(folder.string() + ": there is no shard of a packed dataset (*.fbpack)");
  data::sort_pack_names(names);
  return names;
}

}  // namespace forebay::archive
