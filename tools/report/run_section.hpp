#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "plot.hpp"
#include "run_data.hpp"

namespace forebay::report {

// What the page says of one run, from its finding to its configuration.
[[nodiscard]] std::string run_section(const RunData& run, std::size_t most_heat_rows);

// How many rows a heat map may have so that the page stays small.
[[nodiscard]] std::size_t most_heat_rows(const std::vector<RunData>& runs) noexcept;

// The sentence on what limits a run, as far as that is known. Text.
[[nodiscard]] std::string finding_of(const RunData& run);

// Curves of a run's bins, over its own time.
[[nodiscard]] Curve fresh_curve(const std::vector<Bin>& bins);
[[nodiscard]] Curve depth_curve(const std::vector<Bin>& bins, double capacity);
[[nodiscard]] Curve stall_curve(const std::vector<Bin>& bins, double most);

}  // namespace forebay::report
