// Counts a run. An IntervalWindow adds up step records between two moments, and combines them with
// what gauges and workers counted meanwhile into rates. RunCounters does so for the whole run and
// makes its summary. step() is called once per step on the trainer's thread and only adds;
// divisions happen when figures are asked for. lambda is per unblocked time and mu per time without
// waits: what each side could do alone.

#include "counters.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <string_view>

#include <spdlog/fmt/fmt.h>

#include "figures.hpp"

namespace forebay::measure {
namespace {

// If the producer was unblocked for less than this, its rate is unknown.
constexpr double kShortestFree_s = 1e-3;

double seconds_of(const std::atomic<std::uint64_t>& nanoseconds) noexcept {
  return static_cast<double>(nanoseconds.load(std::memory_order_relaxed)) * 1e-9;
}

// count / time; none if there was no time.
std::optional<double> rate(double count, double time) noexcept {
  return time > 0 ? std::optional(count / time) : std::nullopt;
}

// A bar for `depth` of `capacity`, in eighths of a character: U+2588 is a full block, U+2589 to
// U+258F are 7/8 to 1/8.
std::string bar(std::uint32_t depth, std::uint32_t capacity) {
  static constexpr std::uint64_t kCells = 16;
  static constexpr std::array<std::string_view, 9> kEighths{" ",      "\u258F", "\u258E", "\u258D", "\u258C",
                                                            "\u258B", "\u258A", "\u2589", "\u2588"};
  const std::uint64_t eighths = capacity == 0 ? 0 : kCells * 8 * std::min(depth, capacity) / capacity;
  std::string out;
  for (std::uint64_t cell = 0; cell < kCells; ++cell) {
    out += kEighths[eighths <= cell * 8 ? 0 : std::min<std::uint64_t>(8, eighths - cell * 8)];
  }
  return out;
}

// The end of both lines for people. An interval without a step shows only what counts from the
// start of the run.
void append_figures(std::string& out, const Interval& interval) {
  if (interval.steps == 0) fmt::format_to(std::back_inserter(out), "  no step for {:.1f} s", interval.interval_s);
  for (const Figure<Interval>& figure : interval_figures()) {
    const bool is_shown = !figure.text.line.empty() && (interval.steps > 0 || figure.text.if_any);
    if (is_shown) append_phrase(out, figure.text, number_of(figure, interval));
  }
}

}  // namespace

// All values at one moment, as far as relaxed loads of running counters allow.
Snapshot::Snapshot(double now_s, const Gauges& gauges_now, const read::WorkerTotals& totals) noexcept
    : t_s(now_s),
      gauges(gauges_now),
      bytes_read(totals.bytes_read.load(std::memory_order_relaxed)),
      bytes_from_store(totals.bytes_from_store.load(std::memory_order_relaxed)),
      bytes_from_cache(totals.bytes_from_cache.load(std::memory_order_relaxed)),
      retries(totals.retries.load(std::memory_order_relaxed)),
      hedged_reads(totals.hedged_reads.load(std::memory_order_relaxed)),
      read_s(seconds_of(totals.read_ns)),
      decode_s(seconds_of(totals.decode_ns)) {}

// Values that describe the last step are kept; counts start anew.
void IntervalWindow::begin(const Snapshot& now) noexcept {
  start_ = now;
  Interval next;
  next.step_num = counted_.step_num;
  next.epoch = counted_.epoch;
  next.job_fresh_samples = counted_.job_fresh_samples;
  counted_ = next;
  timed_steps_ = fresh_samples_ = 0;
  wait_s_ = compute_s_ = 0;
}

void IntervalWindow::add(const StepRecord& record) noexcept {
  counted_.step_num = record.step;
  counted_.epoch = record.epoch;
  counted_.job_fresh_samples = record.job_fresh_samples;
  counted_.job_uses_max = std::max(counted_.job_uses_max, record.job_uses);
  ++counted_.steps;
  if (record.exhausted) ++counted_.exhausted_steps;
  if (record.served == Decision::fresh) {
    ++counted_.fresh;
    fresh_samples_ += record.size;
  }
  if (started_) {
    ++timed_steps_;
    wait_s_ += record.wait_s;
    compute_s_ += record.step_s;
    counted_.census_waits += record.census_wait_s > 0 ? 1 : 0;
    counted_.census_wait_s += record.census_wait_s;
  }
  started_ = true;
}

// A rate is missing if there is nothing to divide by; JSON shows null.
Interval IntervalWindow::figures(const Snapshot& now) const noexcept {
  const double length = std::max(0.0, now.t_s - start_.t_s);
  const double produced = as_double(now.gauges.produced - start_.gauges.produced);
  const double blocked = std::clamp(now.gauges.blocked_s - start_.gauges.blocked_s, 0.0, length);
  const double free = length - blocked;
  Interval out = counted_;
  out.t_s = now.t_s;
  out.interval_s = length;
  out.queue_size = now.gauges.depth;
  out.capacity = now.gauges.capacity;
  out.mean_enqueue_rate = ratio(produced, length);
  out.mean_dequeue_rate = ratio(as_double(out.fresh), length);
  out.mean_running_time = rate(wait_s_ + compute_s_, as_double(timed_steps_));
  out.reused = out.steps - out.fresh;
  out.fresh_fraction = rate(as_double(out.fresh), as_double(out.steps));
  if (free >= kShortestFree_s) out.lambda = produced / free;
  out.mu = rate(as_double(timed_steps_), compute_s_);
  if (out.mu && out.lambda) out.r = rate(*out.mu, *out.lambda);
  out.stall = rate(wait_s_, wait_s_ + compute_s_);
  out.images_per_s = ratio(as_double(fresh_samples_), length);
  out.blocked_producer_s = blocked;
  out.bytes_read = now.bytes_read - start_.bytes_read;
  out.bytes_from_store = now.bytes_from_store - start_.bytes_from_store;
  out.bytes_from_cache = now.bytes_from_cache - start_.bytes_from_cache;
  if (now.bytes_from_cache > 0) {  // otherwise there may be no cache
    out.cache_share = rate(as_double(out.bytes_from_cache), as_double(out.bytes_from_cache + out.bytes_from_store));
  }
  out.retries = now.retries - start_.retries;
  out.hedged_reads = now.hedged_reads - start_.hedged_reads;
  out.read_s = now.read_s - start_.read_s;
  out.decode_s = now.decode_s - start_.decode_s;
  out.bad_samples = now.gauges.bad_samples;
  return out;
}

void append_json(std::string& out, const StepRecord& record) {
  constexpr int kNanoseconds = 9;
  append_json_line(out, step_figures(), record, kNanoseconds);
}

void append_json(std::string& out, const Interval& interval) {
  constexpr int kMicroseconds = 6;
  append_json_line(out, interval_figures(), interval, kMicroseconds);
}

std::string interval_line(const Interval& interval) {
  std::string out = fmt::format("step {}  depth {}/{}", interval.step_num, interval.queue_size, interval.capacity);
  append_figures(out, interval);
  return out;
}

std::string status_line(const Interval& interval) {
  std::string out = fmt::format("step {}  [{}] {}/{}", interval.step_num, bar(interval.queue_size, interval.capacity),
                                interval.queue_size, interval.capacity);
  append_figures(out, interval);
  return out;
}

// Exact up to kExact uses; a percentile beyond that is the maximum.
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

// The first step waited for the start of the run, so its wait counts as neither stall nor compute.
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

// The rate from the first step to the last batch that came. If none came after the first step, the
// rate follows from the startup.
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

}  // namespace forebay::measure
