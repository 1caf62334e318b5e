// A map of ranks over time as a PNG with a palette, embedded in the page as a data URI. Thousands
// of ranks thus cost only kilobytes, and the browser scales the image.

#include "sections.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include <spdlog/fmt/fmt.h>

#include "base/text.hpp"
#include "html.hpp"
#include "plot.hpp"

namespace forebay::report {
namespace {

using Rgb = std::array<float, 3>;

// The first entry of the palette means "not known"; it differs visibly from the others on light and
// dark pages.
constexpr Rgb kUnknown{136, 136, 136};
constexpr std::size_t kShades = 64;

// Stops of Matplotlib's "viridis" (CC0): its lightness rises evenly, so it is readable in grey and
// for the colour-blind.
constexpr std::array<Rgb, 9> kStops{{{68, 1, 84},
                                     {71, 45, 123},
                                     {59, 82, 139},
                                     {44, 114, 142},
                                     {33, 145, 140},
                                     {40, 174, 128},
                                     {94, 201, 98},
                                     {173, 220, 48},
                                     {253, 231, 37}}};

std::vector<Rgb> palette() {
  std::vector<Rgb> colours{kUnknown};
  for (std::size_t shade = 0; shade < kShades; ++shade) {
    const double at = static_cast<double>(shade) * (kStops.size() - 1) / (kShades - 1);
    const std::size_t stop = std::min(static_cast<std::size_t>(at), kStops.size() - 2);
    const auto share = static_cast<float>(at - static_cast<double>(stop));
    Rgb colour{};
    for (std::size_t c = 0; c < colour.size(); ++c) colour[c] = std::lerp(kStops[stop][c], kStops[stop + 1][c], share);
    colours.push_back(colour);
  }
  return colours;
}

// 0 means "not known"; 1 to kShades are the scale.
std::uint8_t shade_of(const std::optional<double>& value, double most) {
  if (!value) return 0;
  const double share = most > 0 ? std::clamp(*value / most, 0.0, 1.0) : 0;
  return static_cast<std::uint8_t>(1 + std::lround(share * (kShades - 1)));
}

// The cells of the map, row by row from the top, and the range of their values.
struct Places {
  std::vector<std::uint8_t> shades;
  std::size_t rows = 0;
  std::size_t ranks_of_row = 1;
  double least = INFINITY;
  double most = 0;
};

// If there are more ranks than rows, neighbouring ranks share a row: their bins are added, so
// shares are means.
Places places_of(const RunData& run, const HeatMap& map, std::size_t most_rows) {
  Places places;
  const std::size_t columns = run.job.size();
  places.ranks_of_row = (run.ranks.size() + most_rows - 1) / most_rows;
  for (std::size_t first = 0; first < run.ranks.size(); first += places.ranks_of_row) {
    const std::size_t end = std::min(first + places.ranks_of_row, run.ranks.size());
    for (std::size_t column = 0; column < columns; ++column) {
      Bin bin;
      for (std::size_t rank = first; rank < end; ++rank) {
        const std::vector<Bin>& bins = run.ranks[rank].bins.bins();
        if (column < bins.size()) bin.add(bins[column]);
      }
      const std::optional<double> value = map.value(bin);
      places.shades.push_back(shade_of(value, map.most));
      if (value) places.least = std::min(places.least, *value);
      if (value) places.most = std::max(places.most, *value);
    }
    ++places.rows;
  }
  return places;
}

}  // namespace

// The alternative text gives the range of values, since screen readers cannot read pixels.
std::string heat_map_figure(const RunData& run, const HeatMap& map, std::size_t most_rows) {
  const Places places = places_of(run, map, most_rows);
  const std::vector<std::byte> png = encode_palette_png(static_cast<int>(run.job.size()), places.shades, palette());
  const std::string bytes(reinterpret_cast<const char*>(png.data()), png.size());
  const std::string rows = places.ranks_of_row == 1
                               ? "a row for each rank, rank " + std::to_string(run.ranks.front().rank) + " at the top"
                               : "a row for every " + std::to_string(places.ranks_of_row) + " ranks";
  const std::string shown = places.most >= places.least
                                ? fmt::format("from {:.3g} to {:.3g} on a scale from 0 ({}) to {:.3g} ({})",
                                              places.least, places.most, map.least_label, map.most, map.most_label)
                                : "nothing is known";
  // Pixels. A few ranks get rows thick enough to see, and a hundred ranks still fit on a screen.
  constexpr std::size_t kRow = 18;
  constexpr std::size_t kHighest = 480;
  const std::size_t height = std::min(places.rows * kRow, kHighest);
  const std::string image = "<img class='heat' style='height:" + std::to_string(height) + "px' alt='" +
                            html::text(map.title + ": " + rows + ", time from left to right; " + shown) +
                            "' src='data:image/png;base64," + base64(bytes) + "'/>\n";
  const std::string scale = "<p class='scale' aria-hidden='true'><span>" + html::text(map.least_label) +
                            "</span><span class='bar'></span><span>" + html::text(map.most_label) +
                            "</span><span class='none'></span><span>no steps</span></p>\n";
  std::vector<std::string> left{"rank " + std::to_string(run.ranks.front().rank)};
  if (run.ranks.size() > 1) left.push_back("rank " + std::to_string(run.ranks.back().rank));
  return figure(4, map.title, {}, image, {.left = left, .below = time_labels(run.end_s)}) + scale;
}

std::string scale_css() {
  std::string css = "linear-gradient(90deg";
  for (const Rgb& stop : kStops) css += fmt::format(",rgb({:.0f} {:.0f} {:.0f})", stop[0], stop[1], stop[2]);
  return css + ")";
}

}  // namespace forebay::report
