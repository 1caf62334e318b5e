#include "base/wait.hpp"
#include "device/host_device.hpp"
#include "ring/queue_slots.hpp"
#include "ring/slot_ring.hpp"
#include "ring/slot_store.hpp"
#include "serve/reuse_pool.hpp"
#include "test.hpp"

// The slot ring, its leases and the wait for a batch, with real threads. tests/model explores the
// same code systematically.
namespace forebay::test_ring {

using namespace forebay::device;
using namespace forebay::ring;
using namespace forebay::serve;

namespace {

using namespace std::chrono_literals;

constexpr SlotFormat kTiny{.batch_size = 4, .height = 2, .width = 2, .dtype = DType::uint8, .layout = Layout::nhwc};

SlotRing::Clock::time_point soon() { return SlotRing::Clock::now() + 20s; }
bool never() { return false; }

TEST_CASE("turns are claimed in order and no further than the capacity") {
  SlotRing ring(2, 4, 5);
  std::atomic<bool> stopped{false};
  SlotRing::Claim claim{};
  REQUIRE(ring.claim(stopped, claim));
  CHECK(claim.turn == 0);
  const auto first = claim.slot;
  REQUIRE(ring.claim(stopped, claim));
  CHECK(claim.turn == 1);
  CHECK(claim.slot != first);

  stopped = true;  // a third claim would block
  CHECK_FALSE(ring.claim(stopped, claim));
}

TEST_CASE("batches leave in the order of their turns, whatever order they are completed in") {
  SlotRing ring(4, 6, 4);
  std::atomic<bool> stopped{false};
  std::vector<SlotRing::Claim> claims(4);
  for (auto& claim : claims) REQUIRE(ring.claim(stopped, claim));

  CHECK(ring.state() == SlotRing::State::starved);
  ring.publish(2);
  ring.publish(1);
  CHECK(ring.state() == SlotRing::State::starved);
  CHECK(ring.depth() == 0);
  ring.publish(0);
  CHECK(ring.state() == SlotRing::State::ready);
  CHECK(ring.depth() == 3);
  CHECK(ring.produced() == 3);
  for (std::size_t turn = 0; turn < 3; ++turn) CHECK(ring.take() == claims[turn].slot);
  CHECK(ring.state() == SlotRing::State::starved);
  ring.publish(3);
  CHECK(ring.take() == claims[3].slot);
  CHECK(ring.state() == SlotRing::State::all_taken);
}

TEST_CASE("no turn is claimed before it is planned, and a later plan continues where the earlier one ended") {
  SlotRing ring(4, 6, 1);
  std::atomic<bool> stopped{false};
  SlotRing::Claim claim{};
  REQUIRE(ring.claim(stopped, claim));
  CHECK_FALSE(ring.is_complete());
  ring.publish(0);
  CHECK(ring.is_complete());
  (void)ring.take();
  CHECK(ring.state() == SlotRing::State::all_taken);
  ring.plan(2);
  ring.settle();
  CHECK(ring.state() == SlotRing::State::starved);
  REQUIRE(ring.claim(stopped, claim));
  CHECK(claim.turn == 1);
  std::thread stopper([&] {
    stopped = true;
    ring.wake();
  });
  CHECK_FALSE(ring.claim(stopped, claim));  // would block until a third turn is planned
  stopper.join();
}

TEST_CASE("time with nothing to fill counts as blocked, time with a slot being filled does not") {
  SlotRing ring(1, 2, UINT64_MAX);
  std::atomic<bool> stopped{false};
  SlotRing::Claim claim{};
  REQUIRE(ring.claim(stopped, claim));
  const auto filling = ring.blocked();
  CHECK(ring.blocked() == filling);
  ring.publish(claim.turn);
  const auto full = ring.blocked();
  while (ring.blocked() == full) std::this_thread::yield();  // the clock moves on
  CHECK(ring.blocked() > full);
}

TEST_CASE("blocked time never decreases, whichever thread asks while slots are claimed and published") {
  constexpr int kTurns = 20000;
  SlotRing ring(1, 2, UINT64_MAX);
  std::atomic<bool> done{false};
  std::atomic<bool> went_back{false};
  std::vector<std::thread> readers;
  for (int i = 0; i < 2; ++i) {
    readers.emplace_back([&] {
      for (std::chrono::nanoseconds before{0}; !done;) {
        const auto now = ring.blocked();
        if (now < before) went_back = true;
        before = now;
      }
    });
  }
  const std::atomic<bool> stopped{false};
  for (int turn = 0; turn < kTurns; ++turn) {
    SlotRing::Claim claim{};
    REQUIRE(ring.claim(stopped, claim));
    ring.publish(claim.turn);
    ring.retire(ring.take());
    ring.settle();
  }
  done = true;
  for (auto& reader : readers) reader.join();
  CHECK_FALSE(went_back);
}

TEST_CASE("slots suffice with a lease on every batch that may have left the pool, and none is to spare") {
  for (const QueueOptions& queue : {QueueOptions{.capacity = 1, .pool = 1, .max_leases = 1},
                                    QueueOptions{.capacity = 2, .pool = 1, .max_leases = 3},
                                    QueueOptions{.capacity = 3, .pool = 2, .max_leases = 2}}) {
    const auto slots = static_cast<std::uint32_t>(slots_of(queue));
    CAPTURE(slots);
    const auto store = std::make_shared<SlotStore>(std::make_shared<HostDevice>(), kTiny, SlotCounts{.slots = slots});
    SlotRing ring(static_cast<std::uint32_t>(queue.capacity), slots, UINT64_MAX);
    ReusePool residents(*store, ring, queue, Pick::least_used, [](std::uint64_t) {});
    const std::atomic<bool> stopped{false};
    std::set<std::uint32_t> in_use;
    const auto fill_up = [&] {
      while (ring.depth() < ring.capacity()) {
        SlotRing::Claim claim{};
        REQUIRE(ring.claim(stopped, claim));
        CHECK(in_use.insert(claim.slot).second);  // otherwise a batch in use would be overwritten
        ring.publish(claim.turn);
      }
    };
    // Each batch is served as it enters, and its lease is kept: the oldest ones leave the pool
    // leased.
    std::vector<Lease> leases;
    for (std::int64_t i = 1; i < queue.max_leases; ++i) {
      fill_up();
      residents.sweep();
      leases.push_back(LeaseMaker::make(store, residents.admit(), {}));
    }
    for (std::int64_t i = 0; i < queue.pool; ++i) {
      fill_up();
      residents.sweep();
      (void)residents.admit();
    }
    fill_up();
    CHECK(in_use.size() == slots);
    CHECK(store->held() == leases.size());
  }
}

TEST_CASE("a wait ends when it is broken and at its deadline") {
  SlotRing ring(1, 2, UINT64_MAX);
  CHECK(ring.wait(SlotRing::Clock::now() + 1ms, never) == SlotRing::State::starved);
  std::atomic<bool> broken{false};
  std::thread breaker([&] {
    broken = true;
    ring.wake();
  });
  CHECK(ring.wait(soon(), [&] { return broken.load(); }) == SlotRing::State::starved);
  breaker.join();
  CHECK(broken);
}

TEST_CASE("a lease keeps the memory after everything else is gone") {
  auto store = std::make_shared<SlotStore>(std::make_shared<HostDevice>(), kTiny, SlotCounts{.slots = 2});
  store->slot(1).batch = {.epoch = 3, .batch = 7, .size = 2};
  store->labels(1)[0] = 5;
  std::memset(store->begin_of(1), 0x5a, kTiny.sample_bytes() * 2);
  auto lease = LeaseMaker::make(store, 1, {.step = 11, .use_index = 2, .job_fresh_samples = 640});
  CHECK(store->held() == 1);
  store.reset();

  CHECK(lease.size() == 2);
  CHECK(lease.epoch() == 3);
  CHECK(lease.batch() == 7);
  CHECK(lease.step() == 11);
  CHECK(lease.use_index() == 2);
  CHECK(lease.job_fresh_samples() == 640);
  CHECK_FALSE(lease.is_fresh());
  CHECK(lease.labels()[0] == 5);
  const TensorView images = lease.images();
  CHECK(images.shape == std::array<std::int64_t, 4>{2, 2, 2, 3});
  CHECK(images.bytes() == 24);
  CHECK(images.as<std::uint8_t>()[23] == 0x5a);
  CHECK_THROWS_WITH_AS(static_cast<void>(images.as<float>()),
                       doctest::Contains("the elements are uint8 of 1 bytes each"), Error);
}

TEST_CASE("moving a lease moves the right, releasing ends it once") {
  const auto store = std::make_shared<SlotStore>(std::make_shared<HostDevice>(), kTiny, SlotCounts{.slots = 2});
  auto first = LeaseMaker::make(store, 0, {});
  auto second = LeaseMaker::make(store, 1, {});
  CHECK(store->held() == 2);
  first = std::move(second);
  CHECK(store->held() == 1);
  CHECK(store->slot(0).leases == 0);
  CHECK(store->slot(1).leases == 1);
  first.release();
  first.release();
  CHECK(store->held() == 0);
  const auto empty = LeaseMaker::make(store, LeaseMaker::kEmpty, {});
  CHECK(empty.size() == 0);
  CHECK(empty.labels().empty());
  CHECK(empty.images().shape[0] == 0);
}

// Issuer, decoders, consumer and a thread that ends leases, on a tiny ring: every batch must arrive
// complete, once, in order, and stay unchanged while it is resident or leased.
struct Stress {
  Capacity capacity;
  std::uint32_t pool;
  std::uint32_t max_leases;
  unsigned decoders;
};

void fill(SlotStore& store, SlotRing& ring, std::uint32_t slot, std::uint32_t index) {
  auto& header = store.slot(slot);
  const auto value = static_cast<int>((header.turn * 31 + index) & 0xff);
  std::memset(store.sample(slot, index).pixels.data(), value, kTiny.sample_bytes());
  store.labels(slot)[index] = static_cast<std::int64_t>(header.turn);
  if (store.count_down(slot, 1)) ring.publish(header.turn);
}

bool whole(const Lease& lease) {
  const auto turn = lease.batch();
  const auto* bytes = lease.images().as<std::uint8_t>();
  for (std::uint32_t index = 0; index < lease.size(); ++index) {
    if (lease.labels()[index] != static_cast<std::int64_t>(turn)) return false;
    for (std::size_t i = 0; i < kTiny.sample_bytes(); ++i) {
      if (*bytes++ != static_cast<std::uint8_t>((turn * 31 + index) & 0xff)) return false;
    }
  }
  return true;
}

void run_stress(const Stress& shape, std::uint64_t turns, std::uint64_t seed) {
  CAPTURES(shape.capacity.most, shape.pool, shape.decoders, seed);
  const std::uint32_t slots = shape.capacity.most + shape.pool + shape.max_leases - 1;
  const auto store = std::make_shared<SlotStore>(std::make_shared<HostDevice>(), kTiny, SlotCounts{.slots = slots});
  SlotRing ring(shape.capacity, slots, turns);
  std::atomic<bool> stopped{false};

  std::mutex work_mutex;
  std::deque<std::pair<std::uint32_t, std::uint32_t>> work;  // slot, index
  std::atomic<std::uint64_t> samples_left{turns * kTiny.batch_size};
  // Idle threads wait instead of yielding: if other processes compute, a thread that yields gets
  // its processor back only after their time slices.
  WaitPoint work_there;
  WaitPoint leases_there;
  WaitPoint lease_ended;

  std::thread issuer([&] {
    SlotRing::Claim claim{};
    while (ring.claim(stopped, claim)) {
      store->begin(claim.slot, claim.turn, {.epoch = 0, .batch = claim.turn, .size = kTiny.batch_size});
      {
        const std::scoped_lock lock(work_mutex);
        for (std::uint32_t i = 0; i < kTiny.batch_size; ++i) work.emplace_back(claim.slot, i);
      }
      work_there.notify_all();
    }
  });
  std::vector<std::thread> decoders;
  for (unsigned d = 0; d < shape.decoders; ++d) {
    decoders.emplace_back([&, d] {
      Random random(key64(seed, d));
      const auto is_work_there = [&] {
        const std::scoped_lock lock(work_mutex);
        return !work.empty() || samples_left.load() == 0;
      };
      for (;;) {
        work_there.wait(is_work_there);
        if (samples_left.load() == 0) return;
        std::pair<std::uint32_t, std::uint32_t> item;
        {
          const std::scoped_lock lock(work_mutex);
          if (work.empty()) continue;  // another thread was faster
          // In random order: late samples must not disturb early ones.
          const auto at = static_cast<std::ptrdiff_t>(random.below(work.size()));
          item = work[static_cast<std::size_t>(at)];
          work.erase(work.begin() + at);
        }
        fill(*store, ring, item.first, item.second);
        if (--samples_left == 0) work_there.notify_all();
      }
    });
  }

  std::mutex lease_mutex;
  std::deque<Lease> lent;
  std::atomic<bool> done{false};
  std::atomic<bool> damaged{false};
  std::thread releaser([&] {
    for (;;) {
      leases_there.wait([&] {
        const std::scoped_lock lock(lease_mutex);
        return !lent.empty() || done;
      });
      std::optional<Lease> lease;
      {
        const std::scoped_lock lock(lease_mutex);
        if (lent.empty()) return;
        lease.emplace(std::move(lent.front()));
        lent.pop_front();
      }
      if (!whole(*lease)) damaged = true;
      lease.reset();
      lease_ended.notify_all();
    }
  });

  std::uint64_t retired = 0;
  ReusePool residents(*store, ring, {.pool = shape.pool, .max_leases = shape.max_leases}, Pick::least_used,
                      [&](std::uint64_t) { ++retired; });
  Random random(seed);
  std::uint64_t taken = 0;
  std::uint64_t step = 0;
  bool in_time = true;
  while (taken < turns && in_time) {
    lease_ended.wait([&] { return store->held() < shape.max_leases; });
    residents.sweep();
    const bool reuse = !residents.empty() && random.below(3) == 0;
    std::uint32_t slot = 0;
    if (reuse) {
      slot = residents.pick();
      ring.pass();
    } else {
      in_time = ring.wait(soon(), never) == SlotRing::State::ready;
      if (!in_time) break;
      if (ring.depth() > ring.capacity()) damaged = true;
      if (random.below(64) == 0) ring.grow(ring.capacity() + 1);
      slot = residents.admit();
      if (store->slot(slot).turn != taken++) damaged = true;
    }
    auto lease = LeaseMaker::make(store, slot, {.step = step++, .use_index = store->slot(slot).uses++});
    if (!whole(lease)) damaged = true;
    {
      const std::scoped_lock lock(lease_mutex);
      lent.push_back(std::move(lease));
    }
    leases_there.notify_all();
  }
  CHECK(in_time);
  CHECK(taken == turns);
  CHECK(retired + residents.slots().size() == turns);

  stopped = true;
  ring.wake();
  done = true;
  leases_there.notify_all();
  issuer.join();
  if (!in_time) samples_left = 0;
  work_there.notify_all();
  for (auto& decoder : decoders) decoder.join();
  releaser.join();
  CHECK_FALSE(damaged);
  CHECK(store->held() == 0);
}

TEST_CASE("stress: batches arrive whole, once, in order, and stay untouched while held") {
  const std::uint64_t seed = 20260;
  MESSAGE("seed " << seed);
  std::uint64_t run = 0;
  for (const Stress& shape : {Stress{1, 1, 1, 1}, Stress{1, 1, 2, 3}, Stress{2, 3, 2, 2}, Stress{3, 1, 2, 2},
                              Stress{5, 1, 3, 4}, Stress{16, 8, 2, 3}, Stress{{1, 7}, 2, 2, 3}}) {
    run_stress(shape, testing::kSanitized ? 1000 : 3000, key64(seed, run++));
  }
}

}  // namespace
}  // namespace forebay::test_ring
