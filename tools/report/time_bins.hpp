#pragma once

#include <cstddef>
#include <vector>

namespace forebay::report {

// Totals of a stretch of time, on one rank or several. Bins of different times and ranks can be
// added.
struct Bin {
  double steps = 0;
  double fresh = 0;
  double wait_s = 0;
  double compute_s = 0;
  double census_s = 0;   // part of wait_s spent waiting for other ranks
  double depths = 0;     // how many times the queue was sampled
  double depth_sum = 0;  // sum of batches ready in those samples
  double uses_most = 0;  // the most uses of one batch

  void add(const Bin& other) noexcept;
  [[nodiscard]] double fresh_share() const noexcept { return steps > 0 ? fresh / steps : 0; }
  [[nodiscard]] double stall() const noexcept { return timed() > 0 ? wait_s / timed() : 0; }
  [[nodiscard]] double depth() const noexcept { return depths > 0 ? depth_sum / depths : 0; }
  [[nodiscard]] double timed() const noexcept { return wait_s + compute_s; }
};

// Divides a run of any length into at most kMost bins, whose width doubles whenever the run
// outgrows them. Widths are powers of 2 times the initial one, so those of several ranks fit
// together.
class TimeBins {
 public:
  static constexpr std::size_t kMost = 256;

  // Adds to the bin at one moment. REQUIRES: t_s >= 0.
  void add(double t_s, const Bin& what);
  // Spreads sums evenly over a stretch of time. REQUIRES: 0 <= from_s.
  void add(double from_s, double to_s, const Bin& what);

  [[nodiscard]] double width_s() const noexcept { return width_s_; }
  [[nodiscard]] const std::vector<Bin>& bins() const noexcept { return bins_; }
  [[nodiscard]] Bin total() const noexcept;
  // Widens the bins. REQUIRES: width_s is a width that other bins have, or the present one times a
  // power of 2.
  void widen_to(double width_s);
  void widen() { widen_to(2 * width_s_); }

 private:
  [[nodiscard]] std::size_t place_of(double t_s);

  double width_s_ = 1.0 / 64;
  std::vector<Bin> bins_;
};

}  // namespace forebay::report
