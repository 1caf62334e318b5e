// What a step costs the trainer's thread through the C interface, beside the same step in C++: the next batch, a look
// at its images, and its release, in alternating rounds. Reused batches in a row; fresh ones with work of this core
// between the calls, so that one is always ready.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <forebay/forebay.h>
#include <forebay/feeder.hpp>

#include "measure.hpp"
#include "memory_dataset.hpp"

namespace {

using Clock = std::chrono::steady_clock;
using forebay::bench::Figure;
using forebay::bench::percentile;

constexpr int kRounds = 11;
constexpr int kWarmUp = 100;

struct Case {
  const char* name;
  std::int64_t interval;  // every so many steps are fresh
  std::int64_t steps;
  std::chrono::microseconds work;  // between two steps
};

forebay::Options options(const Case& measured) {
  forebay::Options made = forebay::testing::memory_options(4);
  made.workers.io = 1;
  made.workers.decode = 1;
  made.queue.capacity = 16;
  made.policy.name = "interval";
  made.policy.interval = measured.interval;
  made.run.steps = measured.steps;
  return made;
}

// Nanoseconds of each step; step() returns false at the end.
template <typename Step>
double median_step(const Case& measured, Step&& step) {
  std::vector<double> ns;
  for (int number = 0;; ++number) {
    const auto before = Clock::now();
    const bool goes_on = step();
    const auto after = Clock::now();
    if (!goes_on) return percentile(std::move(ns), 0.5);
    if (number >= kWarmUp) ns.push_back(std::chrono::duration<double, std::nano>(after - before).count());
    for (const auto end = after + measured.work; Clock::now() < end;) {
    }
  }
}

double in_cpp(const Case& measured) {
  forebay::Parts parts;
  parts.dataset = std::make_shared<forebay::testing::MemoryDataset>(4096);
  forebay::Feeder feeder(options(measured), std::move(parts));
  return median_step(measured, [&] {
    const auto batch = feeder.next();
    return batch && batch->images().data != nullptr;
  });
}

double in_c(const Case& measured) {
  forebay_dataset dataset{};
  dataset.struct_size = sizeof(dataset);
  dataset.size = 4096;
  dataset.sample = [](void*, std::uint64_t, forebay_sample* sample, char*) {
    sample->encoding = FOREBAY_RAW_PIXELS;
    sample->width = sample->height = forebay::testing::MemoryDataset::kSide;
    sample->channels = 1;
    return forebay_status{FOREBAY_OK};
  };
  dataset.read = [](void*, std::uint64_t id, forebay_target* target, char*) {
    constexpr std::size_t kPixels =
        std::size_t{forebay::testing::MemoryDataset::kSide} * forebay::testing::MemoryDataset::kSide;
    auto* const room = static_cast<std::uint8_t*>(forebay_target_reserve(target, kPixels));
    if (room == nullptr) return forebay_status{FOREBAY_ERROR};
    for (std::size_t i = 0; i < kPixels; ++i) room[i] = forebay::testing::MemoryDataset::pixel(id, i);
    return forebay_status{FOREBAY_OK};
  };
  const std::string toml = forebay::to_toml(options(measured));
  forebay_feeder_options made{};
  made.struct_size = sizeof(made);
  made.text = toml.c_str();
  made.dataset = &dataset;
  forebay_error* error = nullptr;
  forebay_feeder* feeder = nullptr;
  if (forebay_feeder_new(&made, &feeder, &error) != FOREBAY_OK) {
    std::fprintf(stderr, "%s\n", forebay_error_message(error));
    return 0;
  }
  const double ns = median_step(measured, [&] {
    forebay_batch* batch = nullptr;
    forebay_tensor images{};
    images.struct_size = sizeof(images);
    if (forebay_feeder_next(feeder, FOREBAY_NO_TIMEOUT, nullptr, &batch, &error) != FOREBAY_OK) return false;
    forebay_batch_tensor(batch, 0, &images, nullptr);
    forebay_batch_release(batch);
    return images.data != nullptr;
  });
  forebay_feeder_free(feeder);
  return ns;
}

}  // namespace

int main() {
  using std::chrono::microseconds;
  std::printf("next, a tensor, release, ns: median of %d alternating rounds [range]\n", kRounds);
  for (const Case& measured : {Case{.name = "reuse", .interval = INT32_MAX, .steps = 75'000, .work = microseconds(0)},
                               Case{.name = "fresh", .interval = 1, .steps = 2'000, .work = microseconds(200)}}) {
    Figure cpp;
    Figure c;
    Figure more;
    for (int round = 0; round < kRounds; ++round) {
      cpp.rounds.push_back(in_cpp(measured));
      c.rounds.push_back(in_c(measured));
      more.rounds.push_back(c.rounds.back() - cpp.rounds.back());
    }
    std::printf("%s  C++ %s   C %s   more %s\n", measured.name, cpp.text().c_str(), c.text().c_str(),
                more.text().c_str());
  }
}
