#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace forebay::config {

// A place, both counted from 1.
struct DeepPlace {
  std::size_t line = 1;
  std::size_t column = 1;
};

// In a configuration keys have two parts and lists contain values. The parser makes a table of each part of a key, and
// parsing, freeing and printing recurse: deep nesting must not reach it.
inline constexpr int kMostParts = 16;     // of a dotted key
inline constexpr int kMostBrackets = 16;  // nested in each other

// The first place with more of either, if there is one. Accepts text that is not TOML, too.
[[nodiscard]] std::optional<DeepPlace> find_deep_nesting(std::string_view toml) noexcept;

}  // namespace forebay::config
