#pragma once

#include <future>
#include <initializer_list>
#include <vector>

#include "workplace.hpp"

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

// What a command is tried with: on so many ranks, in this way.
template <typename Way>
struct Try {
  int ranks;
  Way way;
};

// Every number of ranks with every way.
template <typename Way>
std::vector<Try<Way>> all_tries(std::initializer_list<Way> ways) {
  std::vector<Try<Way>> tries;
  for (const int ranks : rank_counts()) {
    for (const Way& way : ways) tries.push_back({ranks, way});
  }
  return tries;
}

}  // namespace forebay::testing
