// One rank in virtual time: a source that makes batches, a queue of bounded capacity, a pool of
// batches that may be reused, and the policy's decision for each step. It follows the real producer
// and server (produce/, serve/) where they matter for decisions, and nothing else; growth and
// picking use their very code.
//
// Time only moves in step(): finished_ is when the batch that is being made will be ready, kNever
// while the queue is full. publish() catches up with all that became ready until now.

#include "rank_model.hpp"

#include <algorithm>
#include <utility>

#include <forebay/error.hpp>

namespace forebay::simulate {

namespace {

// An automatic queue begins small and grows, as in a run.
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

// A producer that finds the queue full stops; full_since_ is then the beginning of blocked time.
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

// What the real server shows a policy; times count from the first step.
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
  // Past max_wait_ms only the policy's own rule still waits, for the next batch.
  const double bound = asked + max_wait_s_;
  const double end = now < bound ? std::min(bound, finished_) : finished_;
  if (end == kNever) throw Error("simulation: the policy waits although the queue is full");
  return end;
}

// A wait may end early (a batch comes) and is then decided upon again, as in a run. Fresh with an
// empty queue waits for the next batch.
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

// The oldest resident makes room for a new one.
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
    tally_.retired(pool_.front().uses);
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

// Residents at the end count with the uses they had.
void RankModel::finish() {
  for (const Resident& resident : pool_) tally_.retired(resident.uses);
  pool_.clear();
}

}  // namespace forebay::simulate
