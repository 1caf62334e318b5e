// What the order of an epoch costs: bench_order prints one JSON object for each number of samples given.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

#include <forebay/order.hpp>

#include "hot_path/measure.hpp"
#include "process_memory.hpp"

namespace {

constexpr std::uint64_t kIds = 100'000;
constexpr int kRuns = 11;

// Of this thread alone: whoever else runs on the machine takes no part of it.
double cpu_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e9 * static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec);
}

// ns per turn: the median of several runs.
template <typename Turn>
double per_turn(Turn&& turn) {
  std::vector<double> runs;
  for (int run = 0; run < kRuns; ++run) {
    const double start = cpu_ns();
    for (std::uint64_t i = 0; i < kIds; ++i) turn(i);
    runs.push_back((cpu_ns() - start) / static_cast<double>(kIds));
  }
  return forebay::bench::percentile(runs, 0.5);
}

void measure(std::uint64_t samples) {
  const double before = forebay::bench::process_memory().peak;
  std::uint64_t sum = 0;
  const double setup_ns = per_turn([&](std::uint64_t i) {
    const forebay::Order order({.samples = samples, .batch_size = 64, .seed = i});
    sum += order.batches();
  });
  const forebay::Order order({.samples = samples, .batch_size = 64, .seed = 17});
  std::uint64_t position = 0;
  const double id_ns = per_turn([&](std::uint64_t i) {
    sum += order.sample(i & 7U, position);
    position += 9973;
    if (position >= samples) position -= samples;
  });
  const double grown = forebay::bench::process_memory().peak - before;
  std::printf(
      "{\"samples\": %llu, \"setup_ns\": %.1f, \"id_ns\": %.1f, \"bytes\": %zu, \"grown_mb\": %.2f, "
      "\"sum\": %llu}\n",
      static_cast<unsigned long long>(samples), setup_ns, id_ns, sizeof(forebay::Order), grown,
      static_cast<unsigned long long>(sum));
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) measure(std::strtoull(argv[i], nullptr, 10));
  return argc > 1 ? 0 : 2;
}
