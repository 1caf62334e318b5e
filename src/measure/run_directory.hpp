#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace forebay {

// "DIR/KIND.RANK.jsonl".
[[nodiscard]] std::filesystem::path rank_file(const std::string& dir, std::string_view kind, std::uint32_t rank);

// Creates `dir` (telemetry.dir). No effect when dir is "". Throws ConfigError naming telemetry.dir.
void make_run_directory(const std::string& dir);

// Removes what an earlier run left in `dir`: this rank's files, and on rank 0 those of ranks that this job does not
// have, so that "steps.*.jsonl" is always one run. To be called before anything else is put there, by a run that begins
// and not by one that resumes.
void clear_run_directory(const std::string& dir, std::uint32_t rank, std::uint32_t ranks);

}  // namespace forebay
