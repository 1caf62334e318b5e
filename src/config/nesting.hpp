#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace forebay::config {

// Where a text is nested deeper than any configuration, both counted from 1.
struct DeepPlace {
  std::size_t line = 1;
  std::size_t column = 1;
};

// Keys have two parts and lists hold values. The parser makes a table of each part of a key, and frees it, and prints
// it, by a function that calls itself: deep nesting must not reach it. Takes text that is no TOML, too.
inline constexpr int kMostParts = 16;     // of a dotted key
inline constexpr int kMostBrackets = 16;  // in each other

// The first place with more of either; nothing when there is none.
[[nodiscard]] std::optional<DeepPlace> find_deep_nesting(std::string_view toml) noexcept;

}  // namespace forebay::config
