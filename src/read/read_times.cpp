#include "read_times.hpp"

#include <algorithm>
#include <bit>

namespace forebay {
namespace {

constexpr int kFirstBit = 10;  // anything below 2^10 ns is in the first step

}  // namespace

std::size_t ReadTimes::step_of(std::uint64_t ns) noexcept {
  const int top = static_cast<int>(std::bit_width(ns)) - 1;
  if (top < kFirstBit) return 0;
  const std::uint64_t quarter = (ns >> (top - 2)) & 3;
  return std::min(static_cast<std::size_t>(top - kFirstBit) * 4 + quarter, kSteps - 1);
}

std::uint64_t ReadTimes::end_of(std::size_t step) noexcept {
  const std::size_t top = kFirstBit + step / 4;
  return (4 + step % 4 + 1) << (top - 2);
}

void ReadTimes::add(std::chrono::nanoseconds time) noexcept {
  const auto ns = static_cast<std::uint64_t>(std::max<std::int64_t>(time.count(), 0));
  added_[step_of(ns)].fetch_add(1, std::memory_order_relaxed);
}

std::uint64_t ReadTimes::gather() noexcept {
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < kSteps; ++i) {
    const std::uint64_t now = added_[i].load(std::memory_order_relaxed);
    const std::uint64_t fresh = now - gathered_[i];
    gathered_[i] = now;
    weights_[i] += static_cast<double>(fresh);
    count += fresh;
  }
  weight_ += static_cast<double>(count);
  if (weight_ > kMemory) {
    const double share = kMemory / 2 / weight_;
    for (double& weight : weights_) weight *= share;
    weight_ *= share;
  }
  return count;
}

std::chrono::nanoseconds ReadTimes::quantile(double share) const noexcept {
  if (weight_ <= 0) return std::chrono::nanoseconds(0);
  double below = 0;
  std::size_t last = 0;
  for (std::size_t i = 0; i < kSteps; ++i) {
    if (weights_[i] <= 0) continue;
    last = i;
    below += weights_[i];
    if (below >= share * weight_) break;
  }
  return std::chrono::nanoseconds(end_of(last));
}

}  // namespace forebay
