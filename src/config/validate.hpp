#pragma once

#include <optional>
#include <string>

#include <forebay/options.hpp>

namespace forebay::config {

struct Problem {
  std::string key;      // full name of the key to change
  std::string message;  // names the key itself
};

// The first value, or combination of values, that cannot be honoured; nothing when all is well.
[[nodiscard]] std::optional<Problem> find_problem(const Options& options);

}  // namespace forebay::config
