#include <cstdio>

#include "gpu.hpp"
#include "timing.hpp"

namespace forebay::gpu_check {
namespace {

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

  const GpuMemory plain = gpu_memory(bytes);
  const PinnedMemory plain_host = pinned_memory(bytes);
  const TrainerStream plain_stream;
  const std::vector<bench::Figure> ms = gpu_times_ms(
      {{.stream = plain_stream.get(),
        .enqueue =
            [&] {
              require(cudaMemcpyAsync(plain.get(), plain_host.get(), bytes, cudaMemcpyHostToDevice, plain_stream.get()),
                      "cudaMemcpyAsync");
            }},
       {.stream = static_cast<cudaStream_t>(stream.handle),
        .enqueue = [&] { device->copy_in(arena->bytes().data(), staging->bytes().data(), bytes, stream); }}},
      {.timed = rounds, .repeats = 1});
  const double theirs = gigabytes_per_second(bytes, ms[0].median());
  const double ours = gigabytes_per_second(bytes, ms[1].median());
  const double share = ours / theirs;
  char text[160];
  std::snprintf(text, sizeof(text), "%.1f GB/s; plain cudaMemcpyAsync %.1f GB/s; %.0f %% of it (%zu MiB, median of %d)",
                ours, theirs, 100 * share, bytes >> 20, rounds);
  return {.subject = "host to device",
          .found = text,
          .wanted = ">= 90 %",
          .verdict = share >= kWantedShare ? Verdict::fine : Verdict::missed};
}

}  // namespace forebay::gpu_check
