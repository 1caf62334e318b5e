#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "base/text.hpp"
#include "feeder_impl.hpp"

// The ends of epochs, and of the run. What ends an epoch is the coordinator's verdict at step k: the ranks have agreed
// on that step by then and shared its work, but nobody has served it. The first next() of the next epoch does.
namespace forebay {

bool Feeder::Impl::next_epoch() {
  if (!cause_.empty()) throw Error(cause_);
  if (ranks_->loop() == Loop::batches) {
    throw Error(
        "next_epoch() comes before the first next(): without it a rank continues with the next epoch as soon as it "
        "has served its part of this one");
  }
  if (ended_ || closed_) return false;
  is_in_epoch_ = true;
  return true;
}

std::unique_ptr<Feeder::Impl> Feeder::Impl::begun_by_epochs() {
  if (ranks_->loop() != Loop::unknown || closed_) return nullptr;
  // A rank that went on where it has nothing left of the epoch, and planned for a loop that begins with the next one,
  // has no batch to pad with.
  const bool is_ahead = !ended_ && !ranks_->end_epochs_together() && pipeline_->ring().planned() > 0 &&
                        pipeline_->planned(0).epoch > epochs_completed();
  const bool begins_anew = ranks_->agree_on_loop(Loop::epochs, is_ahead && !options_.run.eval);
  if (begins_anew) return resumed(resumed_from_);
  ranks_->end_each_epoch();
  return nullptr;
}

void Feeder::Impl::leave_epoch(Clock::time_point entered) noexcept {
  is_in_epoch_ = false;
  left_in_ = Clock::now() - entered;
}

void Feeder::Impl::say_what_was_left_out() {
  const auto [samples, left_out] = std::pair(server_->counts().fresh_samples, server_->counts().left_out);
  if (left_out == 0) return;
  const bool is_alone = communicator_->size() == 1;
  console_->warn((is_alone ? "evaluated " : "this rank evaluated ") + std::to_string(samples) + " of " +
                 std::to_string(samples + left_out) + " samples; " + std::to_string(left_out) + " left out because " +
                 (left_out == 1 ? "it is bad" : "they are bad") +
                 (is_alone ? "" : "; the summary has the figures of all ranks"));
}

void Feeder::Impl::say_where_the_recording_ends() {
  if (recorded_steps_ == 0 || steps_made() < recorded_steps_ || communicator_->rank() != 0) return;
  const bool is_complete = options_.run.steps > 0
                               ? steps() >= static_cast<std::uint64_t>(options_.run.steps)
                               : epochs_completed() >= static_cast<std::uint64_t>(options_.run.epochs);
  if (is_complete) return;
  console_->info("the recording in " + printable(options_.policy.recording) + " ends after " +
                 std::to_string(steps_made()) + " steps, and with it this run");
}

}  // namespace forebay
