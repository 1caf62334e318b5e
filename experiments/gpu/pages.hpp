#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>

namespace forebay::gpu_check {

// On which NUMA nodes some pages of a piece of memory lie, as Linux tells.
struct PagePlaces {
  std::map<int, std::size_t> pages;  // looked at, by node
  std::string refusal;               // why Linux does not tell of some, or of all; empty: it does

  // Pages were looked at and all of them lie there.
  [[nodiscard]] bool all_on(int node) const { return pages.size() == 1 && pages.contains(node); }
  // "16 of 16 pages looked at lie on node 1".
  [[nodiscard]] std::string text() const;
};

// Of 16 pages spread over the memory, which must have been written to.
[[nodiscard]] PagePlaces places_of_pages(std::span<const std::byte> memory);

}  // namespace forebay::gpu_check
