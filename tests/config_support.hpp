#pragma once

#include <forebay/config.hpp>
#include <variant>

#include "config/schema.hpp"
#include "test.hpp"

// Shared by the tests of the configuration.
namespace forebay::testing {

inline Options parse(const std::string& toml, const std::vector<std::string>& overrides = {}) {
  return parse_options(toml, "feed.toml", overrides);
}

inline Options with(const std::vector<std::string>& overrides) { return parse("", overrides); }

// The message with which the text is refused; "" if it is accepted.
inline std::string refusal(const std::string& toml, const std::vector<std::string>& overrides = {}) {
  return testing::error_of<ConfigError>([&] { static_cast<void>(parse(toml, overrides)); });
}

inline std::string refusal_of(const std::string& override_text) { return refusal("", {override_text}); }

// Equal values; doubles are compared by their bits.
template <typename T>
bool same(const T& a, const T& b) {
  return a == b;
}
inline bool same(double a, double b) { return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b); }
template <std::size_t N>
bool same(const std::array<double, N>& a, const std::array<double, N>& b) {
  for (std::size_t i = 0; i < N; ++i) {
    if (!same(a[i], b[i])) return false;
  }
  return true;
}

inline void check_same(const Options& a, const Options& b) {
  for (const config::Key& key : config::keys()) {
    CAPTURE(config::full_name(key));
    CHECK(std::visit(config::Overloaded{[&](const config::Choice& choice) { return choice.get(a) == choice.get(b); },
                                        [&](const auto& kind) { return same(kind.field.get(a), kind.field.get(b)); }},
                     key.kind));
  }
}

}  // namespace forebay::testing
