// Resident memory of a feeder's process over many steps: does it stay flat? Ends with 1 when it does not.
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <string>
#include <vector>

#include <forebay/config.hpp>
#include <forebay/feeder.hpp>

namespace {

struct Reading {
  double steps;
  double bytes;
};

double resident_bytes() {
  std::ifstream in("/proc/self/statm");
  double size = 0;
  double resident = 0;
  in >> size >> resident;
  return resident * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

// Of the least-squares line, in bytes per step.
double slope(const std::vector<Reading>& readings) {
  Reading mean{0, 0};
  for (const Reading& one : readings) {
    mean.steps += one.steps / static_cast<double>(readings.size());
    mean.bytes += one.bytes / static_cast<double>(readings.size());
  }
  double above = 0;
  double below = 0;
  for (const Reading& one : readings) {
    above += (one.steps - mean.steps) * (one.bytes - mean.bytes);
    below += (one.steps - mean.steps) * (one.steps - mean.steps);
  }
  return above / below;
}

int measure(const std::string& config, std::uint64_t steps, double limit) {
  const std::uint64_t every = steps / 10;
  const std::vector<std::string> overrides{"run.steps=" + std::to_string(steps), "telemetry.interval_s=0",
                                           "telemetry.live=\"never\"", "device=\"host\""};
  forebay::Feeder feeder(forebay::load_options(config, overrides));
  std::printf("%s\n", feeder.describe().c_str());
  std::printf("%10s %12s %8s\n", "steps", "resident MiB", "fresh %");
  std::vector<Reading> readings;
  std::uint64_t fresh = 0;
  for (std::uint64_t step = 0; auto batch = feeder.next();) {
    fresh += batch->is_fresh() ? 1 : 0;
    batch.reset();
    if (++step % every != 0) continue;
    readings.push_back({static_cast<double>(step), resident_bytes()});
    std::printf("%10lu %12.2f %8.1f\n", step, readings.back().bytes / (1 << 20),
                100.0 * static_cast<double>(fresh) / static_cast<double>(step));
    std::fflush(stdout);
  }
  // In the first half buffers still grow to the largest images that they meet.
  readings.erase(readings.begin(), readings.begin() + 4);
  const double bytes_per_step = slope(readings);
  std::printf("slope of the second half: %+.2f bytes per step, %+.2f MiB in %lu steps (limit %.0f bytes per step)\n",
              bytes_per_step, bytes_per_step * static_cast<double>(steps) / (1 << 20), steps, limit);
  return bytes_per_step <= limit ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4 || std::atoll(argv[2]) < 100) {
    std::fprintf(stderr,
                 "usage: bench_memory CONFIG STEPS BYTES   (at least 100 steps; growth per step that is still flat)\n");
    return 2;
  }
  try {
    return measure(argv[1], static_cast<std::uint64_t>(std::atoll(argv[2])), std::atof(argv[3]));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_memory: %s\n", error.what());
    return 2;
  }
}
