#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <forebay/error.hpp>
#include <forebay/order.hpp>
#include <forebay/random.hpp>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace {

using forebay::BatchRef;
using forebay::ConfigError;
using forebay::Order;
using forebay::OrderOptions;
using forebay::Permutation;

bool is_bijection(std::uint64_t size, std::uint64_t seed, std::uint64_t epoch) {
  const Permutation permutation(size, seed, epoch);
  std::vector<bool> seen(size, false);
  for (std::uint64_t position = 0; position < size; ++position) {
    const std::uint64_t element = permutation(position);
    if (element >= size || seen[element]) return false;
    seen[element] = true;
  }
  return true;
}

std::string error_of(const OrderOptions& options) {
  try {
    const Order order(options);
  } catch (const forebay::Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a permutation is a bijection for every small size") {
  for (std::uint64_t size = 1; size <= 300; ++size) {
    CAPTURE(size);
    CHECK(is_bijection(size, 17, 0));
    CHECK(is_bijection(size, 17 + size, size));
  }
}

TEST_CASE("a permutation is a bijection for larger sizes, powers of two, squares and their neighbours") {
  const std::uint64_t seed = 20240607;
  CAPTURE(seed);
  forebay::Random random(seed);
  for (const std::uint64_t size :
       {1023, 1024, 1025, 4095, 4096, 4097, 9999, 10000, 10001, 10100, 10101, 65535, 65536, 65537, 262145}) {
    CAPTURE(size);
    CHECK(is_bijection(size, random.bits(), random.below(100)));
  }
  for (int i = 0; i < 10; ++i) {
    const std::uint64_t size = 1000 + random.below(300'000);
    CAPTURE(size);
    CHECK(is_bijection(size, random.bits(), random.below(100)));
  }
}

TEST_CASE("a permutation of the largest sizes stays inside them and repeats nothing") {
  for (const std::uint64_t size : {std::uint64_t{1} << 40, (std::uint64_t{1} << 62) + 1, ~std::uint64_t{0}}) {
    const Permutation permutation(size, 1, 2);
    std::set<std::uint64_t> seen;
    for (std::uint64_t position = 0; position < 1000; ++position) {
      const std::uint64_t element = permutation(position);
      CHECK(element < size);
      seen.insert(element);
    }
    CHECK(seen.size() == 1000);
  }
}

TEST_CASE("permutations never change: these values hold on every machine and for every later version") {
  const auto head = [](std::uint64_t size, std::uint64_t seed, std::uint64_t epoch) {
    const Permutation permutation(size, seed, epoch);
    std::vector<std::uint64_t> elements;
    for (std::uint64_t position = 0; position < std::min<std::uint64_t>(size, 8); ++position)
      elements.push_back(permutation(position));
    return elements;
  };
  using Elements = std::vector<std::uint64_t>;
  CHECK(head(1, 17, 0) == Elements{0});
  CHECK(head(10, 17, 0) == Elements{7, 3, 9, 8, 2, 5, 1, 6});
  CHECK(head(1000, 17, 0) == Elements{710, 795, 210, 550, 572, 630, 52, 69});
  CHECK(head(1000, 17, 1) == Elements{326, 108, 365, 441, 738, 808, 679, 198});
  CHECK(head(1281167, 42, 3) == Elements{1257491, 1268172, 777870, 467835, 511461, 51089, 672716, 391251});
  CHECK(head(100'000'000, 17, 1) ==
        Elements{67619679, 61913135, 74645241, 71692924, 30669210, 27243583, 86948096, 20495168});
  CHECK(head(10'000'000'000, 17, 1) ==
        Elements{5496874243, 2876975818, 9367129022, 5998430983, 9982469823, 3666117867, 1754483040, 127271736});
}

TEST_CASE("shuffling looks random") {
  constexpr std::uint64_t kSize = 1000;
  constexpr std::uint64_t kEpochs = 400;
  constexpr std::uint64_t kCells = 10;
  std::array<std::array<double, kCells>, kCells> counts{};
  std::uint64_t fixed = 0;
  std::uint64_t neighbours = 0;
  for (std::uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
    const Permutation permutation(kSize, 17, epoch);
    for (std::uint64_t position = 0; position < kSize; ++position) {
      const std::uint64_t element = permutation(position);
      counts.at(position * kCells / kSize).at(element * kCells / kSize) += 1;
      if (element == position) ++fixed;
      if (position + 1 < kSize && permutation(position + 1) == element + 1) ++neighbours;
    }
  }
  // A random permutation has one fixed point and one run of two on average: 400 each, with a deviation of 20.
  CHECK(fixed > 300);
  CHECK(fixed < 500);
  CHECK(neighbours > 300);
  CHECK(neighbours < 500);
  // Chi square of position against element, 81 degrees of freedom: mean 81, deviation 13.
  const double expected = static_cast<double>(kSize * kEpochs) / (kCells * kCells);
  double chi_square = 0;
  for (const auto& row : counts)
    for (const double count : row) chi_square += (count - expected) * (count - expected) / expected;
  CHECK(chi_square > 81 - 5 * 13);
  CHECK(chi_square < 81 + 5 * 13);
}

TEST_CASE("small permutations take all their values about equally often") {
  std::map<std::vector<std::uint64_t>, int> counts;
  constexpr int kEpochs = 12'000;
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    const Permutation permutation(3, 5, static_cast<std::uint64_t>(epoch));
    ++counts[{permutation(0), permutation(1), permutation(2)}];
  }
  CHECK(counts.size() == 6);
  for (const auto& [values, count] : counts) CHECK(std::abs(count - kEpochs / 6) < kEpochs / 20);
}

TEST_CASE("drop_last drops the short batch only") {
  OrderOptions options{.samples = 10, .batch_size = 4};
  CHECK(Order(options).batches() == 2);
  CHECK(Order(options).batch(0, 1) == BatchRef{.epoch = 0, .batch = 1, .size = 4});
  CHECK(Order(options).batch(1, 0) == BatchRef{.epoch = 1, .batch = 0, .size = 4});
  options.drop_last = false;
  CHECK(Order(options).batches() == 3);
  CHECK(Order(options).batch(0, 2) == BatchRef{.epoch = 0, .batch = 2, .size = 2});
  options.samples = 12;
  CHECK(Order(options).batches() == 3);
  CHECK(Order(options).batch(0, 2).size == 4);
}

TEST_CASE("samples are shuffled anew every epoch, or in order") {
  OrderOptions options{.samples = 500, .batch_size = 5};
  const Order shuffled(options);
  std::set<std::uint64_t> first;
  std::uint64_t same = 0;
  for (std::uint64_t position = 0; position < 500; ++position) {
    first.insert(shuffled.sample(0, position));
    if (shuffled.sample(0, position) == shuffled.sample(1, position)) ++same;
  }
  CHECK(first.size() == 500);
  CHECK(same < 20);
  options.shuffle = false;
  const Order ordered(options);
  for (std::uint64_t position = 0; position < 500; ++position) CHECK(ordered.sample(3, position) == position);
}

TEST_CASE("replacements try every other sample once before any twice, and never the bad one") {
  for (const bool shuffle : {true, false}) {
    const Order order(OrderOptions{.samples = 50, .batch_size = 4, .shuffle = shuffle});
    for (const std::uint64_t position : {0ULL, 7ULL, 49ULL}) {
      std::set<std::uint64_t> tried{order.sample(1, position)};
      for (std::uint32_t attempt = 1; attempt < 50; ++attempt) tried.insert(order.replacement(1, position, attempt));
      CHECK(tried.size() == 50);
      CHECK(*tried.rbegin() == 49);
      CHECK(order.replacement(1, position, 50) == order.replacement(1, position, 1));
    }
  }
}

TEST_CASE("replacements differ by epoch, position and attempt, and never change") {
  const Order order(OrderOptions{.samples = 100'000, .batch_size = 4, .seed = 17});
  std::set<std::uint64_t> seen;
  for (std::uint64_t epoch = 0; epoch < 5; ++epoch)
    for (std::uint64_t position = 0; position < 5; ++position)
      for (std::uint32_t attempt = 1; attempt <= 4; ++attempt) seen.insert(order.replacement(epoch, position, attempt));
  CHECK(seen.size() > 95);
  CHECK(order.replacement(0, 0, 1) == 37192);
  CHECK(order.replacement(2, 12345, 3) == 91995);
}

TEST_CASE("the only sample replaces itself") {
  const Order order(OrderOptions{.samples = 1});
  CHECK(order.replacement(0, 0, 1) == 0);
}

TEST_CASE("what cannot be ordered is refused by the name of its setting") {
  CHECK(error_of({.samples = 0}).find("no samples") != std::string::npos);
  CHECK(error_of({.samples = 5, .batch_size = 0}).find("dataset.batch_size") != std::string::npos);
  CHECK(error_of({.samples = 5, .batch_size = 6}).find("dataset.drop_last") != std::string::npos);
  CHECK(error_of({.samples = 5, .batch_size = 6, .drop_last = false}).empty());
  CHECK_THROWS_AS(Order(OrderOptions{.samples = 0}), ConfigError);
}
