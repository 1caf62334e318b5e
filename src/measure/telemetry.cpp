// Telemetry of one rank. The trainer's thread pushes a record per step into a lock-free ring and
// goes on. The telemetry thread drains the ring every 40 ms, and the Reporter writes steps,
// intervals, the recording, metrics and the status line. A full ring drops records and counts them:
// telemetry never makes a step wait. Failures are reported once and never end a run.
//
// Times in the files count from the first step. The Reporter learns that origin when it sees the
// first record.

#include "telemetry.hpp"

#include <chrono>
#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include "base/text.hpp"
#include "base/thread.hpp"
#include "run_files.hpp"

namespace forebay::measure {
namespace {

// All periods here are choices.
constexpr double kRedraw_s = 0.2;
// The time that the status line's figures cover.
constexpr double kLive_s = 1.0;
// The time that gauges for monitoring cover, and how often they are published.
constexpr double kLately_s = 5.0;
constexpr double kPublish_s = 1.0;
// The longest time that a line stays in this process's buffers.
constexpr double kSync_s = 1.0;
// Lines are written in pieces of about this size, so that a burst of records does not grow the
// buffer for good.
constexpr std::size_t kPiece = std::size_t{64} * 1024;

// The thread polls instead of being woken for each record. This is faster than the eye follows the
// status line, and too often for the ring to fill at any real step rate.
constexpr std::chrono::milliseconds kPeriod{40};

double seconds_of(WaitPoint::Clock::time_point time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

}  // namespace

Reporter::Reporter(TelemetrySetup setup, const read::WorkerTotals& totals, std::function<Gauges()> gauges,
                   ConsoleLog& console)
    : setup_(std::move(setup)), totals_(totals), gauges_(std::move(gauges)), console_(console) {
  const TelemetryOptions& options = setup_.options;
  begin_at_zero();
  interval_due_s_ = options.interval_s;
  live_due_s_ = kLive_s;
  lately_due_s_ = kLately_s;
  open_metrics();
  if (options.dir.empty()) return;
  const auto mode = setup_.goes_on ? JsonLinesFile::Mode::append : JsonLinesFile::Mode::truncate;
  const auto open = [&](std::string_view kind) {
    return std::make_unique<JsonLinesFile>(rank_file(options.dir, kind, setup_.rank), console_, mode,
                                           static_cast<std::uint64_t>(options.max_bytes));
  };
  if (options.per_step) steps_ = open("steps");
  if (options.interval_s > 0) intervals_ = open("intervals");
  if (setup_.recording) {
    const auto file = recording_file(options.dir, setup_.rank, setup_.recording->first_step);
    decisions_ = std::make_unique<DecisionLog>(file, *setup_.recording, console_);
  }
}

void Reporter::open_metrics() {
  if (setup_.options.prometheus.empty()) return;
  const MetricsPlace place = metrics_place(setup_.options.prometheus, setup_.rank, setup_.ranks);
  lately_figures_ = figures(lately_, snapshot(0), 0);
  metrics_ = std::make_unique<MetricsOutput>(
      place, metrics_text({.rank = setup_.rank, .since_start = lately_figures_, .lately = lately_figures_}), console_);
  // The ports of other ranks follow from rank 0's, unless the system chose them.
  const auto& port = metrics_->port();
  if (port && (setup_.rank == 0 || place.port == 0)) console_.info("metrics at " + port->url());
}

bool Reporter::has_audience() const noexcept {
  const bool people = setup_.rank == 0 && (setup_.options.interval_s > 0 || console_.is_live());
  return steps_ || intervals_ || decisions_ || metrics_ || people;
}

// If memory runs out, the record is taken back as a whole, so that no half line is written.
bool Reporter::add(const StepRecord& record) noexcept {
  const std::size_t before = step_lines_.size();
  try {
    take(record);
    if (step_lines_.size() >= kPiece) write_steps();
    return true;
  } catch (...) {
    step_lines_.resize(before);
    unwritten_.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
}

void Reporter::take(const StepRecord& record) {
  last_record_s_ = record.t_s;
  interval_.add(record);
  live_.add(record);
  if (metrics_) {
    whole_.add(record);
    lately_.add(record);
  }
  if (!steps_) return;
  append_json(step_lines_, record);
  ++step_line_count_;
}

// Records come first, so that the line of an interval that is due includes all steps before it.
void Reporter::tick(double now_s, std::uint64_t dropped) {
  write_steps();
  if (metrics_) metrics_->serve(now_s);
  if (!origin_s_) {
    if (interval_.steps() == 0) return begin_at_zero();
    origin_s_ = now_s - last_record_s_;
  }
  const double t_s = now_s - *origin_s_;
  if (setup_.options.interval_s > 0 && t_s >= interval_due_s_) end_interval(snapshot(t_s), dropped);
  if (console_.is_live() && t_s >= redraw_due_s_) draw_status(snapshot(t_s), dropped);
  if (metrics_ && t_s >= publish_due_s_) publish(snapshot(t_s), dropped, true);
  if (t_s >= sync_due_s_) {
    sync_due_s_ = t_s + kSync_s;
    sync();
  }
}

// Does everything that is due once more, then writes the unfinished interval and a metric that says
// that the run has ended.
void Reporter::finish(double now_s, std::uint64_t dropped) {
  tick(now_s, dropped);
  if (interval_.steps() > 0) write_interval(figures(interval_, snapshot(now_s - *origin_s_), dropped));
  sync();
  if (metrics_) publish(snapshot(origin_s_ ? now_s - *origin_s_ : 0), dropped, false);
  metrics_.reset();  // frees the port for another run
  console_.end_status();
}

std::uint64_t Reporter::lost() const noexcept {
  return unwritten_.load(std::memory_order_relaxed) + (steps_ ? steps_->lost() : 0) +
         (intervals_ ? intervals_->lost() : 0) + (decisions_ ? decisions_->lost() : 0);
}

Snapshot Reporter::snapshot(double t_s) const { return {t_s, gauges_(), totals_}; }

Interval Reporter::figures(const IntervalWindow& window, const Snapshot& now, std::uint64_t dropped) const {
  Interval out = window.figures(now);
  out.dropped_records = dropped + lost();
  return out;
}

void Reporter::begin_at_zero() {
  const Snapshot start = snapshot(0);
  interval_.begin(start);
  live_.begin(start);
  whole_.begin(start);
  lately_.begin(start);
}

void Reporter::write_steps() {
  if (step_line_count_ == 0) return;
  steps_->write(step_lines_, step_line_count_);
  step_lines_.clear();
  step_line_count_ = 0;
}

void Reporter::write_interval(const Interval& interval) {
  if (!intervals_) return;
  std::string line;
  try {
    append_json(line, interval);
  } catch (...) {  // no memory for the line
    unwritten_.fetch_add(1, std::memory_order_relaxed);
    throw;
  }
  intervals_->write(line, 1);
}

void Reporter::end_interval(const Snapshot& now, std::uint64_t dropped) {
  const Interval done = figures(interval_, now, dropped);
  interval_.begin(now);
  // A late tick (on a slow disk) makes one long interval instead of several empty ones.
  interval_due_s_ = now.t_s + setup_.options.interval_s;
  write_interval(done);
  if (setup_.rank == 0) console_.info(interval_line(done));
}

// Shows the figures of the last complete period, or of the time so far during the first, with the
// current depth.
void Reporter::draw_status(const Snapshot& now, std::uint64_t dropped) {
  redraw_due_s_ = now.t_s + kRedraw_s;
  const bool is_complete = now.t_s >= live_due_s_;
  if (is_complete || !has_live_period_) live_figures_ = figures(live_, now, dropped);
  if (is_complete) {
    has_live_period_ = true;
    live_due_s_ = now.t_s + kLive_s;
    live_.begin(now);
  }
  Interval shown = live_figures_;
  shown.queue_size = now.gauges.depth;
  console_.status(status_line(shown));
}

// Likewise: gauges are of the last complete period, counters and the step of the whole run.
void Reporter::publish(const Snapshot& now, std::uint64_t dropped, bool is_running) {
  publish_due_s_ = now.t_s + kPublish_s;
  const bool is_complete = now.t_s >= lately_due_s_;
  if (is_complete || !has_lately_period_) lately_figures_ = figures(lately_, now, dropped);
  if (is_complete) {
    has_lately_period_ = true;
    lately_due_s_ = now.t_s + kLately_s;
    lately_.begin(now);
  }
  const Interval whole = figures(whole_, now, dropped);
  lately_figures_.queue_size = now.gauges.depth;
  lately_figures_.step_num = whole.step_num;
  lately_figures_.epoch = whole.epoch;
  metrics_->publish(
      metrics_text({.rank = setup_.rank, .since_start = whole, .lately = lately_figures_, .is_running = is_running}));
}

void Reporter::sync() {
  if (steps_) steps_->sync();
  if (intervals_) intervals_->sync();
  if (decisions_) decisions_->sync();
  tell_of_rotation();
}

void Reporter::flush() noexcept {
  try {
    write_steps();
    sync();
  } catch (...) {  // NOLINT(bugprone-empty-catch): no memory to report a failure
  }
}

// Reports the first rotation, on rank 0 only, because all ranks' files have the same bound.
void Reporter::tell_of_rotation() {
  const bool has_rotated = (steps_ && steps_->has_rotated()) || (intervals_ && intervals_->has_rotated());
  if (setup_.rank != 0 || !has_rotated || std::exchange(rotation_told_, true)) return;
  console_.info(
      "telemetry has reached half of telemetry.max_bytes: from now on its earliest lines make way for new ones");
}

Telemetry::Telemetry(const TelemetrySetup& setup, const read::WorkerTotals& totals, std::function<Gauges()> gauges,
                     ConsoleLog& console)
    : ring_(setup.records),
      decisions_(setup.recording ? std::make_unique<RecordRing<RecordedStep>>(setup.decisions) : nullptr),
      console_(console),
      reporter_(setup, totals, std::move(gauges), console),
      active_(reporter_.has_audience()) {
  if (!active_) return;
  thread_ = start_thread<std::jthread>("forebay-telem", [this](const std::stop_token& stop) { run(stop); });
}

Telemetry::~Telemetry() { close(); }

void Telemetry::close() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  stopping_.notify_all();
  thread_.join();
}

// Two flags are read before the rings are drained, so that the drain includes everything before
// them: the request to stop, and the loss of decisions.
void Telemetry::run(const std::stop_token& stop) {
  bool last = false;
  while (!last) {
    // Read before draining, so that the drain sees everything recorded before close().
    last = stopping_.wait_until(WaitPoint::Clock::now() + kPeriod, [&] { return stop.stop_requested(); });
    try {
      if (decisions_) take_decisions();
      bool has_memory = true;
      for (StepRecord record; ring_.pop(record);) has_memory = reporter_.add(record) && has_memory;
      if (!has_memory) report_once("no memory");
      const double now_s = seconds_of(WaitPoint::Clock::now());
      last ? reporter_.finish(now_s, ring_.dropped()) : reporter_.tick(now_s, ring_.dropped());
    } catch (const std::exception& e) {
      report_once(e.what());
      if (last) reporter_.flush();
    }
  }
}

void Telemetry::take_decisions() {
  // Read before draining; only then does the drain take every step before the first lost one.
  const bool is_full = decisions_->dropped() > 0;
  for (RecordedStep step; decisions_->pop(step);) reporter_.add_decision(step);
  if (is_full) reporter_.end_decisions("the disk of telemetry.dir is too slow");
}

// Telemetry must not end a run: a problem is reported once, and the ring is still drained.
void Telemetry::report_once(const char* cause) noexcept {
  if (std::exchange(troubled_, true)) return;
  try {
    console_.warn("telemetry: " + printable(cause) + "; its files may be incomplete, the run continues");
  } catch (...) {
    troubled_ = false;  // no memory for the line; reported when there is
  }
}

}  // namespace forebay::measure
