#include <algorithm>
#include <exception>
#include <string>
#include <utility>

#include "base/nvtx.hpp"
#include "base/text.hpp"
#include "feeder_impl.hpp"

namespace forebay {
namespace {

using namespace std::chrono_literals;

// A wait looks at the other ranks, at signals and at the watchdog this often.
constexpr auto kSlice = 5ms;

double seconds(std::chrono::nanoseconds time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

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
  const Served served = lockstep_ ? serve_in_lockstep() : serve(entered);
  std::optional<Lease> lease(LeaseMaker::make(store_, served.slot,
                                              {.step = first_step() + step_,
                                               .use_index = served.use_index,
                                               .job_fresh_samples = job_fresh_samples(),
                                               .stream = stream,
                                               .served = step_,
                                               .output = render(served, stream)}));
  end_if_device_refused();
  record(served, entered, entered - called);
  return lease;
}

// What the trainer's thread is too early by is the trainer's time, not a wait for batches: the device computes.
Feeder::Impl::Clock::time_point Feeder::Impl::keep_pace(Clock::time_point called) {
  const NvtxRange range("waiting for the device");
  try {
    if (store_->keep_pace(step_)) return Clock::now();
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
  if (std::exchange(step_is_agreed_, false)) {
    coordinator_->resume_step(stop_requested());
    return true;
  }
  report_failure();
  pipeline_->bad_samples().collect([this](std::uint64_t id) { coordinator_->report_bad(id); });
  const Verdict verdict = coordinator_->step(report(entered));
  if (verdict == Verdict::proceed) {
    share_work();
    return true;
  }
  if (verdict == Verdict::epoch_ended) {
    share_work();
    leave_epoch(entered);
    return false;
  }
  ended_ = true;
  was_stopped_ = verdict == Verdict::stopped;
  if (step_ > 0) counters_->finished(seconds(entered - last_return_), seconds(Clock::now() - entered));
  if (verdict == Verdict::finished) say_where_the_recording_ends();
  say_what_was_left_out();
  if (verdict != Verdict::failed) return false;
  cause_ = coordinator_->cause();
  communicator_->note_failure(cause_);
  if (communicator_->size() == 1 && failure_.happened()) failure_.rethrow();
  throw Error(cause_);
}

StepReport Feeder::Impl::report(Clock::time_point now) noexcept {
  const std::uint64_t epoch = coordinator_->epochs_completed();
  StepReport report{.stop = stop_requested(),
                    .idle = exchange_ && schedule_->is_idle(),
                    .served = served_of(epoch),
                    .to_serve = schedule_->ledger().to_serve(epoch),
                    .samples = fresh_samples_,
                    .uses = most_uses_};
  if (lockstep_) {
    report.fresh = lockstep_->fresh();
    report.progress = progress(now);
  }
  return report;
}

Feeder::Impl::Served Feeder::Impl::serve(Clock::time_point entered) {
  const bool is_out = is_out_of_leases();  // before the sweep: a lease that ends now still has its slot (R6)
  residents_->sweep();
  std::uint32_t depth = pipeline_->ring().depth();
  if (is_out) return serve_leased(depth);
  if (must_pad()) return pad(depth);
  ++offered_;
  watch(depth);
  const std::uint32_t entry_depth = depth;
  const Clock::time_point started = waited_for_others() > 0ns ? Clock::now() : entered;
  Clock::time_point now = started;
  const auto most_wait = std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double, std::milli>(options_.policy.max_wait_ms));
  for (;;) {
    const std::uint32_t candidate = residents_->empty() ? LeaseMaker::kEmpty : residents_->pick();
    const std::uint64_t uses = candidate == LeaseMaker::kEmpty ? 0 : store_->slot(candidate).uses;
    const Signals known = signals(depth, uses, now, now - started);
    const std::optional<Decision> decision = decide(known);
    if (!decision) return pad(entry_depth);
    if (decision == Decision::reuse) {
      tell_policy(Decision::reuse, known);
      warn_of_capped_reuses();
      return serve_again(candidate, false, entry_depth);
    }
    if (depth > 0) {
      tell_policy(Decision::fresh, known);
      return serve_fresh(entry_depth);
    }
    const bool ready = wait_for_batch(decision == Decision::wait ? started + most_wait : Clock::time_point::max());
    if (!ready && (failure_.happened() || coordinator_->interrupted(stop_requested()))) return pad(entry_depth);
    depth = pipeline_->ring().depth();
    watch(depth);
    now = Clock::now();
  }
}

// A fresh decision at a known depth of 0 is a policy's will to wait; each rank then waits for its own batch.
Feeder::Impl::Served Feeder::Impl::serve_in_lockstep() {
  const bool is_out = is_out_of_leases();  // as in serve()
  residents_->sweep();
  const std::uint32_t depth = pipeline_->ring().depth();
  watch(depth);
  std::optional<Decision> decision;
  try {
    const Signals known = lockstep_->signals(coordinator_->heard());
    decision = policy_->decide(known) == Decision::fresh ? Decision::fresh : Decision::reuse;
    policy_->served(*decision, known);
    lockstep_->served(*decision);
  } catch (...) {
    failure_.raise(std::current_exception());
    return pad(depth);
  }
  warn_of_capped_reuses();
  const auto decided = [&](Served served) {
    served.decided_fresh = decision == Decision::fresh;
    return served;
  };
  if (is_out) return decided(serve_leased(depth));
  if (must_pad()) return decided(pad(depth));
  if (decision == Decision::reuse) return serve_again(residents_->pick(), false, depth);
  while (pipeline_->ring().depth() == 0) {
    if (must_pad()) return decided(pad(depth));
    watch(0);
    const bool ready = wait_for_batch(Clock::time_point::max());
    if (!ready && (failure_.happened() || coordinator_->interrupted(stop_requested()))) return pad(depth);
  }
  return decided(serve_fresh(depth));
}

// What this rank tells the others before it serves.
Progress Feeder::Impl::progress(Clock::time_point now) noexcept {
  SlotRing& ring = pipeline_->ring();
  Progress progress;
  progress.now_ns = step_ == 0 ? 0 : std::chrono::nanoseconds(now - first_return_).count();
  progress.blocked_ns = step_ == 0 ? 0 : (ring.blocked(now) - blocked_before_).count();
  if (has_produced_all() || batches_of(schedule_->ledger().deal(), communicator_->rank()) == 0) return progress;
  progress.ready = ring.depth();
  progress.produced = static_cast<std::int64_t>(ring.produced());
  return progress;
}

std::optional<Decision> Feeder::Impl::decide(const Signals& now) {
  if (options_.run.eval) return Decision::fresh;  // evaluation sees every sample once, whatever the policy
  try {
    return policy_->decide(now);
  } catch (...) {
    failure_.raise(std::current_exception());  // all ranks end on it, at one step
    return std::nullopt;
  }
}

void Feeder::Impl::tell_policy(Decision decision, const Signals& now) {
  try {
    policy_->served(decision, now);
  } catch (...) {
    failure_.raise(std::current_exception());
  }
}

Feeder::Impl::Served Feeder::Impl::pad(std::uint32_t depth) noexcept {
  // Evaluation counts every sample once, so it is padded with nothing.
  if (options_.run.eval || residents_->empty()) return {.decision = Decision::fresh, .padding = true, .depth = depth};
  return serve_again(residents_->pick(), true, depth);
}

Feeder::Impl::Served Feeder::Impl::serve_again(std::uint32_t slot, bool padding, std::uint32_t depth) noexcept {
  pipeline_->ring().pass();
  return {slot, store_->slot(slot).uses++, Decision::reuse, padding, depth};
}

Feeder::Impl::Served Feeder::Impl::serve_fresh(std::uint32_t depth) {
  const std::uint32_t slot = residents_->admit();
  // Mostly the issuer cannot claim what is planned here before admit() settles again, because as many turns as it may
  // claim are planned already; what an exchange brings is settled in share_work().
  SlotRing& ring = pipeline_->ring();
  const std::uint64_t planned = ring.planned();
  plan_ahead();
  if (ring.planned() != planned && planned - ring.taken() < ring.capacity()) ring.settle();
  SlotStore::Slot& batch = store_->slot(slot);
  watchdog_->feed();
  if (batch.batch.padding) {
    batch.uses = 1;  // it is another rank's to serve fresh
    return {slot, batch.uses++, Decision::reuse, true, depth};
  }
  ++fresh_;
  ++served_of(batch.batch.epoch);
  fresh_samples_ += batch.batch.size;
  left_out_ += batch.left_out;
  return {slot, batch.uses++, Decision::fresh, false, depth};
}

Signals Feeder::Impl::signals(std::uint32_t depth, std::uint64_t uses, Clock::time_point now,
                              Clock::duration waited) noexcept {
  SlotRing& ring = pipeline_->ring();
  return {.step = step_,
          .depth = has_produced_all() || (depth > 0 && is_waited_for()) ? ring.capacity() : depth,
          .capacity = ring.capacity(),
          .uses = uses,
          .produced = ring.produced(),
          .now_s = step_ == 0 ? 0 : seconds(now - first_return_),
          .blocked_s = step_ == 0 ? 0 : seconds(ring.blocked(now) - blocked_before_),
          .waited_s = seconds(waited)};
}

bool Feeder::Impl::wait_for_batch(Clock::time_point deadline) {
  const NvtxRange range("waiting for a batch");
  SlotRing& ring = pipeline_->ring();
  for (;;) {
    const auto now = Clock::now();
    // A stop that was asked for before leaves the batch a slice to come: ranks in lockstep have decided for it.
    const bool stopping = stop_requested();
    const auto state = ring.wait(std::min(deadline, now + kSlice),
                                 [this, stopping] { return failure_.happened() || (!stopping && stop_requested()); });
    if (state != SlotRing::State::starved) return true;
    if (failure_.happened()) return false;
    if (coordinator_ && coordinator_->interrupted(stop_requested())) return false;
    if (watchdog_->barks()) {
      raise_watchdog();
      return false;
    }
    if (now >= deadline) return false;
  }
}

void Feeder::Impl::watch(std::uint32_t depth) {
  if (depth > 0) {
    watchdog_->feed();
    return;
  }
  watchdog_->starve();
  if (!failure_.happened() && watchdog_->barks()) raise_watchdog();
}

void Feeder::Impl::raise_watchdog() {
  std::string text = std::to_string(watchdog_->starved_s());
  text.resize(text.find('.') + 2);
  failure_.raise(std::make_exception_ptr(
      WatchdogError("no fresh batch for " + text + " s (policy.watchdog_s): " + pipeline_->report())));
  if (coordinator_) report_failure();
}

void Feeder::Impl::warn_of_capped_reuses() {
  if (policy_->capped_reuses() == capped_reuses_) return;
  if (capped_reuses_ == 0) {
    console_->warn("a batch was served more than policy.max_uses = " + std::to_string(options_.policy.max_uses) +
                   " times (on_max_uses = \"warn\"; this is said once)");
  }
  capped_reuses_ = policy_->capped_reuses();
}

void Feeder::Impl::record(const Served& served, Clock::time_point entered, Clock::duration ahead) {
  const Clock::time_point now = Clock::now();
  if (step_ == 0) {
    first_return_ = now;
    blocked_before_ = pipeline_->ring().blocked(now);
  }
  const Tally* const heard = coordinator_->heard();
  const SlotStore::Slot* const slot = served.slot == LeaseMaker::kEmpty ? nullptr : &store_->slot(served.slot);
  const StepRecord record{
      .step = first_step() + step_,
      .epoch = slot != nullptr ? slot->batch.epoch : 0,
      .batch = slot != nullptr ? slot->batch.batch : 0,
      .use_index = served.use_index,
      .t_s = seconds(now - first_return_),
      .wait_s = seconds(now - entered + left_in_),
      .step_s = step_ == 0 ? 0 : seconds(entered - last_return_ - left_in_),
      .census_wait_s = seconds(waited_for_others()),
      .ahead_s = step_ == 0 ? 0 : seconds(ahead),
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
  most_uses_ = served.use_index + 1;
  ++step_;
}

bool Feeder::Impl::stop_requested() const noexcept {
  return stop_->is_made() || (parts_.stop != nullptr && parts_.stop->load(std::memory_order_relaxed));
}

}  // namespace forebay
