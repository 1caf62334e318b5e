#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "plot.hpp"
#include "run_data.hpp"

namespace forebay::report {

// The section about one run, from its finding to its configuration.
[[nodiscard]] std::string run_section(const RunData& run, std::size_t most_heat_rows);

// The most rows that a heat map may have, so that the page stays small.
[[nodiscard]] std::size_t most_heat_rows(const std::vector<RunData>& runs) noexcept;

// A sentence on what limits the run, as far as it is known. Text, not HTML.
[[nodiscard]] std::string finding_of(const RunData& run);

// A figure of a bin; nothing if it is not known.
using BinFigure = std::optional<double> (*)(const Bin&);
[[nodiscard]] std::optional<double> known_fresh(const Bin& bin);
[[nodiscard]] std::optional<double> known_stall(const Bin& bin);
[[nodiscard]] std::optional<double> known_depth(const Bin& bin);
// The figure over time, on an axis that ends at `most`.
[[nodiscard]] Curve curve_of(const std::vector<Bin>& bins, BinFigure figure, double most = 1);

// The stages and queues of a run, and all figures of its summary; "" if it has neither profile nor
// summary.
[[nodiscard]] std::string profile_part(const RunData& run);

// Compares several runs: their figures, the keys that differ, and shared charts.
[[nodiscard]] std::string comparison_section(const std::vector<RunData>& runs);

// A figure of every rank over time: a row for each rank, or for several neighbouring ranks if there
// are many, and a column for each time bin. It becomes an image with one byte per cell.
struct HeatMap {
  std::string title;
  BinFigure value;  // of a cell
  double most = 1;  // the value at the bright end of the scale; 0 is at the dark end
  std::string least_label;
  std::string most_label;
};

// `most_rows`: if a run has more ranks, each row combines several.
[[nodiscard]] std::string heat_map_figure(const RunData& run, const HeatMap& map, std::size_t most_rows);

// CSS of the colour scale: a gradient from left to right.
[[nodiscard]] std::string scale_css();

}  // namespace forebay::report
