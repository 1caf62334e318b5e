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
using Clock = std::chrono::steady_clock;
namespace fs = std::filesystem;

constexpr double kSeconds = 5;
constexpr std::int64_t kBatch = 64;

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
  options.storage.latency_ms = 5;
  options.storage.bandwidth_mb_s = 200;
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

void compare_rates(const fs::path& folder) {
  std::printf("emulated store: 5 ms per request, 200 MB/s; batches of %lld, windows of 1024 in runs of 32; samples/s\n",
              static_cast<long long>(kBatch));
  std::printf("sample    readers    global    shards    ratio    the bandwidth's limit\n");
  for (const std::uint32_t side : {28U, 55U, 100U, 330U}) {
    const std::uint32_t samples = std::min(60'000U, 300'000'000U / (side * side));
    const fs::path data = folder / std::to_string(side);
    make_data(data, samples, side);
    for (const std::int64_t readers : {1, 4, 16}) {
      const double global = samples_per_second(options_for(data, side, readers, SampleOrder::global));
      const double shards = samples_per_second(options_for(data, side, readers, SampleOrder::shards));
      std::printf("%5.1f kB  %7lld  %8.0f  %8.0f   %5.1f x  %8.0f\n", side * side / 1000.0,
                  static_cast<long long>(readers), global, shards, shards / global, 200e6 / (side * side));
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
  std::printf("\nmixing, %llu samples, batches of %lld\n", static_cast<unsigned long long>(kSamples),
              static_cast<long long>(kBatch));
  std::printf("order                             displacement  neighbours  of 32 together\n");
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
