#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <forebay/options.hpp>
#include <span>

#include "base/wait.hpp"
#include "requests.hpp"

namespace forebay::read {

// A token bucket kept as one number, the time at which everything claimed so far has passed (the "virtual
// scheduling" form of the generic cell rate algorithm, ITU-T I.371). The number may live in memory that several
// processes of a node share: CLOCK_MONOTONIC is the same for all of them. Lock-free; any thread may call.
class BandwidthBucket {
 public:
  // Bytes per second, bytes that may pass at once after an idle time, and the finish time, which must outlive the
  // bucket and be 0 at first.
  BandwidthBucket(double bytes_per_s, double burst_bytes, std::int64_t& finish_ns) noexcept
      : bytes_per_s_(bytes_per_s), burst_bytes_(burst_bytes), finish_ns_(&finish_ns) {}

  // Queues `bytes` that arrive at `now_ns`; returns when the last of them has passed (within a burst that may be before
  // now_ns). Both in nanoseconds of CLOCK_MONOTONIC.
  [[nodiscard]] std::int64_t claim(std::int64_t now_ns, std::size_t bytes) const noexcept;

 private:
  double bytes_per_s_;
  double burst_bytes_;
  std::int64_t* finish_ns_;
};

// An emulated slow or failing store in front of the dataset: the [storage] section. Any thread may call.
class StorageThrottle {
 public:
  using Clock = WaitPoint::Clock;

  // What one read meets before its first byte.
  struct Draw {
    std::chrono::nanoseconds latency{0};
    bool fails = false;
  };

  // What ranks of a node must share for `storage.scope = "node"`, zero at first.
  static constexpr std::size_t kSharedBytes = sizeof(std::int64_t);

  // The outage clock begins at `start`. `shared` is used if the scope is node and must then outlive the throttle; an
  // empty span means that this rank is alone on its node. Throws Error if it is too small or misaligned.
  StorageThrottle(const StorageOptions& options, std::uint64_t seed, std::span<std::byte> shared = {},
                  Clock::time_point start = Clock::now());
  StorageThrottle(const StorageThrottle&) = delete;
  StorageThrottle& operator=(const StorageThrottle&) = delete;

  // False if every option is zero: then nothing else need be called.
  [[nodiscard]] bool is_active() const noexcept;

  // A function only of the seed, the request's epoch, position and attempt, `retry` (earlier failed reads of this
  // request), and `part` (which of its reads: 0 for the image, 1 + its number for a field), independent of timing and
  // rank. The latency is gamma-distributed, plus slow_ms for slow reads. A second read of a sample draws another
  // latency and the same failure.
  [[nodiscard]] Draw draw(const ReadRequest& request, std::uint32_t retry, std::size_t part = 0) const noexcept;

  // The end of the outage at `now`; `now` itself if there is none, max() if it never ends.
  [[nodiscard]] Clock::time_point outage_end(Clock::time_point now) const noexcept;

  // Call before a read: waits for latency and outages. Throws the transient SampleError if one was drawn, or Stopped.
  void before_read(const ReadRequest& request, std::uint32_t retry, StopSignal& stop, std::size_t part = 0) const;

  // Call after reading `bytes`: waits until the bandwidth lets them pass and no outage holds them. Throws Stopped.
  void after_read(std::size_t bytes, StopSignal& stop) const;

 private:
  StorageOptions options_;
  std::uint64_t seed_;
  Clock::time_point start_;
  std::int64_t own_finish_ns_ = 0;
  BandwidthBucket bandwidth_;
};

}  // namespace forebay::read
