// What a run records about itself. Joins the counters, telemetry, the profiler, the run's log and
// the trainer's track in a timeline; the trainer's thread calls it at each step. step() fills in
// the times of the step's record: from one return of next() to the next call is the trainer's own
// time, from the call to its return is the wait. This thread writes nothing: telemetry takes the
// record through a ring.

#include "journal.hpp"

#include <algorithm>
#include <utility>

#include "base/clock.hpp"

namespace forebay::measure {

Journal::Journal(Timeline* timeline) {
  if (timeline == nullptr) return;
  trainer_ = &timeline->track("trainer");
  queues_ = &timeline->track("queues");
}

void Journal::begin(const TelemetrySetup& telemetry, const RunHead& head, const ProfileFrame& frame,
                    const Sources& sources) {
  if (!telemetry.options.dir.empty()) log_.emplace(telemetry.options.dir, head, sources.console);
  telemetry_.emplace(telemetry, sources.totals, sources.gauges, sources.console);
  profiler_.emplace(frame, sources.production, queues_);
}

void Journal::abandon() noexcept {
  profiler_.reset();
  telemetry_.reset();
  log_.reset();
}

// left_in_ is the time inside a next() that returned nothing at the end of an epoch. It counts as
// waiting.
void Journal::step(StepRecord& record, Clock::time_point entered, Clock::duration ahead,
                   Clock::time_point now) noexcept {
  record.wait_s = seconds(now - entered + left_in_);
  if (has_step_) {
    record.t_s = seconds(now - first_return_);
    record.step_s = seconds(entered - last_return_ - left_in_);
    record.ahead_s = seconds(ahead);
  } else {
    first_return_ = now;
  }
  counters_.step(record);
  telemetry_->record(record);
  if (trainer_ != nullptr) trace(record, entered, now);
  has_step_ = true;
  last_return_ = now;
  left_in_ = {};
}

void Journal::trace(const StepRecord& record, Clock::time_point entered, Clock::time_point now) noexcept {
  if (has_step_) {
    trainer_->add_step("step", steady_ns(last_return_), steady_ns(entered), record.step - 1, last_batch_, last_use_);
  }
  const char* const name = record.padding ? "next: padding" : record.use_index == 0 ? "next: fresh" : "next: reuse";
  trainer_->add_step(name, steady_ns(entered), steady_ns(now), record.step, record.batch, record.use_index);
  trainer_->add_counter("ring depth", steady_ns(entered), record.depth);
  last_batch_ = record.batch;
  last_use_ = record.use_index;
}

void Journal::finished(Clock::time_point entered) noexcept {
  if (has_step_) counters_.finished(seconds(entered - last_return_), seconds(Clock::now() - entered));
}

void Journal::stop_profile() {
  if (profiler_) profiler_->stop();
}

void Journal::close() {
  if (telemetry_) telemetry_->close();
}

void Journal::log_end(const Summary& run, const std::string& failure) {
  log_->end({.summary = run, .profile = profile(run), .failure = failure});
}

Summary Journal::summary(Summary facts, std::span<const std::uint64_t> resident_uses) const {
  if (telemetry_) facts.dropped_records = telemetry_->dropped();
  return counters_.summary(facts, resident_uses);
}

// The profiler sees only the threads of the pipeline, so the trainer's part comes from the summary.
Profile Journal::profile(const Summary& run) const {
  Profile out;
  if (!profiler_) return out;
  out = profiler_->profile();
  const double others = run.wall_s > 0 ? run.census_wait_s / run.wall_s : 0;
  out.trainer.threads = 1;
  out.trainer.busy = run.au;
  out.trainer.blocked_out = others;
  out.trainer.blocked_in = run.wall_s > 0 ? std::max(0.0, 1 - run.au - others) : 0;
  out.trainer.images_per_s = run.images_per_s;
  out.trainer.images_per_s_alone = run.consume_rate * out.batch_size;
  out.fresh_fraction = run.fresh_fraction;
  return out;
}

}  // namespace forebay::measure
