#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

namespace forebay::bench {

// REQUIRES: values is not empty. The value below which `share` of the values lie.
inline double percentile(std::vector<double> values, double share) {
  const auto at = static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + at, values.end());
  return values[static_cast<std::size_t>(at)];
}

// One figure from several rounds: its median and its range.
struct Figure {
  std::vector<double> rounds;

  [[nodiscard]] double median() const { return percentile(rounds, 0.5); }
  [[nodiscard]] std::string text(int decimals = 1) const {
    char line[96];
    std::snprintf(line, sizeof(line), "%8.*f  [%.*f .. %.*f]", decimals, median(), decimals,
                  *std::ranges::min_element(rounds), decimals, *std::ranges::max_element(rounds));
    return line;
  }
};

}  // namespace forebay::bench
