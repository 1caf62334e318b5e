#include "run_counters.hpp"

#include <algorithm>
#include <cmath>

#include "figures.hpp"

namespace forebay {

void UsesHistogram::add(std::uint64_t uses) noexcept {
  if (uses == 0) return;
  ++counts_[std::min(uses - 1, kExact)];
  ++batches_;
  max_ = std::max(max_, uses);
}

std::uint64_t UsesHistogram::percentile(double share) const noexcept {
  if (batches_ == 0) return 0;
  const auto wanted = static_cast<std::uint64_t>(std::ceil(share * as_double(batches_)));
  std::uint64_t seen = 0;
  for (std::uint64_t uses = 1; uses <= kExact; ++uses) {
    seen += counts_[uses - 1];
    if (seen >= wanted) return uses;
  }
  return max_;
}

void RunCounters::step(const StepRecord& record) noexcept {
  const Produced now{record.t_s, record.produced, record.blocked_s};
  if (counted_.steps == 0) {
    first_ = last_ = now;
  } else {
    ++compute_times_;
    counted_.compute_s += record.step_s;
    counted_.stall_s += record.wait_s;
    counted_.census_waits += record.census_wait_s > 0 ? 1 : 0;
    counted_.census_wait_s += record.census_wait_s;
    counted_.ahead_s += record.ahead_s;
    if (now.batches > last_.batches) last_ = now;
  }
  ++counted_.steps;
  if (record.served == Decision::fresh) {
    ++counted_.fresh;
    fresh_samples_ += record.size;
  }
  if (record.exhausted) ++counted_.exhausted_steps;
  if (record.adjacent) ++adjacent_;
}

void RunCounters::finished(double step_s, double wait_s) noexcept {
  if (counted_.steps == 0) return;
  ++compute_times_;
  counted_.compute_s += step_s;
  counted_.stall_s += wait_s;
}

double RunCounters::produce_rate(double startup_s) const noexcept {
  const double free_s = (last_.t_s - first_.t_s) - (last_.blocked_s - first_.blocked_s);
  if (last_.batches > first_.batches && free_s > 0) return as_double(last_.batches - first_.batches) / free_s;
  return ratio(as_double(first_.batches), startup_s - first_.blocked_s);
}

Summary RunCounters::summary(const Summary& facts, std::span<const std::uint64_t> resident_uses) const {
  UsesHistogram uses = uses_;
  for (const std::uint64_t count : resident_uses) uses.add(count);

  Summary out = facts;
  add_figures(summary_figures(), out, counted_);
  out.reused = out.steps - out.fresh;
  out.wall_s = out.compute_s + out.stall_s;
  out.images_per_s = ratio(as_double(fresh_samples_), out.wall_s);
  out.produce_rate = produce_rate(facts.startup_s);
  out.consume_rate = ratio(as_double(compute_times_), out.compute_s);
  out.uses_p50 = uses.percentile(0.50);
  out.uses_p99 = uses.percentile(0.99);
  out.uses_max = uses.max();
  out.adjacent_reuse_fraction = ratio(as_double(adjacent_), as_double(out.steps));
  apply_formulas(summary_figures(), out);
  return out;
}

}  // namespace forebay
