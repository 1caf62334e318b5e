#include "worker_report.hpp"

#include <array>
#include <cstddef>
#include <cstdio>

#include "base/clock.hpp"

namespace forebay {
namespace {

using Activity = WorkerStatus::Activity;

constexpr std::array<std::string_view, WorkerStatus::kActivities> kWords{"waiting for work",
                                                                         "waiting for room in workers.bytes",
                                                                         "reading from the store",
                                                                         "reading what another is slow with",
                                                                         "waiting to read again",
                                                                         "decoding a sample",
                                                                         "asking for samples",
                                                                         "waiting for room in the ring",
                                                                         "waiting for the device to copy a batch",
                                                                         "not needed now",
                                                                         "stopped"};

bool has_sample(Activity activity) {
  return activity == Activity::reading || activity == Activity::hedging || activity == Activity::retrying ||
         activity == Activity::decoding || activity == Activity::waiting_budget;
}

std::string in_seconds(std::int64_t ns) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f s", static_cast<double>(ns) * 1e-9);
  return text.data();
}

}  // namespace

void WorkerReport::add(std::string_view kind, std::span<const WorkerStatus> statuses) {
  const std::int64_t now = steady_ns();
  for (std::size_t activity = 0; activity < kWords.size(); ++activity) {
    std::size_t count = 0;
    std::int64_t longest_ns = -1;
    std::uint64_t sample = 0;
    for (const WorkerStatus& status : statuses) {
      if (status.activity.load(std::memory_order_relaxed) != static_cast<Activity>(activity)) continue;
      const std::int64_t since = status.since_ns.load(std::memory_order_relaxed);
      if (since == 0) continue;  // never started
      ++count;
      const std::int64_t ns = now - since;
      if (ns <= longest_ns) continue;
      longest_ns = ns;
      sample = status.sample.load(std::memory_order_relaxed);
    }
    if (count == 0) continue;
    if (!text_.empty()) text_ += "; ";
    text_ += std::to_string(count) + " " + std::string(kind) + (count > 1 ? "s " : " ") +
             std::string(kWords[activity]) + " (longest " + in_seconds(longest_ns);
    if (has_sample(static_cast<Activity>(activity)) && sample < dataset_.size()) text_ += ": " + dataset_.name(sample);
    text_ += ")";
  }
}

}  // namespace forebay
