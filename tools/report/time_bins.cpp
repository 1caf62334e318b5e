#include "time_bins.hpp"

#include <algorithm>

namespace forebay::report {
namespace {

// A share of all sums; the maximum stays the same.
Bin part_of(const Bin& whole, double share) noexcept {
  return {.steps = whole.steps * share,
          .fresh = whole.fresh * share,
          .wait_s = whole.wait_s * share,
          .compute_s = whole.compute_s * share,
          .census_s = whole.census_s * share,
          .depths = whole.depths * share,
          .depth_sum = whole.depth_sum * share,
          .uses_most = whole.uses_most};
}

}  // namespace

void Bin::add(const Bin& other) noexcept {
  steps += other.steps;
  fresh += other.fresh;
  wait_s += other.wait_s;
  compute_s += other.compute_s;
  census_s += other.census_s;
  depths += other.depths;
  depth_sum += other.depth_sum;
  uses_most = std::max(uses_most, other.uses_most);
}

// When time exceeds the range of the bins, their width doubles, so that a run of any length has at
// most kMost.
std::size_t TimeBins::place_of(double t_s) {
  while (t_s >= width_s_ * static_cast<double>(kMost)) widen();
  const auto place = static_cast<std::size_t>(t_s / width_s_);
  if (place >= bins_.size()) bins_.resize(place + 1);
  return place;
}

void TimeBins::add(double t_s, const Bin& what) {
  const std::size_t place = place_of(t_s);
  bins_[place].add(what);
}

// Each bin gets a share in proportion to the overlap.
void TimeBins::add(double from_s, double to_s, const Bin& what) {
  const std::size_t last = place_of(to_s);
  const auto first = static_cast<std::size_t>(from_s / width_s_);
  if (first >= last) return bins_[last].add(what);
  for (std::size_t place = first; place <= last; ++place) {
    const double begin = std::max(from_s, static_cast<double>(place) * width_s_);
    const double end = std::min(to_s, static_cast<double>(place + 1) * width_s_);
    if (end > begin) bins_[place].add(part_of(what, (end - begin) / (to_s - from_s)));
  }
}

Bin TimeBins::total() const noexcept {
  Bin sum;
  for (const Bin& bin : bins_) sum.add(bin);
  return sum;
}

void TimeBins::widen_to(double width_s) {
  for (; width_s_ < width_s; width_s_ *= 2) {
    for (std::size_t i = 0; i < bins_.size(); ++i) {
      if (i % 2 == 1) {
        bins_[i / 2].add(bins_[i]);
      } else if (i > 0) {
        bins_[i / 2] = bins_[i];
      }
    }
    bins_.resize((bins_.size() + 1) / 2);
  }
}

}  // namespace forebay::report
