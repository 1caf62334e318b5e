// Feeder::next(), on the trainer's thread. In order: begin the journal at the first call, let the
// device catch up, agree with the other ranks whether the run continues and plan what the agreement
// brings, serve a batch, plan a further one if the queue moved, render where batches are canvases,
// record the step, return the lease.
//
// Errors on which all ranks agree are thrown by all at the same step. An error of one rank alone is
// instead raised as its failure, so that it makes the step like the others and all end together a
// few steps later (mpi.lag); otherwise the trainer's own collective calls would no longer match.
// Only a single rank throws immediately.

#include <exception>
#include <utility>

#include "base/nvtx.hpp"
#include "feeder_impl.hpp"
#include "ranks/agreed_error.hpp"

namespace forebay {

// An exception that leaves a step unplanned is this rank's end alone: the others are told
// (end_early), and every later call throws the same cause. An agreed cause has been noted already.
std::optional<Lease> Feeder::Impl::next(StreamView stream) {
  const NvtxRange range("next");
  const Clock::time_point called = Clock::now();
  if (cause_) cause_->raise();
  if (ended_ || closed_ || is_between_epochs()) return std::nullopt;
  if (is_alone_) {
    std::optional<Lease> lease = step(stream, called);
    // All samples of an evaluation's batch may be bad. Nobody waits for this rank, so it need not
    // be reported.
    while (lease && lease->size() == 0) {
      lease.reset();  // the program may hold all others
      lease = step(stream, Clock::now());
    }
    return lease;
  }
  try {
    return step(stream, called);
  } catch (const Error& error) {
    if (!ended_) end_early(error.what());
    if (!cause_) throw;
    if (cause_->text == error.what()) {  // the others have it too, of this kind
      cause_->kind = ranks::described(std::current_exception()).kind;
      throw;
    }
  } catch (const std::exception& error) {
    end_early(error.what());
  } catch (...) {
    end_early("an error of unknown type");
  }
  cause_->raise();
}

// is_agreed_ survives an exception from serve(), such as Python's KeyboardInterrupt out of
// while_waiting: the next call then continues this very step instead of posting a second census for
// it.
std::optional<Lease> Feeder::Impl::step(StreamView wanted, Clock::time_point called) {
  feeder::Run& run = *run_;
  const StreamView stream = checked(wanted);
  if (!run.journal->has_begun()) begin();
  const Clock::time_point entered = keep_pace(called);
  if (!agree_to_continue(entered)) return std::nullopt;
  const std::uint64_t taken = run.pipeline->ring().taken();
  const std::uint64_t fresh = run.server->counts().fresh;
  is_agreed_ = true;
  const serve::Served served = serve(entered);
  is_agreed_ = false;
  if (run.pipeline->ring().taken() != taken) plan_further(fresh);
  if (run.failure.happened()) {
    run.ranks->report_failure();
    if (is_alone_ && served.padding) end_alone(entered);  // nobody needs a step that serves nothing new
  }
  std::optional<Lease> lease(LeaseMaker::make(run.store, served.slot,
                                              {.step = run.steps(),
                                               .use_index = served.use_index,
                                               .job_fresh_samples = run.job_fresh_samples(),
                                               .stream = stream,
                                               .served = run.server->counts().steps,
                                               .output = render(served, stream)}));
  end_if_device_refused(entered);
  const Clock::time_point now = Clock::now();
  measure::StepRecord record = run.record_of(served, now);
  run.journal->step(record, entered, entered - called, now);
  run.server->returned(served, now);
  return lease;
}

// A mistake of this rank's trainer. A single rank throws immediately and makes no step. With
// several ranks the others make the step and its collectives, so this one keeps serving until all
// end with the error, at the same step.
StreamView Feeder::Impl::checked(StreamView stream) {
  try {
    run_->server->require_free_lease();
    run_->device->check_stream(stream);
    return stream;
  } catch (...) {
    if (is_alone_) throw;
    run_->failure.raise(std::current_exception());
  }
  try {
    run_->device->check_stream(stream);
    return stream;
  } catch (...) {
    return run_->stream;
  }
}

// Not in the constructor: until the first next() the run may still resume from a saved state, and its files with it.
void Feeder::Impl::begin() {
  try {
    const auto& selection = run_->order->options().selection;
    if (run_->ranks->loop() == ranks::Loop::unknown && selection && selection->is_given())
      throw Error("the program gives the order of each epoch, so next_epoch() comes before the first next()");
    if (run_->ranks->loop() == ranks::Loop::unknown) (void)run_->ranks->agree_on_loop(ranks::Loop::batches, false);
    ranks::collectively(*run_->communicator, [this] { run_->open_journal(); });
  } catch (const std::exception&) {
    run_->journal->abandon();
    // All ranks have it.
    if (!is_alone_ && !run_->ranks->liveness().is_over()) {
      ended_ = true;
      cause_ = ranks::described(std::current_exception());
    }
    throw;
  }
  if (run_->resume_point.is_saved() && run_->communicator->rank() == 0)
    run_->console->info(run_->resume_point.describe());
}

// Throttling the trainer's thread to the device counts as the trainer's time, not as a wait for batches.
Feeder::Impl::Clock::time_point Feeder::Impl::keep_pace(Clock::time_point called) {
  const NvtxRange range("waiting for the device");
  try {
    if (run_->store->keep_pace(run_->server->counts().steps)) return Clock::now();
  } catch (...) {
    run_->failure.raise(std::current_exception());  // all ranks end with it, at the same step
  }
  return called;
}

// Bad samples are reported before the census of the step is posted, so that it carries them.
bool Feeder::Impl::agree_to_continue(Clock::time_point entered) {
  if (is_agreed_) return true;
  feeder::Run& run = *run_;
  run.report_bad();
  const auto [verdict, has_work] = run.ranks->agree(run.report(entered), run.count());
  for (; completed_ < epochs_completed(); ++completed_) run.server->forget(completed_);
  if (has_work) {
    run.pipeline->plan_ahead(
        [&run](std::uint64_t backlog) { return run.ranks->next_batch(backlog, run.server->counts().fresh); });
    run.pipeline->ring().settle();
  }
  if (verdict == ranks::Verdict::proceed) return true;
  if (verdict == ranks::Verdict::epoch_ended) {
    is_in_epoch_ = false;
    run.journal->left_epoch(entered);
  } else {
    end_run(verdict, entered);
  }
  return false;
}

// The journal is finished before anything is logged or thrown, because the run's time ends here.
void Feeder::Impl::end_run(ranks::Verdict verdict, Clock::time_point entered) {
  feeder::Run& run = *run_;
  ended_ = true;
  was_stopped_ = verdict == ranks::Verdict::stopped;
  run.journal->finished(entered);
  if (verdict == ranks::Verdict::finished) run.say_where_the_recording_ends();
  if (verdict != ranks::Verdict::failed) run.say_what_was_replaced();
  run.say_what_was_left_out();
  if (verdict != ranks::Verdict::failed) return;
  cause_ = run.ranks->cause();
  run.communicator->note_failure(cause_->text);
  if (is_alone_ && run.failure.happened()) run.failure.rethrow();
  cause_->raise();
}

// `entered` is the time of the call; it is read again only if the census had to be waited for,
// since a reading costs.
serve::Served Feeder::Impl::serve(Clock::time_point entered) {
  ranks::Ranks& ranks = *run_->ranks;
  if (!ranks.are_in_lockstep()) {
    const bool has_waited = ranks.waited() > std::chrono::nanoseconds::zero();
    return run_->server->serve(run_->context(), has_waited ? Clock::now() : entered);
  }
  const serve::Server::Alike step = run_->server->serve_alike(run_->context(), ranks.shared_signals());
  if (step.decision) ranks.decided(*step.decision);
  return step.served;
}

// Usually the issuer cannot claim what is planned here before the next batch is taken, because as
// many turns as it may claim are already planned; what an exchange brings is settled in
// agree_to_continue().
void Feeder::Impl::plan_further(std::uint64_t fresh) {
  ring::SlotRing& ring = run_->pipeline->ring();
  const std::uint64_t backlog = run_->pipeline->backlog();
  run_->pipeline->plan_ahead([&](std::uint64_t planned) { return run_->ranks->next_batch(planned, fresh); });
  if (run_->pipeline->backlog() != backlog && backlog < ring.capacity()) ring.settle();
}

std::uint32_t Feeder::Impl::render(const serve::Served& served, StreamView stream) {
  if (served.slot == LeaseMaker::kEmpty || !run_->store->format().canvas) return SlotStore::kNoOutput;
  const NvtxRange range("rendering");
  return run_->store->render(served.slot, served.use_index, stream, refused_);
}

// Other ranks hear of it at their next step, and all end at the same one; until then this rank
// serves, whatever the tensor shows, because the trainer's own collectives wait for every rank.
void Feeder::Impl::end_if_device_refused(Clock::time_point entered) {
  if (!refused_) return;
  run_->failure.raise(refused_);
  if (is_alone_) end_alone(entered);
}

void Feeder::Impl::end_alone(Clock::time_point entered) {
  ended_ = true;
  run_->journal->finished(entered);
  run_->say_what_was_left_out();
  cause_ = ranks::described(run_->failure.error());
  run_->communicator->note_failure(cause_->text);
  run_->failure.rethrow();
}

}  // namespace forebay
