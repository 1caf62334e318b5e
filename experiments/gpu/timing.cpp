#include "gpu.hpp"

#include <cstdint>

#include "batch_hash.hpp"

namespace forebay::gpu_check {
namespace {

constexpr int kWarmUp = 3;  // rounds
// Longer than a host takes to begin, and then for each of a round's repeats, of a few launches.
constexpr std::uint64_t kHeadStartNs = 100'000;
constexpr std::uint64_t kHeadStartEachNs = 50'000;

class Stopwatch {
 public:
  Stopwatch() {
    require(cudaEventCreateWithFlags(&begin_, cudaEventBlockingSync), "cudaEventCreateWithFlags");
    require(cudaEventCreateWithFlags(&end_, cudaEventBlockingSync), "cudaEventCreateWithFlags");
  }
  ~Stopwatch() {
    static_cast<void>(cudaEventDestroy(begin_));
    static_cast<void>(cudaEventDestroy(end_));
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

  void begin(cudaStream_t stream) const { require(cudaEventRecord(begin_, stream), "cudaEventRecord"); }
  // Waits for the stream.
  [[nodiscard]] double end_ms(cudaStream_t stream) const {
    require(cudaEventRecord(end_, stream), "cudaEventRecord");
    require(cudaEventSynchronize(end_), "cudaEventSynchronize");
    float ms = 0;
    require(cudaEventElapsedTime(&ms, begin_, end_), "cudaEventElapsedTime");
    return ms;
  }

 private:
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

double time_ms(const GpuWork& work, int repeats, const Stopwatch& watch) {
  const std::uint64_t head_start = kHeadStartNs + kHeadStartEachNs * static_cast<std::uint64_t>(repeats);
  require(static_cast<cudaError_t>(gpu_check_spin(head_start, work.stream)), "the kernel that waits");
  watch.begin(work.stream);
  for (int i = 0; i < repeats; ++i) work.enqueue();
  return watch.end_ms(work.stream) / repeats;
}

}  // namespace

std::vector<bench::Figure> gpu_times_ms(const std::vector<GpuWork>& works, const Rounds& rounds) {
  const Stopwatch watch;
  std::vector<bench::Figure> figures(works.size());
  for (int round = -kWarmUp; round < rounds.timed; ++round) {
    for (std::size_t i = 0; i < works.size(); ++i) {
      const double ms = time_ms(works[i], rounds.repeats, watch);
      if (round >= 0) figures[i].rounds.push_back(ms);
    }
  }
  return figures;
}

}  // namespace forebay::gpu_check
