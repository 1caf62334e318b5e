#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "run_data.hpp"

namespace forebay::report {

// What a report begins with, by which one is known.
inline constexpr std::string_view kReportMark = "<!doctype html>\n<!-- forebay report -->\n";

// One HTML file about one run or several: without a script and without anything to be loaded, for light and dark
// screens, keyboards and screen readers. `made`: when, for people. REQUIRES: at least one run, with names.
[[nodiscard]] std::string report_page(const std::vector<RunData>& runs, const std::string& made);

}  // namespace forebay::report
