#pragma once

#include <string>

#include "schema.hpp"

namespace forebay::config {

// The shortest text that reads back to the same double, always with a point, an exponent, or inf/nan: a TOML float.
[[nodiscard]] std::string to_text(double value);

// A key's value as TOML: 16, "256MiB", [0.08, 1.0].
[[nodiscard]] std::string value_text(const Key& key, const Options& options);

}  // namespace forebay::config
