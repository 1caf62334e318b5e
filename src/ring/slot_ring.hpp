#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/wait.hpp"
#include "queue_slots.hpp"

namespace forebay::ring {

// The lock-free circular queue of batches: many slots fill at once, out of order; batches leave in the order of
// their turns. It moves slot numbers only; the bytes are in the SlotStore.
//
//        claim                    publish                 take                  retire
//   free ─────► filling (turn t) ─────────► ready (turn t) ────► resident ───────────► free
//       issuer                   decoders                consumer            consumer
//
// Three roles: one issuer thread (claim), any number of decoder threads (publish), one consumer thread (all else).
//
// Invariants
//  R1  Turns are claimed in ascending order, turn t only when it is planned and while t - head_ < capacity: at most
//      `capacity` batches are filling or ready, so depth never exceeds capacity. The capacity only grows.
//  R2  Turn t lives in entries_[t mod size], where size is at least the largest capacity. By R1 the entry's next turn,
//      t + size, is claimed only after head_ has passed t, so an entry belongs to one turn at a time. What it published
//      of turn t, t + 1, differs from t + size + 1, so the consumer does not take it for the new turn.
//  R3  A batch is published once, after all of its samples are written: the store of published = t + 1 releases
//      them and the consumer's load acquires them. Writers of one slot count down `missing` with acq_rel, in one
//      release sequence, so the last writer, who publishes, has acquired what the others wrote.
//  R4  Batches are taken in ascending turns: the consumer takes turn head_ and nothing else.
//  R5  A slot is retired when it is neither resident nor leased (the consumer loads `leases` with acquire). Its
//      number goes into free_ before head_ is stored with release; the issuer loads head_ with acquire before it
//      reads free_, and hands the slot on through queues that order memory. Leases end with release. So all reads of
//      the old batch happen before the first write of the new one.
//  R6  With capacity + pool + max_leases - 1 slots one is free whenever R1 lets the issuer claim: at most capacity - 1
//      are filling or ready, `pool` are resident, and max_leases - 1 are leased but no longer resident, because a
//      batch is taken only while fewer than max_leases leases are held, and until head_ is stored leases can end but
//      none begins. (A lease beyond those is given on a slot that is already leased.) Turn t therefore always takes the
//      t-th number put into free_, and needs no check: when head_ = h is stored, at least h + capacity numbers were put
//      there, the initial ones included, and the issuer reads number t <= h + capacity - 1. free_ has at
//      least as many entries as there are slots, so the entry of number n is overwritten only when at least n + 1 turns
//      have been taken, the one that read it included.
//      Where the capacity grows by n, n more numbers go into free_ before it is stored with release, and the issuer
//      loads it with acquire.
//  R7  What the consumer noted of a turn happens before its claim: planned_ is stored with release after the note, and
//      the issuer loads it with acquire before it claims.
//  R8  The issuer sleeps although it could claim turns only while they are fewer than patience() (a quarter of the
//      capacity, at least 1), and either the workers are busy (R9), or a batch is known to be ready, the consumer does
//      not wait, and it has made fewer than `capacity` steps that took nothing since the first of them could be
//      claimed. The consumer alone ensures that: announced_ is what the issuer could claim when it was last woken, and
//      R8 is restored in settle(), pass() and wait(). Publishers wake the issuer for any turn unless the workers are
//      busy, so that production does not run dry; nothing depends on it.
//  R9  The workers are busy only while there are samples of claimed turns that nobody has begun. A consumer that waits
//      for a turn that is not claimed has taken all that are, and with each batch has acquired (R3) that its samples
//      were begun: it finds nobody busy, and wakes the issuer.
class SlotRing {  // NOLINT(clang-analyzer-optin.performance.Padding): each role has its own cache lines
 public:
  using Clock = WaitPoint::Clock;

  // The state of the ring, as seen by the consumer.
  enum class State : std::uint8_t {
    ready,      // at least one batch can be taken
    starved,    // none yet
    all_taken,  // every planned turn has been taken; the next plan() goes on
  };

  struct Claim {
    std::uint64_t turn;
    std::uint32_t slot;
  };

  // `planned`: batches that may be claimed from the start; UINT64_MAX = no end. All slots start free, except those
  // reserved for a growing capacity: the ones with the highest numbers, of which the lowest is used first. `busy`:
  // whether the workers have so many samples waiting that claiming a turn now would not make them begin it sooner (R9).
  // Called on any thread; empty = never. REQUIRES: slots >= capacity.most + the most that may be resident or leased
  // after a settle() (R6).
  SlotRing(Capacity capacity, std::uint32_t slots, std::uint64_t planned, std::function<bool()> busy = {});
  SlotRing(const SlotRing&) = delete;
  SlotRing& operator=(const SlotRing&) = delete;

  // --- issuer thread ---
  // Waits for a planned turn and for room, and claims it; false when `stopped` is set.
  [[nodiscard]] bool claim(const std::atomic<bool>& stopped, Claim& out);
  // The number of planned turns, whose plans the issuer may read. Acquire pairs with plan() (R7).
  [[nodiscard]] std::uint64_t seen_planned() const noexcept { return planned_.load(std::memory_order_acquire); }

  // --- decoder threads ---
  // REQUIRES: the slot of this turn is completely written (R3); called once per turn.
  void publish(std::uint64_t turn) noexcept;

  // --- consumer thread ---
  // Turns 0 ... turns-1 are planned (R7); never fewer than before. The issuer sees them after the next settle().
  void plan(std::uint64_t turns) noexcept { planned_.store(turns, std::memory_order_release); }
  [[nodiscard]] std::uint64_t planned() const noexcept { return planned_.load(std::memory_order_relaxed); }
  // Turns taken so far; also the number of the next one.
  [[nodiscard]] std::uint64_t taken() const noexcept { return taken_; }
  [[nodiscard]] State state() noexcept;
  // Consecutive ready batches, from the next turn on.
  [[nodiscard]] std::uint32_t depth() noexcept;
  // Takes the next turn and returns its slot. REQUIRES: state() == ready. Retire what leaves before this, or call
  // settle() after.
  [[nodiscard]] std::uint32_t take() noexcept;
  // Gives a slot back (R5). The issuer gets it with the next take().
  void retire(std::uint32_t slot) noexcept;
  // Publishes to the issuer what was taken, retired and planned, and wakes it if it is time (R8). Call once after
  // take() and the retirements that it caused.
  void settle() noexcept;
  // Call for a step that takes nothing: wakes the issuer once it has slept for long enough (R8).
  void pass() noexcept;
  // Waits until ready, all_taken, `broken()`, or the deadline; returns the state then.
  template <typename Broken>
  State wait(Clock::time_point deadline, Broken&& broken) {
    announce_before_wait();
    published_.wait_until(deadline, [&] { return state() != State::starved || broken(); });
    return state();
  }
  // Batches published so far, in order.
  [[nodiscard]] std::uint64_t produced() noexcept;
  // Turns claimed so far; if more than produced(), a batch is on its way.
  [[nodiscard]] std::uint64_t claims() const noexcept { return claims_.load(std::memory_order_relaxed); }
  // Whether every planned turn is published.
  [[nodiscard]] bool is_complete() noexcept { return produced() == planned(); }
  // Raises the capacity to this and to what want() asked for, as far as it may grow.
  void grow(std::uint32_t capacity) noexcept;

  // --- any thread ---
  // Batches that may be filling or ready, now and at most.
  [[nodiscard]] std::uint32_t capacity() const noexcept { return capacity_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint32_t most_capacity() const noexcept { return most_; }
  // Asks the consumer to raise the capacity to this with its next settle() or pass().
  void want(std::uint32_t capacity) noexcept { wanted_.store(capacity, std::memory_order_relaxed); }
  // Batches published so far, in any order, and roughly how many of them are ready. For reports.
  [[nodiscard]] std::uint64_t published() const noexcept { return published_count_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint32_t depth_guess() const noexcept;
  // Wakes all waiting threads, so that they check their stop conditions. Async-signal-safe.
  void wake() noexcept;
  // Time up to `now` in which every claimed batch was complete and none could be claimed: the producer was blocked by a
  // full ring (or had nothing left to do). Never less than it has returned before, to any thread.
  [[nodiscard]] std::chrono::nanoseconds blocked(Clock::time_point now = Clock::now()) const noexcept;

 private:
  struct alignas(64) Entry {
    std::atomic<std::uint64_t> published{0};  // turn + 1 once the turn is ready (R3)
    std::uint32_t slot = 0;                   // written by the issuer at the claim
  };

  void advance_tail() noexcept;
  // Turns below this may be claimed.
  [[nodiscard]] std::uint64_t limit() const noexcept { return std::min(taken_ + capacity(), planned()); }
  // The turns that can be claimed before the issuer is woken (R8).
  [[nodiscard]] std::uint32_t patience() const noexcept { return std::max(1U, capacity() / 4); }
  // Turns that the issuer could claim but was not woken for.
  [[nodiscard]] std::uint64_t unannounced() noexcept;
  void announce() noexcept;
  void announce_if_due() noexcept;
  void announce_before_wait() noexcept;
  // Whether the workers can do without this many further turns (R8).
  [[nodiscard]] bool can_do_without(std::uint64_t turns) const { return turns < patience() && busy_ && busy_(); }

  const std::uint32_t most_;
  const std::uint64_t entry_mask_;
  const std::uint64_t free_mask_;
  std::vector<Entry> entries_;
  std::vector<std::uint32_t> free_;  // slot numbers from the consumer for the issuer; not atomic, by R5 and R6
  const std::function<bool()> busy_;

  // Consumer.
  alignas(64) std::uint64_t taken_ = 0;  // next turn to take
  std::uint64_t tail_ = 0;               // first turn not known to be published
  std::uint64_t retired_;                // numbers put into free_ so far
  std::uint32_t unused_ = 0;             // the lowest number not yet put there
  std::uint64_t announced_ = 0;          // turns for which the issuer was woken, or that it has claimed (R8)
  std::uint32_t passed_ = 0;             // steps that took nothing since then
  mutable std::atomic<std::int64_t> blocked_told_{0};  // the largest value that blocked() has returned
  alignas(64) std::atomic<std::uint64_t> head_{0};     // taken_ as the issuer may see it
  std::atomic<std::uint64_t> planned_;
  std::atomic<std::uint32_t> capacity_;
  std::atomic<std::uint32_t> wanted_{0};  // set by want()
  // Issuer.
  alignas(64) std::uint64_t claimed_ = 0;
  std::atomic<std::uint64_t> claims_{0};  // claimed_ as the consumer may see it
  // Producers.
  alignas(64) std::atomic<std::uint32_t> filling_{0};
  std::atomic<std::uint64_t> published_count_{0};
  std::atomic<std::int64_t> last_publish_ns_;
  std::atomic<std::int64_t> blocked_ns_{0};  // up to the last claim that ended such a time

  WaitPoint room_;       // the issuer waits here
  WaitPoint published_;  // the consumer waits here
};

}  // namespace forebay::ring
