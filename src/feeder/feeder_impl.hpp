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

// Drives the parts of a run: what each call of the trainer's thread has them do, and what came of it.
class Feeder::Impl {
 public:
  // Collective; see start_run().
  Impl(Options options, std::unique_ptr<Communicator> communicator, Parts parts, std::shared_ptr<StopRequest> stop,
       std::optional<feeder::Handover> before = std::nullopt);
  // close(); what it throws becomes a line for people. In a fork nothing: there are no threads to join, and locks may
  // be held for ever.
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  [[nodiscard]] std::optional<Lease> next(StreamView stream);
  [[nodiscard]] bool next_epoch();
  // Collective while the kind of loop is not known yet. A feeder in this one's place that can begin with a
  // loop over epochs, where this one cannot, or null; this one is then closed.
  [[nodiscard]] std::unique_ptr<Impl> begun_by_epochs();
  // With a single rank: what Parts::while_waiting throws while reads under way end leaves this function. Before
  // close().
  void end_reads();
  void close();
  // After close(), on rank 0: throws the error of a save that was not reported yet.
  void throw_failed_save();

  // Collective.
  [[nodiscard]] std::string state();
  void save(const std::string& file);
  void finish_saves();
  [[nodiscard]] std::optional<job::SavedState> saved_in(const std::string& file);
  // Throws Error once a step was made or the feeder was closed: from then on nothing can be restored.
  void require_not_begun() const;
  // A feeder in this one's place that resumes from there; this one is closed.
  [[nodiscard]] std::unique_ptr<Impl> resumed(job::SavedState saved);

  [[nodiscard]] const OwnProcess& process() const noexcept { return process_; }
  [[nodiscard]] const feeder::Run& run() const noexcept { return *run_; }
  [[nodiscard]] bool was_stopped() const noexcept { return was_stopped_; }
  [[nodiscard]] std::uint64_t epochs_completed() const noexcept { return run_->ranks->epochs_completed(); }

 private:
  using Clock = feeder::Run::Clock;

  // next(), in order.
  [[nodiscard]] std::optional<Lease> step(StreamView wanted, Clock::time_point called);
  // The stream to use, when this call is one that may make a step.
  [[nodiscard]] StreamView checked(StreamView stream);
  void begin();
  // When the device has come near enough; `called` where it had before.
  [[nodiscard]] Clock::time_point keep_pace(Clock::time_point called);
  [[nodiscard]] bool agree_to_continue(Clock::time_point entered);
  void end_run(ranks::Verdict verdict, Clock::time_point entered);
  // `entered`: the one reading of the clock that a step needs before its end.
  [[nodiscard]] serve::Served serve(Clock::time_point entered);
  // After a batch was taken; `fresh`: batches that this rank had served fresh before.
  void plan_further(std::uint64_t fresh);
  [[nodiscard]] std::uint32_t render(const serve::Served& served, StreamView stream);
  void end_if_device_refused(Clock::time_point entered);
  // Throws the failure, in the step that met it. REQUIRES: a single rank.
  [[noreturn]] void end_alone(Clock::time_point entered);

  [[noreturn]] void throw_cause() const;
  void end_early(const char* what);
  // Tells the other ranks, which may be about to make a step.
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
  bool is_in_epoch_ = false;  // in a loop over epochs
  bool is_agreed_ = false;    // on a step that is not served yet: its wait ended with an exception of the program's
  std::string cause_;         // of the failure that ended the run
  ranks::ErrorKind cause_kind_ = ranks::ErrorKind::error;
  std::exception_ptr refused_;  // by the device, when a batch that was taken was to be handed out
  std::uint64_t completed_;     // epochs whose batches need not be counted any more
};

}  // namespace forebay
