#pragma once

#include <cstddef>

namespace forebay::testing {

struct Anything {
  template <typename T>
  operator T() const;  // never called
};

// How many members an aggregate has: as many as it can be made of.
template <typename Aggregate, typename... Members>
constexpr std::size_t members() {
  if constexpr (requires { Aggregate{Members{}..., Anything{}}; }) {
    return members<Aggregate, Members..., Anything>();
  } else {
    return sizeof...(Members);
  }
}

}  // namespace forebay::testing
