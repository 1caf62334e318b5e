// What this rank plans to serve, and when there is nothing for it.

#include <cstdint>
#include <optional>

#include "feeder_impl.hpp"

namespace forebay {

// What all ranks agreed on at this step: epochs that are complete, and batches that change hands.
void Feeder::Impl::share_work() {
  const std::uint64_t completed = coordinator_->epochs_completed();
  const Ledger& ledger = schedule_->ledger();
  for (std::uint64_t epoch = ledger.completed(); epoch < completed; ++epoch) server_->forget(epoch);
  bool is_new = completed != ledger.completed();
  if (exchange_) {
    const SlotRing& ring = pipeline_->ring();
    const Server::Counts& mine = server_->counts();
    is_new = exchange_->step(coordinator_->heard(), completed,
                             {.fresh = mine.fresh, .offered = mine.offered, .backlog = ring.planned() - ring.taken()});
  } else {
    schedule_->complete(completed);
  }
  if (!is_new) return;
  plan_ahead(server_->counts().fresh);
  pipeline_->ring().settle();
}

void Feeder::Impl::plan_ahead(std::uint64_t fresh) {
  const SlotRing& ring = pipeline_->ring();
  while (turns_left_ > 0 && pipeline_->has_room_to_plan()) {
    if (exchange_ && !exchange_->may_plan(ring.planned() - ring.taken(), fresh)) return;
    const std::optional<BatchRef> batch = schedule_->next();
    if (!batch) return;
    pipeline_->plan(*batch);
    --turns_left_;
  }
}

// Mostly the issuer cannot claim what is planned here before the next batch is taken, because as many turns as it may
// claim are planned already; what an exchange brings is settled in share_work().
void Feeder::Impl::plan_further(std::uint64_t fresh) {
  SlotRing& ring = pipeline_->ring();
  const std::uint64_t planned = ring.planned();
  plan_ahead(fresh);
  if (ring.planned() != planned && planned - ring.taken() < ring.capacity()) ring.settle();
}

Outlook Feeder::Impl::outlook() noexcept {
  return {.must_pad = must_pad(), .is_all_planned = is_all_planned(), .is_waited_for = is_waited_for()};
}

bool Feeder::Impl::is_all_planned() const noexcept {
  return schedule_->is_exhausted() || turns_left_ == 0 || may_be_short_of_plan();
}

bool Feeder::Impl::may_be_short_of_plan() const noexcept { return exchange_ && schedule_->holds_back(); }

// Half of what is left of the epoch, or more, is this rank's and planned: the others have no use for its reserve.
bool Feeder::Impl::is_waited_for() const noexcept {
  const std::uint64_t epoch = coordinator_->epochs_completed();
  const Tally* const heard = coordinator_->heard();
  if (!may_be_short_of_plan() || heard == nullptr || heard->epoch != epoch || schedule_->upcoming() == epoch)
    return false;
  const SlotRing& ring = pipeline_->ring();
  std::uint64_t mine = 0;
  for (std::uint64_t turn = ring.taken(); turn < ring.planned(); ++turn) {
    mine += pipeline_->planned(turn).epoch == epoch ? 1 : 0;
  }
  return 2 * mine >= schedule_->ledger().to_serve(epoch) - static_cast<std::uint64_t>(heard->served);
}

bool Feeder::Impl::must_pad() noexcept {
  SlotRing& ring = pipeline_->ring();
  if (ring.state() == SlotRing::State::ended) return true;
  if (options_.run.eval || !ends_epochs_together()) return false;
  return pipeline_->planned(ring.taken()).epoch > coordinator_->epochs_completed();
}

}  // namespace forebay
