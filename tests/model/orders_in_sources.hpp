#pragma once

#include <string>
#include <vector>

namespace forebay::model {

// A memory order other than relaxed that one of the sources under the explorer names.
struct NamedOrder {
  std::string file;
  unsigned line = 0;
  std::string name;
};

// All of them, read from the sources' text: what no scenario comes to is found.
[[nodiscard]] std::vector<NamedOrder> orders_in_sources();

}  // namespace forebay::model
