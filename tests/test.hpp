#pragma once

// Included by every test and precompiled: doctest, the standard library, and helpers that need no
// other part of Forebay.
#include <doctest/doctest.h>
#include <sys/resource.h>

#include "support.hpp"

// CAPTURE() of two to four things at once.
#define FOREBAY_CAPTURED(a) #a " := ", a
#define FOREBAY_CAPTURED_2(a, b) FOREBAY_CAPTURED(a), "; ", FOREBAY_CAPTURED(b)
#define FOREBAY_CAPTURED_3(a, b, c) FOREBAY_CAPTURED_2(a, b), "; ", FOREBAY_CAPTURED(c)
#define FOREBAY_CAPTURED_4(a, b, c, d) FOREBAY_CAPTURED_3(a, b, c), "; ", FOREBAY_CAPTURED(d)
#define FOREBAY_CAPTURED_OF(a, b, c, d, which, ...) which
#define CAPTURES(...) \
  INFO(FOREBAY_CAPTURED_OF(__VA_ARGS__, FOREBAY_CAPTURED_4, FOREBAY_CAPTURED_3, FOREBAY_CAPTURED_2, 0)(__VA_ARGS__))

namespace forebay::testing {

struct Anything {
  template <typename T>
  operator T() const;  // never called
};

// How many members an aggregate has: the largest number of initialisers that it accepts.
template <typename Aggregate, typename... Members>
constexpr std::size_t members() {
  if constexpr (requires { Aggregate{Members{}..., Anything{}}; }) {
    return members<Aggregate, Members..., Anything>();
  } else {
    return sizeof...(Members);
  }
}

// The folder of real datasets: $FOREBAY_DATA, or ../shared/data next to the source tree. Nothing,
// with a message, if there is none.
inline std::optional<std::filesystem::path> real_data() {
  std::filesystem::path path = source_dir().parent_path() / "shared" / "data";
  if (const char* given = std::getenv("FOREBAY_DATA")) path = given;
  if (std::filesystem::is_directory(path)) return path;
  MESSAGE("skipped: no real data (FOREBAY_DATA)");
  return std::nullopt;
}

// A random generator; prints its seed.
inline Random random_from(std::uint64_t seed) {
  MESSAGE("seed " << seed);
  return Random(seed);
}

// While it exists, the process can open no more files.
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
