#pragma once

#include <future>
#include <vector>

#include "support.hpp"

namespace forebay::testing {

// check(item) for all items beside each other: for checks that mostly wait for processes that they started. Under a
// sanitizer one after the other, because such processes need the cores. What one of them throws is thrown when all have
// ended.
template <typename Items, typename Check>
void at_once(const Items& items, const Check& check) {
  std::vector<std::future<void>> checks;
  for (const auto& item : items) {
    checks.push_back(std::async(kSanitized ? std::launch::deferred : std::launch::async, [&] { check(item); }));
  }
  for (std::future<void>& one : checks) one.get();
}

}  // namespace forebay::testing
