#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <forebay/options.hpp>

namespace forebay {

// What a policy asks the feeder to do.
enum class Decision : std::uint8_t {
  fresh,  // serve the next batch, waiting for it if the queue is exhausted
  reuse,  // serve a resident batch again
  wait,   // wait briefly for a batch, then ask again with a larger Signals::waited_s
};

[[nodiscard]] constexpr std::string_view to_string(Decision decision) noexcept {
  switch (decision) {
    case Decision::fresh: return "fresh";
    case Decision::reuse: return "reuse";
    case Decision::wait: return "wait";
  }
  return "?";
}

// Everything that a policy may know when it decides a step. They are plain numbers, so that both the real feeder and a
// simulator can drive a policy.
struct Signals {
  std::uint64_t step = 0;  // steps served so far by this run; 0 at first in a resumed one, too
  // Batches ready now. Equals the capacity once the last batch of the run is ready, and while other ranks wait for
  // what is ready here, because saving the rest then gains nothing.
  std::uint32_t depth = 0;
  // Batches that may be ready: at least 1, and never fewer than in an earlier step. Rises only if queue.capacity =
  // "auto".
  std::uint32_t capacity = 1;
  std::uint64_t uses = 0;      // how often the batch that a reuse would serve was served; 0 = no resident batch
  std::uint64_t produced = 0;  // batches published since the start
  double now_s = 0;            // time since the first step
  double blocked_s = 0;        // seconds of it in which a full ring blocked the producer
  double waited_s = 0;         // time already spent waiting in this step
};

// Decides each step from the signals alone, without access to a clock, slots, threads, or random numbers. An object
// belongs to one feeder (or one simulated rank) and is called from one thread.
class Policy {
 public:
  virtual ~Policy() = default;

  // The decision for this step; anything else ends the run with an Error. After `wait` it is called again within the
  // step. It must not assume that its decision was carried out: served() reports what was.
  [[nodiscard]] virtual Decision decide(const Signals& signals) = 0;
  // What was finally served (fresh or reuse), with the signals of the last decide(). Called once per step.
  virtual void served(Decision decision, const Signals& signals) = 0;
};

using PolicyFactory = std::function<std::unique_ptr<Policy>(const PolicyOptions&)>;

// Policies by name. A value type: copy it, add to it, pass it to a feeder.
class PolicyRegistry {
 public:
  // The policies that come with Forebay: one per file in policies/.
  [[nodiscard]] static PolicyRegistry builtin();

  // Adds a policy, replacing one of the same name.
  void add(std::string name, PolicyFactory factory);
  [[nodiscard]] std::vector<std::string> names() const;
  // Never null. Throws ConfigError naming policy.name and the known names if there is no such policy, or if its factory
  // returned null.
  [[nodiscard]] std::unique_ptr<Policy> make(const PolicyOptions& options) const;

 private:
  std::map<std::string, PolicyFactory> factories_;
};

// How often a batch may be served, the fresh serve included: policy.max_uses.
//
// With "auto" it is four times R, and four if storage keeps up. R is the number of steps per delivered batch while
// storage delivers, so an outage does not raise it. While R is steady no batch comes near the limit; in an outage much
// longer than the queue every resident batch eventually reaches it (docs/decisions/0024-uses-have-a-limit.md).
class UsesLimit {
 public:
  // `max_uses`: a number, 0 for no limit, or kAutomatic.
  explicit UsesLimit(std::int64_t max_uses) noexcept;

  // The current limit. 0 = none, as with "auto" until eight batches and steps have been seen.
  [[nodiscard]] std::uint64_t now() const noexcept { return limit_; }
  // Called once per step, with the signals of its last decision.
  void served(const Signals& signals) noexcept {
    if (!is_automatic_) return;
    waited_s_ += signals.waited_s;
    if (signals.produced != produced_) arrived(signals);
  }

 private:
  // Mean of about the last `kWindow` values, with less and less weight on older ones.
  class Mean {
   public:
    void add(double value, double weight) noexcept;
    [[nodiscard]] double value() const noexcept { return value_; }
    [[nodiscard]] double weight() const noexcept { return weight_; }

   private:
    double value_ = 0;
    double weight_ = 0;
  };

  void arrived(const Signals& signals) noexcept;
  void learn_batches(double batches, double seconds) noexcept;
  void learn_steps(double steps, double seconds) noexcept;
  [[nodiscard]] std::uint64_t found() const noexcept;

  bool is_automatic_;
  std::uint64_t limit_;
  Mean log_step_s_;
  Mean batch_s_;
  // At the last arrival of a batch, and since then.
  std::uint64_t step_ = 0;
  std::uint64_t produced_ = 0;
  double now_s_ = 0;
  double unblocked_s_ = 0;
  double waited_s_ = 0;
};

// A policy together with the rules that apply to every policy.
//  - The first batch is fresh: there is nothing to reuse.
//  - `max_wait_ms`: a reuse while the queue is exhausted becomes `wait` until waited_s reaches it; a batch that arrives
//    in the meantime is served fresh, so that no step waits for a batch and then reuses another.
//  - `max_uses`: a reuse of a batch that was served max_uses times becomes fresh (on_max_uses = wait), is allowed and
//    counted (warn), or makes decide() throw Error (error). With "auto" this applies only while the job is at its cap:
//    a rank whose own storage pauses must not stop the others.
class RuledPolicy final : public Policy {
 public:
  // REQUIRES: policy != nullptr.
  RuledPolicy(std::unique_ptr<Policy> policy, const PolicyOptions& options);

  [[nodiscard]] Decision decide(const Signals& signals) override;
  void served(Decision decision, const Signals& signals) override;

  // Reuses served beyond max_uses; the owner of the policy warns when it grows. Same thread as decide().
  [[nodiscard]] std::uint64_t capped_reuses() const noexcept { return capped_reuses_; }
  // The current cap; 0 = none. Same thread as decide().
  [[nodiscard]] std::uint64_t max_uses() const noexcept { return limit_.now(); }
  // Called before the decisions of a step, on the same thread: whether more than half of the job's ranks are at their
  // cap. A single rank need not call it.
  void begin_step(bool is_job_at_cap) noexcept {
    is_at_cap_ = false;
    is_job_at_cap_ = is_job_at_cap;
  }
  // Whether the step's last decide() would have reused a batch that was served max_uses times. Same thread.
  [[nodiscard]] bool is_at_cap() const noexcept { return is_at_cap_; }

 private:
  [[nodiscard]] bool is_capped() const noexcept { return is_at_cap_ && (is_strict_ || is_job_at_cap_); }

  std::unique_ptr<Policy> policy_;
  std::string name_;
  UsesLimit limit_;
  bool is_strict_;  // the limit applies whatever the other ranks do
  bool is_at_cap_ = false;
  bool is_job_at_cap_ = true;
  OnMaxUses on_max_uses_;
  double max_wait_s_;
  std::optional<std::uint64_t> waited_in_;  // the last step in which max_wait_ms turned a reuse into a wait
  std::uint64_t capped_reuses_ = 0;
};

[[nodiscard]] std::unique_ptr<RuledPolicy> with_rules(std::unique_ptr<Policy> policy, const PolicyOptions& options);

// A resident batch that a reuse may choose.
struct Resident {
  std::uint64_t uses = 0;  // times served
  std::uint64_t turn = 0;  // its place in the order of fresh batches: lower is older
};

// Index of the resident batch to reuse. REQUIRES: !residents.empty(); the last one is the current batch.
// current: the last; least_used: the fewest uses, then the oldest.
[[nodiscard]] std::size_t pick_resident(Pick pick, std::span<const Resident> residents) noexcept;

}  // namespace forebay
