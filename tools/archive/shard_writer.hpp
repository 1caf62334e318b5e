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

// Writes one shard, sample by sample. One thread. Throws Error naming the file.
class ShardWriter {
 public:
  // The first sample that comes has the number plan.firsts[number] in the dataset.
  ShardWriter(const Dataset& dataset, const PackSettings& settings, const PackPlan& plan, std::uint32_t number,
              std::span<const std::byte> tables);

  // Samples come in order. `key`: its name in the dataset. Returns why it was left out, the same for all that share an
  // image; "" if it was not. Valid until the next call.
  const std::string& add(const Sample& sample, std::string_view key, const PackedSample& packed);
  // Once this returns, the shard is there.
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
  std::vector<std::byte> buffer_;  // of what comes next in the file
  data::PackHeader header_;
  data::PackIndex index_;
  data::PackOriginals originals_;
  std::map<data::RecordTable::Kind, std::uint16_t> kind_numbers_;
  std::string problem_;  // of the last image
};

}  // namespace forebay::archive
