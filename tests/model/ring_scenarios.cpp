// The ring and the parts around it. Each scenario is as small as its subject permits.
#include <memory>

#include "scenario.hpp"
#include "scenario_world.hpp"

using namespace forebay::ring;

namespace forebay::model {
namespace {

void start(World& world, unsigned decoders) {
  spawn("issuer", [&] { world.issue(); });
  for (unsigned i = 0; i < decoders; ++i) spawn(i == 0 ? "decoder" : "decoder 2", [&] { world.decode(); });
}

}  // namespace

// R1 to R5 with one slot of each kind: every turn reuses a slot and an entry.
void one_after_the_other() {
  const auto made = std::make_unique<World>(WorldSize{.capacity = 1, .turns = 3, .planned = 3});
  World& world = *made;
  start(world, 1);
  for (int turn = 0; turn < 3; ++turn) {
    const Lease lease = world.next();
    world.look_at(lease);
  }
  world.end();
}

// R3: two threads write the samples of a batch.
void two_decoders() {
  const auto made = std::make_unique<World>(WorldSize{.capacity = 2, .turns = 2, .planned = 2, .samples = 2});
  World& world = *made;
  start(world, 2);
  for (int turn = 0; turn < 2; ++turn) (void)world.next();
  world.end();
}

// R5, R6: leases end on another thread while the consumer takes, reuses and retires batches.
void leases_elsewhere() {
  const auto made = std::make_unique<World>(WorldSize{.capacity = 1, .max_leases = 2, .turns = 4, .planned = 4});
  World& world = *made;
  start(world, 1);
  spawn("trainer", [&] { world.end_leases(); });
  for (int turn = 0; turn < 4; ++turn) world.hand_over(world.next());
  world.end();
}

// R6: the capacity grows while the issuer claims, at another thread's request.
void growing() {
  const auto made = std::make_unique<World>(WorldSize{.capacity = {1, 3}, .turns = 5, .planned = 5});
  World& world = *made;
  start(world, 1);
  spawn("tuner", [&] { world.ring.want(3); });
  for (int turn = 0; turn < 5; ++turn) {
    (void)world.next();
    if (turn == 1) world.ring.grow(2);
  }
  world.end();
}

namespace {

void plan_one_by_one(bool looks_ahead) {
  const auto made =
      std::make_unique<World>(WorldSize{.capacity = 2, .turns = 3, .planned = 1, .looks_ahead = looks_ahead});
  World& world = *made;
  start(world, 1);
  for (int turn = 0; turn < 3; ++turn) {
    (void)world.next();
    if (world.taken < 3) {
      world.plan(world.taken + 1);
      world.ring.settle();
    }
  }
  world.end();
}

}  // namespace

// R7: each turn is planned once the one before it has been taken.
void planning() { plan_one_by_one(false); }
void looking_ahead() { plan_one_by_one(true); }

// R8: no matter what the consumer has taken, after `capacity` steps that take nothing the issuer
// has claimed all that it may.
void reusing() {
  const auto made = std::make_unique<World>(WorldSize{.capacity = 4, .turns = 6, .planned = 100});
  World& world = *made;
  world.is_up_to_the_end = false;
  start(world, 1);
  for (int turn = 0; turn < 2; ++turn) (void)world.next();
  for (int step = 0; step < 4; ++step) (void)world.reuse();
  until_quiet();
  require(world.ring.published() == world.taken + 4, "R8: the issuer sleeps although it may claim");
  world.end();
}

// R9: no thread wakes the issuer for a turn while decoders have samples left to begin, and yet
// every turn is made.
void busy_decoders() {
  const auto made = std::make_unique<World>(WorldSize{.capacity = 8, .turns = 10, .planned = 10, .may_be_busy = true});
  World& world = *made;
  start(world, 1);
  for (int turn = 0; turn < 10; ++turn) (void)world.next();
  world.end();
}

// A program that stops: the issuer returns from claim() and the consumer from its wait, whichever
// of them sleeps.
void stopping() {
  const auto made = std::make_unique<World>(WorldSize{.capacity = 1, .turns = 2, .planned = 2});
  World& world = *made;
  world.is_up_to_the_end = false;
  start(world, 1);
  std::atomic<bool> broken{false};
  spawn("stopper", [&] {
    world.stopped.store(true, std::memory_order_relaxed);
    broken.store(true, std::memory_order_relaxed);
    world.ring.wake();
  });
  while (world.ring.wait(SlotRing::Clock::time_point::max(), [&] { return broken.load(std::memory_order_relaxed); }) ==
             SlotRing::State::ready &&
         world.taken < 2) {
    (void)world.residents.admit();
    ++world.taken;
  }
  world.end();
}

// SlotRing::blocked(): no time is counted twice, no matter which thread asks, and it never
// decreases.
void blocked_time() {
  const std::int64_t begin = now_ns();
  const auto made = std::make_unique<SlotRing>(1, 2, UINT64_MAX);
  SlotRing& ring = *made;
  for (int i = 0; i < 20; ++i) (void)SlotRing::Clock::now();  // blocked for longer than all that follows takes
  std::atomic<bool> stopped{false};
  const auto watch = [&] {
    std::int64_t before = 0;
    for (int look = 0; look < 2; ++look) {
      const std::int64_t blocked = ring.blocked().count();
      require(blocked >= before, "blocked() decreases");
      require(blocked <= now_ns() - begin, "blocked() is longer than the ring exists: some time counted twice");
      before = blocked;
    }
  };
  Queue claimed;
  spawn("issuer", [&] {
    for (int turn = 0; turn < 3; ++turn) {
      SlotRing::Claim claim{};
      require(ring.claim(stopped, claim), "claim() returns false");
      claimed.push(claim.turn);
    }
    claimed.close();
  });
  spawn("decoder", [&] {
    std::uint64_t turn = 0;
    while (claimed.pop(turn)) ring.publish(turn);
  });
  spawn("watcher", watch);
  for (int turn = 0; turn < 3; ++turn) {
    (void)ring.wait(SlotRing::Clock::time_point::max(), [] { return false; });
    ring.retire(ring.take());
    ring.settle();
  }
  watch();
  join();
}

}  // namespace forebay::model
