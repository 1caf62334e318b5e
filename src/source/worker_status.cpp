#include <chrono>
#include <forebay/detail/pipeline.hpp>

namespace forebay {

void WorkerStatus::set(Activity now, std::uint64_t id) noexcept {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  activity.store(now, std::memory_order_relaxed);
  sample.store(id, std::memory_order_relaxed);
  since_ns.store(std::chrono::duration_cast<std::chrono::nanoseconds>(since).count(), std::memory_order_relaxed);
}

}  // namespace forebay
