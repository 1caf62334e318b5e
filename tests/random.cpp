#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <forebay/random.hpp>
#include <set>

using forebay::key64;
using forebay::mix64;
using forebay::Random;

TEST_CASE("Random is SplitMix64") {
  // The published test vector of the algorithm for seed 1234567.
  Random random(1234567);
  const std::array<std::uint64_t, 5> expected{6457827717110365317ULL, 3203168211198807973ULL, 9817491932198370423ULL,
                                              4593380528125082431ULL, 16408922859458223821ULL};
  for (const std::uint64_t value : expected) CHECK(random.bits() == value);
}

TEST_CASE("keys never change: runs of older versions must stay reproducible") {
  CHECK(mix64(0) == 0);
  CHECK(mix64(1) == 0x5692161d100b05e5ULL);
  CHECK(key64(17) == mix64(17 + 0x9e3779b97f4a7c15ULL));
  CHECK(key64(17, 0, 0) == 0xfae75def154a1156ULL);
  CHECK(key64(17, 1, 2, 3) == 0x2ce43b2eae9c7aadULL);
}

TEST_CASE("a key depends on every number and on their order") {
  std::set<std::uint64_t> keys;
  for (std::uint64_t a = 0; a < 20; ++a)
    for (std::uint64_t b = 0; b < 20; ++b)
      for (std::uint64_t c = 0; c < 20; ++c) keys.insert(key64(a, b, c));
  CHECK(keys.size() == 8000);
  CHECK(key64(1, 2) != key64(2, 1));
  CHECK(key64(1) != key64(1, 0));
}

TEST_CASE("uniform stays in its range with the right mean and variance") {
  Random random(99);
  constexpr int kDraws = 200'000;
  double sum = 0;
  double squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double x = random.uniform();
    REQUIRE(x >= 0.0);
    REQUIRE(x < 1.0);
    sum += x;
    squares += x * x;
  }
  const double mean = sum / kDraws;
  CHECK(std::abs(mean - 0.5) < 0.005);
  CHECK(std::abs(squares / kDraws - mean * mean - 1.0 / 12.0) < 0.002);
  for (int i = 0; i < 1000; ++i) {
    const double x = random.uniform(-3.0, 5.0);
    REQUIRE(x >= -3.0);
    REQUIRE(x < 5.0);
  }
}

TEST_CASE("below hits every value about equally often") {
  Random random(7);
  std::array<int, 10> counts{};
  for (int i = 0; i < 100'000; ++i) ++counts.at(random.below(10));
  for (const int count : counts) CHECK(std::abs(count - 10'000) < 500);
  for (int i = 0; i < 100; ++i) CHECK(random.below(1) == 0);
}
