#include "interval.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>

#include <spdlog/fmt/fmt.h>

#include "figures.hpp"
#include "ratio.hpp"

namespace forebay {
namespace {

// Below this a stretch in which the producer was free is too short to tell its rate.
constexpr double kShortestFree_s = 1e-3;

double seconds(const std::atomic<std::uint64_t>& nanoseconds) noexcept {
  return static_cast<double>(nanoseconds.load(std::memory_order_relaxed)) * 1e-9;
}

// count / time, nothing when there was no time.
std::optional<double> rate(double count, double time) noexcept {
  return time > 0 ? std::optional(count / time) : std::nullopt;
}

// `depth` of `capacity` in eighths of a character: U+2588 is a full block, U+2589 to U+258F are 7/8 to 1/8.
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

// What both lines for people end with. A stretch without a step has only what counts from the start of the run.
void append_figures(std::string& out, const Interval& interval) {
  if (interval.steps == 0) fmt::format_to(std::back_inserter(out), "  no step for {:.1f} s", interval.interval_s);
  for (const Figure<Interval>& figure : interval_figures()) {
    const bool is_shown = !figure.text.line.empty() && (interval.steps > 0 || figure.text.if_any);
    if (is_shown) append_phrase(out, figure.text, number_of(figure, interval));
  }
}

}  // namespace

Snapshot::Snapshot(double now_s, const Gauges& gauges_now, const WorkerTotals& totals) noexcept
    : t_s(now_s),
      gauges(gauges_now),
      bytes_read(totals.bytes_read.load(std::memory_order_relaxed)),
      retries(totals.retries.load(std::memory_order_relaxed)),
      hedged_reads(totals.hedged_reads.load(std::memory_order_relaxed)),
      read_s(seconds(totals.read_ns)),
      decode_s(seconds(totals.decode_ns)) {}

void IntervalWindow::begin(const Snapshot& now) noexcept {
  start_ = now;
  steps_ = timed_steps_ = fresh_ = fresh_samples_ = exhausted_ = job_uses_max_ = census_waits_ = 0;
  wait_s_ = compute_s_ = census_wait_s_ = 0;
}

void IntervalWindow::add(const StepRecord& record) noexcept {
  step_num_ = record.step;
  epoch_ = record.epoch;
  job_fresh_samples_ = record.job_fresh_samples;
  job_uses_max_ = std::max(job_uses_max_, record.job_uses);
  ++steps_;
  if (record.exhausted) ++exhausted_;
  if (record.served == Decision::fresh) {
    ++fresh_;
    fresh_samples_ += record.size;
  }
  if (started_) {
    ++timed_steps_;
    wait_s_ += record.wait_s;
    compute_s_ += record.step_s;
    census_waits_ += record.census_wait_s > 0 ? 1 : 0;
    census_wait_s_ += record.census_wait_s;
  }
  started_ = true;
}

Interval IntervalWindow::figures(const Snapshot& now) const noexcept {
  const double length = std::max(0.0, now.t_s - start_.t_s);
  const double produced = as_double(now.gauges.produced - start_.gauges.produced);
  const double blocked = std::clamp(now.gauges.blocked_s - start_.gauges.blocked_s, 0.0, length);
  const double free = length - blocked;
  Interval out;
  out.t_s = now.t_s;
  out.interval_s = length;
  out.step_num = step_num_;
  out.epoch = epoch_;
  out.queue_size = now.gauges.depth;
  out.mean_enqueue_rate = rate(produced, length).value_or(0);
  out.mean_dequeue_rate = rate(as_double(fresh_), length).value_or(0);
  out.mean_running_time = rate(wait_s_ + compute_s_, as_double(timed_steps_));
  out.steps = steps_;
  out.fresh = fresh_;
  out.reused = steps_ - fresh_;
  out.exhausted_steps = exhausted_;
  out.job_fresh_samples = job_fresh_samples_;
  out.job_uses_max = job_uses_max_;
  out.census_waits = census_waits_;
  out.census_wait_s = census_wait_s_;
  out.fresh_fraction = rate(as_double(fresh_), as_double(steps_));
  if (free >= kShortestFree_s) out.lambda = produced / free;
  out.mu = rate(as_double(timed_steps_), compute_s_);
  if (out.mu && out.lambda) out.r = rate(*out.mu, *out.lambda);
  out.stall = rate(wait_s_, wait_s_ + compute_s_);
  out.images_per_s = rate(as_double(fresh_samples_), length).value_or(0);
  out.blocked_producer_s = blocked;
  out.bytes_read = now.bytes_read - start_.bytes_read;
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

}  // namespace forebay
