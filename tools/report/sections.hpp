#pragma once

#include <cstddef>
#include <functional>
#include <optional>
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

// The stages and queues of a run, and all figures of its summary; "" where it has neither yet.
[[nodiscard]] std::string profile_part(const RunData& run);

// What several runs have in common and what not: their figures, the keys that differ, and their charts in one.
[[nodiscard]] std::string comparison_section(const std::vector<RunData>& runs);

// A figure of every rank over time: a row for each rank, or for several side by side where there are many, a column for
// each stretch of time. An image of the page, a byte for each place.
struct HeatMap {
  std::string title;
  // The figure of a place where there is one.
  std::function<std::optional<double>(const Bin&)> value;
  double most = 1;  // the value at the bright end of the scale; 0 is at the dark end
  std::string least_label;
  std::string most_label;
};

// `most_rows`: where a run has more ranks, each row has several, added up.
[[nodiscard]] std::string heat_map_figure(const RunData& run, const HeatMap& map, std::size_t most_rows);

// How the page's style sheet paints the scale: a gradient from the left to the right.
[[nodiscard]] std::string scale_css();

}  // namespace forebay::report
