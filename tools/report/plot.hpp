#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace forebay::report {

// A PNG file with a palette (red, green, blue, 0 to 255): the same bytes for the same indices. `indices`: rows of
// `width`, from the top, each below palette.size(). Throws Error if the library refuses.
[[nodiscard]] std::vector<std::byte> encode_palette_png(int width, std::span<const std::uint8_t> indices,
                                                        std::span<const std::array<float, 3>> palette);

// Values of a chart's columns as shares of its height, 0 to 1; nothing where there is none.
using Curve = std::vector<std::optional<double>>;

// A chart in SVG that fills whatever place it is given: it has no text, which the page puts beside it in HTML, so that
// labels stay readable on a narrow screen. Colours and strokes are classes of the style sheet (page.cpp).
class Plot {
 public:
  explicit Plot(std::size_t columns) : columns_(columns) {}

  // Filled from the bottom, a step for each column.
  void area(const Curve& curve, const std::string& style);
  // Joins the middles of columns; interrupted where there is no value.
  void line(const Curve& curve, const std::string& style);
  // What a pointer over a column says; text. REQUIRES: one for each column.
  void hover(const std::vector<std::string>& texts);

  // `name` and `description` are for those who do not see it; text.
  [[nodiscard]] std::string svg(const std::string& name, const std::string& description) const;

 private:
  std::size_t columns_;
  std::string shapes_;
};

// Around a chart: labels on the left from the top down, on the right likewise if there are any, and below.
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
