#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace forebay::report {

// Encodes a PNG file with a palette (red, green, blue, 0 to 255); the same input gives the same
// bytes. `indices`: rows of `width` pixels from the top, each below palette.size(). Throws Error if
// libpng fails.
[[nodiscard]] std::vector<std::byte> encode_palette_png(int width, std::span<const std::uint8_t> indices,
                                                        std::span<const std::array<float, 3>> palette);

// The value of each column as a share of the chart's height, 0 to 1; nothing where it is not known.
using Curve = std::vector<std::optional<double>>;

// A chart in SVG that is stretched to the space it gets. It has no text; the page adds labels in
// HTML, so that they stay readable on a narrow screen. Colours and strokes are classes of the style
// sheet (page.cpp).
class Plot {
 public:
  explicit Plot(std::size_t columns) : columns_(columns) {}

  // Filled from the bottom; each column is flat.
  void area(const Curve& curve, const std::string& style);
  // Connects the middles of columns; interrupted where there is no value.
  void line(const Curve& curve, const std::string& style);
  // Tooltips of the columns, as text. REQUIRES: one for each column.
  void hover(const std::vector<std::string>& texts);

  // `name` and `description`, both text, are for screen readers.
  [[nodiscard]] std::string svg(const std::string& name, const std::string& description) const;

 private:
  std::size_t columns_;
  std::string shapes_;
};

// Labels around a chart: on the left and, if there are any, on the right from the top down, and
// below.
struct Axes {
  std::vector<std::string> left;
  std::vector<std::string> right = {};
  std::vector<std::string> below;
};
// A name in the legend and the style of its mark.
struct LegendEntry {
  std::string style;
  std::string name;
};

// A figure of the page. `level`: of its heading. `chart`: an SVG or an image.
[[nodiscard]] std::string figure(int level, const std::string& title, const std::vector<LegendEntry>& legend,
                                 const std::string& chart, const Axes& axes);

// Five labels of a time axis that ends at `end_s`.
[[nodiscard]] std::vector<std::string> time_labels(double end_s);

}  // namespace forebay::report
