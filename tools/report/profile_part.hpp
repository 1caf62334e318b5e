#pragma once

#include <string>

#include "run_data.hpp"

namespace forebay::report {

// The stages and queues of a run, and all figures of its summary; "" where it has neither yet.
[[nodiscard]] std::string profile_part(const RunData& run);

}  // namespace forebay::report
