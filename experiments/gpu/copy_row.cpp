#include <cstdio>

#include "gpu.hpp"
#include "hot_path/measure.hpp"

namespace forebay::gpu_check {
namespace {

using bench::Figure;

constexpr double kWantedShare = 0.9;

double gigabytes_per_second(std::size_t bytes, double ms) { return static_cast<double>(bytes) / ms / 1e6; }

}  // namespace

Row copy_row(const Setup& setup) {
  const std::size_t bytes = setup.quick ? std::size_t{1} << 20 : std::size_t{256} * 224 * 224 * 3 * 4;
  const int rounds = setup.quick ? 3 : 40;
  const std::unique_ptr<Device> device = open_device(setup);

  const auto arena = device->allocate(bytes);
  const auto staging = device->allocate_staging(bytes);
  const StreamView stream = device->make_stream();
  Stopwatch watch(static_cast<cudaStream_t>(stream.handle));

  const GpuMemory plain = gpu_memory(bytes);
  const PinnedMemory plain_host = pinned_memory(bytes);
  const TrainerStream plain_stream;
  Stopwatch plain_watch(plain_stream.get());

  Figure ours;
  Figure theirs;
  for (int round = -2; round < rounds; ++round) {  // the first ones warm up
    plain_watch.begin();
    require(cudaMemcpyAsync(plain.get(), plain_host.get(), bytes, cudaMemcpyHostToDevice, plain_stream.get()),
            "cudaMemcpyAsync");
    const double plain_ms = plain_watch.end_ms();
    watch.begin();
    device->copy_in(arena->bytes().data(), staging->bytes().data(), bytes, stream);
    const double ms = watch.end_ms();
    if (round < 0) continue;
    theirs.rounds.push_back(gigabytes_per_second(bytes, plain_ms));
    ours.rounds.push_back(gigabytes_per_second(bytes, ms));
  }
  const double share = ours.median() / theirs.median();
  char text[160];
  std::snprintf(text, sizeof(text), "%.1f GB/s; plain cudaMemcpyAsync %.1f GB/s; %.0f %% of it (%zu MiB, median of %d)",
                ours.median(), theirs.median(), 100 * share, bytes >> 20, rounds);
  return {.subject = "host to device",
          .found = text,
          .wanted = ">= 90 %",
          .verdict = share >= kWantedShare ? Verdict::fine : Verdict::missed};
}

}  // namespace forebay::gpu_check
