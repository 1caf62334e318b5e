#include <chrono>
#include <cstdio>
#include <thread>
#include <utility>
#include <vector>

#include <forebay/feeder.hpp>

#include "gpu.hpp"
#include "hot_path/measure.hpp"
#include "soak.hpp"

namespace forebay::gpu_check {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kWantedUs = 10;
constexpr std::uint64_t kWarmUp = 100;
// Time for the decoders to go on between two calls.
constexpr auto kStep = std::chrono::microseconds(500);

Options next_options(const Setup& setup) {
  Options options = quiet_options(setup, setup.device);
  options.queue.capacity = 8;
  options.policy.name = "greedy";  // never waits for a batch
  options.run.steps = setup.quick ? 200 : 4000;
  return options;
}

}  // namespace

Row next_row(const Setup& setup) {
  const std::unique_ptr<Device> device = open_device(setup);
  const TrainerStream stream;
  Feeder feeder(next_options(setup));
  std::vector<double> us;
  for (;;) {
    stream.synchronize();  // the GPU is not behind: what is measured waits for nothing
    const auto begin = Clock::now();
    const auto lease = feeder.next(stream.view());
    const double taken = std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
    if (!lease) break;
    if (lease->step() >= kWarmUp) us.push_back(taken);
    std::this_thread::sleep_for(kStep);
  }
  const double p50 = bench::percentile(us, 0.5);
  char text[120];
  std::snprintf(text, sizeof(text), "p50 %.1f us, p99 %.1f us (%zu calls)", p50, bench::percentile(us, 0.99),
                us.size());
  return {.subject = "next(stream) on the host",
          .found = text,
          .wanted = "p50 <= 10 us",
          .verdict = p50 <= kWantedUs ? Verdict::fine : Verdict::missed};
}

}  // namespace forebay::gpu_check
