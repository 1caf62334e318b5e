// Measures how well an order mixes; `forebay index` compares dataset.order = "shards" with a full
// shuffle. It measures how far samples move from their place, whether neighbours stay neighbours,
// and how many samples of a batch come from one run of the file, over a number of batches spread
// over one epoch.

#include "mixing.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace forebay::order {
namespace {

// How many of the ascending places lie within `run` of each other, at most.
std::size_t most_within(const std::vector<std::uint64_t>& places, std::uint64_t run) {
  std::size_t most = 0;
  for (std::size_t first = 0, end = 0; first < places.size(); ++first) {
    while (end < places.size() && places[end] - places[first] < run) ++end;
    most = std::max(most, end - first);
  }
  return most;
}

// Pearson's correlation, of pairs that are added one by one.
class Correlation {
 public:
  void add(double x, double y) noexcept {
    ++count_;
    x_ += x;
    y_ += y;
    xx_ += x * x;
    yy_ += y * y;
    xy_ += x * y;
  }
  [[nodiscard]] double value() const noexcept {
    const double spread = std::sqrt((xx_ - x_ * x_ / count_) * (yy_ - y_ * y_ / count_));
    return spread > 0 ? (xy_ - x_ * y_ / count_) / spread : 0;
  }

 private:
  double count_ = 0;
  double x_ = 0;
  double y_ = 0;
  double xx_ = 0;
  double yy_ = 0;
  double xy_ = 0;
};

}  // namespace

Mixing mixing_of(const Order& order, std::uint64_t epoch, std::uint64_t run, std::uint64_t batches) {
  const auto samples = static_cast<double>(order.options().samples);
  batches = std::min(batches, order.batches());
  Correlation neighbours;
  double displacement = 0;
  double together = 0;
  double served = 0;
  std::vector<std::uint64_t> places;
  for (std::uint64_t i = 0; i < batches; ++i) {
    const BatchRef batch = order.batch(epoch, i * (order.batches() / batches));
    const std::uint64_t first = batch.batch * order.options().batch_size;
    places.clear();
    for (std::uint32_t index = 0; index < batch.size; ++index) {
      places.push_back(order.sample(epoch, first + index));
      // Places are scaled to [0, 1), so that sums of squares stay precise.
      const double place = static_cast<double>(places.back()) / samples;
      displacement += std::abs(place - static_cast<double>(first + index) / samples);
      if (index > 0) neighbours.add(static_cast<double>(places[index - 1]) / samples - 0.5, place - 0.5);
    }
    served += static_cast<double>(places.size());
    std::ranges::sort(places);
    together += static_cast<double>(most_within(places, run));
  }
  // Two random places in [0, 1) are a third apart on average.
  return {.displacement = 3 * displacement / served,
          .neighbours = neighbours.value(),
          .together = together / static_cast<double>(batches)};
}

// With n parts and y = 1 - exchange, a sample is served in its home part with probability y + (1 -
// y) / n. Two samples of the same home are in the same part with probability s = 1 / n + y^2 (1 - 1
// / n), two of different homes with (1 - s) / (n - 1). Given that two samples are in one batch,
// they have the same home with probability s. So they meet again n (s^2 + (1 - s)^2 / (n - 1))
// times as often as in a shuffle, which is the expression below.
double meetings(const OrderOptions& options) noexcept {
  return 1 + (options.parts - 1.0) * std::pow(1 - options.exchange, 4);
}

}  // namespace forebay::order
