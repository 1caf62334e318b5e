// For `experiments/hot_path/syscalls`: 1,000 fresh batches, all ready, served between two marks in the system calls.
#include <chrono>
#include <cstdio>
#include <memory>
#include <string_view>
#include <thread>

#include <fcntl.h>
#include <unistd.h>

#include <forebay/feeder.hpp>

#include "memory_dataset.hpp"

namespace {

constexpr std::int64_t kBatches = 1000;

void mark(int file, std::string_view text) {
  if (::write(file, text.data(), text.size()) < 0) std::perror("mark");
}

}  // namespace

int main(int, char** argv) {
  const int null = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  forebay::Options options = forebay::testing::memory_options(4);
  options.run.steps = kBatches + 1;
  options.queue.capacity = kBatches + 1;
  options.telemetry.dir = argv[1] != nullptr ? argv[1] : "";
  forebay::Parts parts;
  parts.dataset = std::make_shared<forebay::testing::MemoryDataset>(4096);
  forebay::Feeder feeder(options, std::move(parts));
  auto batch = feeder.next();
  // The producer has made every batch of the run, and none of its threads is parked for room in the ring.
  const double blocked_s = feeder.summary().blocked_s;
  while (feeder.summary().blocked_s == blocked_s) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  batch.reset();

  std::int64_t fresh = 0;
  mark(null, "begin");
  for (std::int64_t step = 0; step < kBatches; ++step) {
    const auto served = feeder.next();
    fresh += served && served->is_fresh() ? 1 : 0;
  }
  mark(null, "end");
  std::printf("%lld fresh batches served\n", static_cast<long long>(fresh));
  return fresh == kBatches ? 0 : 1;
}
