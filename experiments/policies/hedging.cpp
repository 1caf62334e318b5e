// What one slow read in many costs a trainer, and what a second read of it brings: fresh share of the steps and reads
// that were begun twice, workers.hedge off and auto in turn. bench_hedging [--rounds N] [--steps N]

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <forebay/feeder.hpp>

#include "memory_dataset.hpp"

namespace {

constexpr std::int64_t kBatch = 4;
constexpr auto kStep = std::chrono::milliseconds(2);

struct Store {
  const char* name;
  forebay::StorageOptions options;
};

struct Row {
  std::vector<double> fresh;    // %
  std::vector<double> stalls;   // %
  std::vector<double> seconds;  // second reads in % of the samples served
  std::vector<double> won;      // % of the second reads
};

void run(const Store& store, const std::string& policy, forebay::Hedge hedge, std::int64_t steps, Row& row) {
  forebay::Options options = forebay::testing::memory_options(kBatch);
  options.run.steps = steps;
  options.policy.name = policy;
  options.queue.capacity = 16;
  options.workers.io = 8;
  options.workers.decode = 1;
  options.workers.hedge = hedge;
  options.storage = store.options;
  forebay::Parts parts;
  parts.dataset = std::make_shared<forebay::testing::MemoryDataset>(1 << 16);
  forebay::Feeder feeder(options, std::move(parts));
  while (const auto batch = feeder.next()) std::this_thread::sleep_for(kStep);
  const forebay::Summary summary = feeder.summary();
  const auto hedged = static_cast<double>(summary.hedged_reads);
  row.fresh.push_back(100 * summary.fresh_fraction);
  row.stalls.push_back(100 * summary.stall_s / summary.wall_s);
  row.seconds.push_back(100 * hedged / static_cast<double>(summary.fresh * kBatch));
  row.won.push_back(hedged > 0 ? 100 * static_cast<double>(summary.hedges_won) / hedged : 0);
}

std::string spread(std::vector<double> values) {
  std::ranges::sort(values);
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%6.2f [%6.2f .. %6.2f]", values[values.size() / 2], values.front(),
                values.back());
  return text.data();
}

void print(const char* hedge, const Row& row) {
  std::printf("  %-5s %s  %s  %s  %s\n", hedge, spread(row.fresh).c_str(), spread(row.stalls).c_str(),
              spread(row.seconds).c_str(), spread(row.won).c_str());
}

void compare(const Store& store, const std::string& policy, int rounds, std::int64_t steps) {
  Row off;
  Row automatic;
  for (int round = 0; round < rounds; ++round) {
    run(store, policy, forebay::Hedge::off, steps, off);
    run(store, policy, forebay::Hedge::automatic, steps, automatic);
  }
  std::printf("%s, policy %s\n", store.name, policy.c_str());
  print("off", off);
  print("auto", automatic);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  int rounds = 5;
  std::int64_t steps = 2000;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string word = argv[i];
    if (word == "--rounds") rounds = std::atoi(argv[i + 1]);
    if (word == "--steps") steps = std::atoll(argv[i + 1]);
  }
  if (rounds < 1 || steps < 1) {
    std::fputs("usage: bench_hedging [--rounds N] [--steps N]\n", stderr);
    return 2;
  }
  using Storage = forebay::StorageOptions;
  const std::array<std::pair<Store, const char*>, 5> cases{{
      {{"1 ms, one read in 400 takes 100 ms more", Storage{.latency_ms = 1, .slow_rate = 1.0 / 400, .slow_ms = 100}},
       "adaptive"},
      {{"1 ms, one read in 400 takes 100 ms more", Storage{.latency_ms = 1, .slow_rate = 1.0 / 400, .slow_ms = 100}},
       "block"},
      {{"from memory, one read in 400 takes 100 ms", Storage{.slow_rate = 1.0 / 400, .slow_ms = 100}}, "adaptive"},
      {{"1 ms, always", Storage{.latency_ms = 1}}, "adaptive"},
      {{"1 ms on average, exponential", Storage{.latency_ms = 1, .jitter = 1}}, "adaptive"},
  }};
  std::printf("8 readers, batches of %lld, steps of 2 ms, capacity 16; %d rounds of %lld steps: median [range]\n",
              static_cast<long long>(kBatch), rounds, static_cast<long long>(steps));
  std::printf(
      "  hedge fresh steps, %%              stall, %%                    read twice, %% of samples    of these won, "
      "%%\n");
  try {
    for (const auto& [store, policy] : cases) compare(store, policy, rounds, steps);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_hedging: %s\n", error.what());
    return 1;
  }
}
