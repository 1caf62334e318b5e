#pragma once

#include <string>
#include <vector>

#include "run_data.hpp"

namespace forebay::report {

// What several runs have in common and what not: their figures, the keys that differ, and their charts in one.
[[nodiscard]] std::string comparison_section(const std::vector<RunData>& runs);

}  // namespace forebay::report
