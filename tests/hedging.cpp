// Hedged reads in a pool of readers: each sample arrives exactly once, whichever of two reads wins.
#include <forebay/feeder.hpp>

#include "base/file_io.hpp"
#include "base/wait.hpp"
#include "dataset_support.hpp"
#include "memory_dataset.hpp"
#include "read/hedging.hpp"
#include "read/workload.hpp"
#include "reader_stage.hpp"
#include "test.hpp"

namespace forebay::test_hedging {

using namespace forebay::make;
using namespace forebay::read;

namespace {

using namespace std::chrono_literals;
using namespace testing;
using Clock = Workload::Clock;

constexpr ReaderOptions kReaders{.threads = 4, .attempts = 2, .backoff = 1us, .hedge = true};

// Holds reads until it is opened, and counts those held. Waits are bounded, so that a failing test
// ends.
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

// Readers and decoders over a fake store. The first kBefore samples establish the normal read time,
// and earn some second reads.
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
  // Waits until no read is in flight and no memory is taken.
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

TEST_CASE("a read that hangs is read a second time, and its sample comes once") {
  for (const bool fails_late : {false, true}) {
    CAPTURE(fails_late);
    Hedged hedged;
    hedged.stage.dataset.after = [&](std::uint64_t id, int read) {
      if (id != kSlow || read != 1) return;
      hedged.barrier.hold();
      if (fails_late) throw SampleError("torn");  // the sample has arrived, so this must not be reported
    };
    hedged.start();
    hedged.stage.request(kSlow);
    REQUIRE(hedged.tally.wait_for(kSlow + 1));  // while the first read still hangs
    CHECK(hedged.barrier.held() == 1);
    CHECK(hedged.stage.totals.hedged_reads >= 1);
    CHECK(hedged.stage.totals.hedges_won >= 1);
    for (std::uint64_t id = kSlow + 1; id < Hedged::kSamples; ++id) hedged.stage.request(id);
    REQUIRE(hedged.tally.wait_for(Hedged::kSamples));
    hedged.barrier.open();
    REQUIRE(hedged.is_quiet());  // including the loser's memory
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
      CAPTURES(first_fails_last, other_fails);
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
      CHECK(hedged.stage.reports.count() == 0);  // one has failed, the other may still win
      CHECK(hedged.tally.handled == kSlow);
      later.open();
      if (other_fails) {
        REQUIRE(hedged.stage.reports.wait_for(1));
        CHECK(hedged.stage.reports.bad == std::vector<std::uint64_t>{kSlow});
        CHECK(hedged.stage.reports.reasons == std::vector<std::string>{"first"});  // whichever failed last
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
  Hedged hedged(1000);  // memory for one sample at a time
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
  // Pushed together, so that one reader takes several: one that it reads, one that hangs, and the
  // ones after it.
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
      // Some reads hang until here; the others need not wait for them.
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

// The parts of hedging: which reads count as slow, how many second reads are allowed, and which
// read wins.

TEST_CASE("read times: a quantile is right within a step, and old reads are forgotten") {
  ReadTimes times;
  CHECK(times.quantile(0.5) == 0ns);
  for (int i = 1; i <= 1000; ++i) times.add(std::chrono::microseconds(10 * i));
  CHECK(times.gather() == 1000);
  CHECK(times.gather() == 0);
  for (const double share : {0.1, 0.5, 0.95, 1.0}) {
    const auto exact = std::chrono::duration<double, std::micro>(10'000 * share);
    CAPTURE(share);
    CHECK(times.quantile(share) >= exact);
    CHECK(times.quantile(share) <= 1.26 * exact);
  }
  for (int i = 0; i < 20'000; ++i) {
    times.add(100us);
    if (i % 100 == 0) times.gather();
  }
  times.gather();
  CHECK(times.weight() <= 2048);
  CHECK(times.quantile(0.95) < 130us);
  ReadTimes odd;
  odd.add(-5ns);
  odd.add(0ns);
  CHECK(odd.gather() == 2);
  CHECK(odd.quantile(1) <= 2us);
  odd.add(24h);
  odd.gather();
  CHECK(odd.quantile(1) > 60s);
}

TEST_CASE("the rule: slow is three times the 95th percentile, and at least a floor") {
  HedgeRule rule;
  rule.update();
  CHECK(rule.slow_after() == HedgeRule::kUnknown);
  for (int i = 0; i < 100; ++i) rule.add(50us);
  rule.update();
  CHECK(rule.slow_after() == HedgeRule::kFloor);

  HedgeRule far;
  for (int i = 0; i < 1000; ++i) far.add(i % 400 == 0 ? 1s : 40ms);
  far.update();
  CHECK(far.slow_after() >= 120ms);  // a constantly high latency is not slow
  CHECK(far.slow_after() <= 160ms);

  HedgeRule often;  // every tenth read takes long, which is normal here
  for (int i = 0; i < 1000; ++i) often.add(i % 10 == 0 ? 1s : 40ms);
  often.update();
  CHECK(often.slow_after() >= 3s);
}

TEST_CASE("the rule: at most a twentieth more reads, earned by first reads only, and not saved up without limit") {
  HedgeRule rule;
  std::uint64_t seconds = 0;
  constexpr std::uint64_t kReads = 10'000;
  for (std::uint64_t i = 0; i < kReads; ++i) {
    rule.add(1ms);
    rule.update();
    while (rule.may_hedge()) {
      rule.hedge();
      ++seconds;
      rule.add(1ms);
      rule.update();
      REQUIRE(20 * seconds <= i + 1);
    }
  }
  CHECK(seconds >= kReads / 20 - 2);
  for (std::uint64_t i = 0; i < kReads; ++i) rule.add(1ms);
  rule.update();
  std::uint64_t at_once = 0;
  for (; rule.may_hedge(); ++at_once) rule.hedge();
  CHECK(at_once >= 1);
  CHECK(at_once <= 16);
}

TEST_CASE("a hedged read is won once, or lost by both sides with the first side's reason") {
  using Side = HedgedRead::Side;
  HedgedRead won(0);
  CHECK_FALSE(won.is_won());
  CHECK(won.win());
  CHECK(won.is_won());
  CHECK_FALSE(won.win());
  CHECK_FALSE(won.give_up(Side::second, "late"));
  HedgedRead saved(0);
  CHECK_FALSE(saved.give_up(Side::first, "torn"));
  CHECK(saved.win());
  for (const bool first_is_last : {false, true}) {
    HedgedRead lost(0);
    CHECK_FALSE(lost.give_up(first_is_last ? Side::second : Side::first, first_is_last ? "" : "torn"));
    const auto verdict = lost.give_up(first_is_last ? Side::first : Side::second, first_is_last ? "torn" : "");
    REQUIRE(verdict);
    CHECK(*verdict == "torn");
  }
  for (int round = 0; round < 200; ++round) {
    HedgedRead hedged(0);
    std::atomic<int> winners{0};
    {
      std::jthread other([&] { winners += hedged.win() ? 1 : 0; });
      winners += hedged.win() ? 1 : 0;
    }
    REQUIRE(winners == 1);
  }
}

TEST_CASE("a workload: slow at the second look only, hedged once, and relieved of what waits") {
  Workload workload(true);
  const std::array<ReadRequest, 3> requests{ReadRequest{.order = 5, .sample = 50}, {.order = 6}, {.order = 7}};
  CHECK_FALSE(workload.watch(Clock::now() + 1h, 10ms).is_slow);  // no read is in flight
  workload.assign(requests);
  CHECK(workload.next()->order == 5);
  const auto now = Clock::now();
  CHECK_FALSE(workload.watch(now, 1h).is_slow);
  CHECK(workload.watch(now, 1h).look_again > now);
  CHECK_FALSE(workload.hedge());
  const auto later = now + 1h;
  CHECK_FALSE(workload.watch(later, 10ms).is_slow);
  const Workload::Watch seen = workload.watch(later, 10ms);
  CHECK(seen.is_slow);
  CHECK(seen.may_hedge);
  CHECK(seen.order == 5);

  std::vector<ReadRequest> left;
  std::vector<EncodedSample> read;
  workload.take_waiting(left, read);
  REQUIRE(left.size() == 2);
  CHECK(left[0].order == 6);
  CHECK_FALSE(workload.hedge()->hedged->is_won());
  CHECK_FALSE(workload.hedge());
  CHECK_FALSE(workload.watch(later, 10ms).may_hedge);
  CHECK(workload.watch(later, 10ms).is_slow);

  EncodedSample sample{.request = requests[0], .bytes = std::vector<std::byte>(3)};
  const auto hedged = workload.end(sample);
  REQUIRE(hedged);
  CHECK(sample.bytes.size() == 3);  // the hedged read delivers it
  workload.take_waiting(left, read);
  CHECK(read.empty());
  CHECK_FALSE(workload.next());

  const std::array<ReadRequest, 2> more{ReadRequest{.order = 8}, {.order = 9, .hedge = 3}};
  workload.assign(more);
  CHECK(workload.next()->order == 8);
  CHECK_FALSE(workload.watch(later, 10ms).is_slow);
  workload.pause();  // waiting for memory, not for the store
  CHECK_FALSE(workload.watch(later, 10ms).is_slow);
  CHECK_FALSE(workload.hedge());
  workload.resume(1);
  CHECK_FALSE(workload.watch(later, 10ms).is_slow);
  CHECK(workload.watch(later, 10ms).is_slow);
  CHECK(workload.hedge()->hedged->retry() == 1);
  CHECK(workload.end());
  CHECK(workload.next()->order == 9);
  CHECK_FALSE(workload.watch(later, 10ms).is_slow);
  CHECK(workload.watch(later, 10ms).is_slow);
  CHECK_FALSE(workload.watch(later, 10ms).may_hedge);  // it is a second read itself
}

TEST_CASE("samples on a local disk are not slow; samples elsewhere, named by a list or a link there, may be") {
  const testing::TemporaryDirectory folder;
  if (!is_on_local_disk(folder.path().string())) {
    MESSAGE("skipped: temporary files are on no local disk");
    return;
  }
  const std::string elsewhere = "/proc/version";
  REQUIRE_FALSE(is_on_local_disk(elsewhere));
  testing::write_file(folder / "cat/1.jpg", "jpeg");
  testing::write_file(folder / "dog/2.jpg", "jpeg");
  const auto is_slow = [&](const std::filesystem::path& path) {
    return may_be_slow(path.string(), *build_dataset(testing::options_for(path)));
  };
  CHECK_FALSE(is_slow(folder.path()));
  const std::filesystem::path list = folder / "list.txt";
  std::string entries;
  for (int i = 0; i < 100; ++i) entries += "cat/1.jpg,cat\n";
  testing::write_file(list, entries);
  CHECK_FALSE(is_slow(list));
  testing::write_file(list, entries + "dog/none.jpg,dog\n");  // a missing file does not count
  CHECK_FALSE(is_slow(list));
  std::string others;
  for (int i = 0; i < 100; ++i) others += elsewhere + ",dog\n";
  testing::write_file(list, entries + others);
  CHECK(is_slow(list));
  std::filesystem::create_symlink(elsewhere, folder / "dog/3.jpg");
  CHECK(is_slow(folder.path()));
}

// A feeder whose store sometimes hangs: with hedging it serves the same batches in the same order,
// and reports the second reads.

constexpr std::uint64_t kSamples = 1200;

Options hedging_options() {
  Options options = memory_options(4);
  options.run.epochs = 1;
  options.workers.io = 8;
  options.workers.hedge = Hedge::automatic;
  return options;
}

// A store in which the first reads of some samples hang at a gate, and a few others fail.
struct Store {
  explicit Store(std::uint64_t hangs_every) : every(hangs_every), reads(kSamples) {}
  [[nodiscard]] std::shared_ptr<MemoryDataset> dataset() {
    return std::make_shared<MemoryDataset>(kSamples, [this](std::uint64_t id) {
      const int before = reads[id]++;
      if (every > 0 && id % every == 8 && before == 0 && started) {
        ++hanging;
        gate.pass();
        --hanging;
      }
      if (id % 100 == 7) throw SampleError("is broken on purpose");
    });
  }

  std::uint64_t every;
  std::vector<std::atomic<int>> reads;
  std::atomic<bool> started{false};  // before that, too few reads are known to identify a slow one
  std::atomic<int> hanging{0};
  Gate gate;
};

using Batches = std::vector<std::vector<std::uint64_t>>;

// Serves a run, and opens the gate once everything has been served.
Batches run(const Options& options, Store& store, Summary& summary) {
  Feeder feeder(options, Parts{.dataset = store.dataset()});
  Batches batches;
  while (auto batch = feeder.next()) {
    batches.emplace_back(batch->ids().begin(), batch->ids().end());
    if (batches.size() == 50) store.started = true;
    if (batches.size() == kSamples / 4) {
      CHECK((store.every == 0 || store.hanging > 0));  // still hanging: nobody waited for them
      store.gate.open();
    }
  }
  feeder.close();
  summary = feeder.summary();
  return batches;
}

TEST_CASE("reads that hang hold up nothing, and the same samples are served and quarantined") {
  const Options options = hedging_options();
  Summary summary;
  Store calm(0);
  const Batches expected = run(options, calm, summary);
  REQUIRE(expected.size() == kSamples / 4);
  CHECK(summary.bad_samples == 12);
  Store hanging(200);
  CHECK(run(options, hanging, summary) == expected);
  CHECK(summary.bad_samples == 12);
  CHECK(summary.hedged_reads >= 1);
  CHECK(summary.hedged_reads <= kSamples / 20 + 1);
}

TEST_CASE("hedge = off waits, and the description says what is in effect") {
  Options options = hedging_options();
  CHECK(Feeder(options, Parts{.dataset = std::make_shared<MemoryDataset>(8)}).describe().find("begun twice") !=
        std::string::npos);
  options.workers.hedge = Hedge::off;
  Store store(400);
  Feeder feeder(options, Parts{.dataset = store.dataset()});
  CHECK_FALSE(contains(feeder.describe(), "begun twice"));
  store.started = true;
  std::uint64_t served = 0;
  store.gate.open();
  while (feeder.next()) ++served;
  CHECK(served == kSamples / 4);
  CHECK(feeder.summary().hedged_reads == 0);
}

TEST_CASE("the watchdog's report also shows a second read that hangs") {
  Options options = hedging_options();
  options.policy.watchdog_s = 2;
  Gate gate;
  std::atomic<int> reads{0};
  std::atomic<std::uint64_t> hangs{kSamples};  // the sample whose two reads both hang
  Parts parts{.dataset = std::make_shared<MemoryDataset>(kSamples, [&](std::uint64_t id) {
                if (++reads == 400) hangs = id;
                if (id == hangs) gate.pass();
              })};
  Feeder feeder(options, std::move(parts));
  const std::string report = testing::error_of<WatchdogError>([&] {
    while (feeder.next()) {
    }
  });
  gate.open();
  CHECK(contains(report, "1 reader reading from the store"));
  CHECK(contains(report, "1 reader reading what another is slow with"));
  CHECK(report.find("memory/" + std::to_string(hangs)) != std::string::npos);
}

}  // namespace
}  // namespace forebay::test_hedging
