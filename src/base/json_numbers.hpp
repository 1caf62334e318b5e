#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include <forebay/error.hpp>

namespace forebay {

// The member `key` of an nlohmann JSON object as a non-negative integer. Throws Error if it is negative, fractional or
// out of range, which the library itself would silently convert, and the library's exception if there is no such
// member.
template <std::integral Number, typename Json>
[[nodiscard]] Number whole_number(const Json& object, const char* key) {
  const auto& value = object.at(key);
  if (value.is_number_unsigned()) {
    const auto number = value.template get<std::uint64_t>();
    if (std::in_range<Number>(number)) return static_cast<Number>(number);
  }
  throw Error("\"" + std::string(key) + "\" is no whole number from 0 to " +
              std::to_string(std::numeric_limits<Number>::max()));
}

}  // namespace forebay
