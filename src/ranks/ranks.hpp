#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <forebay/communicator.hpp>
#include <forebay/options.hpp>
#include <forebay/order.hpp>
#include <forebay/policy.hpp>

#include "base/clock.hpp"
#include "base/thread.hpp"
#include "coordinator.hpp"
#include "lockstep.hpp"
#include "order/schedule.hpp"
#include "rebalancer.hpp"

namespace forebay::ranks {

// How a program asks for batches: one loop over all, or a loop over epochs with one over each epoch's batches in it.
enum class Loop : std::uint8_t { unknown, batches, epochs };

// The other ranks, as one rank sees them: whether and how the run continues at each step, which batches it may plan,
// what it must wait for, in lockstep what all have decided, and who has left. Knows of batches only what the schedule
// does. Used by the thread that calls next().
class Ranks {
 public:
  struct Setup {
    // These must outlive it.
    Communicator& communicator;
    order::Schedule& schedule;
    Failure& failure;  // this rank's
    const Options& options;
    const RunningTime& time;

    RunPlan plan;
    BadLimit limit;
    QueueOptions queue = {};           // with numbers, not "auto"
    std::uint64_t turns = UINT64_MAX;  // batches that this rank may plan
    Loop loop = Loop::unknown;
    std::function<bool()> stop_requested;  // of this rank
  };

  // Throws ConfigError (mpi.lag), and Error when the index alone has more bad entries than allowed, alike on all ranks.
  explicit Ranks(Setup setup);
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  // Batches change hands between ranks.
  [[nodiscard]] static bool may_rebalance(const Options& options, std::uint32_t ranks) noexcept;

  // --- the kind of loop
  [[nodiscard]] Loop loop() const noexcept { return loop_; }
  // Collective: all ranks ask for batches in the same way; true when any of them `begins_anew`. Throws Error on all.
  bool agree_on_loop(Loop loop, bool begins_anew);
  // In a loop over epochs. REQUIRES: no step was made.
  void end_each_epoch() noexcept;
  // No rank serves a batch of the next epoch before this one is complete.
  [[nodiscard]] bool end_epochs_together() const noexcept {
    return loop_ == Loop::epochs || options_.mpi.epoch_end == EpochEnd::reuse;
  }

  // --- a step
  struct Agreement {
    Verdict verdict = Verdict::proceed;
    bool has_work = false;  // this rank may have got something to plan
  };
  // What all ranks do at the step that begins now. A step that ended an epoch is made in the next epoch after all: the
  // first agree() there is about that one. `mine`, `count`: of all of this rank's steps since the run began. Throws
  // Error naming a rank that has left or does not come.
  [[nodiscard]] Agreement agree(RankReport mine, const RankCount& count);
  // Time that this step has spent waiting for other ranks.
  [[nodiscard]] std::chrono::nanoseconds waited() const noexcept {
    return coordinator_.last_wait() + (rebalancer_ ? rebalancer_->last_wait() : std::chrono::nanoseconds::zero());
  }
  // What all ranks said some steps ago; see Coordinator::heard().
  [[nodiscard]] const JobReport* heard() const noexcept { return coordinator_.heard(); }
  // More than half of the ranks were at their cap when they last said so. A rank alone goes by itself.
  [[nodiscard]] bool are_most_at_cap() const noexcept;
  [[nodiscard]] std::uint64_t epochs_completed() const noexcept { return coordinator_.epochs_completed(); }

  // --- in lockstep
  [[nodiscard]] bool are_in_lockstep() const noexcept { return lockstep_.has_value(); }
  // The signals for this step that all share; nothing, and a failure of this rank, when they have not decided alike.
  [[nodiscard]] std::optional<Signals> shared_signals();
  void decided(Decision decision) { lockstep_->served(decision); }
  // What was heard was said while this rank had nothing to serve: the others may be served a batch that it lacks.
  [[nodiscard]] bool is_left_out() const noexcept { return lockstep_ && lockstep_->is_left_out(heard()); }

  // --- what this rank plans
  // The next batch to plan, with so many planned and not served yet, and so many served fresh; nothing for now.
  [[nodiscard]] std::optional<BatchRef> next_batch(std::uint64_t backlog, std::uint64_t fresh);
  // Nothing more is planned before what is planned was served.
  [[nodiscard]] bool is_all_planned() const noexcept {
    return schedule_.is_exhausted() || turns_left_ == 0 || is_held_back();
  }
  // A batch of that epoch must not be served yet, because the others are not so far.
  [[nodiscard]] bool is_ahead(std::uint64_t epoch) const noexcept {
    return !options_.run.eval && end_epochs_together() && epoch > epochs_completed();
  }
  // It has no batch of its own in any epoch.
  [[nodiscard]] bool has_no_batches() const noexcept {
    return order::batches_of(schedule_.ledger().partition(), communicator_.rank()) == 0;
  }
  // What it has not delivered of what is its own: what is not planned, and `planned`, which was not served.
  [[nodiscard]] std::vector<order::BatchRange> left(std::span<const BatchRef> planned) const;
  // The others may come to wait for what this rank has planned of the epoch epochs_completed(); and they do, so many
  // batches being planned.
  [[nodiscard]] bool may_be_waited_for() const noexcept;
  [[nodiscard]] bool is_waited_for(std::uint64_t planned) const noexcept;

  // --- how it ends
  void report_bad(std::uint64_t sample, std::string_view reason) { coordinator_.report_bad(sample, reason); }
  // The others hear of this rank's failure, if there is one. Once.
  void report_failure();
  // To be polled in waits: a rank wants to end, this one or another. Throws Error naming one that has left.
  [[nodiscard]] bool interrupted() { return coordinator_.interrupted(stop_requested_()); }
  // This rank makes no further step, and throws or has thrown `cause`, or leaves without an error. `in_step`: it does
  // not make the step that it has agreed to either.
  void leave(std::string_view cause, bool in_step = false) { coordinator_.leave(cause, in_step || step_is_agreed_); }
  // After leave(): others have made a step that this rank has left. Never blocks.
  [[nodiscard]] bool others_went_on() { return coordinator_.others_went_on(); }
  [[nodiscard]] Liveness& liveness() noexcept { return coordinator_.liveness(); }
  [[nodiscard]] AgreedError cause() const { return {coordinator_.cause_kind(), coordinator_.cause()}; }
  [[nodiscard]] std::uint64_t bad_samples() const noexcept { return coordinator_.bad_samples(); }
  [[nodiscard]] const std::unordered_set<std::uint64_t>& met_bad() const noexcept { return coordinator_.met_bad(); }

 private:
  // Fills in what the ranks know of this one.
  void complete(RankReport& report) const noexcept;
  [[nodiscard]] bool share_work(const RankCount& mine);
  // This rank may plan fewer batches than the queue can hold: as Rebalancer says where epochs are served one by one.
  [[nodiscard]] bool is_held_back() const noexcept { return rebalancer_ && schedule_.holds_back(); }

  Communicator& communicator_;
  order::Schedule& schedule_;
  Failure& failure_;
  const Options& options_;
  std::function<bool()> stop_requested_;
  Loop loop_;
  std::uint64_t turns_left_;
  bool step_is_agreed_ = false;  // its census said that the epoch before has ended
  bool failure_reported_ = false;
  Coordinator coordinator_;
  std::optional<Lockstep> lockstep_;        // mpi.mode = "lockstep", except for evaluation
  std::unique_ptr<Rebalancer> rebalancer_;  // mpi.mode = "local" with several ranks, except for evaluation
};

}  // namespace forebay::ranks
