#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "once_job.hpp"

namespace forebay::testing {

// Compares what was recorded of a rank's steps, read as docs/telemetry.md describes it, with what it saw, and fills
// `seen.is_logged` and `is_padding` of its steps. Returns what is wrong.
[[nodiscard]] std::vector<std::string> check_logs(const std::filesystem::path& folder, std::uint32_t rank,
                                                  std::uint64_t first_step, Seen& seen);

}  // namespace forebay::testing
