#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace forebay::data {

// Which class each colour of a mask stands for (fields.NAME.colours). Immutable: any thread may call.
class ColourTable {
 public:
  using Colour = std::array<std::uint8_t, 3>;  // red, green, blue
  // Classes are the values of an 8-bit mask.
  static constexpr int kMostClass = 255;

  // What is wrong with the entries; "" if nothing.
  [[nodiscard]] static std::string problem_of(std::span<const std::string> entries);

  // Entries are "R,G,B", whose class is the position in the list, or "R,G,B=CLASS", and optionally "other=CLASS".
  // REQUIRES: problem_of(entries).empty().
  explicit ColourTable(std::span<const std::string> entries);

  // Nothing for a colour that is not in the table, unless the table has an entry "other".
  [[nodiscard]] std::optional<std::uint8_t> class_of(const Colour& colour) const noexcept;

 private:
  // Returns what is wrong.
  std::string add(std::size_t place, std::string_view entry);
  std::string sort();

  std::vector<std::pair<Colour, std::uint8_t>> classes_;  // sorted by colour
  std::optional<std::uint8_t> other_;
};

}  // namespace forebay::data
