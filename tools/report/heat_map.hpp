#pragma once

#include <functional>
#include <optional>
#include <string>

#include "run_data.hpp"

namespace forebay::report {

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
