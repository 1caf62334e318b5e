#include "run_counters.hpp"

#include <algorithm>
#include <cmath>

#include "ratio.hpp"

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
  if (steps_ == 0) {
    first_ = last_ = now;
  } else {
    ++compute_times_;
    compute_s_ += record.step_s;
    stall_s_ += record.wait_s;
    census_waits_ += record.census_wait_s > 0 ? 1 : 0;
    census_wait_s_ += record.census_wait_s;
    ahead_s_ += record.ahead_s;
    if (now.batches > last_.batches) last_ = now;
  }
  ++steps_;
  if (record.served == Decision::fresh) {
    ++fresh_;
    fresh_samples_ += record.size;
  }
  if (record.exhausted) ++exhausted_;
  if (record.adjacent) ++adjacent_;
}

void RunCounters::finished(double step_s, double wait_s) noexcept {
  if (steps_ == 0) return;
  ++compute_times_;
  compute_s_ += step_s;
  stall_s_ += wait_s;
}

double RunCounters::produce_rate(double startup_s) const noexcept {
  const double free_s = (last_.t_s - first_.t_s) - (last_.blocked_s - first_.blocked_s);
  if (last_.batches > first_.batches && free_s > 0) return as_double(last_.batches - first_.batches) / free_s;
  return ratio(as_double(first_.batches), startup_s - first_.blocked_s);
}

Summary RunCounters::summary(const RunFacts& facts, std::span<const std::uint64_t> resident_uses) const {
  UsesHistogram uses = uses_;
  for (const std::uint64_t count : resident_uses) uses.add(count);

  Summary out;
  out.steps = steps_;
  out.fresh = fresh_;
  out.reused = steps_ - fresh_;
  out.fresh_fraction = ratio(as_double(fresh_), as_double(steps_));
  out.startup_s = facts.startup_s;
  out.wall_s = compute_s_ + stall_s_;
  out.compute_s = compute_s_;
  out.stall_s = stall_s_;
  out.au = ratio(compute_s_, out.wall_s);
  out.fresh_au = out.au * out.fresh_fraction;
  out.images_per_s = ratio(as_double(fresh_samples_), out.wall_s);
  out.produce_rate = produce_rate(facts.startup_s);
  out.consume_rate = ratio(as_double(compute_times_), compute_s_);
  out.blocked_s = facts.blocked_s;
  out.census_waits = census_waits_;
  out.census_wait_s = census_wait_s_;
  out.ahead_s = ahead_s_;
  out.exhausted_steps = exhausted_;
  out.uses_p50 = uses.percentile(0.50);
  out.uses_p99 = uses.percentile(0.99);
  out.uses_max = uses.max();
  out.adjacent_reuse_fraction = ratio(as_double(adjacent_), as_double(steps_));
  out.bad_samples = facts.bad_samples;
  out.left_out = facts.left_out;
  out.epochs = facts.epochs;
  out.bytes_read = facts.bytes_read;
  out.hedged_reads = facts.hedged_reads;
  out.hedges_won = facts.hedges_won;
  out.nvjpeg_samples = facts.nvjpeg_samples;
  out.nvjpeg_fallbacks = facts.nvjpeg_fallbacks;
  out.dropped_records = facts.dropped_records;
  return out;
}

}  // namespace forebay
