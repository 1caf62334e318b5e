#include "optimum.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>

#include <forebay/error.hpp>

namespace forebay {
namespace {

constexpr double kImpossible = std::numeric_limits<double>::infinity();

// The steps at which a batch may be served first, [first, last].
struct Window {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  bool pressed = false;  // must be served: a later batch needs its room

  [[nodiscard]] std::size_t size() const noexcept { return last - first + 1; }
};

// One per batch that can be served before the end.
std::vector<Window> windows_of(std::span<const std::uint64_t> arrived, std::uint64_t capacity) {
  const std::uint64_t steps = arrived.size();
  std::vector<std::uint64_t> earliest;  // [j]: first step for which batch j has arrived
  for (std::uint64_t step = 0; step < steps; ++step) {
    while (earliest.size() < arrived[step]) earliest.push_back(step);
  }
  std::vector<Window> windows;
  for (std::size_t batch = 0; batch < earliest.size(); ++batch) {
    // Batch j + capacity has room only if batch j was served before the step at which it arrives.
    const std::size_t pressing = batch + capacity;
    Window window{.first = earliest[batch], .last = steps - 1, .pressed = pressing < earliest.size()};
    if (window.pressed) window.last = earliest[pressing] - 1;
    if (!windows.empty()) window.first = std::max(window.first, windows.back().first + 1);
    if (batch == 0) window.last = 0;  // nothing can be served before it
    if (window.first >= steps) break;
    windows.push_back(window);
  }
  // One batch per step: a batch must be early enough for those that follow.
  for (std::size_t batch = windows.size(); batch-- > 1;) {
    if (windows[batch].pressed) windows[batch - 1].last = std::min(windows[batch - 1].last, windows[batch].last - 1);
  }
  return windows;
}

// The least cost of first serving a batch at each step of its window, from the costs of the batch before it.
class Stage {
 public:
  Stage(const Window& before, std::span<const double> costs, const Window& window)
      : before_(before), costs_(costs), window_(window), best_(window.size(), kImpossible), from_(window.size()) {
    solve(0, window_.size(), 0, before_.size());
  }

  [[nodiscard]] const std::vector<double>& best() const noexcept { return best_; }
  // Index into the previous batch's window.
  [[nodiscard]] const std::vector<std::uint32_t>& from() const noexcept { return from_; }

 private:
  // Solves [low, high) of the window, knowing that the best predecessors lie in [from_low, from_high).
  void solve(std::size_t low, std::size_t high, std::size_t from_low, std::size_t from_high) {
    if (low >= high) return;
    const std::size_t middle = low + (high - low) / 2;
    const std::uint64_t step = window_.first + middle;
    std::size_t choice = from_low;
    for (std::size_t from = from_low; from < from_high && before_.first + from < step; ++from) {
      const auto uses = static_cast<double>(step - before_.first - from);
      const double cost = costs_[from] + uses * uses;
      if (cost >= best_[middle]) continue;
      best_[middle] = cost;
      choice = from;
    }
    from_[middle] = static_cast<std::uint32_t>(choice);
    solve(low, middle, from_low, choice + 1);
    solve(middle + 1, high, choice, from_high);
  }

  Window before_;
  std::span<const double> costs_;
  Window window_;
  std::vector<double> best_;
  std::vector<std::uint32_t> from_;
};

}  // namespace

BestSchedule best_schedule(std::span<const std::uint64_t> arrived, std::uint64_t capacity) {
  if (arrived.empty() || arrived[0] == 0 || capacity == 0) {
    throw Error("best_schedule: the first step needs a batch and the queue room for one");
  }
  const std::uint64_t steps = arrived.size();
  const std::vector<Window> windows = windows_of(arrived, capacity);
  std::vector<std::vector<std::uint32_t>> from(windows.size());
  std::vector<double> costs{0};
  BestSchedule schedule{.fresh_steps = {}, .squares = kImpossible};
  std::size_t last_batch = 0;
  std::uint64_t last_step = 0;
  for (std::size_t batch = 0;; ++batch) {
    if (batch + 1 == windows.size() || !windows[batch + 1].pressed) {
      for (std::size_t at = 0; at < costs.size(); ++at) {
        const auto uses = static_cast<double>(steps - windows[batch].first - at);
        if (costs[at] + uses * uses >= schedule.squares) continue;
        schedule.squares = costs[at] + uses * uses;
        last_batch = batch;
        last_step = windows[batch].first + at;
      }
    }
    if (batch + 1 == windows.size()) break;
    const Window& next = windows[batch + 1];
    if (next.last < next.first) throw Error("best_schedule: more batches arrive than steps can take");
    Stage stage(windows[batch], costs, next);
    from[batch + 1] = stage.from();
    costs = stage.best();
  }
  schedule.fresh_steps.resize(last_batch + 1);
  for (std::size_t batch = last_batch + 1; batch-- > 0;) {
    schedule.fresh_steps[batch] = last_step;
    if (batch > 0) last_step = windows[batch - 1].first + from[batch][last_step - windows[batch].first];
  }
  return schedule;
}

}  // namespace forebay
