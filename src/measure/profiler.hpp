#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>

#include <forebay/profile.hpp>

#include "base/thread.hpp"
#include "base/timeline.hpp"
#include "base/wait.hpp"
#include "read/requests.hpp"

namespace forebay::measure {

// The state of the production side. Times and counts are since its start, and may be from slightly
// different moments.
struct Observation {
  std::chrono::steady_clock::time_point at;
  ActivityTimes issuer{};
  ActivityTimes readers{};   // summed over threads
  ActivityTimes decoders{};  // summed over threads
  std::chrono::nanoseconds decoder_cpu{0};
  std::chrono::nanoseconds reader_cpu{0};
  std::chrono::nanoseconds process_cpu{0};  // all threads, the trainer's included
  std::chrono::nanoseconds blocked{0};      // the producer, by a full ring
  std::uint64_t reads = 0;
  std::uint64_t bytes_read = 0;
  std::uint64_t samples = 0;       // decoded samples
  std::uint64_t shrinkable = 0;    // of those, as in WorkerTotals
  std::uint64_t own_jpeg = 0;      // likewise
  std::uint64_t indexed_jpeg = 0;  // likewise
  std::uint64_t published = 0;
  std::uint64_t planned = 0;
  // Current values, not sums.
  std::uint32_t depth = 0;
  std::uint32_t capacity = 0;  // batches that may be ready
  std::size_t encoded = 0;
  std::size_t bytes_in_flight = 0;
  std::size_t most_bytes_in_flight = 0;  // since the start
};

// The settings to which a profile's figures relate.
struct ProfileFrame {
  double batch_size = 0;
  double batch_bytes = 0;
  double workers_bytes = 0;
  double cores = 0;
  bool decode_fixed = false;
};

// A mean over time, and the shares of time during which the value was low or high. For one thread.
class TimeMean {
 public:
  // The value held for `s` seconds. 0 counts as empty, `full` or more as full; with full = 0 it is
  // never full.
  void add(double s, double value, double full) noexcept;
  [[nodiscard]] QueueProfile figures() const noexcept;

 private:
  double s_ = 0;
  double sum_ = 0;
  double most_ = 0;
  std::optional<double> least_;  // since it was first full
  double empty_s_ = 0;
  double full_s_ = 0;
};

// Computes a profile from consecutive observations, which are its only source of time. For one
// thread. It ignores observations once nothing is left to produce, because workers that have
// nothing to do at the end of a run must not count as waiting.
class ProfileWindow {
 public:
  ProfileWindow(const ProfileFrame& frame, const Observation& first) : frame_(frame), first_(first), last_(first) {}

  void add(const Observation& now) noexcept;
  // All but the trainer's part.
  [[nodiscard]] Profile figures() const;

 private:
  ProfileFrame frame_;
  Observation first_;
  Observation last_;
  TimeMean encoded_;
  TimeMean bytes_;
  TimeMean ring_;
};

// Observes the production side of a rank on a thread of its own, fifty times a second. This costs
// the other threads nothing, because they keep these figures anyway.
class Profiler {
 public:
  // `observe` is called here, and on the profiler's thread until stop() has returned. `track`:
  // receives the levels of the queues; may be null. Throws Error if the thread cannot be started.
  Profiler(const ProfileFrame& frame, std::function<Observation()> observe, TimelineTrack* track);
  ~Profiler() { stop(); }
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  // Observes once more and ends the thread. Idempotent. Called on the thread that constructed this.
  void stop();
  // The part of the workers and queues, so far. Any thread.
  [[nodiscard]] Profile profile() const;

 private:
  void run(const std::stop_token& stop);
  void observe_once();

  WaitPoint stopping_;
  std::function<Observation()> observe_;
  TimelineTrack* track_;
  mutable std::mutex mutex_;  // guards window_
  ProfileWindow window_;
  std::jthread thread_;
};

}  // namespace forebay::measure
