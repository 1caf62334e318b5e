// dataset.order = "local": a node reads the same samples in every epoch.
#include <forebay/order.hpp>
#include <random>

#include "order/ledger.hpp"
#include "order/local_shuffle.hpp"
#include "order/mixing.hpp"
#include "test.hpp"

namespace forebay::test_local_order {

using namespace forebay::order;

namespace {

std::vector<std::uint64_t> epoch_of(const Order& order, std::uint64_t epoch) {
  std::vector<std::uint64_t> samples(order.options().samples);
  for (std::uint64_t position = 0; position < samples.size(); ++position) {
    samples[position] = order.sample(epoch, position);
  }
  return samples;
}

// The samples assigned to each node in an epoch, for `nodes` nodes with `each` ranks.
std::vector<std::set<std::uint64_t>> read_by_nodes(const Order& order, std::uint64_t epoch, std::uint32_t nodes,
                                                   std::uint32_t each) {
  const Partition partition{
      .batches = order.batches(), .shards = order.options().shards, .ranks = nodes * each, .contiguous = true};
  std::vector<std::set<std::uint64_t>> read(nodes);
  bool is_new = true;
  for (std::uint64_t number = 0; number < order.batches(); ++number) {
    const std::uint32_t node = owner_of(partition, block_of(partition, number).shard) / each;
    const BatchRef batch = order.batch(epoch, number);
    for (std::uint64_t i = 0; i < batch.size; ++i) {
      is_new &= read[node].insert(order.sample(epoch, number * order.options().batch_size + i)).second;
    }
  }
  CHECK(is_new);
  return read;
}

std::uint64_t in_common(const std::set<std::uint64_t>& a, const std::set<std::uint64_t>& b) {
  return static_cast<std::uint64_t>(std::ranges::count_if(a, [&](std::uint64_t id) { return b.contains(id); }));
}

TEST_CASE("in parts, an epoch has every sample once, and without exchange a node has the same ones each time") {
  const std::uint64_t seed = std::random_device{}();
  CAPTURE(seed);
  Random random(seed);
  for (int i = 0; i < 300; ++i) {
    const std::uint64_t samples = 1 + random.below(random.below(2) == 0 ? 40 : 5000);
    const auto batch_size = static_cast<std::uint32_t>(1 + random.below(std::min<std::uint64_t>(samples, 65)));
    const auto nodes = static_cast<std::uint32_t>(1 + random.below(6));
    const auto each = static_cast<std::uint32_t>(1 + random.below(4));
    const double exchange = std::array{0.0, 0.0, 0.05, 0.5, 1.0}.at(random.below(5));
    const bool drop_last = random.below(2) == 0;
    const auto shards = static_cast<std::uint32_t>(nodes * each + random.below(100));
    CAPTURES(samples, batch_size, nodes, each);
    CAPTURES(exchange, drop_last, shards);
    const Order order({.samples = samples,
                       .batch_size = batch_size,
                       .seed = seed,
                       .drop_last = drop_last,
                       .parts = nodes,
                       .shards = shards,
                       .exchange = exchange});
    std::vector<std::set<std::uint64_t>> seen(nodes);
    for (const std::uint64_t epoch : {0ULL, 1ULL, 2ULL, 77ULL}) {
      std::vector<std::uint64_t> served = epoch_of(order, epoch);
      std::ranges::sort(served);
      bool is_each_once = true;
      for (std::uint64_t id = 0; id < samples; ++id) is_each_once &= served[id] == id;
      REQUIRE(is_each_once);
      const auto read = read_by_nodes(order, epoch, nodes, each);
      for (std::uint32_t node = 0; node < nodes; ++node) seen[node].insert(read[node].begin(), read[node].end());
    }
    if (exchange > 0) continue;
    // The dropped samples differ, and stay in their part.
    std::uint64_t all = 0;
    for (const auto& of_node : seen) all += of_node.size();
    std::set<std::uint64_t> distinct;
    for (const auto& of_node : seen) distinct.insert(of_node.begin(), of_node.end());
    CHECK(all == distinct.size());
    const LocalShuffle shuffle(order.options(), order.batches());
    for (std::uint32_t node = 0; node < nodes; ++node) {
      const PositionRange homes = shuffle.homes(node);
      std::set<std::uint64_t> own;
      for (std::uint64_t home = homes.begin; home < homes.end; ++home) own.insert(shuffle.place(home));
      CHECK(in_common(seen[node], own) == seen[node].size());
      if (!drop_last) CHECK(own == seen[node]);
    }
  }
}

TEST_CASE("in parts, the share that is exchanged changes parts, other samples each time, and the rest stays") {
  constexpr std::uint64_t kSamples = 20'000;
  constexpr std::uint32_t kNodes = 4;
  for (const double exchange : {0.0, 0.05, 0.3, 1.0}) {
    CAPTURE(exchange);
    const OrderOptions options{
        .samples = kSamples, .batch_size = 50, .seed = 5, .parts = kNodes, .shards = 128, .exchange = exchange};
    OrderOptions at_home = options;
    at_home.exchange = 0;
    const auto home = read_by_nodes(Order(at_home), 0, kNodes, 2);
    std::vector<std::uint64_t> away;  // in both epochs
    std::set<std::uint64_t> moved;
    for (const std::uint64_t epoch : {1ULL, 2ULL}) {
      const auto read = read_by_nodes(Order(options), epoch, kNodes, 2);
      std::uint64_t strange = 0;
      for (std::uint32_t node = 0; node < kNodes; ++node) {
        strange += read[node].size() - in_common(read[node], home[node]);
        for (const std::uint64_t id : read[node]) {
          if (!home[node].contains(id)) moved.insert(id);
        }
      }
      away.push_back(strange);
      // A quarter of the exchanged samples return to their own part.
      const double expected = kSamples * exchange * (1 - 1.0 / kNodes);
      CHECK(std::abs(static_cast<double>(strange) - expected) < 200);
      CHECK(static_cast<double>(strange) <= kSamples * exchange);
    }
    if (exchange == 0.05) CHECK(static_cast<double>(moved.size()) > 0.9 * static_cast<double>(away[0] + away[1]));
  }
}

TEST_CASE("in parts, what the last batch drops is spread over the parts, and another each time") {
  const Order order({.samples = 1000 + 63, .batch_size = 64, .seed = 3, .parts = 3, .shards = 16});
  std::map<std::uint64_t, int> times;
  constexpr std::uint64_t kEpochs = 400;
  for (std::uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
    for (std::uint64_t position = 0; position < order.batches() * 64; ++position) {
      ++times[order.sample(epoch, position)];
    }
  }
  CHECK(times.size() == 1063);
  // 385 of 400 epochs on average, with a standard deviation of 3.7.
  for (const auto& [id, count] : times) CHECK(count > 385 - 30);
}

TEST_CASE("in parts, batches never change: these values hold for every later version") {
  const Order order({.samples = 1003, .batch_size = 10, .seed = 17, .parts = 3, .shards = 7, .exchange = 0.1});
  std::vector<std::uint64_t> some;
  for (const std::uint64_t position : {0ULL, 1ULL, 333ULL, 500ULL, 999ULL, 1002ULL}) {
    some.push_back(order.sample(2, position));
  }
  CHECK(some == std::vector<std::uint64_t>{824, 270, 115, 228, 428, 342});
}

TEST_CASE("in parts, samples of a batch meet again as often as is said") {
  for (const double exchange : {0.0, 0.2, 1.0}) {
    CAPTURE(exchange);
    const OrderOptions options{.samples = 6000, .batch_size = 100, .parts = 4, .shards = 60, .exchange = exchange};
    const Order order(options);
    const Order shuffled({.samples = 6000, .batch_size = 100});
    const auto again = [](const Order& of) {
      std::uint64_t pairs = 0;
      for (std::uint64_t epoch = 0; epoch < 10; ++epoch) {
        std::vector<std::uint64_t> batch(6000);
        for (std::uint64_t position = 0; position < 6000; ++position)
          batch[of.sample(epoch, position)] = position / 100;
        for (std::uint64_t next = 0; next < 60; ++next) {
          std::map<std::uint64_t, std::uint64_t> from;
          for (std::uint64_t i = 0; i < 100; ++i) ++from[batch[of.sample(epoch + 1, next * 100 + i)]];
          for (const auto& [number, count] : from) pairs += count * (count - 1) / 2;
        }
      }
      return static_cast<double>(pairs);
    };
    CHECK(again(order) / again(shuffled) == doctest::Approx(meetings(options)).epsilon(0.05));
  }
}

}  // namespace
}  // namespace forebay::test_local_order
