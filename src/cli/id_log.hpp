#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>

#include <forebay/lease.hpp>

namespace forebay {

// XXH3-64 of a batch: the bytes of its images, then those of its labels.
[[nodiscard]] std::uint64_t batch_hash(const Lease& batch);

// What was served, for comparing runs: DIR/ids.RANK.jsonl with a line per step: step, epoch, use_index, batch, ids
// (dataset sample numbers) and hash (hexadecimal).
class IdLog {
 public:
  // Creates the folder. `goes_on`: an earlier run, whose log is added to. Throws ConfigError naming the file.
  IdLog(const std::filesystem::path& dir, std::uint32_t rank, bool goes_on);

  // Throws Error when the disk does not take it: a log with holes would be worse than none.
  void write(const Lease& batch);

 private:
  std::filesystem::path file_;
  std::ofstream out_;
};

}  // namespace forebay
