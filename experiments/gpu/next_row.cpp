#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <forebay/feeder.hpp>

#include "checks.hpp"
#include "gpu.hpp"
#include "measure.hpp"

using namespace forebay::device;

namespace forebay::gpu_check {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kWantedUs = 10;
constexpr std::uint64_t kWarmUp = 100;
// Time for the decoders to go on between two calls.
constexpr auto kStep = std::chrono::microseconds(500);

Options next_options(const Setup& setup, When when) {
  Options options = quiet_options(setup, setup.device);
  options.transform.when = when;
  if (setup.quick) options.transform.size = {32, 32};
  options.queue.capacity = 8;
  options.policy.name = "greedy";  // never waits for a batch
  options.run.steps = setup.quick ? 200 : 4000;
  return options;
}

// Of the trainer's thread, in microseconds.
struct Calls {
  std::vector<double> next;
  std::vector<double> end;  // of the lease
};

Calls calls_of(Options options) {
  const TrainerStream stream;
  Feeder feeder(std::move(options));
  Calls calls;
  for (;;) {
    stream.synchronize();  // the GPU is not behind: what is measured waits for nothing
    const Clock::time_point begin = Clock::now();
    auto lease = feeder.next(stream.view());
    const Clock::time_point served = Clock::now();
    if (!lease) break;
    const bool counts = lease->step() >= kWarmUp;
    const Clock::time_point used = Clock::now();
    lease.reset();
    const Clock::time_point ended = Clock::now();
    if (counts) {
      calls.next.push_back(std::chrono::duration<double, std::micro>(served - begin).count());
      calls.end.push_back(std::chrono::duration<double, std::micro>(ended - used).count());
    }
    std::this_thread::sleep_for(kStep);
  }
  return calls;
}

std::string text_of(const std::vector<double>& us) {
  char text[60];
  std::snprintf(text, sizeof(text), "p50 %.1f us, p99 %.1f us", bench::percentile(us, 0.5),
                bench::percentile(us, 0.99));
  return text;
}

}  // namespace

Row next_row(const Setup& setup) {
  const std::unique_ptr<Device> device = open_device(setup);
  const Calls tensors = calls_of(next_options(setup, When::enqueue));
  const Calls views = calls_of(next_options(setup, When::dequeue));
  return {.subject = "next(stream) on the host",
          .found = text_of(tensors.next) + " (judged), the lease's end " + text_of(tensors.end) +
                   "; with when = dequeue " + text_of(views.next) + ", the lease's end " + text_of(views.end) + "; " +
                   std::to_string(tensors.next.size()) + " calls each",
          .wanted = "p50 <= 10 us",
          .verdict = bench::percentile(tensors.next, 0.5) <= kWantedUs ? Verdict::fine : Verdict::missed,
          .rounds = {{"next, us", tensors.next},
                     {"end, us", tensors.end},
                     {"next with dequeue, us", views.next},
                     {"end with dequeue, us", views.end}}};
}

}  // namespace forebay::gpu_check
