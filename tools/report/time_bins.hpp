#pragma once

#include <cstddef>
#include <vector>

namespace forebay::report {

// What happened in a stretch of time, on one rank or on several: sums, so that stretches and ranks can be added.
struct Bin {
  double steps = 0;
  double fresh = 0;
  double wait_s = 0;
  double compute_s = 0;
  double census_s = 0;   // of wait_s, for other ranks
  double depths = 0;     // how often the queue was looked at
  double depth_sum = 0;  // batches ready, over those looks
  double uses_most = 0;  // of one batch

  void add(const Bin& other) noexcept;
  [[nodiscard]] double fresh_share() const noexcept { return steps > 0 ? fresh / steps : 0; }
  [[nodiscard]] double stall() const noexcept { return timed() > 0 ? wait_s / timed() : 0; }
  [[nodiscard]] double depth() const noexcept { return depths > 0 ? depth_sum / depths : 0; }
  [[nodiscard]] double timed() const noexcept { return wait_s + compute_s; }
};

// A run of any length as a fixed number of stretches: their width doubles as often as it must. Widths are the same
// number times a power of 2, so those of several ranks fit together.
class TimeBins {
 public:
  static constexpr std::size_t kMost = 256;

  // At one moment; REQUIRES: t_s >= 0.
  void add(double t_s, const Bin& what);
  // Spread evenly over a stretch of time. REQUIRES: 0 <= from_s.
  void add(double from_s, double to_s, const Bin& what);

  [[nodiscard]] double width_s() const noexcept { return width_s_; }
  [[nodiscard]] const std::vector<Bin>& bins() const noexcept { return bins_; }
  [[nodiscard]] Bin total() const noexcept;
  // Makes them this wide. REQUIRES: a width that other bins had, or twice, four times, ... as wide as now.
  void widen_to(double width_s);
  void widen() { widen_to(2 * width_s_); }

 private:
  [[nodiscard]] std::size_t place_of(double t_s);

  double width_s_ = 1.0 / 64;
  std::vector<Bin> bins_;
};

}  // namespace forebay::report
