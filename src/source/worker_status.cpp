#include <chrono>
#include <forebay/detail/pipeline.hpp>

namespace forebay {
namespace {

std::int64_t steady_ns() noexcept {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since).count();
}

}  // namespace

std::int64_t WorkerStatus::set(Activity now, std::uint64_t id) noexcept {
  const std::int64_t time = steady_ns();
  const std::int64_t began = since_ns.load(std::memory_order_relaxed);
  // Only this thread writes: what it loads is what it stored.
  auto& spent = spent_ns[static_cast<std::size_t>(activity.load(std::memory_order_relaxed))];
  const std::int64_t lasted = began == 0 ? 0 : time - began;
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

}  // namespace forebay
