#pragma once

#include <string>

#include <forebay/options.hpp>

#include <toml++/toml.h>

#include "schema.hpp"

namespace forebay::config {

// Puts a TOML value into the options; false, changing nothing, when it is not of that kind. Ranges are not checked
// here: find_problem() does that for every source of options alike.
[[nodiscard]] bool assign(const Kind& kind, const toml::node& node, Options& options);

// What stands in the file where something else was expected: `"four" (string)`.
[[nodiscard]] std::string description(const toml::node& node);

}  // namespace forebay::config
