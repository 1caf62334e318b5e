#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <forebay/dataset.hpp>

// What the rooms hand to each other. Not installed: programs do not see these.
namespace forebay {

class TimelineTrack;

// A sample to fetch for a place of a slot, or several that share their bytes. The slot was claimed before the request
// was made, so a sample that is read can always be decoded and nothing downstream waits for anything upstream.
struct ReadRequest {
  std::uint64_t order = 0;  // place in this rank's stream of samples; lower is needed sooner
  std::uint64_t turn = 0;   // place of the batch in this rank's stream of batches
  std::uint64_t epoch = 0;
  std::uint64_t position = 0;  // within the epoch
  std::uint64_t sample = 0;    // dataset id, already replaced when attempt > 0
  std::uint32_t attempt = 0;   // bad samples met at this position so far
  std::uint32_t slot = 0;
  std::uint32_t index = 0;  // place in the slot
  // Samples of the same bytes that are wanted together, at positions and places one after the other; `sample` is the
  // first, the others follow from the order. Only at the first attempt.
  std::uint32_t count = 1;
  // Not 0: a second read of a sample that another reader is slow with, known by this number (Hedging).
  std::uint32_t hedge = 0;
};

// Encoded bytes of one sample on their way from a reader to a decoder.
struct EncodedSample {
  ReadRequest request;
  std::vector<std::byte> bytes;
};

// Decoded RGB pixels, 8 bits, interleaved, rows from the top without padding: a whole image or a part of one. Reused
// from sample to sample; belongs to one thread.
struct Image {
  // A buffer larger than this is given back once it has not been needed for kPatience images in a row.
  static constexpr std::size_t kKeptBytes = std::size_t{32} << 20;
  static constexpr int kPatience = 64;

  std::int32_t width = 0;  // of the pixels that are here
  std::int32_t height = 0;
  std::vector<std::uint8_t> pixels;  // at least width * height * 3
  // Where the pixels lie in the whole image as it is displayed, in pixels of that image at full size: each one here
  // stands for shrink x shrink there, so area.width() == width * shrink. With shrink > 1 the area may reach past the
  // whole image, since its sides need not be multiples.
  Box area;
  std::int32_t shrink = 1;
  int unneeded = 0;  // images in a row that would have done with kKeptBytes

  // Makes room for a whole image of this size; the pixels are unspecified. Allocates only for more than ever before, or
  // after it gave memory back.
  void resize(std::int32_t new_width, std::int32_t new_height) {
    width = new_width;
    height = new_height;
    area = {0, 0, width, height};
    shrink = 1;
    const auto needed = static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * 3;
    unneeded = needed > kKeptBytes || pixels.capacity() <= kKeptBytes ? 0 : unneeded + 1;
    if (unneeded >= kPatience) std::vector<std::uint8_t>(kKeptBytes).swap(pixels);
    if (pixels.size() < needed) pixels.resize(needed);
  }
  // Where `region` of the whole image lies among the pixels: exactly with shrink == 1, else each side to the nearest
  // pixel, at least one pixel wide and high. REQUIRES: region within area and not empty.
  [[nodiscard]] Box place_of(const Box& region) const noexcept {
    const Box from{region.left - area.left, region.top - area.top, region.right - area.left, region.bottom - area.top};
    const auto nearest = [this](std::int32_t distance) { return (distance + shrink / 2) / shrink; };
    Box place{nearest(from.left), nearest(from.top), nearest(from.right), nearest(from.bottom)};
    if (place.left == place.right) place.right = (place.left = from.left / shrink) + 1;
    if (place.top == place.bottom) place.bottom = (place.top = from.top / shrink) + 1;
    return place;
  }
  [[nodiscard]] const std::uint8_t* row(std::int32_t y) const noexcept {
    return pixels.data() + static_cast<std::size_t>(y) * static_cast<std::size_t>(width) * 3;
  }
  [[nodiscard]] std::uint8_t* row(std::int32_t y) noexcept {
    return pixels.data() + static_cast<std::size_t>(y) * static_cast<std::size_t>(width) * 3;
  }
};

// What a worker thread is doing, for the watchdog's report. Written by its thread, read by any.
struct alignas(64) WorkerStatus {
  enum class Activity : std::uint8_t {
    idle,            // waiting for work
    waiting_budget,  // waiting for room in the byte budget
    reading,         // in the store
    hedging,         // in the store for a sample that another reader is slow with
    retrying,        // waiting to read again after a transient error
    decoding,
    requesting,    // asking readers for the samples of a batch
    waiting_slot,  // waiting for room in the ring
    copying,       // starting copies of batches to the device and waiting for them
    parked,        // more threads than are wanted now
    stopped,       // ended, or not started
  };
  static constexpr std::size_t kActivities = 11;

  std::atomic<Activity> activity{Activity::stopped};
  std::atomic<std::uint64_t> sample{0};   // meaningful while reading, hedging, retrying, waiting_budget or decoding
  std::atomic<std::int64_t> since_ns{0};  // steady clock, when the activity began
  // Time spent in each activity, the present one left out.
  std::array<std::atomic<std::int64_t>, kActivities> spent_ns{};
  std::atomic<clockid_t> cpu_clock{0};            // of the thread while it runs, else 0
  std::atomic<TimelineTrack*> timeline{nullptr};  // where activities are noted once they end; null = nowhere

  // Ends the activity that lasts and begins another; returns the nanoseconds that the ended one lasted.
  // Relaxed: a report may mix neighbouring moments, which is harmless in a message for people and in a mean.
  std::int64_t set(Activity now, std::uint64_t id = 0) noexcept;

  // Called by the status's thread at its beginning and end: in between its processor time can be asked for.
  void thread_begins() noexcept;
  void thread_ends() noexcept { cpu_clock.store(0, std::memory_order_relaxed); }
};

// The calling thread's name, of which debuggers and profilers show the first 15 bytes: "forebay-dec 3".
void name_this_thread(const char* name) noexcept;

// One word or two for a trace: "reading", "waiting for room". Lives as long as the program.
[[nodiscard]] const char* activity_name(WorkerStatus::Activity activity) noexcept;

// Time that all of these threads have spent in each activity up to now, the present one included. Any thread.
using ActivityTimes = std::array<std::chrono::nanoseconds, WorkerStatus::kActivities>;
[[nodiscard]] ActivityTimes times_spent(std::span<const WorkerStatus> statuses) noexcept;

// Processor time of those of these threads that run. Any thread; a system call per thread.
[[nodiscard]] std::chrono::nanoseconds cpu_spent(std::span<const WorkerStatus> statuses) noexcept;

// Processor time of all threads of this process, those that have ended included. Any thread.
[[nodiscard]] std::chrono::nanoseconds process_cpu_spent() noexcept;

// Totals that worker threads keep for telemetry; relaxed counters, exact once the threads are joined.
struct WorkerTotals {
  std::atomic<std::uint64_t> bytes_read{0};
  std::atomic<std::uint64_t> read_ns{0};  // in the store, emulated delays included, waits for the budget excluded
  std::atomic<std::uint64_t> reads{0};    // that brought their sample
  std::atomic<std::uint64_t> retries{0};  // reads tried again after a transient error
  // Second reads of slow ones that were begun, not among `reads`, and those of them that were quicker.
  std::atomic<std::uint64_t> hedged_reads{0};
  std::atomic<std::uint64_t> hedges_won{0};
  std::atomic<std::uint64_t> decode_ns{0};
  std::atomic<std::uint64_t> samples{0};
  // Of them: decoded whole or by region, alone, where transform.decode = "scaled" would have decoded them smaller.
  std::atomic<std::uint64_t> shrinkable{0};
  // With workers.jpeg = "nvjpeg", of JPEG files: decoded by nvJPEG, and left to libjpeg-turbo, bad ones included.
  std::atomic<std::uint64_t> nvjpeg_samples{0};
  std::atomic<std::uint64_t> nvjpeg_fallbacks{0};
};

// Where readers and decoders report a sample that they cannot serve. Called from their threads; must not throw.
class BadSampleSink {
 public:
  virtual ~BadSampleSink() = default;
  // A permanent failure of this request's sample. The sink arranges for a replacement or ends the run.
  virtual void bad_sample(const ReadRequest& request, std::string_view reason) noexcept = 0;
  // A transient failure that is about to be tried again; for the log.
  virtual void will_retry(const ReadRequest& /*request*/, std::string_view /*reason*/) noexcept {}
  // Anything else a worker could not handle; ends the run with this error.
  virtual void worker_failed(std::exception_ptr error) noexcept = 0;
};

}  // namespace forebay
