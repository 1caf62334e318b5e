#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "run_data.hpp"

namespace forebay::report {

// The beginning of every report, by which one is recognised.
inline constexpr std::string_view kReportMark = "<!doctype html>\n<!-- forebay report -->\n";

// One HTML file about one or several runs: without scripts or external resources, for light and
// dark screens, keyboards and screen readers. `made`: when and by what, for people. REQUIRES: at
// least one run; runs have names.
[[nodiscard]] std::string report_page(const std::vector<RunData>& runs, const std::string& made);

}  // namespace forebay::report
