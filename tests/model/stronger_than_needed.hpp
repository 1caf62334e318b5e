#pragma once

#include "support.hpp"

namespace forebay::model {
// A memory order other than relaxed that is named in one of the sources under the explorer.
struct NamedOrder {
  std::string file;
  unsigned line = 0;
  std::string name;
};

// All of them, read from the text of the sources, so that those that no scenario reaches are found
// too.
[[nodiscard]] std::vector<NamedOrder> orders_in_sources();

// A memory order weaker than the one in the sources that still satisfies every scenario.
struct Unneeded {
  std::string_view file;
  std::string_view code;  // part of the line
  std::memory_order weaker;
  std::string_view why;  // the sources nevertheless name a stronger one
};

// The entry for a line, or null.
[[nodiscard]] const Unneeded* unneeded(std::string_view file, unsigned line, std::memory_order weaker);
[[nodiscard]] std::size_t count_of_unneeded() noexcept;

}  // namespace forebay::model
