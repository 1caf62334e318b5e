#include "worker_status.hpp"

#include <pthread.h>

#include <array>
#include <chrono>
#include <cstring>

#include "clock.hpp"
#include "nvtx.hpp"
#include "timeline.hpp"

namespace forebay {
namespace {

constexpr std::array<const char*, WorkerStatus::kActivities> kNames{
    "idle",       "waiting for budget", "reading", "second read", "retrying", "decoding",
    "requesting", "waiting for room",   "copying", "parked",      "stopped"};

}  // namespace

const char* activity_name(WorkerStatus::Activity activity) noexcept {
  return kNames[static_cast<std::size_t>(activity)];
}

void name_this_thread(const char* name) noexcept {
  // The kernel refuses a longer name instead of cutting it.
  std::array<char, 16> cut{};
  std::strncpy(cut.data(), name, cut.size() - 1);
  ::pthread_setname_np(::pthread_self(), cut.data());
  nvtx_name_thread(name);
}

void WorkerStatus::thread_begins() noexcept {
  clockid_t clock{};
  if (pthread_getcpuclockid(pthread_self(), &clock) == 0) cpu_clock.store(clock, std::memory_order_relaxed);
}

std::int64_t WorkerStatus::set(Activity now, std::uint64_t id) noexcept {
  const std::int64_t time = steady_ns();
  const std::int64_t began = since_ns.load(std::memory_order_relaxed);
  // Only this thread writes: it loads what it stored.
  const Activity ended = activity.load(std::memory_order_relaxed);
  auto& spent = spent_ns[static_cast<std::size_t>(ended)];
  const std::int64_t lasted = began == 0 ? 0 : time - began;
  // Acquire: the track was complete when it was attached.
  if (TimelineTrack* const track = timeline.load(std::memory_order_acquire); track != nullptr && began != 0) {
    track->add_work(activity_name(ended), began, time, sample.load(std::memory_order_relaxed));
  }
  if (ended != Activity::stopped) nvtx_end();
  if (now != Activity::stopped) nvtx_begin(activity_name(now));
  spent.store(spent.load(std::memory_order_relaxed) + lasted, std::memory_order_relaxed);
  activity.store(now, std::memory_order_relaxed);
  sample.store(id, std::memory_order_relaxed);
  since_ns.store(time, std::memory_order_relaxed);
  return lasted;
}

ActivityTimes times_spent(std::span<const WorkerStatus> statuses) noexcept {
  ActivityTimes times{};
  const std::int64_t now = steady_ns();
  for (const WorkerStatus& status : statuses) {
    for (std::size_t i = 0; i < times.size(); ++i) {
      times[i] += std::chrono::nanoseconds(status.spent_ns[i].load(std::memory_order_relaxed));
    }
    const std::int64_t began = status.since_ns.load(std::memory_order_relaxed);
    const auto present = static_cast<std::size_t>(status.activity.load(std::memory_order_relaxed));
    if (began != 0 && now > began) times[present] += std::chrono::nanoseconds(now - began);
  }
  return times;
}

std::chrono::nanoseconds cpu_spent(std::span<const WorkerStatus> statuses) noexcept {
  std::chrono::nanoseconds total{0};
  for (const WorkerStatus& status : statuses) {
    const clockid_t clock = status.cpu_clock.load(std::memory_order_relaxed);
    timespec time{};
    // Fails if the thread has ended meanwhile.
    if (clock == 0 || clock_gettime(clock, &time) != 0) continue;
    total += std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  }
  return total;
}

std::chrono::nanoseconds process_cpu_spent() noexcept {
  timespec time{};
  if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time) != 0) return std::chrono::nanoseconds(0);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace forebay
