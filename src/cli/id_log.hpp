#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>

#include <forebay/lease.hpp>

namespace forebay {

// XXH3-64 of a batch: the bytes of its images, then those of its labels.
[[nodiscard]] std::uint64_t batch_hash(const Lease& batch);

// What was served, for comparing runs: DIR/ids.RANK.jsonl has a line per step with step, epoch, use_index, batch, ids
// (dataset sample numbers) and hash (hexadecimal).
class IdLog {
 public:
  // Creates the folder. `resumes`: appends to the log of an earlier run. Throws ConfigError naming the file.
  IdLog(const std::filesystem::path& dir, std::uint32_t rank, bool resumes);

  // Throws Error if the disk refuses: a log with holes would be worse than none.
  void write(const Lease& batch);

 private:
  std::filesystem::path file_;
  std::ofstream out_;
};

}  // namespace forebay
