#include <algorithm>
#include <exception>
#include <string>

#include "feeder_impl.hpp"

// How a rank ends that does not end together with the others, or is about not to.
namespace forebay {

// What this rank's trainer does wrong. One rank on its own is told at once, and no step is made. Of several, the others
// make the step and its collectives: so this one serves on until all end on the error, at one step.
StreamView Feeder::Impl::checked(StreamView stream) {
  const bool is_alone = communicator_->size() == 1;
  try {
    server_->require_free_lease();
    device_->check_stream(stream);
    return stream;
  } catch (...) {
    if (is_alone) throw;
    failure_.raise(std::current_exception());
  }
  try {
    device_->check_stream(stream);
    return stream;
  } catch (...) {
    return stream_;
  }
}

// Other ranks hear of it at their next step and all end at one; until then this one serves on, whatever the tensor
// shows, since the trainer's own collectives wait for every rank.
void Feeder::Impl::end_if_device_refused() {
  if (!refused_) return;
  failure_.raise(refused_);
  if (communicator_->size() > 1) return;
  cause_ = failure_.text();
  communicator_->note_failure(cause_);
  failure_.rethrow();
}

// An error that this rank has met in the middle of a step, where it cannot agree with the others any more. They are
// told and end on the same text.
void Feeder::Impl::end_alone(const char* what) {
  ended_ = true;
  ended_alone_ = true;
  cause_ = what;
  if (!ranks_->attendance().is_over()) {
    cause_ = "rank " + std::to_string(communicator_->rank()) + ": " + what;
    ranks_->leave(cause_, true);
  }
  communicator_->note_failure(cause_);
}

void Feeder::Impl::leave_mid_run() {
  const std::uint64_t steps = this->steps();
  cause_of_leaving_ = "rank " + std::to_string(communicator_->rank()) + " has left " +
                      (steps == 0 ? "before the first step" : "after step " + std::to_string(steps - 1)) +
                      (std::uncaught_exceptions() > 0 ? " by an exception" : "") +
                      ", and other ranks have not: call next() on every rank until it returns nothing, and "
                      "request_stop() to end early";
  ranks_->leave(cause_of_leaving_);
}

void Feeder::Impl::close() {
  if (closed_) return;
  closed_ = true;
  // First of all: the others may be about to make a step that this rank will not make.
  if (!ended_ && communicator_->size() > 1) {
    // What state(), save() or next_epoch() threw: it is over for this rank although no next() said so.
    if (const Attendance& attendance = ranks_->attendance(); attendance.is_over()) {
      end_alone(attendance.cause().c_str());
    } else {
      leave_mid_run();
    }
  }
  if (profiler_) profiler_->stop();
  if (pipeline_) pipeline_->stop();
  if (running_) running_->stop();
  if (telemetry_) telemetry_->close();
  if (quarantine_) quarantine_->begin();  // a feeder that made no step has written nothing yet
  directory_.release();
  write_trace();
  if (communicator_) part();
  saves_->end();
}

void Feeder::Impl::part() {
  // Long enough for ranks that are a step behind, short enough not to look like a hang when one is gone.
  constexpr double kTimeout = 5;
  bool others_went_on = false;
  communicator_->while_waiting([&] { others_went_on = others_went_on || ranks_->others_went_on(); });
  bool came = communicator_->close(kTimeout);
  // They got a batch for a step that this rank has left, and did not come back: they wait for it in calls of their own,
  // where nothing can reach them.
  const double patience = options_.policy.watchdog_s;
  if (!came && others_went_on && patience > 0) {
    console_->warn(cause_of_leaving_);
    came = communicator_->close(std::max(0.0, patience - kTimeout));
    if (!came) {
      saves_->end();  // what was saved is to outlive the job
      communicator_->abort(cause_of_leaving_);
    }
  }
  // Whoever has not come by now cannot be waited for at the program's end either.
  if (!came && ended_alone_) communicator_->abort_at_end(cause_);
  communicator_->while_waiting({});
}

}  // namespace forebay
