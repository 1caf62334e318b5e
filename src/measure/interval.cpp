#include "interval.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <string_view>

#include <spdlog/fmt/fmt.h>

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

// JSON has no infinities; a clock never gives them, so this only keeps a broken figure from breaking the file.
double finite(double value) noexcept { return std::isfinite(value) ? value : 0; }

std::string json_number(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? fmt::format("{:.6g}", *value) : "null";
}

std::string people_number(const std::optional<double>& value, double scale, std::string_view unit) {
  return value ? fmt::format("{:.{}f}{}", *value * scale, unit.empty() ? 2 : 1, unit) : "-";
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

// What both lines for people end with.
void append_figures(std::string& out, const Interval& interval) {
  if (interval.steps == 0) {
    fmt::format_to(std::back_inserter(out), "  no step for {:.1f} s", interval.interval_s);
  } else {
    fmt::format_to(std::back_inserter(out), "  fresh {}  lambda {}  mu {}  R {}  stall {}  {:.0f} images/s",
                   people_number(interval.fresh_fraction, 100, " %"), people_number(interval.lambda, 1, "/s"),
                   people_number(interval.mu, 1, "/s"), people_number(interval.r, 1, ""),
                   people_number(interval.stall, 100, " %"), interval.images_per_s);
  }
  if (interval.bad_samples > 0) fmt::format_to(std::back_inserter(out), "  bad {}", interval.bad_samples);
  if (interval.dropped_records > 0) fmt::format_to(std::back_inserter(out), "  dropped {}", interval.dropped_records);
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
  fmt::format_to(
      std::back_inserter(out),
      R"({{"step":{},"t_s":{:.9f},"epoch":{},"batch":{},"use_index":{},"decision":"{}","depth":{},"size":{},)"
      R"("wait_s":{:.9f},"census_wait_s":{:.9f},"step_s":{:.9f},"ahead_s":{:.9f},"padding":{},"adjacent":{},"exhausted":{},)"
      R"("produced":{},"blocked_producer_s":{:.9f}}})"
      "\n",
      record.step, finite(record.t_s), record.epoch, record.batch, record.use_index, to_string(record.served),
      record.depth, record.size, finite(record.wait_s), finite(record.census_wait_s), finite(record.step_s),
      finite(record.ahead_s), record.padding, record.adjacent, record.exhausted, record.produced,
      finite(record.blocked_s));
}

void append_json(std::string& out, const Interval& interval, std::uint32_t capacity) {
  fmt::format_to(
      std::back_inserter(out),
      R"({{"t_s":{:.6f},"interval_s":{:.6f},"step_num":{},"epoch":{},"queue_size":{},"capacity":{},)"
      R"("mean_enqueue_rate":{:.6g},"mean_dequeue_rate":{:.6g},"mean_running_time":{},"steps":{},)"
      R"("fresh":{},"reused":{},"fresh_fraction":{},"exhausted_steps":{},"lambda":{},"mu":{},"R":{},)"
      R"("stall":{},"census_waits":{},"census_wait_s":{:.6f},"job_fresh_samples":{},"job_uses_max":{},)"
      R"("images_per_s":{:.6g},"blocked_producer_s":{:.6f},"bytes_read":{},"retries":{},"hedged_reads":{},"read_s":{:.6f},)"
      R"("decode_s":{:.6f},"bad_samples":{},"dropped_records":{}}})"
      "\n",
      finite(interval.t_s), finite(interval.interval_s), interval.step_num, interval.epoch, interval.queue_size,
      capacity, finite(interval.mean_enqueue_rate), finite(interval.mean_dequeue_rate),
      json_number(interval.mean_running_time), interval.steps, interval.fresh, interval.steps - interval.fresh,
      json_number(interval.fresh_fraction), interval.exhausted_steps, json_number(interval.lambda),
      json_number(interval.mu), json_number(interval.r), json_number(interval.stall), interval.census_waits,
      finite(interval.census_wait_s), interval.job_fresh_samples, interval.job_uses_max, finite(interval.images_per_s),
      finite(interval.blocked_producer_s), interval.bytes_read, interval.retries, interval.hedged_reads,
      finite(interval.read_s), finite(interval.decode_s), interval.bad_samples, interval.dropped_records);
}

std::string interval_line(const Interval& interval, std::uint32_t capacity) {
  std::string out = fmt::format("step {}  depth {}/{}", interval.step_num, interval.queue_size, capacity);
  append_figures(out, interval);
  return out;
}

std::string status_line(const Interval& interval, std::uint32_t capacity) {
  std::string out = fmt::format("step {}  [{}] {}/{}", interval.step_num, bar(interval.queue_size, capacity),
                                interval.queue_size, capacity);
  append_figures(out, interval);
  return out;
}

}  // namespace forebay
