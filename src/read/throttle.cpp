// An emulated store for experiments and tests: latency, slow reads, failures, outages and bandwidth
// as set in the [storage] section. A reader calls before_read() and after_read() around the real
// read, and sleeps there. Everything random is a function of seed, epoch, position, attempt, retry
// and part, so that a run meets the same store whatever its threads do. Outages follow a clock that
// starts with the run. The ranks of a node may share the bandwidth through one number in shared
// memory.

#include "throttle.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <forebay/error.hpp>
#include <forebay/random.hpp>
#include <numbers>

#include "base/clock.hpp"

namespace forebay::read {
namespace {

static_assert(std::atomic_ref<std::int64_t>::is_always_lock_free, "processes share it, so it cannot hold a lock");

// Keys that keep the draws independent of each other and of everything else that is drawn from the
// seed: the names' ASCII codes.
constexpr std::uint64_t kThrottleKey = 0x7468726f74746c65ULL;
constexpr std::uint64_t kSlowKey = 0x736c6f77ULL;
constexpr std::uint64_t kSecondKey = 0x7365636f6e64ULL;
constexpr std::uint64_t kPartKey = 0x70617274ULL;
// Some 30 years: longer waits would overflow the clock's nanoseconds.
constexpr double kForEverSeconds = 1e9;

std::int64_t* finish_time(const StorageOptions& options, std::span<std::byte> shared, std::int64_t& own) {
  if (options.scope == StorageScope::rank || shared.empty()) return &own;
  const auto address = reinterpret_cast<std::uintptr_t>(shared.data());
  if (shared.size() < StorageThrottle::kSharedBytes || address % std::atomic_ref<std::int64_t>::required_alignment != 0)
    throw Error("storage.scope = \"node\": the memory that the ranks of this node share is too small or misaligned");
  return reinterpret_cast<std::int64_t*>(shared.data());
}

// The method of Box and Muller, of whose two numbers one is used. uniform() is below 1, so log
// never gets 0.
double normal(Random& random) noexcept {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - random.uniform()));
  return radius * std::cos(2.0 * std::numbers::pi * random.uniform());
}

// Marsaglia and Tsang, "A simple method for generating gamma variables", 2000; mean = shape. A shape below 1 is drawn
// one higher and scaled by U^(1/shape) (their section 6).
double gamma(Random& random, double shape) noexcept {
  if (shape < 1.0) {
    const double scale = std::pow(1.0 - random.uniform(), 1.0 / shape);
    return gamma(random, shape + 1.0) * scale;
  }
  const double d = shape - 1.0 / 3.0;
  const double c = 1.0 / std::sqrt(9.0 * d);
  for (;;) {
    const double x = normal(random);
    const double v = std::pow(1.0 + c * x, 3);
    if (v <= 0.0) continue;
    if (std::log(1.0 - random.uniform()) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
  }
}

// At most 10^15 ns, about 12 days, so that sums cannot overflow.
std::int64_t transfer_ns(double bytes, double bytes_per_s) noexcept {
  return static_cast<std::int64_t>(std::min(bytes / bytes_per_s * 1e9, 1e15));
}

}  // namespace

// The finish time moves on by the transfer's length, from where it was or, after an idle time, from
// `burst` before now. One compare-and-swap per read, relaxed, since nothing else is published by
// it.
std::int64_t BandwidthBucket::claim(std::int64_t now_ns, std::size_t bytes) const noexcept {
  const std::int64_t duration_ns = transfer_ns(static_cast<double>(bytes), bytes_per_s_);
  const std::int64_t burst_ns = transfer_ns(burst_bytes_, bytes_per_s_);
  const std::atomic_ref<std::int64_t> shared(*finish_ns_);
  std::int64_t before = shared.load(std::memory_order_relaxed);
  std::int64_t after = 0;
  do {
    after = std::max(before, now_ns - burst_ns) + duration_ns;
  } while (!shared.compare_exchange_weak(before, after, std::memory_order_relaxed));
  return after;
}

StorageThrottle::StorageThrottle(const StorageOptions& options, std::uint64_t seed, std::span<std::byte> shared,
                                 Clock::time_point start)
    : options_(options),
      seed_(key64(seed, kThrottleKey)),
      start_(start),
      bandwidth_(options.bandwidth_mb_s * 1e6, options.burst_mb * 1e6, *finish_time(options, shared, own_finish_ns_)) {}

bool StorageThrottle::is_active() const noexcept {
  return options_.latency_ms > 0 || options_.bandwidth_mb_s > 0 || options_.outage_every_s > 0 ||
         options_.fail_rate > 0 || (options_.slow_rate > 0 && options_.slow_ms > 0);
}

// A second read (hedge) draws its own latency, which is its purpose, but the same failure, so that
// hedging does not change which samples are bad.
StorageThrottle::Draw StorageThrottle::draw(const ReadRequest& request, std::uint32_t retry,
                                            std::size_t part) const noexcept {
  std::uint64_t key = key64(seed_, request.epoch, request.position, request.attempt, retry);
  if (part > 0) key = key64(key, kPartKey, part);
  Random random(key);
  Draw draw;
  draw.fails = random.uniform() < options_.fail_rate;
  const std::uint64_t time_key = request.hedge == 0 ? key : key64(key, kSecondKey);
  if (request.hedge != 0) random = Random(time_key);
  double latency_ms = options_.latency_ms;
  if (options_.jitter > 0) {
    const double variance = options_.jitter * options_.jitter;  // of a latency with mean 1
    latency_ms *= gamma(random, 1.0 / variance) * variance;
  }
  if (Random(key64(time_key, kSlowKey)).uniform() < options_.slow_rate) latency_ms += options_.slow_ms;
  const double latency_s = std::min(latency_ms / 1e3, kForEverSeconds);
  draw.latency = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(latency_s));
  return draw;
}

// Outages recur with a fixed period, which begins with the part without an outage.
StorageThrottle::Clock::time_point StorageThrottle::outage_end(Clock::time_point now) const noexcept {
  if (options_.outage_every_s <= 0 || options_.outage_s <= 0) return now;
  const double period_s = options_.outage_every_s + options_.outage_s;
  const double elapsed_s = std::chrono::duration<double>(now - start_).count();
  const double phase_s = std::isinf(period_s) ? elapsed_s : std::fmod(elapsed_s, period_s);
  if (phase_s < options_.outage_every_s) return now;
  const double left_s = period_s - phase_s;
  if (left_s > kForEverSeconds) return Clock::time_point::max();
  return now + std::chrono::ceil<Clock::duration>(std::chrono::duration<double>(left_s));
}

void StorageThrottle::before_read(const ReadRequest& request, std::uint32_t retry, StopSignal& stop,
                                  std::size_t part) const {
  const Draw drawn = draw(request, retry, part);
  if (drawn.latency.count() > 0) stop.sleep_until(Clock::now() + drawn.latency);
  const auto now = Clock::now();
  if (const auto end = outage_end(now); end > now) stop.sleep_until(end);
  if (drawn.fails)
    throw SampleError("the emulated store failed this read (storage.fail_rate)", SampleError::Kind::transient);
}

void StorageThrottle::after_read(std::size_t bytes, StopSignal& stop) const {
  if (options_.bandwidth_mb_s > 0) {
    const std::int64_t now_ns = steady_ns();
    const std::int64_t passed_ns = bandwidth_.claim(now_ns, bytes);
    if (passed_ns > now_ns) stop.sleep_until(Clock::time_point(std::chrono::nanoseconds(passed_ns)));
  }
  const auto now = Clock::now();
  if (const auto end = outage_end(now); end > now) stop.sleep_until(end);
}

}  // namespace forebay::read
