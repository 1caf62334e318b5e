#pragma once

#include <span>
#include <string>
#include <string_view>

#include <forebay/summary.hpp>

namespace forebay {

// A run's summary for people: several lines, with a row per rank when there are several.
[[nodiscard]] std::string summary_table(std::string_view policy, const Summary& job, std::span<const Summary> ranks);

}  // namespace forebay
