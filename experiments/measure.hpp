#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <map>
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

// This process's memory as Linux counts it, in MB (10^6 bytes).
struct ProcessMemory {
  double peak = 0;     // most that was resident at once
  double own = 0;      // anonymous: nobody else's
  double mapped = 0;   // pages of files, shared with the page cache and everybody who maps them
  double shared = 0;   // shared memory
  double portion = 0;  // own, and of what is shared an equal part
};

inline ProcessMemory process_memory() {
  std::map<std::string, double> found;
  for (const char* file : {"/proc/self/status", "/proc/self/smaps_rollup"}) {
    std::ifstream in(file);
    std::string key;
    double kib = 0;
    std::string line;
    while (std::getline(in, line)) {
      const auto colon = line.find(':');
      if (colon == std::string::npos || !line.ends_with(" kB")) continue;
      key = line.substr(0, colon);
      kib = std::stod(line.substr(colon + 1));
      found.emplace(key, kib * 1024 / 1e6);
    }
  }
  return {.peak = found["VmHWM"],
          .own = found["RssAnon"],
          .mapped = found["RssFile"],
          .shared = found["RssShmem"],
          .portion = found["Pss"]};
}

}  // namespace forebay::bench
