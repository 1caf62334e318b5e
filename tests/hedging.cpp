// Second reads of slow samples in a pool of readers: each sample comes exactly once, whichever read wins.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <forebay/error.hpp>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/wait.hpp"
#include "reader_stage.hpp"

namespace {

using namespace forebay;
using namespace std::chrono_literals;
using testing::eventually;
using testing::limit;
using testing::Stage;
using testing::Tally;

constexpr ReaderOptions kReaders{.threads = 4, .attempts = 2, .backoff = 1us, .hedge = true};

// Holds reads until it is opened, and counts those it holds. Bounded, so that a failing test ends.
class Barrier {
 public:
  void hold() {
    ++held_;
    changed_.wait_until(limit(), [&] { return open_.load(); });
    --held_;
  }
  void open() {
    open_ = true;
    changed_.notify_all();
  }
  [[nodiscard]] int held() const { return held_; }

 private:
  std::atomic<bool> open_{false};
  std::atomic<int> held_{0};
  WaitPoint changed_;
};

// Readers and decoders over a fake store. The first kBefore samples show what a normal read is and earn some second
// reads.
struct Hedged {
  static constexpr std::uint64_t kBefore = 400;
  static constexpr std::uint64_t kSamples = 500;

  explicit Hedged(std::size_t bytes = 1 << 20) : stage(kSamples, bytes), tally(kSamples) {}
  ~Hedged() { barrier.open(); }

  void start(const ReaderOptions& options = kReaders) {
    decoders = std::make_unique<DecoderPool>(stage.decoder_links(tally), 1);
    readers = std::make_unique<ReaderPool>(stage.reader_links(), options);
    for (std::uint64_t id = 0; id < kBefore; ++id) stage.request(id);
    REQUIRE(tally.wait_for(kBefore));
  }
  // Everything has ended: no read is under way, no memory is taken.
  [[nodiscard]] bool is_quiet() {
    return eventually([&] {
      const auto idle = [](const WorkerStatus& status) { return status.activity == WorkerStatus::Activity::idle; };
      return std::ranges::all_of(readers->workers().statuses(), idle) && stage.budget.in_flight() == 0;
    });
  }
  [[nodiscard]] bool is_once(std::uint64_t id) const { return tally.seen[id] == 1; }

  Barrier barrier;
  Stage stage;
  Tally tally;
  std::unique_ptr<DecoderPool> decoders;
  std::unique_ptr<ReaderPool> readers;
};

constexpr std::uint64_t kSlow = Hedged::kBefore;

}  // namespace

TEST_CASE("a read that hangs is read a second time, and its sample comes once") {
  for (const bool fails_late : {false, true}) {
    CAPTURE(fails_late);
    Hedged hedged;
    hedged.stage.dataset.after = [&](std::uint64_t id, int read) {
      if (id != kSlow || read != 1) return;
      hedged.barrier.hold();
      if (fails_late) throw SampleError("torn");  // the sample has come: this must not be reported
    };
    hedged.start();
    hedged.stage.request(kSlow);
    REQUIRE(hedged.tally.wait_for(kSlow + 1));  // while its first read hangs
    CHECK(hedged.barrier.held() == 1);
    CHECK(hedged.stage.totals.hedged_reads >= 1);
    CHECK(hedged.stage.totals.hedges_won >= 1);
    for (std::uint64_t id = kSlow + 1; id < Hedged::kSamples; ++id) hedged.stage.request(id);
    REQUIRE(hedged.tally.wait_for(Hedged::kSamples));
    hedged.barrier.open();
    REQUIRE(hedged.is_quiet());  // the loser's memory included
    for (std::uint64_t id = 0; id < Hedged::kSamples; ++id) REQUIRE(hedged.is_once(id));
    CHECK_FALSE(hedged.tally.wrong);
    CHECK(hedged.stage.totals.reads == Hedged::kSamples);
    CHECK(hedged.stage.reports.count() == 0);
  }
}

TEST_CASE("a first read that comes before the second one wins, and the second is dropped") {
  Barrier second;
  Hedged hedged;
  hedged.stage.dataset.after = [&](std::uint64_t id, int read) {
    if (id == kSlow && read == 1) hedged.barrier.hold();
    if (id == kSlow && read == 2) second.hold();
  };
  hedged.start();
  hedged.stage.request(kSlow);
  REQUIRE(eventually([&] { return second.held() == 1; }));
  hedged.barrier.open();
  CHECK(hedged.tally.wait_for(kSlow + 1));
  second.open();
  REQUIRE(hedged.is_quiet());
  CHECK(hedged.is_once(kSlow));
  CHECK(hedged.stage.dataset.reads(kSlow) == 2);
  CHECK(hedged.stage.totals.reads == kSlow + 1);
}

TEST_CASE("when one of the two reads fails, the other decides") {
  for (const bool first_fails_last : {false, true}) {
    for (const bool other_fails : {false, true}) {
      CAPTURE(first_fails_last);
      CAPTURE(other_fails);
      Barrier second;
      Hedged hedged;
      hedged.stage.dataset.before = [&](std::uint64_t id, int read) {
        if (id != kSlow) return;
        if (read == 1) hedged.barrier.hold();
        if (read == 2) second.hold();
        const bool is_first = read == 1;
        if (other_fails || is_first != first_fails_last) throw SampleError(is_first ? "first" : "second");
      };
      hedged.start();
      hedged.stage.request(kSlow);
      REQUIRE(eventually([&] { return second.held() == 1; }));
      Barrier& earlier = first_fails_last ? second : hedged.barrier;
      Barrier& later = first_fails_last ? hedged.barrier : second;
      earlier.open();
      REQUIRE(eventually([&] { return earlier.held() == 0; }));
      CHECK(hedged.stage.reports.count() == 0);  // one has failed, nothing is decided
      CHECK(hedged.tally.handled == kSlow);
      later.open();
      if (other_fails) {
        REQUIRE(hedged.stage.reports.wait_for(1));
        CHECK(hedged.stage.reports.bad == std::vector<std::uint64_t>{kSlow});
        CHECK(hedged.stage.reports.reasons == std::vector<std::string>{"first"});  // whichever came last
      } else {
        REQUIRE(hedged.tally.wait_for(kSlow + 1));
      }
      REQUIRE(hedged.is_quiet());
      CHECK(hedged.stage.reports.count() == (other_fails ? 1 : 0));
      CHECK(hedged.tally.seen[kSlow] == (other_fails ? 0 : 1));
    }
  }
}

TEST_CASE("a second read does not wait for memory: if there is none it gives up, and the first one brings the sample") {
  Hedged hedged(1000);  // one sample of this size at a time
  hedged.stage.dataset.size_of_sample = [](std::uint64_t id) { return id == kSlow ? 900 : testing::size_of(id); };
  hedged.stage.dataset.after = [&](std::uint64_t id, int read) {
    if (id == kSlow && read == 1) hedged.barrier.hold();
  };
  std::atomic<std::uint64_t> handled{0};
  std::atomic<std::uint64_t> size{0};
  hedged.tally.before = [&](const EncodedSample& sample, unsigned) {
    if (sample.request.sample != kSlow) return;
    size = sample.bytes.size();
    ++handled;
  };
  hedged.start();
  hedged.stage.request(kSlow);
  REQUIRE(eventually([&] { return hedged.stage.dataset.reads(kSlow) == 2; }));
  REQUIRE(eventually([&] { return hedged.barrier.held() == 1; }));
  for (std::uint64_t id = kSlow + 1; id < kSlow + 20; ++id) hedged.stage.request(id);
  hedged.barrier.open();
  REQUIRE(hedged.tally.wait_for(kSlow + 20));
  REQUIRE(hedged.is_quiet());
  CHECK(handled == 1);
  CHECK(size == 900);
  CHECK(hedged.stage.reports.count() == 0);
}

TEST_CASE("nothing waits behind a read that hangs: other readers get what its reader has taken and read") {
  Hedged hedged;
  hedged.stage.dataset.after = [&](std::uint64_t id, int) {
    if (id == kSlow) hedged.barrier.hold();  // the second read too
  };
  hedged.start({.threads = 1, .most = 3, .attempts = 2, .backoff = 1us, .hedge = true});
  // Pushed together, so that one reader takes several: one that it reads, one that hangs, and those behind.
  std::vector<ReadRequest> requests;
  for (const std::uint64_t i : {1U, 0U, 2U, 3U, 4U, 5U, 6U, 7U, 8U, 9U}) {
    requests.push_back({.order = kSlow + i, .position = kSlow + i, .sample = kSlow + i});
  }
  hedged.stage.requests.push(requests);
  REQUIRE(eventually([&] { return hedged.barrier.held() == 1; }));
  hedged.readers->workers().want(3);
  CHECK(hedged.tally.wait_for(kSlow + 9));  // all but the slow one
  hedged.barrier.open();
  REQUIRE(hedged.tally.wait_for(kSlow + 10));
  REQUIRE(hedged.is_quiet());
  for (std::uint64_t id = 0; id < kSlow + 10; ++id) REQUIRE(hedged.is_once(id));
}

TEST_CASE("samples come exactly once under hanging, failing and healthy reads at random") {
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    CAPTURE(seed);
    constexpr std::uint64_t kSamples = 1500;
    Stage stage(kSamples, 200'000);
    Tally tally(kSamples);
    std::set<std::uint64_t> expected_bad;
    for (std::uint64_t id = 0; id < kSamples; ++id) {
      if (id % 97 == 5) expected_bad.insert(id);
    }
    Barrier barrier;
    stage.dataset.after = [&](std::uint64_t id, int read) {
      if (id > 200 && (id * 31 + seed) % 101 == 0 && read == 1) barrier.hold();
      if (expected_bad.contains(id)) throw SampleError("bad");
    };
    {
      DecoderPool decoders(stage.decoder_links(tally), 2);
      ReaderPool readers(stage.reader_links(), {.threads = 24, .attempts = 2, .backoff = 1us, .hedge = true});
      for (std::uint64_t id = 0; id < kSamples; ++id) stage.request(id);
      // Some hang until here: the others need not wait for them.
      REQUIRE(eventually(
          [&] { return static_cast<std::uint64_t>(tally.handled) + stage.reports.count() + 24 >= kSamples; }));
      barrier.open();
      REQUIRE(eventually([&] {
        return static_cast<std::uint64_t>(tally.handled) + stage.reports.count() == kSamples &&
               stage.budget.in_flight() == 0;
      }));
    }
    for (std::uint64_t id = 0; id < kSamples; ++id) REQUIRE(tally.seen[id] == (expected_bad.contains(id) ? 0 : 1));
    CHECK(stage.reports.count() == expected_bad.size());
    CHECK(stage.reports.failures.empty());
    CHECK_FALSE(tally.wrong);
    CHECK(20 * stage.totals.hedged_reads <= kSamples);
  }
}

TEST_CASE("stopping waits only for reads inside the store, not for hedged reads to be decided") {
  Barrier second;
  Hedged hedged;
  hedged.stage.dataset.before = [&](std::uint64_t id, int read) {
    if (id == kSlow) (read == 1 ? hedged.barrier : second).hold();
  };
  hedged.start();
  hedged.stage.request(kSlow);
  REQUIRE(eventually([&] { return second.held() == 1; }));
  std::jthread opener([&] {
    hedged.barrier.open();
    second.open();
  });
  hedged.readers->stop();
  hedged.decoders->stop();
  CHECK(hedged.tally.seen[kSlow] <= 1);
  CHECK(hedged.stage.reports.count() == 0);
}
