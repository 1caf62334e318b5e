#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <forebay/dataset.hpp>

#include "data/pack_shard.hpp"
#include "pack_plan.hpp"
#include "part_file.hpp"
#include "sample_packer.hpp"

namespace forebay::archive {

// Writes one shard, sample by sample. Used by one thread. Throws Error naming the file.
class ShardWriter {
 public:
  // The first sample to be added is number plan.firsts[number] of the dataset.
  ShardWriter(const Dataset& dataset, const PackSettings& settings, const PackPlan& plan, std::uint32_t number,
              std::span<const std::byte> tables);

  // Adds the next sample. `key`: its name in the dataset. Returns why it was left out, "" if it was
  // not; samples that share an image have the same reason. The reference is valid until the next
  // call.
  const std::string& add(const Sample& sample, std::string_view key, const PackedSample& packed);
  // Once this returns, the shard is complete under its own name.
  void finish();

 private:
  void add_record(const PackedSample& packed);
  void repeat_record();
  void add_fields(const PackedSample& packed);
  [[nodiscard]] std::uint16_t kind_number(const data::RecordTable::Kind& kind);
  void put(std::span<const std::byte> bytes);
  void flush();
  [[nodiscard]] data::PackPart add_part(std::span<const std::byte> bytes, std::uint64_t raw_bytes);

  PartFile file_;
  std::vector<std::byte> buffer_;  // not yet written to the file
  data::PackHeader header_;
  data::PackIndex index_;
  data::PackOriginals originals_;
  std::map<data::RecordTable::Kind, std::uint16_t> kind_numbers_;
  std::string problem_;  // why the last image was left out
};

}  // namespace forebay::archive
