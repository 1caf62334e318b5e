// The limit of the feeder: the same samples in the same order, read, decoded and transformed into a ring of the same
// size by threads that share nothing but a counter. No queue, no hand-over, nobody who waits for a batch.
//   bench_bare_loop CONFIG THREADS WARM_SECONDS SECONDS [KEY=VALUE...]
// Prints one line of JSON: images per second after the warm-up, and mean and deviation of the last batches' values.
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <forebay/config.hpp>
#include <forebay/dataset.hpp>
#include <forebay/error.hpp>
#include <forebay/order.hpp>

#include "device/host_device.hpp"
#include "jpeg/pixel_kernels.hpp"
#include "make/sample_maker.hpp"
#include "ring/queue_slots.hpp"
#include "ring/slot_store.hpp"

using namespace forebay::device;
using namespace forebay::jpeg;
using namespace forebay::make;
using namespace forebay::ring;

namespace forebay::throughput {
namespace {

// A thread's buffer of encoded bytes; grows to the largest sample it has met, then stays.
class Bytes final : public ReadTarget {
 public:
  std::span<std::byte> reserve(std::size_t bytes) override {
    if (memory_.size() < bytes) memory_.resize(bytes);
    return bytes_ = std::span(memory_).first(bytes);
  }
  [[nodiscard]] std::span<const std::byte> get() const noexcept { return bytes_; }

 private:
  std::vector<std::byte> memory_;
  std::span<std::byte> bytes_;
};

// From a sample's number to its pixels in a slot, on one thread: the work of a reader and of a decoder thread without
// what moves samples between them.
class SampleWorker {
 public:
  // All must outlive it. `kernels` as JpegDecoder takes them.
  SampleWorker(const Dataset& dataset, const SampleMaker& maker, const PixelKernels* kernels = nullptr)
      : dataset_(dataset), maker_(maker) {
    bench_.decoder = ImageDecoder(kernels);
  }

  // Writes sample `id` as it is shown at `position` of `epoch`. Throws SampleError when it cannot be read or decoded.
  // REQUIRES: out.size() == maker.sample_bytes().
  void load(std::uint64_t id, std::uint64_t epoch, std::uint64_t position, std::span<std::byte> out) {
    dataset_.read(id, bytes_);
    maker_.make(bytes_.get(), dataset_.sample(id), epoch, position, out, bench_);
  }

 private:
  const Dataset& dataset_;
  const SampleMaker& maker_;
  Bytes bytes_;
  SampleMaker::Workspace bench_;
};

using Clock = std::chrono::steady_clock;

OrderOptions order_of(const Options& options, const Dataset& dataset) {
  return {.samples = dataset.size(),
          .batch_size = static_cast<std::uint32_t>(options.dataset.batch_size),
          .seed = options.seed,
          .shuffle = options.dataset.shuffle,
          .drop_last = true};
}

SlotFormat format_of(const Options& options) {
  return {.batch_size = static_cast<std::uint32_t>(options.dataset.batch_size),
          .height = options.transform.size[0],
          .width = options.transform.size[1],
          .dtype = options.transform.dtype,
          .layout = options.transform.layout};
}

// As many slots as the feeder has.
SlotCounts counts_of(const QueueOptions& queue) { return {.slots = static_cast<std::uint32_t>(slots_of(queue))}; }

// Of all threads of this process so far.
double processor_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

class BareLoop {
 public:
  explicit BareLoop(const Options& options)
      : options_(options),
        dataset_(open_dataset(options.dataset)),
        order_(order_of(options, *dataset_)),
        maker_(options.transform, options.seed, false,
               OperationChain(OperationRegistry::builtin(), options.transform, false)),
        slots_(std::make_shared<HostDevice>(), format_of(options), counts_of(options.queue)),
        kernels_(options.workers.jpeg == JpegLibrary::own ? choose_pixel_kernels().kernels : nullptr) {
    // Each is filled again and again, whatever the batch is called.
    for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) slots_.begin(slot, slot, {});
  }

  struct Speed {
    double images_per_s;
    double busy_cores;  // processor time / time
  };

  // Over `seconds`, after `warm` seconds of the same work. Throws what a thread met.
  Speed measure(unsigned threads, std::chrono::duration<double> warm, std::chrono::duration<double> seconds) {
    std::vector<std::jthread> running;
    for (unsigned thread = 0; thread < threads; ++thread) running.emplace_back([this] { work(); });
    std::this_thread::sleep_for(warm);
    const std::uint64_t before = next_.load();
    const double used = processor_seconds();
    const auto begin = Clock::now();
    std::this_thread::sleep_for(seconds);
    const std::uint64_t after = next_.load();
    const double used_since = processor_seconds() - used;
    const std::chrono::duration<double> took = Clock::now() - begin;
    stop_ = true;
    running.clear();
    if (error_) std::rethrow_exception(error_);
    return {.images_per_s = static_cast<double>(after - before) / took.count(),
            .busy_cores = used_since / took.count()};
  }

  // Mean and deviation of all values in the ring, as far as it was filled; float32 only.
  void print_values() {
    const std::uint64_t filled = std::min<std::uint64_t>(next_.load() / options_.dataset.batch_size, slots_.size()) *
                                 static_cast<std::uint64_t>(options_.dataset.batch_size);
    double sum = 0;
    double squares = 0;
    std::uint64_t count = 0;
    for (std::uint64_t n = 0; n < filled; ++n) {
      const auto bytes = place(n);
      for (std::size_t at = 0; at + sizeof(float) <= bytes.size(); at += sizeof(float), ++count) {
        float value = 0;
        std::memcpy(&value, &bytes[at], sizeof(value));
        sum += value;
        squares += double{value} * value;
      }
    }
    const double mean = sum / static_cast<double>(count);
    std::printf(R"(, "mean": %.4f, "std": %.4f)", mean, std::sqrt(squares / static_cast<double>(count) - mean * mean));
  }

 private:
  std::span<std::byte> place(std::uint64_t n) {
    const auto batch = static_cast<std::uint64_t>(options_.dataset.batch_size);
    return slots_.sample(static_cast<std::uint32_t>(n / batch % slots_.size()), static_cast<std::uint32_t>(n % batch))
        .pixels;
  }

  void work() noexcept {
    try {
      SampleWorker worker(*dataset_, maker_, kernels_);
      const std::uint64_t epoch_samples = order_.batches() * order_.options().batch_size;
      while (!stop_.load(std::memory_order_relaxed)) {
        const std::uint64_t n = next_.fetch_add(1, std::memory_order_relaxed);
        const std::uint64_t epoch = n / epoch_samples;
        const std::uint64_t position = n % epoch_samples;
        worker.load(order_.sample(epoch, position), epoch, position, place(n));
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      error_ = std::current_exception();
      stop_ = true;
    }
  }

  Options options_;
  std::unique_ptr<Dataset> dataset_;
  Order order_;
  SampleMaker maker_;
  SlotStore slots_;
  const PixelKernels* kernels_;  // of the decoders, as workers.jpeg asks
  alignas(64) std::atomic<std::uint64_t> next_{0};
  alignas(64) std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::exception_ptr error_;
};

int run(const std::vector<std::string>& arguments) {
  if (arguments.size() < 4) {
    std::fputs("usage: bench_bare_loop CONFIG THREADS WARM_SECONDS SECONDS [KEY=VALUE...]\n", stderr);
    return 2;
  }
  const std::vector<std::string> overrides(arguments.begin() + 4, arguments.end());
  const Options options = load_options(arguments[0], overrides);
  BareLoop loop(options);
  const auto threads = static_cast<unsigned>(std::stoul(arguments[1]));
  const BareLoop::Speed speed = loop.measure(threads, std::chrono::duration<double>(std::stod(arguments[2])),
                                             std::chrono::duration<double>(std::stod(arguments[3])));
  std::printf(R"({"images_per_s": %.2f, "busy_cores": %.4f)", speed.images_per_s, speed.busy_cores);
  if (options.transform.dtype == DType::float32) loop.print_values();
  std::puts("}");
  return 0;
}

}  // namespace
}  // namespace forebay::throughput

int main(int argc, char** argv) {
  try {
    return forebay::throughput::run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_bare_loop: %s\n", error.what());
    return 1;
  }
}
