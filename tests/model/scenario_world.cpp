#include "scenario_world.hpp"

#include <sched.h>
#include <utility>

#include "ring/copies.hpp"

using namespace forebay::device;
using namespace forebay::make;
using namespace forebay::ring;

namespace forebay::model {
namespace {

bool never() { return false; }

SlotCounts counts_of(const WorldSize& size) {
  // Ring invariant R6: exactly as many as are needed.
  return {.slots = size.capacity.most + size.pool + size.max_leases - 1,
          .capacity = size.capacity,
          .max_leases = size.max_leases,
          .run_ahead = 1};
}

SlotFormat format_of(const WorldSize& size) {
  return {.batch_size = size.samples, .height = 1, .width = 4, .dtype = DType::uint8, .layout = Layout::nhwc};
}

QueueOptions queue_of(const WorldSize& size) { return {.pool = size.pool, .max_leases = size.max_leases}; }

}  // namespace

std::unique_ptr<CanvasRenderer> SmallHost::make_renderer(const RenderPlan&, std::uint32_t) { return nullptr; }

World::World(const WorldSize& of, std::shared_ptr<Device> device)
    : size(of),
      store(std::move(device), format_of(of), counts_of(of)),
      ring(of.capacity, counts_of(of).slots, 0,
           of.may_be_busy ? std::function<bool()>([this] { return not_begun.load(std::memory_order_relaxed) > 0; })
                          : std::function<bool()>()),
      residents(store, ring, queue_of(of), Pick::current, [](std::uint64_t) {}),
      plan_(of.planned + 1) {
  plan(of.planned);
}

void World::plan(std::uint64_t turns) {
  for (; noted_ < turns; ++noted_) plan_[noted_ % plan_.size()] = batch_of(noted_);
  ring.plan(turns);
}

void World::issue() {
  SlotRing::Claim claim{};
  for (std::uint64_t turn = 0; ring.claim(stopped, claim); ++turn) {
    require(claim.turn == turn, "R1: a turn was claimed out of order");
    const std::uint64_t batch = plan_[turn % plan_.size()];
    require(batch == batch_of(turn), "R1, R7: the issuer does not know what it claimed");
    store.begin(claim.slot, turn, {.epoch = 1, .batch = batch, .size = size.samples});
    if (size.may_be_busy) not_begun.fetch_add(size.samples, std::memory_order_relaxed);
    for (std::uint32_t i = 0; i < size.samples; ++i) samples_.push(claim.slot * std::uint64_t{16} + i);
    if (!size.looks_ahead) continue;
    for (std::uint64_t next = turn; next < ring.seen_planned(); ++next) {
      require(plan_[next % plan_.size()] == batch_of(next), "R7: the issuer does not know what is planned");
    }
  }
  samples_.close();
}

void World::decode() {
  std::uint64_t element = 0;
  while (samples_.pop(element)) {
    if (size.may_be_busy) not_begun.fetch_sub(1, std::memory_order_relaxed);
    const auto slot = static_cast<std::uint32_t>(element / 16);
    const auto index = static_cast<std::uint32_t>(element % 16);
    const std::uint64_t turn = store.slot(slot).turn;
    store.labels(slot)[index] = sample_of(turn, index);
    *store.sample(slot, index).pixels.data() = static_cast<std::byte>(turn);
    if (!store.count_down(slot, 1)) continue;
    if (store.staging() == nullptr) {
      ring.publish(turn);
    } else {
      complete_.push(slot);
    }
  }
  complete_.close();
}

void World::copy() {
  Copies copies(store, ring);
  std::uint64_t slot = 0;
  while (complete_.pop(slot)) {
    copies.start(static_cast<std::uint32_t>(slot));
    copies.publish_oldest();
  }
}

void World::look_at(const Lease& lease) const {
  require(lease.size() == size.samples, "R3: a batch has another size than it was begun with");
  const std::uint64_t turn = (lease.batch() - batch_of(0)) / 7;
  for (std::uint32_t i = 0; i < lease.size(); ++i) {
    require(lease.labels()[i] == sample_of(turn, i), "R3, R5: a sample of a batch that is leased is not its own");
  }
  require(lease.images().as<std::uint8_t>()[0] == static_cast<std::uint8_t>(turn), "R3, R5: pixels are not their own");
}

Lease World::next() {
  while (store.held() >= size.max_leases) ::sched_yield();
  (void)store.keep_pace(taken);
  residents.sweep();
  require(ring.wait(SlotRing::Clock::time_point::max(), never) == SlotRing::State::ready, "R8: the ring ended early");
  require(ring.depth() <= ring.capacity(), "R1: more batches are ready than the capacity");
  const std::uint32_t slot = residents.admit();
  require(store.slot(slot).turn == taken, "R4: a batch was taken out of order");
  require(store.slot(slot).batch.batch == batch_of(taken), "R2, R4: the batch of another turn was taken");
  ++taken;
  Lease lease = LeaseMaker::make({std::shared_ptr<void>(), &store}, slot,
                                 {.use_index = store.slot(slot).uses++, .served = taken - 1});
  look_at(lease);
  return lease;
}

Lease World::reuse() {
  ring.pass();
  const std::uint32_t slot = residents.pick();
  Lease lease = LeaseMaker::make({std::shared_ptr<void>(), &store}, slot,
                                 {.use_index = store.slot(slot).uses++, .served = taken - 1});
  look_at(lease);
  return lease;
}

void World::hand_over(Lease lease) { leases_.push(reinterpret_cast<std::uint64_t>(new Lease(std::move(lease)))); }

void World::end_leases() {
  std::uint64_t element = 0;
  while (leases_.pop(element)) {
    const std::unique_ptr<Lease> lease(reinterpret_cast<Lease*>(element));
    look_at(*lease);
  }
}

void World::end() {
  if (is_up_to_the_end) require(taken == size.turns, "not every turn was taken");
  stopped.store(true, std::memory_order_relaxed);
  ring.wake();
  leases_.close();
  join();
  require(store.held() == 0, "a lease is still held");
  if (is_up_to_the_end) require(ring.published() == size.turns, "not every turn was published once");
}

}  // namespace forebay::model
