// One step on the trainer's thread, in this order: give back slots whose leases have ended, look at
// the depth, have the watchdog look, ask the policy with the signals of this moment, then serve a
// resident batch again, take a fresh one, or wait and ask anew. A wait is cut into slices of a few
// milliseconds, between which other ranks, signals and the watchdog are heard.
//
// While a batch is ready nothing here allocates, locks or enters the kernel; tests count that.
// Errors are not thrown out of a step but raised as the rank's failure, and the step still serves
// something, because the other ranks make the same step and the trainer's own collective calls wait
// for all of them. serve() is for ranks that decide alone; serve_alike() for lockstep, where all
// must decide alike from shared signals.

#include "server.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include <forebay/error.hpp>

#include "base/clock.hpp"
#include "base/nvtx.hpp"
#include "base/text.hpp"

namespace forebay::serve {
namespace {

using namespace std::chrono_literals;

// How often a wait checks the other ranks, signals and the watchdog. Chosen: far below the delay
// that a user notices after Ctrl-C, and far above the microseconds that a check costs.
constexpr auto kSlice = 5ms;
// How long a stop waits for a batch that ranks in lockstep have decided for, where no watchdog ends
// the wait. Chosen (docs/decisions/0032-endings-are-bounded.md).
constexpr auto kStopPatience = 30s;

}  // namespace

Server::Server(ServerLinks links, const Options& options, std::unique_ptr<RuledPolicy> policy)
    : links_(std::move(links)),
      policy_(std::move(policy)),
      pool_(links_.store, links_.ring, options.queue, options.policy.pick, std::move(links_.left_pool)),
      growth_({links_.ring.capacity(), links_.ring.most_capacity()}),
      watchdog_(links_.time, options.policy.watchdog_s),
      max_leases_(static_cast<std::uint32_t>(options.queue.max_leases)),
      is_eval_(options.run.eval),
      most_uses_(options.policy.max_uses > 0 && options.policy.on_max_uses != OnMaxUses::warn
                     ? static_cast<std::uint64_t>(options.policy.max_uses)
                     : 0),
      most_wait_(std::chrono::duration_cast<Clock::duration>(
          std::chrono::duration<double, std::milli>(options.policy.max_wait_ms))),
      served_(links_.open_epochs) {}

bool Server::wait_for_first_batch() {
  watchdog_.starve();
  const bool is_ready = wait_for_batch(Clock::time_point::max());
  watchdog_.feed();
  return is_ready;
}

// The policy is asked again after each wait, with the time waited, until it decides something that
// can be done. If the wait or the policy fails, the step serves padding, a reuse that does not
// count as training.
Served Server::serve(const StepContext& context, Clock::time_point now) {
  const bool is_out = is_out_of_leases();  // before the sweep: a lease that ends now still has its slot (R6)
  pool_.sweep();
  policy_->begin_step(context.are_most_at_cap);
  std::uint32_t depth = links_.ring.depth();
  if (is_out) return serve_leased(depth);
  if (context.must_pad) {
    watch(false);
    return pad(depth);
  }
  ++counts_.offered;
  watch(depth == 0);
  const std::uint32_t entry_depth = depth;
  const Clock::time_point started = now;
  for (;;) {
    const std::uint32_t candidate = pool_.empty() ? LeaseMaker::kEmpty : pool_.pick();
    const std::uint64_t uses = candidate == LeaseMaker::kEmpty ? 0 : links_.store.slot(candidate).uses;
    const Signals known = signals(context, depth, uses, now, now - started);
    const std::optional<Decision> decision = decide(known);
    if (!decision) return pad(entry_depth);
    if (decision == Decision::reuse) {
      if (!tell_policy(Decision::reuse, known)) return pad(entry_depth);  // there is a candidate
      return serve_again(candidate, false, entry_depth);
    }
    if (depth > 0) {
      if (!tell_policy(Decision::fresh, known) && (context.is_alone || !has_nothing_to_pad_with())) {
        return pad(entry_depth);
      }
      return serve_fresh(entry_depth);
    }
    // max_wait_ms ends to the point; a policy that waits by a rule of its own is asked again after a slice.
    const Clock::time_point again = now < started + most_wait_ ? started + most_wait_ : now + kSlice;
    const bool is_ready = wait_for_batch(decision == Decision::wait ? again : Clock::time_point::max());
    if (!is_ready && is_broken()) return pad(entry_depth);
    depth = links_.ring.depth();
    watch(depth == 0);
    now = Clock::now();
  }
}

Server::Alike Server::serve_alike(const StepContext& context, const std::optional<Signals>& shared) {
  const bool is_out = is_out_of_leases();  // as in serve()
  pool_.sweep();
  const std::uint32_t depth = links_.ring.depth();
  watch(!context.must_pad && depth == 0);
  const std::optional<Decision> decision = shared ? decide_alike(*shared) : std::nullopt;
  if (!decision) return {pad(depth), std::nullopt};
  // Reported only once the step is served, because a wait that ends with an exception is repeated.
  Served served = is_out ? serve_leased(depth) : serve_decided(*decision, context, depth);
  if (is_out) served.decided_fresh = decision == Decision::fresh;
  (void)tell_policy(*decision, *shared);
  return {served, decision};
}

// A fresh decision at a known depth of 0 means that the policy wants to wait; each rank then waits
// for its own batch.
Served Server::serve_decided(Decision decision, const StepContext& context, std::uint32_t depth) {
  const auto decided = [&](Served served) {
    served.decided_fresh = decision == Decision::fresh;
    return served;
  };
  if (context.must_pad) return decided(pad(depth));
  if (decision == Decision::reuse) {
    // The ranks decide by what they have in common. If this one was padded before, its own batch
    // may already be at the cap of uses: then it is padded again.
    const std::uint32_t candidate = pool_.pick();
    return serve_again(candidate, most_uses_ > 0 && links_.store.slot(candidate).uses >= most_uses_, depth);
  }
  while (links_.ring.depth() == 0) {
    watch(true);
    if (!wait_alike()) return pad(depth);
  }
  return decided(serve_fresh(depth));
}

std::optional<Decision> Server::decide(const Signals& now) {
  if (is_eval_) return Decision::fresh;  // evaluation sees every sample once, whatever the policy
  try {
    return policy_->decide(now);
  } catch (...) {
    links_.failure.raise(std::current_exception());
    return std::nullopt;
  }
}

// A wait cannot be shared: lockstep knows fresh and reuse only, and waiting is reuse there, for
// which all ranks have a batch.
std::optional<Decision> Server::decide_alike(const Signals& shared) {
  try {
    return policy_->decide(shared) == Decision::fresh ? Decision::fresh : Decision::reuse;
  } catch (...) {
    links_.failure.raise(std::current_exception());
    return std::nullopt;
  }
}

bool Server::tell_policy(Decision decision, const Signals& now) {
  try {
    served(decision, now);
    return true;
  } catch (...) {
    links_.failure.raise(std::current_exception());
    return false;
  }
}

// Logged once, at the step that first exceeds the cap; the summary counts all such reuses.
void Server::served(Decision decision, const Signals& now) {
  policy_->served(decision, now);
  consider_growth(decision, now);
  if (policy_->capped_reuses() == 0 || has_warned_of_capped_) return;
  has_warned_of_capped_ = true;
  links_.warn("a batch was served more than policy.max_uses = " + std::to_string(policy_->max_uses()) +
              " times (on_max_uses = \"warn\"; this is said once)");
}

// Nothing to do at the largest capacity, which most runs reach after a while.
void Server::consider_growth(Decision decision, const Signals& now) noexcept {
  if (now.capacity == links_.ring.most_capacity()) return;
  growth_.became(now.capacity);  // the workers may have asked for more
  const std::uint32_t capacity = growth_.decided(decision, now);
  if (capacity > now.capacity) links_.ring.grow(capacity);
}

// A full depth is reported while a reserve would be of no use: when everything planned is produced,
// and when other ranks wait for what this one holds. So every policy then serves fresh, without a
// rule of its own for the end of an epoch. Times count from the return of the first step, because
// before it the queue fills and the trainer has not begun.
Signals Server::signals(const StepContext& context, std::uint32_t depth, std::uint64_t uses, Clock::time_point now,
                        Clock::duration waited) noexcept {
  ring::SlotRing& ring = links_.ring;
  const bool spends_reserve = (context.is_all_planned && ring.is_complete()) || (depth > 0 && context.is_waited_for);
  const bool is_first = counts_.steps == 0;
  return {.step = counts_.steps,
          .depth = spends_reserve ? ring.capacity() : depth,
          .capacity = ring.capacity(),
          .uses = uses,
          .produced = ring.produced(),
          .now_s = is_first ? 0 : seconds(now - first_return_),
          .blocked_s = is_first ? 0 : seconds(ring.blocked(now) - blocked_before_),
          .waited_s = seconds(waited)};
}

// uses counts this serving too. A batch that is planned as padding is one that another rank serves
// fresh in this epoch, and here it counts as a reuse from its first serving on.
Served Server::serve_fresh(std::uint32_t depth) {
  const std::uint32_t slot = pool_.admit();
  SlotStore::Slot& batch = links_.store.slot(slot);
  if (batch.batch.padding) {
    batch.uses = 1;  // it is another rank's to serve fresh
    return {slot, batch.uses++, Decision::reuse, true, depth};
  }
  ++counts_.fresh;
  ++served_[batch.batch.epoch % served_.size()];
  counts_.fresh_samples += batch.batch.size;
  counts_.left_out += batch.left_out;
  return {slot, batch.uses++, Decision::fresh, false, depth};
}

// A batch that the program has written to would train on garbage, so its checked words are compared
// first (probes.hpp).
Served Server::serve_again(std::uint32_t slot, bool padding, std::uint32_t depth) {
  if (!links_.store.is_unchanged(slot)) [[unlikely]] {
    found_change(slot);
    padding = true;
  }
  links_.ring.pass();
  return {.slot = slot,
          .use_index = links_.store.slot(slot).uses++,
          .decision = Decision::reuse,
          .padding = padding,
          .depth = depth,
          .adjacent = slot == last_slot_};
}

void Server::found_change(std::uint32_t slot) {
  const SlotStore::Slot& batch = links_.store.slot(slot);
  links_.failure.raise(std::make_exception_ptr(
      Error("batch " + std::to_string(batch.batch.batch) + " of epoch " + std::to_string(batch.batch.epoch) +
            " was changed by the program after it was served (" + links_.store.what_changed(slot) +
            "), and is to be served "
            "again at step " +
            std::to_string(counts_.steps) +
            ": batches are read-only, because a reuse serves the same bytes. "
            "Change a copy: in PyTorch batch.torch(), which copies unless copy=False is given, or tensor.clone() "
            "before in-place "
            "arithmetic such as tensor.div_(2) or tensor[...] = 0")));
}

// A batch for a step that a rank must make although all leases are taken. It is not for training:
// the run is over.
Served Server::serve_leased(std::uint32_t depth) {
  if (has_nothing_to_pad_with()) return {.decision = Decision::fresh, .padding = true, .depth = depth};
  return serve_again(pool_.leased(), true, depth);
}

Served Server::pad(std::uint32_t depth) {
  if (has_nothing_to_pad_with()) return {.decision = Decision::fresh, .padding = true, .depth = depth};
  return serve_again(pool_.pick(), true, depth);
}

// Another rank serves a fresh batch at this step, and its trainer may wait there for this one's: so
// a requested stop does not break the wait, but takes effect at the next step. Bounded if there is
// no watchdog.
bool Server::wait_alike() {
  if (wait_for_batch(Clock::time_point::max())) return true;
  const auto since = Clock::now();
  while (!links_.failure.happened()) {
    (void)links_.interrupted();
    const auto state = links_.ring.wait(Clock::now() + kSlice, [this] { return links_.failure.happened(); });
    if (state != ring::SlotRing::State::starved) return true;
    watch(true);
    if (Clock::now() - since > kStopPatience && !links_.failure.happened()) {
      links_.failure.raise(std::make_exception_ptr(
          WatchdogError("the run is to stop, and no fresh batch has come for " + std::to_string(kStopPatience.count()) +
                        " s for a step that is fresh on all ranks: " + links_.workers())));
    }
  }
  return false;
}

// Returns false for three reasons, which the caller tells apart by asking is_broken(): a failure or
// a stop, the watchdog, and the deadline.
bool Server::wait_for_batch(Clock::time_point deadline) {
  const NvtxRange range("waiting for a batch");
  for (;;) {
    const auto now = Clock::now();
    // After a requested stop the wait lasts one more slice for the batch, because ranks in lockstep
    // have decided for it.
    const bool stopping = links_.stop_requested();
    const auto state = links_.ring.wait(std::min(deadline, now + kSlice), [this, stopping] {
      return links_.failure.happened() || (!stopping && links_.stop_requested());
    });
    if (state != ring::SlotRing::State::starved) return true;
    if (is_broken()) return false;
    if (is_paused()) watchdog_.feed();
    watchdog_.starve();
    if (watchdog_.barks()) {
      bark();
      return false;
    }
    if (now >= deadline) return false;
  }
}

void Server::watch(bool needs_batch) {
  const std::uint64_t arrived = links_.ring.produced();
  // A reserve hides a dead store for a long time, and so do ranks that are waited for: so arrivals
  // count, as soon as something is on its way. A full queue expects nothing.
  const bool expects = (needs_batch || links_.ring.claims() > arrived) && !is_paused();
  if (std::exchange(arrived_, arrived) != arrived || !expects) watchdog_.feed();
  if (!expects) return;
  watchdog_.starve();
  if (!links_.failure.happened() && watchdog_.barks()) bark();
}

void Server::bark() {
  links_.failure.raise(std::make_exception_ptr(WatchdogError("no fresh batch for " + in_seconds(watchdog_.starved_s()) +
                                                             " (policy.watchdog_s): " + links_.workers())));
}

// The first step starts the clock of all signals.
void Server::returned(const Served& served, Clock::time_point now) noexcept {
  if (counts_.steps == 0) {
    first_return_ = now;
    blocked_before_ = links_.ring.blocked(now);
  }
  counts_.uses = served.use_index + 1;
  last_slot_ = served.slot;
  ++counts_.steps;
}

void Server::require_free_lease() const {
  if (!is_out_of_leases()) return;
  throw Error("next() while " + std::to_string(links_.store.held()) +
              " leases are held: end one first, copy what you keep of a batch, or raise queue.max_leases");
}

}  // namespace forebay::serve
