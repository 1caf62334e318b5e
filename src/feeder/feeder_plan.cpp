// What this rank plans to serve, and when there is nothing for it.

#include <cstdint>
#include <optional>

#include "feeder_impl.hpp"

namespace forebay {

void Feeder::Impl::plan_ahead(std::uint64_t fresh) {
  pipeline_->plan_ahead([&](std::uint64_t backlog) { return ranks_->next_batch(backlog, fresh); });
}

// Mostly the issuer cannot claim what is planned here before the next batch is taken, because as many turns as it may
// claim are planned already; what an exchange brings is settled in agree_to_go_on().
void Feeder::Impl::plan_further(std::uint64_t fresh) {
  SlotRing& ring = pipeline_->ring();
  const std::uint64_t planned = ring.planned();
  plan_ahead(fresh);
  if (ring.planned() != planned && planned - ring.taken() < ring.capacity()) ring.settle();
}

Outlook Feeder::Impl::outlook() noexcept {
  return {.must_pad = must_pad(), .is_all_planned = ranks_->is_all_planned(), .is_waited_for = is_waited_for()};
}

bool Feeder::Impl::is_waited_for() const noexcept {
  return ranks_->may_be_waited_for() && ranks_->is_waited_for(pipeline_->planned_of(epochs_completed()));
}

bool Feeder::Impl::must_pad() noexcept {
  SlotRing& ring = pipeline_->ring();
  return ring.state() == SlotRing::State::ended || ranks_->is_ahead(pipeline_->planned(ring.taken()).epoch);
}

}  // namespace forebay
