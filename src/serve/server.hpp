#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <forebay/options.hpp>
#include <forebay/policy.hpp>

#include "base/clock.hpp"
#include "base/thread.hpp"
#include "reuse_pool.hpp"
#include "ring/queue_growth.hpp"
#include "ring/slot_ring.hpp"
#include "ring/slot_store.hpp"
#include "watchdog.hpp"

namespace forebay::serve {

// What one step serves.
struct Served {
  std::uint32_t slot = LeaseMaker::kEmpty;
  std::uint64_t use_index = 0;
  Decision decision = Decision::fresh;
  bool padding = false;
  std::uint32_t depth = 0;     // on entry
  bool decided_fresh = false;  // by the policy, although padding is served; ranks in lockstep must decide alike again
  bool adjacent = false;       // the same batch as the step before
};

// What is known of a step before it is served: what the ranks have agreed on, and what is planned.
struct StepContext {
  bool must_pad = false;        // nothing fresh is there for this rank, until the others have caught up or at all
  bool is_all_planned = false;  // nothing more is planned before what is planned was served
  bool is_alone = false;        // nobody waits for the step: one that fails need not have a batch
  bool is_waited_for = false;   // the other ranks wait for what this one has ready, and have no use for its reserve
  bool are_most_at_cap = true;  // more than half of the ranks would reuse batches that were served max_uses times
};

// What a server works on, and asks while it waits. All must outlive it.
struct ServerLinks {
  SlotStore& store;
  ring::SlotRing& ring;
  const RunningTime& time;
  Failure& failure;                      // breaks waits; what the policy throws and the watchdog's error go there
  ReusePool::Retired retired;            // told how often a batch was served when it leaves the pool
  std::function<bool()> stop_requested;  // this rank is to stop; also asked before the ring wakes it
  // Asked every few milliseconds of a wait: a rank wants to end, this one or another. May end the wait by throwing.
  std::function<bool()> interrupted;
  std::function<std::string()> workers;               // what each is doing, for the watchdog
  std::function<void(const std::string& line)> warn;  // for people
  std::size_t open_epochs = 1;                        // whose batches may be served by turns
  // What makes the batches is not expected to, or has just shown that it works: the watchdog begins anew.
  std::function<bool()> is_paused = {};
};

// Decides each step and serves it: asks the policy, takes a batch from the ring or one of the residents again, waits
// where that must be, watches for how long, and counts. A function of the ring, the policy and the step's StepContext:
// it knows of no other thread and of no other rank. Used by the thread that calls next(). serve() neither allocates,
// nor locks, nor enters the kernel while a batch is ready.
class Server {
 public:
  using Clock = ring::SlotRing::Clock;

  // Since the server was made.
  struct Counts {
    std::uint64_t steps = 0;
    std::uint64_t fresh = 0;  // batches
    std::uint64_t fresh_samples = 0;
    std::uint64_t left_out = 0;  // bad samples of those batches, in evaluation
    std::uint64_t offered = 0;   // steps at which there was a batch to serve, or to wait for
    std::uint64_t uses = 0;      // of the batch that the last step served
  };

  // REQUIRES: policy is not null.
  Server(ServerLinks links, const Options& options, std::unique_ptr<RuledPolicy> policy);
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Before the first step: waits for its batch; false when the wait was broken, by a failure or by who wants to end.
  [[nodiscard]] bool wait_for_first_batch();

  // The step that begins at `now`. The policy may decide for a wait, which ends with a batch, or with padding once it
  // is broken.
  [[nodiscard]] Served serve(const StepContext& context, Clock::time_point now);

  struct Alike {
    Served served;
    std::optional<Decision> decision;  // the policy's, fresh or reuse; nothing when it failed
  };
  // The same where all ranks must decide alike: the policy is asked with signals that all share, or not at all where
  // they do not. A fresh decision waits for this rank's batch.
  [[nodiscard]] Alike serve_alike(const StepContext& context, const std::optional<Signals>& shared);

  // The step is about to return.
  void returned(const Served& served, Clock::time_point now) noexcept;

  [[nodiscard]] const Counts& counts() const noexcept { return counts_; }
  // Batches of an epoch served fresh, while it is open; forget() frees its place.
  [[nodiscard]] std::uint64_t served_of(std::uint64_t epoch) const noexcept { return served_[epoch % served_.size()]; }
  void forget(std::uint64_t epoch) noexcept { served_[epoch % served_.size()] = 0; }
  // When the first step returned, and how long the producer had been blocked by then. REQUIRES: counts().steps > 0.
  [[nodiscard]] Clock::time_point first_return() const noexcept { return first_return_; }
  [[nodiscard]] std::chrono::nanoseconds blocked_before() const noexcept { return blocked_before_; }

  // The batch that the last step reused, or would have, was served policy.max_uses times before.
  [[nodiscard]] bool is_at_cap() const noexcept { return policy_->is_at_cap(); }
  // Serves that policy.max_uses allows a batch now; 0 = no cap.
  [[nodiscard]] std::uint64_t max_uses() const noexcept { return policy_->max_uses(); }
  [[nodiscard]] bool is_out_of_leases() const noexcept { return links_.store.held() >= max_leases_; }
  // Throws Error when no lease is to be had.
  void require_free_lease() const;
  // Slots of the batches that may be served again, oldest first.
  [[nodiscard]] std::span<const std::uint32_t> residents() const noexcept { return pool_.slots(); }

 private:
  [[nodiscard]] std::optional<Decision> decide(const Signals& now);
  [[nodiscard]] std::optional<Decision> decide_alike(const Signals& shared);
  // False if it threw.
  bool tell_policy(Decision decision, const Signals& now);
  void served(Decision decision, const Signals& now);
  // The ring gets more room where this step lacked a batch.
  void consider_growth(Decision decision, const Signals& now) noexcept;
  [[nodiscard]] Signals signals(const StepContext& context, std::uint32_t depth, std::uint64_t uses,
                                Clock::time_point now, Clock::duration waited) noexcept;
  [[nodiscard]] Served serve_decided(Decision decision, const StepContext& context, std::uint32_t depth);
  [[nodiscard]] Served serve_fresh(std::uint32_t depth);
  [[nodiscard]] Served serve_again(std::uint32_t slot, bool padding, std::uint32_t depth);
  [[nodiscard]] Served serve_leased(std::uint32_t depth);
  [[nodiscard]] Served pad(std::uint32_t depth);
  // The run ends: a batch was written to, and a reuse would serve what is left of it.
  void found_change(std::uint32_t slot);
  // Padding with nothing: in evaluation, which counts every sample once, and while there is no batch.
  [[nodiscard]] bool has_nothing_to_pad_with() const noexcept { return is_eval_ || pool_.empty(); }
  // True once a batch is ready; false at the deadline, or when the wait was broken.
  [[nodiscard]] bool wait_for_batch(Clock::time_point deadline);
  // The same for a step that all ranks serve fresh; false once this rank has failed.
  [[nodiscard]] bool wait_alike();
  [[nodiscard]] bool is_broken() { return links_.failure.happened() || links_.interrupted(); }
  [[nodiscard]] bool is_paused() { return links_.is_paused && links_.is_paused(); }
  // Feeds the watchdog, or lets it bark. `needs_batch`: a batch of this rank's own, and the queue is empty.
  void watch(bool needs_batch);
  void bark();

  ServerLinks links_;
  std::unique_ptr<RuledPolicy> policy_;
  ReusePool pool_;
  ring::QueueGrowth growth_;
  Watchdog watchdog_;
  std::uint64_t arrived_ = 0;  // batches, when the watchdog looked last
  std::uint32_t max_leases_;
  bool is_eval_;
  std::uint64_t most_uses_;  // that a batch may have but for padding, whatever the other ranks do; 0 = any number
  bool has_warned_of_capped_ = false;
  Clock::duration most_wait_;  // policy.max_wait_ms
  Counts counts_;
  std::uint32_t last_slot_ = LeaseMaker::kEmpty;
  std::vector<std::uint64_t> served_;  // by epoch, modulo the size
  Clock::time_point first_return_;
  std::chrono::nanoseconds blocked_before_{0};
};

}  // namespace forebay::serve
