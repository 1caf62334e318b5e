// How a feeder begins, resumes, saves and ends, on the trainer's thread. Most functions here are
// collective: every rank calls them at the same place of its program, and what one rank refuses is
// refused on all before anything is changed. A feeder that resumes does not change itself: it makes
// another Impl over a duplicate of its communicator, ends its own run, and hands over device and
// stream, so that what is refused leaves it as it was.
//
// close() tells the other ranks first and only then ends threads, files and saves, because they may
// be about to make a step for which they would wait for this rank.

#include <chrono>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "base/text.hpp"
#include "feeder_impl.hpp"
#include "ranks/agreed_error.hpp"

namespace forebay {

Feeder::Impl::Impl(Options options, std::unique_ptr<Communicator> communicator, Parts parts,
                   std::shared_ptr<StopRequest> stop, std::optional<feeder::Handover> before)
    : run_(feeder::start_run(std::move(options), std::move(communicator), std::move(parts), std::move(stop),
                             std::move(before))),
      is_alone_(run_->communicator->size() == 1),
      ended_(run_->has_ended),
      was_stopped_(run_->was_stopped),
      completed_(epochs_completed()) {}

bool Feeder::Impl::next_epoch() {
  if (cause_) cause_->raise();
  if (run_->ranks->loop() == ranks::Loop::batches) {
    throw Error(
        "next_epoch() comes before the first next(): without it a rank continues with the next epoch as soon as it "
        "has served its part of this one");
  }
  if (ended_ || closed_) return false;
  is_in_epoch_ = true;
  if (!is_alone_) return true;
  plan_further(run_->server->counts().fresh);  // the program may have given the epoch's order just now
  if (run_->schedule->awaits_order() && run_->schedule->upcoming() == epochs_completed()) {
    throw Error("the order of epoch " + std::to_string(epochs_completed()) +
                " is not there: give() it before next_epoch()");
  }
  return true;
}

// Whether the program loops over batches or over epochs shows at its first call only, after
// production has begun. A rank that planned beyond the epoch in which the others are would serve
// too early, so then all begin anew, alike.
std::unique_ptr<Feeder::Impl> Feeder::Impl::begun_by_epochs() {
  ranks::Ranks& ranks = *run_->ranks;
  if (ranks.loop() != ranks::Loop::unknown || closed_) return nullptr;
  // A rank that resumed where it has nothing left of the epoch, and planned for a loop that begins with the next one,
  // has no batch to pad with.
  const produce::Pipeline& pipeline = *run_->pipeline;
  const bool is_ahead = !ended_ && !ranks.end_epochs_together() && pipeline.ring().planned() > 0 &&
                        pipeline.planned(0).epoch > epochs_completed();
  const bool begins_anew = ranks.agree_on_loop(ranks::Loop::epochs, is_ahead && !run_->options.run.eval);
  if (begins_anew) return resumed(run_->resume_point.saved());
  ranks.end_each_epoch();
  return nullptr;
}

// Each rank's part of the state goes to all; batches that are planned, ready or resident but not
// served count as left.
std::string Feeder::Impl::state() {
  if (closed_) throw Error("the state of a feeder is asked for before close(), which ends the talk between the ranks");
  if (run_->options.run.eval) throw Error("an evaluation (run.eval = true) has no state to save: it begins anew");
  if (refused_ && is_alone_) {
    throw Error("there is no state to save: a batch was lost when the device failed, so resume from the last state " +
                ("that was saved (" + cause() + ")"));
  }
  order::JobState state = run_->job();
  state.opened = run_->schedule->ledger().opened();
  state.fresh_samples = run_->resume_point.fresh_samples();
  const job::RankPart mine{.steps = run_->steps(),
                           .fresh_samples = run_->server->counts().fresh_samples,
                           .left = run_->left(),
                           .has_lost = refused_ != nullptr};
  return order::to_text(job::gather_state(std::move(state), mine, *run_->communicator));
}

void Feeder::Impl::save(const std::string& file) {
  std::string text = state();
  // Once the run has ended no step is delayed any longer, and the program may end.
  run_->saves->save(file, std::move(text), ended_);
}

void Feeder::Impl::finish_saves() {
  if (!closed_) run_->saves->finish();  // close() has
}

// A state is written on a thread of its own, so a failure may show only after the save() that
// requested it.
void Feeder::Impl::throw_failed_save() {
  if (const std::string failure = run_->saves->take_failure(); !failure.empty()) throw Error(failure);
}

void Feeder::Impl::require_not_begun() const {
  if (closed_) {
    throw Error("a saved state is restored before close(), which ends the talk between the ranks: make another feeder");
  }
  if (run_->server->counts().steps > 0 || is_in_epoch_) {
    throw Error("a saved state is restored before the first next() and next_epoch(): make another feeder for it");
  }
}

std::optional<job::SavedState> Feeder::Impl::saved_in(const std::string& file) {
  run_->saves->wait();  // it may be writing this very file
  return job::share_state(file, *run_->communicator);
}

// In this order: check, duplicate the communicator, close, free memory, make the other. Ranks that
// closed on their own would count as having left, hence ended_.
std::unique_ptr<Feeder::Impl> Feeder::Impl::resumed(job::SavedState saved) {
  require_not_begun();
  feeder::Run& run = *run_;
  // Whatever the other feeder would refuse is refused here, while this one can still be used as it is.
  const job::ResumePoint resume_point(saved, run.options);
  order::JobState ours = run.job();
  const auto nodes = ours.settings.find("dataset.nodes");
  const bool takes_saved = nodes != ours.settings.end() && run.given_nodes == 0;
  if (takes_saved) nodes->second = std::to_string(resume_point.parts());
  resume_point.require_same_job(ours);
  ranks::collectively(*run.communicator, [&] {
    if (!job::is_replay(run.options)) return;
    job::ReplayedRun(run.options, run.communicator->rank(), run.communicator->size(), resume_point.steps())
        .require_same_run(ours);
  });
  std::unique_ptr<Communicator> again = run.communicator->duplicate();
  Parts parts = run.given;
  parts.dataset = run.dataset;
  Options options = run.options;
  options.dataset.nodes = run.given_nodes;
  ended_ = true;  // on all ranks: nobody leaves
  close();
  if (!run.is_left_behind()) {  // the device need not have room for both
    run.jpeg.gpu.reset();
    run.store->give_back_memory();
  }
  auto other = std::make_unique<Impl>(std::move(options), std::move(again), std::move(parts), run.stop,
                                      feeder::Handover{std::move(saved), run.device, run.stream, run.ranks->loop()});
  other->run_->saves->take_over(run.saves->take_failure());
  return other;
}

void Feeder::Impl::end_early(const char* what) {
  ended_ = true;
  cause_ = ranks::AgreedError{.text = run_->early_end->fail(what)};
}

// Otherwise others would wait in their collective calls while this rank runs the program's hook.
void Feeder::Impl::end_reads() {
  if (closed_ || !is_alone_ || !run_->given.while_waiting) return;
  ended_ = true;  // however the wait ends, no further batch is served
  run_->journal->stop_profile();
  (void)run_->end_production(cause(), run_->given.while_waiting);
}

void Feeder::Impl::close() {
  if (closed_) return;
  closed_ = true;
  // First of all: the others may be about to make a step that this rank will not make.
  try {
    const bool is_over = !cause_ && run_->ranks->liveness().is_over();  // as a save after the last step found
    const bool leaves = !is_alone_ && (!ended_ || is_over);
    if (leaves) leave();
  } catch (...) {
    run_->close(cause());  // nobody calls it again
    throw;
  }
  run_->close(cause());
}

void Feeder::Impl::leave() {
  // After an exception from state(), save() or next_epoch() the run is over for this rank, although
  // no next() said so.
  if (const ranks::Liveness& liveness = run_->ranks->liveness(); liveness.is_over()) {
    end_early(liveness.cause().c_str());
  } else {
    run_->early_end->leave(run_->steps());
  }
}

// A forked child leaks the run on purpose: the threads that hold its locks exist in the parent
// only.
Feeder::Impl::~Impl() {
  if (process_.is_forked()) {
    static_cast<void>(run_.release());  // NOLINT(bugprone-unused-return-value)
    return;
  }
  const auto tell = [this](const char* cause) noexcept {
    try {
      run_->console->error("closing the feeder failed: " + printable(cause));
    } catch (...) {  // NOLINT(bugprone-empty-catch): there is nobody left to tell
    }
  };
  try {
    close();
  } catch (const std::exception& error) {
    tell(error.what());
  } catch (...) {
    tell("an exception of an unknown type");
  }
}

}  // namespace forebay
