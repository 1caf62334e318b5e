// Charts as SVG, without scripts: areas and lines over columns of time. The browser stretches them
// to the page's width (preserveAspectRatio none), which would distort text, so labels are HTML
// outside of the SVG.

#include "plot.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include <png.h>

#include <forebay/error.hpp>

#include "html.hpp"

namespace forebay::report {

// libpng's simplified API: a first call without memory returns an upper bound of the size.
std::vector<std::byte> encode_palette_png(int width, std::span<const std::uint8_t> indices,
                                          std::span<const std::array<float, 3>> palette) {
  std::vector<std::uint8_t> entries;
  for (const auto& colour : palette) {
    for (const float channel : colour) entries.push_back(static_cast<std::uint8_t>(std::lround(channel)));
  }
  png_image picture{};
  picture.version = PNG_IMAGE_VERSION;
  picture.width = static_cast<png_uint_32>(width);
  picture.height = static_cast<png_uint_32>(indices.size() / static_cast<std::size_t>(width));
  picture.format = PNG_FORMAT_RGB_COLORMAP;
  picture.colormap_entries = static_cast<png_uint_32>(palette.size());
  const auto write = [&](void* memory, png_alloc_size_t& size) {
    if (png_image_write_to_memory(&picture, memory, &size, 0, indices.data(), 0, entries.data()) != 0) return;
    throw Error("cannot encode a PNG of " + std::to_string(picture.width) + " x " + std::to_string(picture.height) +
                " pixels: " + static_cast<const char*>(picture.message));
  };
  png_alloc_size_t size = 0;
  write(nullptr, size);
  std::vector<std::byte> file(size);
  write(file.data(), size);
  file.resize(size);
  return file;
}

namespace {

constexpr int kColumn = 10;    // width of a column, in units of the view box
constexpr int kHeight = 1000;  // height of the chart, in the same units

int height_of(double share) { return kHeight - static_cast<int>(std::lround(std::clamp(share, 0.0, 1.0) * kHeight)); }
std::string x_of(std::size_t column) { return std::to_string(column * kColumn); }

}  // namespace

// A step curve: columns of equal height become one horizontal line, so that long runs need few
// bytes.
void Plot::area(const Curve& curve, const std::string& style) {
  std::string path = "M0 " + std::to_string(kHeight);
  int last = kHeight;
  for (std::size_t i = 0; i < curve.size(); ++i) {
    const int y = height_of(curve[i].value_or(0));
    if (y != last) path += "H" + x_of(i) + "V" + std::to_string(y);
    last = y;
  }
  path += "H" + x_of(curve.size()) + "V" + std::to_string(kHeight) + "Z";
  shapes_ += "<path class='" + style + "' d='" + path + "'/>\n";
}

// The line is interrupted where values are missing.
void Plot::line(const Curve& curve, const std::string& style) {
  std::string path;
  bool is_open = false;
  for (std::size_t i = 0; i < curve.size(); ++i) {
    const bool has_value = curve[i].has_value();
    if (has_value) {
      const std::string y = std::to_string(height_of(*curve[i]));
      // A single point would be invisible, so each piece starts with a line of half a column.
      path += is_open ? "L" + std::to_string(i * kColumn + kColumn / 2) + " " + y
                      : "M" + x_of(i) + " " + y + "h" + std::to_string(kColumn / 2);
    }
    is_open = has_value;
  }
  if (!path.empty()) shapes_ += "<path class='" + style + "' d='" + path + "'/>\n";
}

// Transparent rectangles whose titles browsers show.
void Plot::hover(const std::vector<std::string>& texts) {
  shapes_ += "<g class='hover'>";
  for (std::size_t i = 0; i < texts.size(); ++i) {
    shapes_ += "<rect x='" + x_of(i) + "' width='" + std::to_string(kColumn) + "' height='" + std::to_string(kHeight) +
               "'><title>" + html::text(texts[i]) + "</title></rect>\n";
  }
  shapes_ += "</g>";
}

std::string Plot::svg(const std::string& name, const std::string& description) const {
  std::string grid;
  for (const int quarter : {250, 500, 750}) {
    grid += "M0 " + std::to_string(quarter) + "H" + x_of(columns_);
  }
  return "<svg role='img' aria-label='" + html::text(name + ": " + description) + "' viewBox='0 0 " + x_of(columns_) +
         " " + std::to_string(kHeight) + "' preserveAspectRatio='none'>\n" + "<path class='grid' d='" + grid + "'/>\n" +
         shapes_ + "</svg>\n";
}

std::string figure(int level, const std::string& title, const std::vector<LegendEntry>& legend,
                   const std::string& chart, const Axes& axes) {
  const std::string tag = "h" + std::to_string(level);
  std::string out = "<figure><figcaption><" + tag + ">" + html::text(title) + "</" + tag + ">";
  if (!legend.empty()) out += "<ul class='legend'>";
  for (const auto& [style, name] : legend)
    out += "<li><span class='mark " + style + "'></span>" + html::text(name) + "</li>";
  if (!legend.empty()) out += "</ul>";
  const auto labels = [&](const std::string& side, const std::vector<std::string>& texts) {
    out += "<div class='" + side + "' aria-hidden='true'>";
    for (const std::string& text : texts) out += "<span>" + html::text(text) + "</span>";
    out += "</div>\n";
  };
  out += "</figcaption>\n<div class='plot'>";
  labels("left", axes.left);
  out += "<div class='chart'>" + chart + "</div>\n";
  labels("right", axes.right);
  labels("below", axes.below);
  return out + "</div></figure>\n";
}

std::vector<std::string> time_labels(double end_s) {
  std::vector<std::string> labels;
  for (const double share : {0.0, 0.25, 0.5, 0.75, 1.0}) labels.push_back(html::duration(share * end_s, end_s));
  return labels;
}

}  // namespace forebay::report
