// The one object through which a rank's step sees the others: it joins the coordinator (census,
// verdicts, bad samples), the rebalancer (batches that change hands), lockstep, and the notices of
// liveness. Calls come from Feeder::Impl on the trainer's thread, in this order per step: agree(),
// then shared_signals() and decided() in lockstep, then next_batch() as often as there is room.
//
// Channels of the communicator are divided here: the first lag + 1 belong to the census, the last
// to the rebalancer.

#include "ranks.hpp"

#include <algorithm>
#include <exception>
#include <iterator>
#include <string>
#include <utility>

#include <forebay/error.hpp>

namespace forebay::ranks {

Ranks::Ranks(Setup setup)
    : communicator_(setup.communicator),
      schedule_(setup.schedule),
      failure_(setup.failure),
      options_(setup.options),
      stop_requested_(std::move(setup.stop_requested)),
      loop_(setup.loop),
      turns_left_(setup.turns),
      coordinator_(
          communicator_, setup.plan, std::move(setup.limit),
          [this] { return stop_requested_() || failure_.happened(); },
          Patience{&setup.time, options_.policy.watchdog_s}) {
  if (options_.mpi.mode == MpiMode::lockstep && !options_.run.eval) {
    lockstep_.emplace(communicator_.size(), coordinator_.lag(), setup.queue, options_.policy.pick);
  }
  if (may_rebalance(options_, communicator_.size())) {
    rebalancer_ = std::make_unique<Rebalancer>(communicator_, schedule_, Communicator::kChannels - 1,
                                               static_cast<std::size_t>(options_.mpi.lag),
                                               [this] { liveness().wait_for_reports(); });
    if (end_epochs_together()) rebalancer_->keep_epoch_order();
  }
  if (loop_ == Loop::epochs) end_each_epoch();
}

bool Ranks::may_rebalance(const Options& options, std::uint32_t ranks) noexcept {
  return ranks > 1 && options.mpi.mode == MpiMode::local && !options.run.eval;
}

// One gather tells whether all ranks use the same kind of loop, and whether one of them has to
// begin anew.
bool Ranks::agree_on_loop(Loop loop, bool begins_anew) {
  constexpr const char* kBatches = "batches";
  constexpr const char* kEpochs = "epochs";
  constexpr const char* kAnew = "epochs, from the state anew";
  const char* const mine = loop == Loop::batches ? kBatches : begins_anew ? kAnew : kEpochs;
  const auto loops = communicator_.all_gather(mine);
  const auto of_batches = std::ranges::find(loops, kBatches);
  const auto of_epochs = std::ranges::find_if(loops, [&](const std::string& one) { return one != kBatches; });
  if (of_batches != loops.end() && of_epochs != loops.end()) {
    throw Error("rank " + std::to_string(of_epochs - loops.begin()) + " calls next_epoch() and rank " +
                std::to_string(of_batches - loops.begin()) +
                " does not: all ranks must ask for batches in the same kind of loop");
  }
  loop_ = loop;
  return std::ranges::find(loops, kAnew) != loops.end();
}

void Ranks::end_each_epoch() noexcept {
  if (options_.run.eval) return;  // one epoch, of as many steps as are known beforehand
  coordinator_.end_each_epoch();
  if (rebalancer_) rebalancer_->keep_epoch_order();
}

// Work is shared also at the end of an epoch, after whose last step the next one opens. The next
// call then belongs to a step that is agreed already and posts no second census.
Ranks::Agreement Ranks::agree(RankReport mine, const RankCount& count) {
  if (std::exchange(step_is_agreed_, false)) {
    coordinator_.resume_step(stop_requested_());
    return {};
  }
  if (failure_.happened()) report_failure();
  fill_in(mine);
  if (lockstep_) lockstep_->reports(mine.progress);
  const Verdict verdict = coordinator_.step(mine);
  if (verdict != Verdict::proceed && verdict != Verdict::epoch_ended) return {.verdict = verdict};
  const bool has_work = share_work(count);
  step_is_agreed_ = verdict == Verdict::epoch_ended;
  return {.verdict = verdict, .has_work = has_work};
}

void Ranks::fill_in(RankReport& report) const noexcept {
  report.stop = stop_requested_();
  report.idle = rebalancer_ && schedule_.is_idle();
  report.to_serve = schedule_.ledger().to_serve(epochs_completed());
  if (!lockstep_) return;
  report.fresh = lockstep_->fresh();
  // Comparable even if some ranks were padded: the count of a rank that never was.
  if (report.progress.produced != Progress::kDrained) report.progress.produced = report.fresh + report.progress.ready;
}

// Completes epochs, and hands batches over.
bool Ranks::share_work(const RankCount& mine) {
  const std::uint64_t completed = epochs_completed();
  if (rebalancer_) return rebalancer_->step(heard(), completed, mine);
  const bool is_new = completed != schedule_.ledger().completed();
  schedule_.complete(completed);
  return is_new;
}

std::optional<Signals> Ranks::shared_signals() {
  try {
    return lockstep_->signals(heard());
  } catch (...) {
    failure_.raise(std::current_exception());
    return std::nullopt;
  }
}

// More than half: one slow rank must not have all others wait for it, and one rank alone must not
// reuse beyond the cap while the others still have uses left
// (docs/decisions/0024-uses-have-a-limit.md).
bool Ranks::are_most_at_cap() const noexcept {
  const std::int64_t ranks = communicator_.size();
  return ranks == 1 || (heard() != nullptr && 2 * heard()->at_reuse_cap > ranks);
}

// turns_left_ bounds a run of so many steps: a batch beyond would be made for nobody.
std::optional<BatchRef> Ranks::next_batch(std::uint64_t backlog, std::uint64_t fresh) {
  if (turns_left_ == 0 || (rebalancer_ && !rebalancer_->may_plan(backlog, fresh))) return std::nullopt;
  std::optional<BatchRef> batch = schedule_.next();
  if (batch) --turns_left_;
  return batch;
}

// Ranges of the ledger that nobody planned, and each planned batch as a range of its own; tidy()
// joins those that touch.
std::vector<order::BatchRange> Ranks::left(std::span<const BatchRef> planned) const {
  const std::uint32_t rank = communicator_.rank();
  std::vector<order::BatchRange> left;
  std::ranges::copy_if(schedule_.ledger().ranges(), std::back_inserter(left),
                       [rank](const order::BatchRange& range) { return range.owner == rank; });
  for (const BatchRef& batch : planned) {
    if (batch.padding) continue;
    const order::Block at = order::block_of(schedule_.ledger().partition(), batch.batch);
    left.push_back({.epoch = batch.epoch, .begin = at.block, .end = at.block + 1, .shard = at.shard, .owner = rank});
  }
  order::tidy(left);
  return left;
}

bool Ranks::may_be_waited_for() const noexcept {
  if (!is_held_back()) return false;
  const std::uint64_t epoch = epochs_completed();
  const JobReport* const said = heard();
  return said != nullptr && said->epoch == epoch && schedule_.upcoming() != epoch;
}

// At least half of what is left of the epoch is planned by this rank, so a reserve would not help
// the others.
bool Ranks::is_waited_for(std::uint64_t planned) const noexcept {
  return may_be_waited_for() &&
         2 * planned >= schedule_.ledger().to_serve(epochs_completed()) - static_cast<std::uint64_t>(heard()->served);
}

// As soon as this thread knows, so that the others need not wait for their watchdogs.
void Ranks::report_failure() {
  if (failure_reported_ || !failure_.happened()) return;
  failure_reported_ = true;
  const AgreedError error = described(failure_.error());
  coordinator_.report_error(error.text, error.kind);
}

}  // namespace forebay::ranks
