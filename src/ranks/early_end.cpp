// For a rank that ends while others may still make steps: an error that could not be agreed on, a
// program that left its loop. Two things must happen in order: the others are told why (fail,
// leave), and then communication between the ranks is closed (part), which waits for a bounded
// time. MPI gives no way to break another rank's collective call of the trainer's own, so where
// others wait in one for this rank, the job is aborted with the cause rather than left to hang.

#include "early_end.hpp"

#include <algorithm>
#include <exception>

namespace forebay::ranks {

const std::string& EarlyEnd::fail(const char* what) {
  has_failed_ = true;
  cause_ = what;
  if (!ranks_.liveness().is_over()) {
    cause_ = "rank " + std::to_string(communicator_.rank()) + ": " + what;
    ranks_.leave(cause_, true);
  }
  communicator_.note_failure(cause_);
  return cause_;
}

// Distinguishes an exception that unwinds past the feeder from a loop that was left on purpose.
void EarlyEnd::leave(std::uint64_t steps) {
  cause_ = "rank " + std::to_string(communicator_.rank()) + " has left " +
           (steps == 0 ? "before the first step" : "after step " + std::to_string(steps - 1)) +
           (std::uncaught_exceptions() > 0 ? " by an exception" : "") +
           ", and other ranks have not: call next() on every rank until it returns nothing, and request_stop() to end "
           "early";
  ranks_.leave(cause_);
}

// While close() waits, the hook records whether others made a step without this rank.
void EarlyEnd::part(const std::function<void()>& before_abort) {
  bool others_went_on = false;
  communicator_.while_waiting([&] { others_went_on = others_went_on || ranks_.others_went_on(); });
  const struct Unhook {  // the hook refers to what ends here
    Communicator& communicator;
    ~Unhook() { communicator.while_waiting({}); }
  } at_the_end{communicator_};
  bool came = communicator_.close(kPartingS);
  // They got a batch for a step that this rank does not make, and did not come back.
  if (!came && others_went_on && watchdog_s_ > 0) {
    warn_(cause_);
    came = communicator_.close(std::max(0.0, watchdog_s_ - kPartingS));
    if (!came) {
      before_abort();
      communicator_.abort(cause_);
    }
  }
  // Ranks that have not arrived by now cannot be waited for at the program's end either.
  if (!came && has_failed_) communicator_.abort_at_end(cause_);
}

}  // namespace forebay::ranks
