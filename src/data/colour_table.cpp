#include "colour_table.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace forebay::data {
namespace {

// A whole number from 0 to 255; nothing for any other text.
std::optional<std::uint8_t> small_number(std::string_view text) {
  const auto value = parse_number<unsigned>(without_blanks(text));
  if (!value || *value > ColourTable::kMostClass) return {};
  return static_cast<std::uint8_t>(*value);
}

std::optional<ColourTable::Colour> colour_in(std::string_view text) {
  ColourTable::Colour colour{};
  const std::vector<std::string_view> parts = split(text, ',');
  if (parts.size() != colour.size()) return {};
  for (std::size_t channel = 0; channel < colour.size(); ++channel) {
    const auto value = small_number(parts[channel]);
    if (!value) return {};
    colour[channel] = *value;
  }
  return colour;
}

std::string colour_text(const ColourTable::Colour& colour) {
  return std::to_string(colour[0]) + "," + std::to_string(colour[1]) + "," + std::to_string(colour[2]);
}

constexpr auto kColourOf = &std::pair<ColourTable::Colour, std::uint8_t>::first;

}  // namespace

// The class of an entry without "=CLASS" is its position, as in the palettes that datasets publish.
// Returns what is wrong, or "".
std::string ColourTable::add(std::size_t place, std::string_view entry) {
  const std::string shown = "\"" + printable(entry) + "\"";
  const std::size_t equals = entry.find('=');
  std::optional<std::uint8_t> number;
  if (equals != std::string_view::npos) {
    number = small_number(entry.substr(equals + 1));
    if (!number) return shown + ": a class is a whole number from 0 to " + std::to_string(kMostClass);
  } else if (place <= kMostClass) {
    number = static_cast<std::uint8_t>(place);
  }
  const std::string_view what = without_blanks(entry.substr(0, equals));
  if (what == "other") {
    if (equals == std::string_view::npos) return shown + ": say which class it is, \"other=255\"";
    if (other_) return shown + ": \"other\" is there twice";
    other_ = number;
    return {};
  }
  const auto colour = colour_in(what);
  if (!colour) return shown + R"( is none of "R,G,B", "R,G,B=CLASS" and "other=CLASS", with numbers from 0 to 255)";
  if (!number) return shown + ": its place in the list is no class below 256; say \"" + std::string(what) + "=CLASS\"";
  classes_.emplace_back(*colour, *number);
  return {};
}

// Sorted once, because every pixel of a mask is looked up.
std::string ColourTable::sort() {
  std::ranges::sort(classes_);
  const auto twice = std::ranges::adjacent_find(classes_, {}, kColourOf);
  return twice == classes_.end() ? "" : "the colour \"" + colour_text(twice->first) + "\" is there twice";
}

std::string ColourTable::problem_of(std::span<const std::string> entries) {
  ColourTable table({});
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (std::string problem = table.add(i, entries[i]); !problem.empty()) return problem;
  }
  return table.sort();
}

// The entries were checked by problem_of() when the options were read.
ColourTable::ColourTable(std::span<const std::string> entries) {
  for (std::size_t i = 0; i < entries.size(); ++i) (void)add(i, entries[i]);
  (void)sort();
}

std::optional<std::uint8_t> ColourTable::class_of(const Colour& colour) const noexcept {
  const auto found = std::ranges::lower_bound(classes_, colour, {}, kColourOf);
  return found != classes_.end() && found->first == colour ? found->second : other_;
}

}  // namespace forebay::data
