// The wait point, the stop signal and the ring of records, each by itself.
#include <atomic>
#include <memory>

#include "base/wait.hpp"
#include "measure/record_ring.hpp"
#include "scenario.hpp"

using namespace forebay::measure;

namespace forebay::model {

// W1 to W3: a condition that orders no other memory, with two waiting threads and two notifying
// ones.
void waiting() {
  WaitPoint point;
  std::atomic<int> done{0};
  const auto wait = [&] { point.wait([&] { return done.load(std::memory_order_relaxed) >= 2; }); };
  const auto notify = [&] {
    done.fetch_add(1, std::memory_order_relaxed);
    point.notify_all();
  };
  spawn("waiter", wait);
  spawn("notifier", notify);
  spawn("notifier 2", notify);
  wait();
  join();
}

// One wait point for one condition after the other, from both sides.
void taking_turns() {
  WaitPoint point;
  std::atomic<int> turn{0};
  const auto play = [&](int mine) {
    for (int round = mine; round < 4; round += 2) {
      point.wait([&] { return turn.load(std::memory_order_relaxed) == round; });
      turn.store(round + 1, std::memory_order_relaxed);
      point.notify_all();
    }
  };
  spawn("other", [&] { play(1); });
  play(0);
  join();
}

// A deadline that passes, and a signal that is raised before, during or after the wait.
void signalling() {
  StopSignal signal;
  const auto reason = std::make_unique<std::uint64_t>(0);
  spawn("reader", [&] {
    try {
      signal.sleep_until(WaitPoint::Clock::time_point(std::chrono::seconds(3)));
    } catch (const Stopped&) {
    }
    try {
      signal.sleep_until(WaitPoint::Clock::time_point::max());
      require(false, "sleep_until() returns although there is no deadline");
    } catch (const Stopped&) {
      require(*reason == 7, "a reader that was stopped does not know why");
    }
  });
  *reason = 7;
  signal.raise();
  join();
}

// R1 to R6 of the RecordRing: records arrive whole and in order, and dropped ones are counted.
void records() {
  struct Record {
    std::uint64_t number;
    std::uint64_t copy;
  };
  const auto made = std::make_unique<RecordRing<Record>>(2);
  RecordRing<Record>& ring = *made;
  constexpr std::uint64_t kRecords = 5;
  spawn("producer", [&] {
    for (std::uint64_t i = 1; i <= kRecords; ++i) (void)ring.push({i, i});
  });
  std::uint64_t popped = 0;
  std::uint64_t last = 0;
  const auto pop = [&] {
    Record record{};
    if (!ring.pop(record)) return false;
    require(record.number == record.copy, "R3: a record was torn");
    require(record.number > last, "R2: a record came twice or out of order");
    last = record.number;
    ++popped;
    return true;
  };
  for (int look = 0; look < 4; ++look) {
    // R6: a thread that sees a dropped record can pop all those before it, which at least fill the
    // ring.
    const std::uint64_t dropped = ring.dropped();
    while (pop()) {
    }
    require(dropped == 0 || popped >= ring.capacity(), "R6: a record was dropped and those before it are not there");
  }
  join();
  while (pop()) {
  }
  require(popped + ring.dropped() == kRecords, "a record is neither popped nor counted as dropped");
}

}  // namespace forebay::model
