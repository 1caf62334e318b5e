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
  bool decided_fresh = false;  // by the policy, even if padding is served; ranks in lockstep decide alike
  bool adjacent = false;       // the same batch as the step before
};

// What is known about a step before it is served: what the ranks have agreed on, and what is planned.
struct StepContext {
  bool must_pad = false;        // there is nothing fresh for this rank, until the others have caught up or ever
  bool is_all_planned = false;  // nothing more will be planned until what is planned has been served
  bool is_alone = false;        // nobody waits for the step: if it fails, it need not serve a batch
  bool is_waited_for = false;   // the other ranks wait for this one's ready batches, so it should not keep a reserve
  bool are_most_at_cap = true;  // more than half of the ranks would reuse batches that were served max_uses times
};

// What a server uses, and what it queries while it waits. All must outlive it.
struct ServerLinks {
  SlotStore& store;
  ring::SlotRing& ring;
  const RunningTime& time;
  Failure& failure;                      // ends waits; receives what the policy throws and the watchdog's error
  ReusePool::LeftPool left_pool;         // receives the uses of a batch when it leaves the pool
  std::function<bool()> stop_requested;  // whether this rank is to stop; also queried before the ring wakes it
  // Queried every few milliseconds of a wait: whether this rank or another wants to end. May end the wait by throwing.
  std::function<bool()> interrupted;
  std::function<std::string()> workers;               // describes what each worker is doing, for the watchdog
  std::function<void(const std::string& line)> warn;  // logs a warning
  std::size_t open_epochs = 1;                        // how many epochs may have batches served alternately
  // Whether no batch is expected at present, or the producer has just shown progress: the watchdog then restarts.
  std::function<bool()> is_paused = {};
};

// Decides and serves each step: asks the policy, takes a batch from the ring or a resident one, waits if necessary,
// limits the wait, and counts. It depends only on the ring, the policy and the step's StepContext, not on other threads
// or ranks. Used by the thread that calls next(). While a batch is ready, serve() neither allocates, nor locks, nor
// enters the kernel.
class Server {
 public:
  using Clock = ring::SlotRing::Clock;

  // Counts since the server was made.
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

  // Called before the first step: waits for its batch. False if a failure or a request to end broke the wait.
  [[nodiscard]] bool wait_for_first_batch();

  // Serves the step that begins at `now`. The policy may decide to wait; the wait ends with a batch, or with padding if
  // it is broken.
  [[nodiscard]] Served serve(const StepContext& context, Clock::time_point now);

  struct Alike {
    Served served;
    std::optional<Decision> decision;  // the policy's, fresh or reuse; nothing if it failed
  };
  // The same if all ranks must decide alike: the policy is asked with signals shared by all ranks, or not at all if
  // there are none. A fresh decision waits for this rank's batch.
  [[nodiscard]] Alike serve_alike(const StepContext& context, const std::optional<Signals>& shared);

  // Called when the step is about to return.
  void returned(const Served& served, Clock::time_point now) noexcept;

  [[nodiscard]] const Counts& counts() const noexcept { return counts_; }
  // Batches of an open epoch served fresh; forget() frees its entry.
  [[nodiscard]] std::uint64_t served_of(std::uint64_t epoch) const noexcept { return served_[epoch % served_.size()]; }
  void forget(std::uint64_t epoch) noexcept { served_[epoch % served_.size()] = 0; }
  // When the first step returned, and how long the producer had been blocked by then. REQUIRES: counts().steps > 0.
  [[nodiscard]] Clock::time_point first_return() const noexcept { return first_return_; }
  [[nodiscard]] std::chrono::nanoseconds blocked_before() const noexcept { return blocked_before_; }

  // Whether the batch that the last step reused, or would have, had already been served policy.max_uses times.
  [[nodiscard]] bool is_at_cap() const noexcept { return policy_->is_at_cap(); }
  // The current cap on serves of a batch, from policy.max_uses; 0 = no cap.
  [[nodiscard]] std::uint64_t max_uses() const noexcept { return policy_->max_uses(); }
  [[nodiscard]] bool is_out_of_leases() const noexcept { return links_.store.held() >= max_leases_; }
  // Throws Error if no further lease may be taken.
  void require_free_lease() const;
  // Slots of the batches that may be served again, oldest first.
  [[nodiscard]] std::span<const std::uint32_t> residents() const noexcept { return pool_.slots(); }

 private:
  [[nodiscard]] std::optional<Decision> decide(const Signals& now);
  [[nodiscard]] std::optional<Decision> decide_alike(const Signals& shared);
  // False if it threw.
  bool tell_policy(Decision decision, const Signals& now);
  void served(Decision decision, const Signals& now);
  // Lets the ring grow if this step lacked a batch.
  void consider_growth(Decision decision, const Signals& now) noexcept;
  [[nodiscard]] Signals signals(const StepContext& context, std::uint32_t depth, std::uint64_t uses,
                                Clock::time_point now, Clock::duration waited) noexcept;
  [[nodiscard]] Served serve_decided(Decision decision, const StepContext& context, std::uint32_t depth);
  [[nodiscard]] Served serve_fresh(std::uint32_t depth);
  [[nodiscard]] Served serve_again(std::uint32_t slot, bool padding, std::uint32_t depth);
  [[nodiscard]] Served serve_leased(std::uint32_t depth);
  [[nodiscard]] Served pad(std::uint32_t depth);
  // Ends the run because a batch was written to, and a reuse would serve the modified bytes.
  void found_change(std::uint32_t slot);
  // Whether padding is empty: in evaluation, which counts every sample once, and while there is no batch.
  [[nodiscard]] bool has_nothing_to_pad_with() const noexcept { return is_eval_ || pool_.empty(); }
  // True once a batch is ready; false at the deadline or if the wait was broken.
  [[nodiscard]] bool wait_for_batch(Clock::time_point deadline);
  // The same for a step that all ranks serve fresh; false once this rank has failed.
  [[nodiscard]] bool wait_alike();
  [[nodiscard]] bool is_broken() { return links_.failure.happened() || links_.interrupted(); }
  [[nodiscard]] bool is_paused() { return links_.is_paused && links_.is_paused(); }
  // Resets the watchdog, or lets it raise its error. `needs_batch`: this rank needs a batch of its own, and the queue
  // is empty.
  void watch(bool needs_batch);
  void bark();

  ServerLinks links_;
  std::unique_ptr<RuledPolicy> policy_;
  ReusePool pool_;
  ring::QueueGrowth growth_;
  Watchdog watchdog_;
  std::uint64_t arrived_ = 0;  // batches at the watchdog's last check
  std::uint32_t max_leases_;
  bool is_eval_;
  std::uint64_t most_uses_;  // the most uses of a batch except as padding, whatever the other ranks do; 0 = no limit
  bool has_warned_of_capped_ = false;
  Clock::duration most_wait_;  // policy.max_wait_ms
  Counts counts_;
  std::uint32_t last_slot_ = LeaseMaker::kEmpty;
  std::vector<std::uint64_t> served_;  // by epoch modulo the size
  Clock::time_point first_return_;
  std::chrono::nanoseconds blocked_before_{0};
};

}  // namespace forebay::serve
