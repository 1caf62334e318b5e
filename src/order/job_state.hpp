#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ledger.hpp"

namespace forebay::order {

// The position of a job between two steps: everything needed to resume as if it had never stopped.
// docs/state.md describes the text form.
struct JobState {
  std::uint64_t steps = 0;          // made by each rank since the run began
  std::uint64_t epochs = 0;         // completed by the job
  std::uint64_t opened = 0;         // epochs `epochs` ... opened-1 are in `left`; later ones have not begun
  std::uint64_t fresh_samples = 0;  // served fresh by the job since the run began
  std::uint32_t ranks = 1;          // in the job
  std::uint64_t batches = 0;        // per epoch
  std::uint32_t virtual_shards = 0;
  bool contiguous = false;    // how batches are assigned (Partition)
  std::uint64_t samples = 0;  // of the dataset
  std::string dataset;        // fingerprint, 16 hexadecimal digits
  std::string policy;         // informational: the job may resume with another policy
  // The settings that determine the batches, as TOML, by full name of the key. A job resumes only
  // with equal settings.
  std::map<std::string, std::string> settings;
  // What is left of the opened epochs, ascending by epoch, shard and begin, without overlap. The
  // first block of a shard here is its next undelivered batch.
  std::vector<BatchRange> left;

  friend bool operator==(const JobState&, const JobState&) = default;
};

// The state as text with its checksum: one line of JSON, newline included. With 1,024 virtual
// shards it is shorter than 64 KiB. Equal states have equal texts. Throws Error if parse_state()
// would refuse the state. Any thread may call either function.
[[nodiscard]] std::string to_text(const JobState& state);
// Throws ConfigError, naming `source` and what is wrong: not a state, cut off, changed since it was
// written (checksum), of another version, or impossible (a range outside its shard, ranges that
// overlap or are out of order, an owner that is not a rank).
[[nodiscard]] JobState parse_state(std::string_view text, std::string_view source);

}  // namespace forebay::order
