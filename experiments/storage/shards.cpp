// dataset.order = "shards" beside "global": samples per second from an emulated store, and how well samples are mixed.
// bench_shards DIR

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <forebay/feeder.hpp>
#include <forebay/order.hpp>

#include "order/mixing.hpp"

namespace {

using namespace forebay;
using namespace forebay::order;
using Clock = std::chrono::steady_clock;
namespace fs = std::filesystem;

constexpr double kSeconds = 4;
constexpr std::int64_t kBatch = 64;
constexpr double kLatencyMs = 5;
constexpr double kBandwidth = 200;  // MB/s

void put_number(std::string& out, std::uint32_t number) {
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(number >> shift & 0xffU);
}

// An idx file of square grey images, made once.
void make_data(const fs::path& folder, std::uint32_t samples, std::uint32_t side) {
  const fs::path file = folder / "train-images-idx3-ubyte";
  if (fs::exists(file)) return;
  fs::create_directories(folder);
  std::string images("\0\0\x08\x03", 4);
  for (const std::uint32_t extent : {samples, side, side}) put_number(images, extent);
  std::string labels("\0\0\x08\x01", 4);
  put_number(labels, samples);
  std::ofstream out(file, std::ios::binary);
  out.write(images.data(), static_cast<std::streamsize>(images.size()));
  std::string pixels(std::size_t{side} * side, '\0');
  for (std::uint32_t i = 0; i < samples; ++i) {
    std::ranges::fill(pixels, static_cast<char>(i));
    out.write(pixels.data(), static_cast<std::streamsize>(pixels.size()));
    labels += static_cast<char>(i % 10);
  }
  std::ofstream(folder / "train-labels-idx1-ubyte", std::ios::binary) << labels;
}

Options options_for(const fs::path& folder, std::int64_t side, std::int64_t readers, SampleOrder order) {
  Options options;
  options.device = "host";
  options.dataset.path = folder.string();
  options.dataset.batch_size = kBatch;
  options.dataset.order = order;
  options.transform.crop = Crop::none;
  options.transform.size = {side, side};
  options.transform.mirror = 0;
  options.transform.dtype = DType::uint8;
  options.transform.layout = Layout::nhwc;
  options.workers.io = readers;
  options.workers.decode = 1;
  options.policy.name = "block";
  options.run.epochs = 1'000'000;
  options.storage.latency_ms = kLatencyMs;
  options.storage.bandwidth_mb_s = kBandwidth;
  options.telemetry.interval_s = 0;
  options.telemetry.live = Live::never;
  return options;
}

double samples_per_second(const Options& options) {
  Feeder feeder(options);
  const auto warm = Clock::now() + std::chrono::seconds(1);
  while (Clock::now() < warm) (void)feeder.next();
  const auto begin = Clock::now();
  std::uint64_t samples = 0;
  double seconds = 0;
  while (seconds < kSeconds) {
    samples += feeder.next()->size();
    seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  }
  return static_cast<double>(samples) / seconds;
}

// What the emulated store can deliver at most, in samples per second.
struct Limits {
  double by_requests = 0;  // each sample a request of its own
  double by_bandwidth = 0;
  [[nodiscard]] double global() const noexcept { return std::min(by_requests, by_bandwidth); }
};

Limits limits_of(std::int64_t readers, double bytes) {
  return {.by_requests = static_cast<double>(readers) * 1000 / kLatencyMs, .by_bandwidth = kBandwidth * 1e6 / bytes};
}

void compare_rates(const fs::path& folder) {
  std::printf(
      "Samples per second from an emulated store of %.0f ms per request and %.0f MB/s; batches of %lld, windows of\n"
      "1024 in runs of 32; [most that this store can deliver]. \"global\" makes a request for each sample: the\n"
      "store allows readers / %.0f ms of them, and no more than its bandwidth. \"shards\" makes one for up to 32\n"
      "samples, so the bandwidth is its only limit. Where \"global\" reaches the bandwidth, no order can do "
      "better.\n\n",
      kLatencyMs, kBandwidth, static_cast<long long>(kBatch), kLatencyMs);
  std::printf("  sample  readers      global   [most]      shards   [most]     ratio   [most]  limit of global\n");
  for (const std::uint32_t side : {28U, 55U, 100U, 330U}) {
    const std::uint32_t samples = std::min(60'000U, 300'000'000U / (side * side));
    const fs::path data = folder / std::to_string(side);
    make_data(data, samples, side);
    for (const std::int64_t readers : {1, 4, 16}) {
      const double global = samples_per_second(options_for(data, side, readers, SampleOrder::global));
      const double shards = samples_per_second(options_for(data, side, readers, SampleOrder::shards));
      const Limits limits = limits_of(readers, side * side);
      std::printf("%5.1f kB  %7lld  %10.0f %8.0f  %10.0f %8.0f  %6.1f x  %5.1f x  %s\n", side * side / 1000.0,
                  static_cast<long long>(readers), global, limits.global(), shards, limits.by_bandwidth,
                  shards / global, limits.by_bandwidth / limits.global(),
                  limits.by_requests < limits.by_bandwidth ? "requests" : "bandwidth");
      std::fflush(stdout);
    }
  }
}

void print_mixing(const char* name, const OrderOptions& options, std::uint64_t run) {
  const Mixing mixing = mixing_of(Order(options), 0, run, 2000);
  std::printf("%-32s  %12.3f  %10.3f  %14.1f\n", name, mixing.displacement, mixing.neighbours, mixing.together);
}

void compare_mixing() {
  constexpr std::uint64_t kSamples = 1'281'167;
  std::printf(
      "\nHow well an epoch of %llu samples is mixed. Displacement: mean distance of a sample from its place in\n"
      "storage, over that of a true shuffle. Neighbours: correlation of the places of samples that are served one\n"
      "after the other. Together: most samples of a batch of %lld within 32 places in storage, on average.\n\n",
      static_cast<unsigned long long>(kSamples), static_cast<long long>(kBatch));
  std::printf("order                             displacement  neighbours        together\n");
  OrderOptions options{.samples = kSamples, .batch_size = kBatch, .seed = 17};
  print_mixing("global", options, 32);
  for (const auto& [window, run] : {std::array{1024, 8}, {1024, 32}, {1024, 128}, {4096, 32}, {4096, 128}, {256, 32}}) {
    options.window = static_cast<std::uint64_t>(window);
    options.run = static_cast<std::uint64_t>(run);
    const std::string name = "windows of " + std::to_string(window) + ", runs of " + std::to_string(run);
    print_mixing(name.c_str(), options, 32);
  }
  options.shuffle = false;
  print_mixing("in order", options, 32);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: bench_shards DIR     writes up to 950 MB there\n", stderr);
    return 2;
  }
  try {
    compare_rates(argv[1]);
    compare_mixing();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_shards: %s\n", error.what());
    return 1;
  }
}
