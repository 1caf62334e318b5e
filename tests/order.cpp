#include <forebay/order.hpp>

#include "order/ledger.hpp"
#include "order/mixing.hpp"
#include "order/schedule.hpp"
#include "order/selection.hpp"
#include "test.hpp"

// The order of samples: permutations, batches, windows, partitions over ranks, and the random
// numbers behind them. Orders are pinned to exact values, because a resumed run must continue the
// order of an older version.
namespace forebay::test_order {

using namespace forebay::order;

namespace {

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
  return testing::error_of([&] { const Order order(options); });
}

TEST_CASE("a permutation is a bijection for every small size") {
  for (std::uint64_t size = 1; size <= 300; ++size) {
    CAPTURE(size);
    CHECK(is_bijection(size, 17, 0));
    CHECK(is_bijection(size, 17 + size, size));
  }
}

TEST_CASE("a permutation is a bijection for larger sizes, powers of two, squares and their neighbours") {
  Random random = testing::random_from(20240607);
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
  // On average a random permutation has one fixed point and one pair of successors: 400 each in
  // all, with a standard deviation of 20.
  CHECK(fixed > 300);
  CHECK(fixed < 500);
  CHECK(neighbours > 300);
  CHECK(neighbours < 500);
  // Chi-square test of position against element, 81 degrees of freedom: mean 81, standard deviation
  // 13.
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

TEST_CASE("replacements in an order that the program gives are samples of that order, and all of them are tried") {
  const auto given = std::make_shared<GivenOrder>(50, 6);
  given->give(0, {40, 3, 17, 3, 8, 21});
  given->give(1, {1, 2, 4, 5, 6, 9});
  const Order order(OrderOptions{
      .samples = 6, .batch_size = 4, .shuffle = false, .selection = std::make_shared<const Selection>(given)});
  std::set<std::uint64_t> tried;
  for (std::uint32_t attempt = 1; attempt < 6; ++attempt) tried.insert(order.replacement(0, 0, attempt));
  CHECK(tried == std::set<std::uint64_t>{3, 8, 17, 21});
  tried.clear();
  for (std::uint32_t attempt = 1; attempt < 6; ++attempt) tried.insert(order.replacement(1, 2, attempt));
  CHECK(tried == std::set<std::uint64_t>{1, 2, 5, 6, 9});
  CHECK(order.replacement(1, 2, 6) == order.replacement(1, 2, 1));
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

// dataset.order = "shards": shuffled in windows of runs, and divided so that each rank has its own
// windows.

Order windowed(std::uint64_t samples, std::uint64_t window, std::uint64_t run, std::uint32_t batch_size = 1,
               bool drop_last = false) {
  return Order(
      {.samples = samples, .batch_size = batch_size, .seed = 17, .drop_last = drop_last, .window = window, .run = run});
}

std::vector<std::uint64_t> epoch_of(const Order& order, std::uint64_t epoch) {
  std::vector<std::uint64_t> samples(order.options().samples);
  for (std::uint64_t position = 0; position < samples.size(); ++position) {
    samples[position] = order.sample(epoch, position);
  }
  return samples;
}

TEST_CASE("an epoch in windows has every sample once, whatever the sizes") {
  for (const std::uint64_t samples : {1ULL, 2ULL, 3ULL, 31ULL, 32ULL, 33ULL, 1000ULL, 1023ULL, 4099ULL})
    for (const std::uint64_t window : {1ULL, 7ULL, 64ULL, 1000ULL, 100'000ULL})
      for (const std::uint64_t run : {1ULL, 2ULL, 32ULL, 333ULL, 100'000ULL})
        for (const std::uint64_t epoch : {0ULL, 1ULL, 77ULL}) {
          CAPTURES(samples, window, run, epoch);
          std::vector<std::uint64_t> served = epoch_of(windowed(samples, window, run), epoch);
          std::ranges::sort(served);
          bool is_each_once = true;
          for (std::uint64_t id = 0; id < samples; ++id) is_each_once &= served[id] == id;
          CHECK(is_each_once);
        }
}

TEST_CASE("windows cover the positions without gap, are about as large as asked for, and hold whole runs") {
  for (const std::uint64_t samples : {1ULL, 100ULL, 1000ULL, 4099ULL, 100'003ULL})
    for (const std::uint64_t window : {1ULL, 64ULL, 512ULL, 1000ULL})
      for (const std::uint64_t run : {1ULL, 16ULL, 48ULL}) {
        CAPTURES(samples, window, run);
        const Order order = windowed(samples, window, run);
        const std::uint64_t run_in_effect = std::min({run, window, samples});
        for (std::uint64_t begin = 0; begin < samples;) {
          const PositionRange range = order.window(begin);
          REQUIRE(range.begin == begin);
          REQUIRE(range.end > begin);
          REQUIRE(range.end <= samples);
          CHECK(range.begin % run_in_effect == 0);
          CHECK(order.window(range.end - 1) == range);
          CHECK(order.window(begin + range.size() / 2) == range);
          CHECK(range.size() < 2 * window + 2 * run_in_effect);
          if (samples >= window) CHECK(range.size() + 2 * run_in_effect > window / 2);
          begin = range.end;
        }
      }
}

TEST_CASE("what a window holds is runs of neighbours, from all over the dataset") {
  const Order order = windowed(10'000, 512, 32);
  const std::vector<std::uint64_t> served = epoch_of(order, 3);
  for (std::uint64_t begin = 0; begin < 10'000;) {
    const PositionRange window = order.window(begin);
    std::vector<std::uint64_t> ids(served.begin() + static_cast<std::ptrdiff_t>(window.begin),
                                   served.begin() + static_cast<std::ptrdiff_t>(window.end));
    CHECK(!std::ranges::is_sorted(ids));
    std::ranges::sort(ids);
    std::uint64_t runs = 1;
    for (std::size_t i = 1; i < ids.size(); ++i) runs += ids[i] != ids[i - 1] + 1 ? 1 : 0;
    // One more than expected, because the end of the dataset may be within a run.
    CHECK(runs <= window.size() / 32 + 2);
    CHECK(ids.back() - ids.front() > 5000);
    begin = window.end;
  }
}

TEST_CASE("epochs and seeds differ, and which samples are together") {
  const Order order = windowed(4096, 256, 16);
  const std::vector<std::uint64_t> first = epoch_of(order, 0);
  const std::vector<std::uint64_t> second = epoch_of(order, 1);
  Order other({.samples = 4096, .seed = 18, .window = 256, .run = 16});
  const std::vector<std::uint64_t> seeded = epoch_of(other, 0);
  std::size_t same = 0;
  for (std::size_t i = 0; i < 4096; ++i) same += (first[i] == second[i] ? 1 : 0) + (first[i] == seeded[i] ? 1 : 0);
  CHECK(same < 40);
  // Samples are together if they are in one window. Hardly any except neighbours are together in
  // two epochs.
  const auto window_of = [&](const std::vector<std::uint64_t>& served) {
    std::vector<std::uint64_t> window(4096);
    for (std::uint64_t position = 0; position < 4096; ++position) {
      window[served[position]] = order.window(position).begin;
    }
    return window;
  };
  const auto in_first = window_of(first);
  const auto in_second = window_of(second);
  std::uint64_t together = 0;
  for (std::uint64_t id = 0; id + 512 < 4096; ++id) {
    together += in_first[id] == in_first[id + 512] && in_second[id] == in_second[id + 512] ? 1 : 0;
  }
  CHECK(together < 100);
}

TEST_CASE("the order never changes") {
  const Order order = windowed(100'000, 1024, 32);
  CHECK(order.sample(0, 0) == 41'485);
  CHECK(order.sample(2, 12'345) == 10'056);
  CHECK(order.sample(5, 99'999) == 22'987);
}

TEST_CASE("in order, or with an impossible run") {
  OrderOptions options{.samples = 100, .shuffle = false, .window = 16, .run = 4};
  CHECK_FALSE(Order(options).is_windowed());
  for (std::uint64_t i = 0; i < 100; ++i) CHECK(Order(options).sample(1, i) == i);
  options.run = 0;
  CHECK_THROWS_WITH_AS(Order{options}, doctest::Contains("dataset.run"), ConfigError);
}

// How batches are assigned to ranks.

Partition deal_of(std::uint64_t batches, std::uint32_t shards, std::uint32_t ranks) {
  return {.batches = batches, .shards = shards, .ranks = ranks, .epochs = 1, .contiguous = true};
}

std::vector<std::uint64_t> planned(Schedule& schedule, std::uint64_t most = UINT64_MAX) {
  std::vector<std::uint64_t> batches;
  while (batches.size() < most) {
    const auto batch = schedule.next();
    if (!batch) break;
    batches.push_back(batch->batch);
  }
  return batches;
}

TEST_CASE("mixing: nothing in order, all in a shuffle, windows in between; at once for 10^8 samples") {
  for (const std::uint64_t samples : {10'000ULL, 100'000'000ULL}) {
    CAPTURE(samples);
    OrderOptions options{.samples = samples, .batch_size = 64, .seed = 17};
    const Mixing shuffle = mixing_of(Order(options), 0, 32);
    CHECK(shuffle.displacement == doctest::Approx(1).epsilon(0.05));
    CHECK(std::abs(shuffle.neighbours) < 0.05);
    CHECK(shuffle.together >= 1);
    CHECK(shuffle.together < 3);
    options.window = 1024;
    options.run = 32;
    const Mixing windows = mixing_of(Order(options), 0, 32);
    CHECK(windows.displacement > 0.9);
    CHECK(windows.together > shuffle.together + 1);
    CHECK(windows.together < 16);
    options.window = 64;
    CHECK(mixing_of(Order(options), 0, 32).together > 2 * windows.together);
    options.shuffle = false;
    const Mixing stored = mixing_of(Order(options), 0, 32);
    CHECK(stored.displacement == doctest::Approx(0));
    CHECK(stored.neighbours == doctest::Approx(1));
    CHECK(stored.together == 32);
  }
  // Fewer samples than one batch.
  CHECK(mixing_of(Order({.samples = 5, .batch_size = 64, .seed = 1, .drop_last = false}), 0, 32).together == 5);
}

TEST_CASE("each rank has batches one after the other, as many as the others or a shard more") {
  for (const std::uint32_t shards : {7U, 8U, 64U, 1024U})
    for (const std::uint64_t batches : {1ULL, 13ULL, 333ULL, 1000ULL, 2999ULL})
      for (std::uint32_t ranks = 1; ranks <= 7; ++ranks) {
        CAPTURES(shards, batches, ranks);
        const Partition partition = deal_of(batches, shards, ranks);
        const Order order = windowed(batches, 64, 8);
        std::uint64_t next = 0;
        std::uint64_t least = batches;
        std::uint64_t most = 0;
        for (std::uint32_t rank = 0; rank < ranks; ++rank) {
          Schedule schedule(order, Ledger(partition), rank);
          const std::vector<std::uint64_t> own = planned(schedule);
          CHECK(own.size() == batches_of(partition, rank));
          CHECK(schedule.is_exhausted());
          bool is_next = true;
          for (const std::uint64_t batch : own) is_next &= batch == next++;
          CHECK(is_next);
          least = std::min<std::uint64_t>(least, own.size());
          most = std::max<std::uint64_t>(most, own.size());
        }
        CHECK(next == batches);
        CHECK(most - least <= batches / shards + 2);
        CHECK(most == most_batches(partition));
        std::uint64_t in_shards = 0;
        for (std::uint32_t shard = 0; shard < shards; ++shard) {
          for (std::uint64_t block = 0; block < blocks_of(partition, shard); ++block, ++in_shards) {
            const Block back = block_of(partition, batch_of(partition, shard, block));
            REQUIRE(back.shard == shard);
            REQUIRE(back.block == block);
          }
        }
        CHECK(in_shards == batches);
      }
}

TEST_CASE("what is left is dealt out in equal shares to another number of ranks, each batch once") {
  const std::uint64_t seed = 17;
  Random random(seed);
  for (int round = 0; round < 50; ++round) {
    const std::uint64_t batches = 1 + random.below(3000);
    const auto shards = static_cast<std::uint32_t>(8 + random.below(200));
    const auto before = static_cast<std::uint32_t>(1 + random.below(8));
    const auto after = static_cast<std::uint32_t>(1 + random.below(8));
    CAPTURES(round, batches, shards, before);
    CAPTURE(after);
    const Order order = windowed(batches, 64, 8);
    std::set<std::uint64_t> served;
    std::vector<BatchRange> left;
    for (std::uint32_t rank = 0; rank < before; ++rank) {
      Schedule schedule(order, Ledger(deal_of(batches, shards, before)), rank);
      for (const std::uint64_t batch : planned(schedule, random.below(batches))) CHECK(served.insert(batch).second);
      for (const BatchRange& range : schedule.ledger().ranges()) {
        if (range.owner == rank && range.begin < range.end) left.push_back(range);
      }
    }
    tidy(left);
    const std::uint64_t to_serve = batches - served.size();
    std::uint64_t most = 0;
    for (std::uint32_t rank = 0; rank < after; ++rank) {
      Schedule schedule(order, Ledger(deal_of(batches, shards, after), 0, 1, left, before), rank);
      const std::vector<std::uint64_t> own = planned(schedule);
      CHECK(std::ranges::is_sorted(own));
      for (const std::uint64_t batch : own) CHECK(served.insert(batch).second);
      most = std::max<std::uint64_t>(most, own.size());
    }
    CHECK(served.size() == batches);
    if (before != after) CHECK(most <= to_serve / after + 1);
  }
}

TEST_CASE("epochs that nobody has begun are dealt out to another number of ranks without a cut") {
  constexpr std::uint64_t kEpochs = 192;
  Partition partition = deal_of(100, 16, 2);
  partition.epochs = UINT64_MAX;
  std::vector<BatchRange> left;
  for (std::uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
    for (std::uint32_t shard = 0; shard < partition.shards; ++shard) {
      left.push_back(
          {.epoch = epoch, .begin = 0, .end = blocks_of(partition, shard), .shard = shard, .owner = shard % 2});
    }
  }
  left.front().begin = 1;  // an epoch that has begun
  partition.ranks = 7;
  const Ledger ledger(partition, 0, kEpochs, left, 2);
  CHECK(ledger.ranges().size() <= left.size() + partition.ranks);
  CHECK(ledger.ranges().size() <= Ledger::most_ranges(partition));
  std::uint64_t batches = 0;
  for (const BatchRange& range : ledger.ranges()) {
    batches += range.end - range.begin;
    if (range.epoch > 0) REQUIRE(range.owner == owner_of(partition, range.shard));
  }
  CHECK(batches == kEpochs * partition.batches - 1);
}

TEST_CASE("Random is SplitMix64") {
  // The algorithm's published test vector for seed 1234567.
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

}  // namespace
}  // namespace forebay::test_order
