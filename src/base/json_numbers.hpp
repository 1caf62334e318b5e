#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include <forebay/error.hpp>

namespace forebay {

// The member `key` of an object of nlohmann's JSON as a number from 0 up. The library itself would convert one that is
// negative, fractional or beyond the type's range to any other. Throws Error for such, and the library's exception
// where there is no such member.
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
