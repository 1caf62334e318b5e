// One rank in virtual time: a source that makes batches, a queue of bounded capacity, a pool of
// batches that may be reused, and the policy's decision at each step. It models only what matters
// for decisions in the real producer and server (src/produce, src/serve). Growth of the queue and
// the choice of a resident batch use their code.
//
// The caller supplies the time; only waiting for a batch in step() moves it on. finished_ is when
// the batch in production will be ready, or kNever while the queue is full. publish() catches up
// with all that became ready until now.

#include "rank_model.hpp"

#include <algorithm>
#include <utility>

#include <forebay/error.hpp>

namespace forebay::simulate {

namespace {

// An automatic queue starts small and grows, as in a run.
ring::Capacity capacity_in(const QueueOptions& queue) {
  const auto most = static_cast<std::uint32_t>(ring::capacity_of(queue));
  return ring::is_automatic(queue) ? ring::Capacity(static_cast<std::uint32_t>(ring::kLeastCapacity), most)
                                   : ring::Capacity(most);
}

}  // namespace

RankModel::RankModel(const QueueOptions& queue, const PolicyOptions& rules, Source source, UseTally& tally)
    : tally_(tally),
      source_(std::move(source)),
      max_wait_s_(rules.max_wait_ms / 1000),
      finished_(source_.finish(0)),
      growth_(capacity_in(queue)),
      pool_size_(static_cast<std::uint32_t>(ring::pool_of(queue))),
      pick_(rules.pick) {
  pool_.reserve(pool_size_);
}

// When the queue is full the producer stops, and blocked time starts at full_since_.
void RankModel::publish(double now) {
  while (finished_ <= now) {
    ++produced_;
    if (++depth_ < capacity()) {
      finished_ = source_.finish(finished_);
    } else {
      full_since_ = finished_;
      finished_ = kNever;
    }
  }
}

// The same signals as the real server passes to a policy; times count from the first step.
Signals RankModel::observe(double now, double waited) {
  if (start_s_ < 0) start_s_ = now;
  publish(now);
  const bool full = depth_ == capacity();
  return {.step = steps_,
          .depth = depth_,
          .capacity = capacity(),
          .uses = pool_.empty() ? 0 : pool_[pick_resident(pick_, pool_)].uses,
          .produced = produced_,
          .now_s = now - start_s_,
          .blocked_s = blocked_s_ + (full ? now - std::max(full_since_, start_s_) : 0),
          .waited_s = waited};
}

double RankModel::end_of_wait(double asked, double now) const {
  // As Server::serve(): up to max_wait_ms, then in slices, unless a batch comes before.
  constexpr double kSlice = 0.005;
  const double bound = asked + max_wait_s_;
  if (now < bound) return std::min(bound, finished_);
  if (finished_ == kNever) throw Error("simulation: the policy waits although the queue is full");
  return std::min(now + kSlice, finished_);
}

// A wait may end early because a batch arrives; then the policy is asked again, as in a run. Fresh
// with an empty queue waits for the next batch.
RankModel::Served RankModel::step(Policy& policy, double asked) {
  double now = asked;
  const std::uint32_t depth = observe(now).depth;
  for (;;) {
    // Rounding must not end the wait just short of max_wait_ms.
    const double waited = now < asked + max_wait_s_ ? now - asked : std::max(now - asked, max_wait_s_);
    const Signals signals = observe(now, waited);
    const Decision decision = policy.decide(signals);
    if (decision == Decision::wait) {
      now = end_of_wait(asked, now);
    } else if (decision == Decision::fresh && signals.depth == 0) {
      now = finished_;
    } else {
      policy.served(decision, signals);
      const std::uint32_t before = capacity();
      if (growth_.decided(decision, signals) > before && depth_ == before) resume(now);
      Served served = serve(decision, asked, now);
      served.depth = depth;
      return served;
    }
  }
}

// If the pool is full, the oldest resident batch leaves it when a fresh one is served.
RankModel::Served RankModel::serve(Decision decision, double asked, double now) {
  const Signals seen = observe(now);
  ++steps_;
  Served served{.decision = decision,
                .depth = seen.depth,
                .wait_s = now - asked,
                .produced = seen.produced,
                .blocked_s = seen.blocked_s,
                .capacity = capacity()};
  if (decision == Decision::reuse) {
    Resident& resident = pool_[pick_resident(pick_, pool_)];
    served.turn = resident.turn;
    served.use_index = resident.uses++;
    served_from(resident.turn);
    return served;
  }
  if (depth_ == 0) now = finished_;
  publish(now);
  if (depth_ == capacity()) resume(now);
  --depth_;
  if (pool_.size() == pool_size_) {
    tally_.left_pool(pool_.front().uses);
    pool_.erase(pool_.begin());
  }
  pool_.push_back({.uses = 1, .turn = ++fresh_});
  served_from(fresh_);
  served.decision = Decision::fresh;
  served.wait_s = now - asked;
  served.turn = fresh_;
  served.produced = produced_;
  return served;
}

void RankModel::resume(double now) {
  blocked_s_ += now - std::max(full_since_, start_s_);
  finished_ = source_.finish(now);
}

void RankModel::served_from(std::uint64_t turn) {
  run_ = turn == last_turn_ ? run_ + 1 : 1;
  last_turn_ = turn;
  tally_.run(run_);
}

// Batches still resident at the end are counted with the uses they had.
void RankModel::finish() {
  for (const Resident& resident : pool_) tally_.left_pool(resident.uses);
  pool_.clear();
}

}  // namespace forebay::simulate
