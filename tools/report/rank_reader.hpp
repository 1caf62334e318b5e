#pragma once

#include <cstdint>
#include <filesystem>

#include "run_data.hpp"

namespace forebay::report {

// The files of one rank; an empty path is one that is not there. Of steps and intervals there may be the earlier file
// only, or both.
struct RankFiles {
  std::uint32_t rank = 0;
  std::filesystem::path run;
  std::filesystem::path steps;
  std::filesystem::path intervals;
};

enum class RecordKind : std::uint8_t { steps, intervals };

// Reads what one rank wrote; at most `budget` bytes of the files of `kind`, the earlier one first. Throws Error naming
// file and line.
[[nodiscard]] RankData read_rank(const RankFiles& files, RecordKind kind, std::uint64_t budget);

}  // namespace forebay::report
