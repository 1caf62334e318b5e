#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>

#include <forebay/feeder.hpp>

#include "base/thread.hpp"
#include "run.hpp"
#include "startup.hpp"

namespace forebay {

// Drives the parts of a run: carries out each call of the trainer's thread.
class Feeder::Impl {
 public:
  // Collective; see start_run().
  Impl(Options options, std::unique_ptr<Communicator> communicator, Parts parts, std::shared_ptr<StopRequest> stop,
       std::optional<feeder::Handover> before = std::nullopt);
  // close(), whose errors are logged. Does nothing in a fork, where there are no threads to join, and locks may be held
  // forever.
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  [[nodiscard]] std::optional<Lease> next(StreamView stream);
  [[nodiscard]] bool next_epoch();
  // Collective while the kind of loop is not yet known. If this feeder cannot begin a loop over epochs, returns a
  // replacement that can, and closes this one; otherwise null.
  [[nodiscard]] std::unique_ptr<Impl> begun_by_epochs();
  // With a single rank, before close(): waits for reads in progress, and lets through what Parts::while_waiting throws
  // in the meantime.
  void end_reads();
  void close();
  // After close(), on rank 0: throws the error of a save that was not reported yet.
  void throw_failed_save();

  // Collective.
  [[nodiscard]] std::string state();
  void save(const std::string& file);
  void finish_saves();
  [[nodiscard]] std::optional<job::SavedState> saved_in(const std::string& file);
  // Throws Error once a step was made or the feeder was closed: after that nothing can be restored.
  void require_not_begun() const;
  // Returns a replacement that resumes from the saved state, and closes this feeder.
  [[nodiscard]] std::unique_ptr<Impl> resumed(job::SavedState saved);

  [[nodiscard]] const OwnProcess& process() const noexcept { return process_; }
  [[nodiscard]] const feeder::Run& run() const noexcept { return *run_; }
  [[nodiscard]] bool was_stopped() const noexcept { return was_stopped_; }
  [[nodiscard]] std::uint64_t epochs_completed() const noexcept { return run_->ranks->epochs_completed(); }

 private:
  using Clock = feeder::Run::Clock;

  // The parts of next(), in order.
  [[nodiscard]] std::optional<Lease> step(StreamView wanted, Clock::time_point called);
  // The stream to use, if this call may make a step.
  [[nodiscard]] StreamView checked(StreamView stream);
  void begin();
  // Waits until the device has come near enough, and returns the time of that; `called` if it already had.
  [[nodiscard]] Clock::time_point keep_pace(Clock::time_point called);
  [[nodiscard]] bool agree_to_continue(Clock::time_point entered);
  void end_run(ranks::Verdict verdict, Clock::time_point entered);
  // `entered`: the only clock reading that a step needs before its end.
  [[nodiscard]] serve::Served serve(Clock::time_point entered);
  // Plans further batches after one was taken. `fresh`: batches that this rank had served fresh before.
  void plan_further(std::uint64_t fresh);
  [[nodiscard]] std::uint32_t render(const serve::Served& served, StreamView stream);
  void end_if_device_refused(Clock::time_point entered);
  // Throws the failure in the step in which it occurred. REQUIRES: a single rank.
  [[noreturn]] void end_alone(Clock::time_point entered);

  [[nodiscard]] std::string cause() const { return cause_ ? cause_->text : std::string(); }  // "" = none
  void end_early(const char* what);
  // Tells the other ranks, which may be about to make a step, that this one leaves.
  void leave();
  [[nodiscard]] bool is_between_epochs() const noexcept {
    return run_->ranks->loop() == ranks::Loop::epochs && !is_in_epoch_;
  }

  OwnProcess process_;
  feeder::RunOwner run_;
  bool is_alone_;  // one rank
  bool ended_;
  bool was_stopped_;
  bool closed_ = false;
  bool is_in_epoch_ = false;                 // in a loop over epochs
  bool is_agreed_ = false;                   // on a step not served yet: an exception of the program's ended its wait
  std::optional<ranks::AgreedError> cause_;  // of the failure that ended the run
  std::exception_ptr refused_;               // the device's error when a taken batch was to be handed out
  std::uint64_t completed_;                  // epochs whose batches need no longer be counted
};

}  // namespace forebay
