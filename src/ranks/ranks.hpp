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

// How a program requests batches: in one loop over all, or in a loop over epochs with an inner loop over each epoch's
// batches.
enum class Loop : std::uint8_t { unknown, batches, epochs };

// The other ranks, as seen by one rank: whether and how the run continues at each step, which batches it may plan, what
// it must wait for, in lockstep what all have decided, and who has left. It knows about batches only what the schedule
// knows. Used by the thread that calls next().
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
    std::function<bool()> stop_requested;  // on this rank
  };

  // Throws ConfigError (mpi.lag), and Error when the index alone has more bad entries than allowed, alike on all ranks.
  explicit Ranks(Setup setup);
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  // Whether ranks may hand batches over to each other.
  [[nodiscard]] static bool may_rebalance(const Options& options, std::uint32_t ranks) noexcept;

  // --- the kind of loop
  [[nodiscard]] Loop loop() const noexcept { return loop_; }
  // Collective: checks that all ranks use the same kind of loop; returns whether any of them `begins_anew`. Throws
  // Error on all ranks if they do not.
  bool agree_on_loop(Loop loop, bool begins_anew);
  // Chooses the loop over epochs. REQUIRES: no step was made.
  void end_each_epoch() noexcept;
  // Whether no rank serves a batch of the next epoch before this one is complete.
  [[nodiscard]] bool end_epochs_together() const noexcept {
    return loop_ == Loop::epochs || options_.mpi.epoch_end == EpochEnd::reuse;
  }

  // --- a step
  struct Agreement {
    Verdict verdict = Verdict::proceed;
    bool has_work = false;  // this rank may now have something to plan
  };
  // What all ranks do at the step that begins now. A step that ended an epoch is made in the next epoch after all: the
  // first agree() there refers to it. `mine`, `count`: cover all of this rank's steps since the run began. Throws Error
  // naming a rank that has left or does not arrive.
  [[nodiscard]] Agreement agree(RankReport mine, const RankCount& count);
  // Time for which this step has waited for other ranks.
  [[nodiscard]] std::chrono::nanoseconds waited() const noexcept {
    return coordinator_.last_wait() + (rebalancer_ ? rebalancer_->last_wait() : std::chrono::nanoseconds::zero());
  }
  // The report of all ranks from some steps ago; see Coordinator::heard().
  [[nodiscard]] const JobReport* heard() const noexcept { return coordinator_.heard(); }
  // Whether more than half of the ranks were at their cap in their last reports; true for a single rank, which decides
  // by itself.
  [[nodiscard]] bool are_most_at_cap() const noexcept;
  [[nodiscard]] std::uint64_t epochs_completed() const noexcept { return coordinator_.epochs_completed(); }

  // --- in lockstep
  [[nodiscard]] bool are_in_lockstep() const noexcept { return lockstep_.has_value(); }
  // The signals for this step, shared by all; if they have not decided alike, nothing, and this rank fails.
  [[nodiscard]] std::optional<Signals> shared_signals();
  void decided(Decision decision) { lockstep_->served(decision); }
  // Whether this rank had nothing to serve when the last report was made, so that the others may be served a batch that
  // it lacks.
  [[nodiscard]] bool is_left_out() const noexcept { return lockstep_ && lockstep_->is_left_out(heard()); }

  // --- what this rank plans
  // The next batch to plan, given the numbers of batches planned but not served and of those served fresh; nothing if
  // none may be planned now.
  [[nodiscard]] std::optional<BatchRef> next_batch(std::uint64_t backlog, std::uint64_t fresh);
  // Whether nothing more can be planned until what is planned has been served.
  [[nodiscard]] bool is_all_planned() const noexcept {
    return schedule_.is_exhausted() || turns_left_ == 0 || is_held_back();
  }
  // Whether a batch of that epoch must not be served yet, because the others are behind.
  [[nodiscard]] bool is_ahead(std::uint64_t epoch) const noexcept {
    return !options_.run.eval && end_epochs_together() && epoch > epochs_completed();
  }
  // Whether this rank has no batch of its own in any epoch.
  [[nodiscard]] bool has_no_batches() const noexcept {
    return order::batches_of(schedule_.ledger().partition(), communicator_.rank()) == 0;
  }
  // This rank's undelivered batches: those not planned, and those in `planned`, which were not served.
  [[nodiscard]] std::vector<order::BatchRange> left(std::span<const BatchRef> planned) const;
  // Whether the others may come to wait for the batches of the epoch epochs_completed() that this rank has planned; and
  // whether they do, given their number.
  [[nodiscard]] bool may_be_waited_for() const noexcept;
  [[nodiscard]] bool is_waited_for(std::uint64_t planned) const noexcept;

  // --- how it ends
  void report_bad(std::uint64_t sample, std::string_view reason) { coordinator_.report_bad(sample, reason); }
  // Tells the others about this rank's failure, if any. Sends once.
  void report_failure();
  // To be polled in waits: whether this rank or another wants to end. Throws Error naming one that has left.
  [[nodiscard]] bool interrupted() { return coordinator_.interrupted(stop_requested_()); }
  // Reports that this rank makes no further step because it throws `cause`, or leaves without an error. `in_step`: nor
  // does it make the step that it has agreed to.
  void leave(std::string_view cause, bool in_step = false) {
    coordinator_.leave(cause, in_step || step_is_agreed_, step_is_agreed_ && !in_step);
  }
  // After leave(): others have made a step that this rank has left. Never blocks.
  [[nodiscard]] bool others_went_on() { return coordinator_.others_went_on(); }
  [[nodiscard]] Liveness& liveness() noexcept { return coordinator_.liveness(); }
  [[nodiscard]] const AgreedError& cause() const noexcept { return coordinator_.cause(); }
  [[nodiscard]] std::uint64_t bad_samples() const noexcept { return coordinator_.bad_samples(); }
  [[nodiscard]] std::optional<std::string> too_many_bad_here() const { return coordinator_.too_many_bad_here(); }
  [[nodiscard]] const std::unordered_set<std::uint64_t>& met_bad() const noexcept { return coordinator_.met_bad(); }

 private:
  // Fills in what this object knows about this rank.
  void fill_in(RankReport& report) const noexcept;
  [[nodiscard]] bool share_work(const RankCount& mine);
  // Whether this rank may plan fewer batches than the queue can hold, which Rebalancer decides if epochs are served one
  // by one.
  [[nodiscard]] bool is_held_back() const noexcept { return rebalancer_ && schedule_.holds_back(); }

  Communicator& communicator_;
  order::Schedule& schedule_;
  Failure& failure_;
  const Options& options_;
  std::function<bool()> stop_requested_;
  Loop loop_;
  std::uint64_t turns_left_;
  bool step_is_agreed_ = false;  // its census said that the previous epoch has ended
  bool failure_reported_ = false;
  Coordinator coordinator_;
  std::optional<Lockstep> lockstep_;        // mpi.mode = "lockstep", except for evaluation
  std::unique_ptr<Rebalancer> rebalancer_;  // mpi.mode = "local" with several ranks, except for evaluation
};

}  // namespace forebay::ranks
