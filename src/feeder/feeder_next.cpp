#include <algorithm>
#include <exception>
#include <string>
#include <utility>

#include "base/clock.hpp"
#include "base/nvtx.hpp"
#include "base/text.hpp"
#include "feeder_impl.hpp"

namespace forebay {
namespace {}  // namespace

std::optional<Lease> Feeder::Impl::next(StreamView stream) {
  const NvtxRange range("next");
  const Clock::time_point called = Clock::now();
  if (!cause_.empty()) throw Error(cause_);
  if (ended_ || closed_ || is_between_epochs()) return std::nullopt;
  if (communicator_->size() == 1) return step(stream, called);
  try {
    return step(stream, called);
  } catch (const Error& error) {
    if (!ended_) end_alone(error.what());
    if (cause_ == error.what()) throw;
  } catch (const std::exception& error) {
    end_alone(error.what());
  } catch (...) {
    end_alone("an error of unknown type");
  }
  throw Error(cause_);
}

std::optional<Lease> Feeder::Impl::step(StreamView wanted, Clock::time_point called) {
  const StreamView stream = checked(wanted);
  if (!telemetry_) begin();
  const Clock::time_point entered = keep_pace(called);
  if (!agree_to_go_on(entered)) return std::nullopt;
  const std::uint64_t taken = pipeline_->ring().taken();
  const std::uint64_t fresh = server_->counts().fresh;
  const Served served = ranks_->are_in_lockstep() ? serve_in_lockstep() : serve(entered);
  if (pipeline_->ring().taken() != taken) plan_further(fresh);
  if (failure_.happened()) ranks_->report_failure();
  if (server_->capped_reuses() > 0) warn_of_capped_reuses();
  std::optional<Lease> lease(LeaseMaker::make(store_, served.slot,
                                              {.step = steps(),
                                               .use_index = served.use_index,
                                               .job_fresh_samples = job_fresh_samples(),
                                               .stream = stream,
                                               .served = steps_made(),
                                               .output = render(served, stream)}));
  end_if_device_refused();
  record(served, entered, entered - called);
  return lease;
}

// What the trainer's thread is too early by is the trainer's time, not a wait for batches: the device computes.
Feeder::Impl::Clock::time_point Feeder::Impl::keep_pace(Clock::time_point called) {
  const NvtxRange range("waiting for the device");
  try {
    if (store_->keep_pace(steps_made())) return Clock::now();
  } catch (...) {
    failure_.raise(std::current_exception());  // all ranks end on it, at one step
  }
  return called;
}

std::uint32_t Feeder::Impl::render(const Served& served, StreamView stream) {
  if (served.slot == LeaseMaker::kEmpty || !store_->format().canvas) return SlotStore::kNoOutput;
  const NvtxRange range("rendering");
  return store_->render(served.slot, served.use_index, stream, refused_);
}

bool Feeder::Impl::agree_to_go_on(Clock::time_point entered) {
  pipeline_->bad_samples().collect([this](std::uint64_t id) { ranks_->report_bad(id); });
  const auto [verdict, has_work] = ranks_->agree(standing(entered));
  for (; completed_ < epochs_completed(); ++completed_) server_->forget(completed_);
  if (has_work) {
    plan_ahead(server_->counts().fresh);
    pipeline_->ring().settle();
  }
  if (verdict == Verdict::proceed) return true;
  if (verdict == Verdict::epoch_ended) {
    leave_epoch(entered);
    return false;
  }
  ended_ = true;
  was_stopped_ = verdict == Verdict::stopped;
  if (steps_made() > 0) counters_->finished(seconds(entered - last_return_), seconds(Clock::now() - entered));
  if (verdict == Verdict::finished) say_where_the_recording_ends();
  say_what_was_left_out();
  if (verdict != Verdict::failed) return false;
  cause_ = ranks_->cause();
  communicator_->note_failure(cause_);
  if (communicator_->size() == 1 && failure_.happened()) failure_.rethrow();
  throw Error(cause_);
}

Ranks::Standing Feeder::Impl::standing(Clock::time_point now) noexcept {
  const Server::Counts& counts = server_->counts();
  Ranks::Standing mine{.served = server_->served_of(epochs_completed()),
                       .fresh = counts.fresh,
                       .samples = counts.fresh_samples,
                       .offered = counts.offered,
                       .uses = counts.uses,
                       .backlog = pipeline_->backlog()};
  if (ranks_->are_in_lockstep()) mine.progress = progress(now);
  return mine;
}

Served Feeder::Impl::serve(Clock::time_point entered) {
  const bool has_waited = ranks_->waited() > std::chrono::nanoseconds::zero();
  return server_->serve(outlook(), has_waited ? Clock::now() : entered);
}

Served Feeder::Impl::serve_in_lockstep() {
  const Server::Alike step = server_->serve_alike(outlook(), ranks_->shared_signals());
  if (step.decision) ranks_->decided(*step.decision);
  return step.served;
}

Progress Feeder::Impl::progress(Clock::time_point now) noexcept {
  SlotRing& ring = pipeline_->ring();
  Progress progress;
  if (steps_made() > 0) {
    progress.now_ns = std::chrono::nanoseconds(now - server_->first_return()).count();
    progress.blocked_ns = (ring.blocked(now) - server_->blocked_before()).count();
  }
  if ((ranks_->is_all_planned() && ring.is_complete()) ||
      batches_of(schedule_->ledger().deal(), communicator_->rank()) == 0)
    return progress;
  progress.ready = ring.depth();
  progress.produced = static_cast<std::int64_t>(ring.produced());
  return progress;
}

void Feeder::Impl::warn_of_capped_reuses() {
  if (has_warned_of_capped_) return;
  has_warned_of_capped_ = true;
  console_->warn("a batch was served more than policy.max_uses = " + std::to_string(options_.policy.max_uses) +
                 " times (on_max_uses = \"warn\"; this is said once)");
}

void Feeder::Impl::record(const Served& served, Clock::time_point entered, Clock::duration ahead) {
  const Clock::time_point now = Clock::now();
  const std::uint64_t step = steps();
  const bool is_first = steps_made() == 0;
  server_->returned(served, now);
  const Tally* const heard = ranks_->heard();
  const SlotStore::Slot* const slot = served.slot == LeaseMaker::kEmpty ? nullptr : &store_->slot(served.slot);
  const StepRecord record{
      .step = step,
      .epoch = slot != nullptr ? slot->batch.epoch : 0,
      .batch = slot != nullptr ? slot->batch.batch : 0,
      .use_index = served.use_index,
      .t_s = seconds(now - server_->first_return()),
      .wait_s = seconds(now - entered + left_in_),
      .step_s = is_first ? 0 : seconds(entered - last_return_ - left_in_),
      .census_wait_s = seconds(ranks_->waited()),
      .ahead_s = is_first ? 0 : seconds(ahead),
      .produced = pipeline_->ring().produced(),
      .blocked_s = seconds(pipeline_->ring().blocked(now)),
      .job_fresh_samples = job_fresh_samples(),
      .job_uses = heard != nullptr ? static_cast<std::uint64_t>(heard->uses) : 0,
      .size = slot != nullptr ? slot->batch.size : 0,
      .depth = served.depth,
      .served = served.decision,
      .padding = served.padding,
      .decided_fresh = served.decided_fresh || (served.decision == Decision::fresh && !served.padding),
      .adjacent = slot != nullptr && served.slot == last_slot_ && served.use_index > 0,
      .exhausted = served.depth == 0};
  counters_->step(record);
  telemetry_->record(record);
  if (trainer_track_ != nullptr) trace_step(record, entered, now);
  last_slot_ = served.slot;
  last_return_ = now;
  left_in_ = {};
}

bool Feeder::Impl::stop_requested() const noexcept {
  return stop_->is_made() || (parts_.stop != nullptr && parts_.stop->load(std::memory_order_relaxed));
}

}  // namespace forebay
