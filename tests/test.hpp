#pragma once

// What every test includes, precompiled: doctest, the standard library and the helpers that need no part of Forebay.
#include <doctest/doctest.h>
#include <sys/resource.h>

#include "support.hpp"

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

// While it lives, the process can open no more files.
class NoMoreFiles {
 public:
  NoMoreFiles() {
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &before_) == 0);
    const rlimit none{.rlim_cur = 0, .rlim_max = before_.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  }
  ~NoMoreFiles() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  NoMoreFiles(const NoMoreFiles&) = delete;
  NoMoreFiles& operator=(const NoMoreFiles&) = delete;

 private:
  rlimit before_{};
};

}  // namespace forebay::testing
