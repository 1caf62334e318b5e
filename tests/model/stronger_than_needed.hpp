#pragma once

#include "support.hpp"

namespace forebay::model {
// A memory order other than relaxed that one of the sources under the explorer names.
struct NamedOrder {
  std::string file;
  unsigned line = 0;
  std::string name;
};

// All of them, read from the sources' text: what no scenario comes to is found.
[[nodiscard]] std::vector<NamedOrder> orders_in_sources();

// A memory order that is weaker than the one in the sources, and breaks nothing that the scenarios ask for.
struct Unneeded {
  std::string_view file;
  std::string_view code;  // what stands in the line
  std::memory_order weaker;
  std::string_view why;  // the sources name a stronger one all the same
};

// The entry of a line, or null.
[[nodiscard]] const Unneeded* unneeded(std::string_view file, unsigned line, std::memory_order weaker);
[[nodiscard]] std::size_t count_of_unneeded() noexcept;

}  // namespace forebay::model
