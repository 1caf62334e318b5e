#include "base/file_io.hpp"
#include "base/wait.hpp"
#include "read/workload.hpp"
#include "reader_stage.hpp"
#include "test.hpp"

// The reader threads and their queue: order, retries, outages, bad samples, and stopping in every
// state.
namespace forebay::test_readers {
namespace {

using namespace forebay::make;
using namespace forebay::read;
using namespace std::chrono_literals;
using Activity = WorkerStatus::Activity;
using namespace testing;

constexpr ReaderOptions kOneReader{.threads = 1, .attempts = 4, .backoff = 1us};

bool all_are(std::span<const WorkerStatus> statuses, Activity activity) {
  return std::ranges::all_of(statuses, [&](const WorkerStatus& status) { return status.activity == activity; });
}

}  // namespace

TEST_CASE("requests keep their order, and urgent ones overtake") {
  ReadQueue queue;
  std::vector<ReadRequest> requests(100);
  for (std::uint64_t order = 0; order < 100; ++order) requests[order].order = order;
  queue.push(std::span(requests).first(60));
  queue.push(std::span(requests).subspan(60));
  queue.push_urgent(std::vector<ReadRequest>{{.order = 1000}, {.order = 1001}});
  std::vector<std::uint64_t> orders;
  std::array<ReadRequest, 7> taken;
  while (orders.size() < 102) {
    const std::size_t count = queue.take(std::span(taken).first(1 + orders.size() % 7));
    REQUIRE(count >= 1);
    for (std::size_t i = 0; i < count; ++i) orders.push_back(taken[i].order);
  }
  CHECK(orders[0] == 1000);
  CHECK(orders[1] == 1001);
  for (std::uint64_t order = 0; order < 100; ++order) CHECK(orders[2 + order] == order);
  queue.push({requests.data(), 1});
  queue.close();
  CHECK(queue.take(taken) == 0);
  CHECK(queue.take(taken) == 0);
}

TEST_CASE("every request is delivered exactly once, whatever the number of threads") {
  constexpr std::uint64_t kSamples = 600;
  for (const unsigned threads : {1U, 2U, 3U, 5U, 8U, 16U}) {
    CAPTURE(threads);
    Stage stage(kSamples, 1500);  // room for two or three samples
    Tally tally(kSamples);
    std::uint64_t bytes = 0;
    {
      DecoderPool decoders(stage.decoder_links(tally), 1 + threads / 4);
      ReaderPool readers(stage.reader_links(), {.threads = threads});
      CHECK(readers.workers().statuses().size() == threads);
      for (std::uint64_t id = 0; id < kSamples; ++id) {
        stage.request(id);
        bytes += size_of(id);
      }
      REQUIRE(tally.wait_for(kSamples));
      REQUIRE(eventually([&] { return stage.budget.in_flight() == 0; }));
      CHECK(eventually([&] { return all_are(readers.workers().statuses(), Activity::idle); }));
      CHECK(eventually([&] { return all_are(decoders.workers().statuses(), Activity::idle); }));
      readers.stop();
      readers.stop();
      decoders.stop();
      CHECK(all_are(readers.workers().statuses(), Activity::stopped));
      CHECK(all_are(decoders.workers().statuses(), Activity::stopped));
    }
    CHECK(std::ranges::all_of(tally.seen, [](const std::atomic<int>& count) { return count == 1; }));
    CHECK_FALSE(tally.wrong);
    CHECK(stage.totals.bytes_read == bytes);
    CHECK(stage.totals.samples == kSamples);
    CHECK(stage.totals.retries == 0);
    CHECK(stage.reports.count() == 0);
  }
}

TEST_CASE("a sample that is larger than the budget gets through between others") {
  Stage stage(50, 100);  // most samples are larger
  Tally tally(50);
  DecoderPool decoders(stage.decoder_links(tally), 2);
  ReaderPool readers(stage.reader_links(), {.threads = 6});
  for (std::uint64_t id = 0; id < 50; ++id) stage.request(id);
  CHECK(tally.wait_for(50));
  CHECK_FALSE(tally.wrong);
}

TEST_CASE("reads with transient errors are retried and leave nothing in the budget") {
  Stage stage(10, 2000);
  Tally tally(10);
  const auto fail_twice = [](std::uint64_t id, int read) {
    if (id == 4 && read <= 2) throw SampleError("the store hiccuped", SampleError::Kind::transient);
  };
  SUBCASE("before the bytes are known") { stage.dataset.before = fail_twice; }
  SUBCASE("in the middle of the bytes") { stage.dataset.after = fail_twice; }
  DecoderPool decoders(stage.decoder_links(tally), 1);
  ReaderPool readers(stage.reader_links(), kOneReader);
  for (std::uint64_t id = 0; id < 10; ++id) stage.request(id);
  REQUIRE(tally.wait_for(10));
  CHECK(stage.dataset.reads(4) == 3);
  CHECK(stage.dataset.reads(5) == 1);
  CHECK(stage.totals.retries == 2);
  CHECK(stage.reports.retried == std::vector<std::uint64_t>{4, 4});
  CHECK(stage.reports.bad.empty());
  CHECK(eventually([&] { return stage.budget.in_flight() == 0; }));
}

TEST_CASE("a file that stays cut short makes a bad sample after the last attempt") {
  Stage stage(1);
  stage.dataset.before = [](std::uint64_t, int) {
    throw TruncatedFile(SampleError("ends early", SampleError::Kind::transient));
  };
  ReaderPool readers(stage.reader_links(), kOneReader);
  stage.request(0);
  REQUIRE(stage.reports.wait_for(1));
  readers.stop();
  CHECK(stage.dataset.reads(0) == 4);
  CHECK(stage.totals.retries == 3);
  CHECK(stage.reports.bad == std::vector<std::uint64_t>{0});
  CHECK(stage.reports.reasons.back() == "ends early (read 4 times)");
}

TEST_CASE("a file cut short has all its attempts, however often the store failed before") {
  Stage stage(1);
  Tally tally(1);
  stage.dataset.before = [](std::uint64_t, int read) {
    if (read <= 5) throw SampleError("the store hiccuped", SampleError::Kind::transient);
    if (read <= 8) throw TruncatedFile(SampleError("ends early", SampleError::Kind::transient));
  };
  DecoderPool decoders(stage.decoder_links(tally), 1);
  ReaderPool readers(stage.reader_links(), kOneReader);
  stage.request(0);
  CHECK(tally.wait_for(1));
  CHECK(stage.dataset.reads(0) == 9);
  CHECK(stage.reports.bad.empty());
}

TEST_CASE("a store that fails costs no sample, and others are read meanwhile") {
  Stage stage(60);
  std::atomic<bool> is_well{false};
  stage.dataset.before = [&](std::uint64_t id, int) {
    if (id % 30 == 7 && !is_well) throw SampleError("stale handle", SampleError::Kind::transient);
  };
  std::vector<std::string> told;
  StoreOutage outage(0, nullptr, [&](const std::string& line) { told.push_back(line); });
  ReaderLinks links = stage.reader_links();
  links.outage = &outage;
  Tally tally(60);
  DecoderPool decoders(stage.decoder_links(tally), 1);
  ReaderPool readers(links, {.threads = 3, .attempts = 2, .backoff = 1ms});
  for (std::uint64_t id = 0; id < 60; ++id) stage.request(id);
  REQUIRE(tally.wait_for(58));
  REQUIRE(eventually([&] { return stage.dataset.reads(7) > 6 && stage.dataset.reads(37) > 6; }));
  CHECK(contains(outage.report(), "stale handle"));
  is_well = true;
  REQUIRE(tally.wait_for(60));
  readers.stop();
  CHECK_FALSE(tally.wrong);
  CHECK(stage.reports.count() == 0);
  CHECK(stage.totals.reads == 60);
  CHECK(outage.report().empty());
}

TEST_CASE("reads that fail for too long end the run with their cause, and no sample is bad") {
  Stage stage(1);
  stage.dataset.before = [](std::uint64_t, int) { throw SampleError("stale handle", SampleError::Kind::transient); };
  RunningTime time(1s, {});
  std::vector<std::string> told;
  StoreOutage outage(60, &time, [&](const std::string& line) { told.push_back(line); });
  ReaderLinks links = stage.reader_links();
  links.outage = &outage;
  ReaderPool readers(links, kOneReader);
  stage.request(0);
  REQUIRE(eventually([&] { return stage.dataset.reads(0) > 5; }));
  CHECK(stage.reports.count() == 0);
  for (int s = 1; s < 70; ++s) time.tick(RunningTime::Clock::time_point(std::chrono::seconds(s)));
  REQUIRE(eventually([&] { return stage.reports.count() == 1; }));
  readers.stop();
  CHECK(stage.reports.bad.empty());
  REQUIRE(stage.reports.failures.size() == 1);
  const std::string error = stage.reports.failures.front();
  for (const char* part : {"stale handle", "policy.watchdog_s", "times since"}) {
    CAPTURE(error);
    CHECK(contains(error, part));
  }
}

TEST_CASE("an outage is told once, and once that it is over") {
  std::vector<std::string> told;
  StoreOutage outage(0, nullptr, [&](const std::string& line) { told.push_back(line); });
  StoreOutage::Trial first(outage);
  StoreOutage::Trial second(outage);
  const auto begin = RunningTime::Clock::now();
  while (told.empty() && RunningTime::Clock::now() < begin + 60s) {
    first.failed("a.jpg", "cannot read: Stale file handle", 0);
    second.failed("b.jpg", "cannot read: Stale file handle", 0);
    std::this_thread::yield();
  }
  for (int i = 0; i < 100; ++i) first.failed("a.jpg", "cannot read: Stale file handle", 0);
  REQUIRE(told.size() == 1);
  CHECK(contains(told[0], "Stale file handle"));
  second.succeeded();
  CHECK(told.size() == 1);
  first.succeeded();
  REQUIRE(told.size() == 2);
  CHECK(told[1].find("reads succeed again") == 0);
}

TEST_CASE("reads of which some always fail and others succeed are no outage, unless one fails for long") {
  std::vector<std::string> told;
  StoreOutage outage(0, nullptr, [&](const std::string& line) { told.push_back(line); });
  const auto begin = RunningTime::Clock::now();
  auto before = std::make_unique<StoreOutage::Trial>(outage);
  std::uint64_t reads = 0;
  before->failed("0.jpg", "stale handle", reads);
  while (RunningTime::Clock::now() < begin + 1500ms) {  // one begins to fail before the last succeeds
    auto next = std::make_unique<StoreOutage::Trial>(outage);
    next->failed("next.jpg", "stale handle", ++reads);
    before->succeeded();
    before = std::move(next);
  }
  CHECK(told.empty());
  StoreOutage::Trial bad(outage);
  while (told.empty() && RunningTime::Clock::now() < begin + 60s) bad.failed("bad.jpg", "stale handle", ++reads);
  REQUIRE(told.size() == 1);
  CHECK(contains(told[0], ", while others succeeded: bad.jpg: stale handle; "));

  StoreOutage whole(0, nullptr, [&](const std::string& line) { told.push_back(line); });
  StoreOutage::Trial first(whole);
  first.failed("0.jpg", "503", 0);
  const auto late = RunningTime::Clock::now();  // three reads that were under way succeed
  while (told.size() == 1 && RunningTime::Clock::now() < late + 60s) first.failed("0.jpg", "503", 3);
  REQUIRE(told.size() == 2);
  CHECK(contains(told[1], " s: 0.jpg: 503; "));
}

TEST_CASE("a permanent error is reported at once and read once") {
  Stage stage(3);
  stage.dataset.after = [](std::uint64_t id, int) {
    if (id == 1) throw SampleError("truncated");
  };
  Tally tally(3);
  DecoderPool decoders(stage.decoder_links(tally), 1);
  ReaderPool readers(stage.reader_links(), kOneReader);
  for (std::uint64_t id = 0; id < 3; ++id) stage.request(id);
  REQUIRE(tally.wait_for(2));
  REQUIRE(stage.reports.wait_for(1));
  CHECK(stage.dataset.reads(1) == 1);
  CHECK(stage.reports.bad == std::vector<std::uint64_t>{1});
  CHECK(stage.reports.reasons == std::vector<std::string>{"truncated"});
  CHECK(eventually([&] { return stage.budget.in_flight() == 0; }));
}

TEST_CASE("a size that no memory can hold makes a bad sample and does not end the run") {
  Stage stage(2);
  stage.dataset.size_of_sample = [](std::uint64_t id) {
    return id == 0 ? std::numeric_limits<std::size_t>::max() : size_of(id);
  };
  Tally tally(2);
  DecoderPool decoders(stage.decoder_links(tally), 1);
  ReaderPool readers(stage.reader_links(), kOneReader);
  stage.request(0);
  stage.request(1);
  REQUIRE(tally.wait_for(1));
  REQUIRE(stage.reports.wait_for(1));
  CHECK(stage.reports.bad == std::vector<std::uint64_t>{0});
  CHECK(stage.reports.failures.empty());
}

TEST_CASE("bytes that no batch has room for are refused before there is memory for them") {
  Stage stage(2);
  const testing::NotedDataset dataset(stage.dataset);
  ReaderPool readers(stage.reader_links(dataset), kOneReader);
  stage.request(0);
  stage.request(1);
  REQUIRE(stage.reports.wait_for(1));
  readers.stop();
  CHECK(stage.reports.bad == std::vector<std::uint64_t>{1});
  CHECK(stage.reports.reasons ==
        std::vector<std::string>{
            "field \"note\": 1073741824 bytes, but a batch has room for 16 bytes of each sample (most)"});
  CHECK(dataset.read_fields == 1);
  CHECK(stage.budget.most_in_flight() < 2000);
}

TEST_CASE("the replacement of a bad sample is read before those that are queued") {
  Stage stage(20);
  std::atomic<bool> go{false};
  WaitPoint gate;
  std::mutex mutex;
  std::vector<std::uint64_t> reads;
  stage.dataset.before = [&](std::uint64_t id, int) {
    gate.wait_until(limit(), [&] { return go.load(); });
    {
      const std::lock_guard lock(mutex);
      reads.push_back(id);
    }
    if (id == 0 || id == 10) throw SampleError("broken");
  };
  stage.reports.queue = &stage.requests;
  Tally tally(20);
  DecoderPool decoders(stage.decoder_links(tally), 1);
  ReaderPool readers(stage.reader_links(), kOneReader);
  for (const std::uint64_t id : {0ULL, 5ULL, 10ULL, 15ULL}) stage.request(id);
  go = true;
  gate.notify_all();
  REQUIRE(tally.wait_for(4));
  readers.stop();
  CHECK(reads == std::vector<std::uint64_t>{0, 1, 5, 10, 11, 15});
}

TEST_CASE("any other exception of a read ends the run with it") {
  Stage stage(1);
  stage.dataset.before = [](std::uint64_t, int) { throw std::logic_error("a bug in the dataset"); };
  ReaderPool readers(stage.reader_links(), kOneReader);
  stage.request(0);
  REQUIRE(stage.reports.wait_for(1));
  readers.stop();
  CHECK(stage.reports.failures == std::vector<std::string>{"a bug in the dataset"});
  CHECK(stage.reports.bad.empty());
}

TEST_CASE("requests behind a slow read go to other readers") {
  constexpr std::uint64_t kSamples = 200;
  Stage stage(kSamples);
  std::atomic<bool> go{false};
  WaitPoint gate;
  // The first samples are quick, so that readers take many at a time; then one read hangs.
  stage.dataset.before = [&](std::uint64_t id, int) {
    if (id == 150) gate.wait_until(limit(), [&] { return go.load(); });
  };
  Tally tally(kSamples);
  DecoderPool decoders(stage.decoder_links(tally), 1);
  ReaderPool readers(stage.reader_links(), {.threads = 2});
  for (std::uint64_t id = 0; id < kSamples; ++id) stage.request(id);
  // What the hanging reader has taken waits with it: fewer samples than a thread takes at a time.
  CHECK(tally.wait_for(kSamples - ChunkSize::kMost));
  go = true;
  gate.notify_all();
  CHECK(tally.wait_for(kSamples));
  CHECK_FALSE(tally.wrong);
}

TEST_CASE("readers stop in every state") {
  Stage stage(8, 10);
  stage.dataset.size_of_sample = [](std::uint64_t) { return std::size_t{10}; };
  const auto all_reach = [](ReaderPool& readers, Activity activity) {
    return eventually([&] { return all_are(readers.workers().statuses(), activity); });
  };
  SUBCASE("without requests") {
    ReaderPool readers(stage.reader_links(), {.threads = 4});
    CHECK(all_reach(readers, Activity::idle));
  }
  SUBCASE("before they began") { const ReaderPool readers(stage.reader_links(), {.threads = 16}); }
  SUBCASE("in the budget") {
    auto all = stage.budget.take(0, 10);
    ReaderPool readers(stage.reader_links(), {.threads = 4});
    for (std::uint64_t id = 0; id < 8; ++id) stage.request(id);
    REQUIRE(eventually([&] { return stage.budget.waiting() == 4; }));
    CHECK(all_are(readers.workers().statuses(), Activity::waiting_budget));
    readers.stop();
    CHECK(all_are(readers.workers().statuses(), Activity::stopped));
    stage.budget.give_back(std::move(all));
  }
  SUBCASE("in the backoff") {
    stage.dataset.before = [](std::uint64_t, int) { throw SampleError("busy", SampleError::Kind::transient); };
    ReaderPool readers(stage.reader_links(), {.threads = 4, .backoff = 1h});
    for (std::uint64_t id = 0; id < 8; ++id) stage.request(id);
    CHECK(all_reach(readers, Activity::retrying));
  }
  SUBCASE("in latency, outage or transfer of the emulated store") {
    StorageOptions options;
    SUBCASE("latency") { options.latency_ms = 1e9; }
    SUBCASE("outage") { options = {.outage_every_s = 1e-9, .outage_s = std::numeric_limits<double>::infinity()}; }
    SUBCASE("transfer") { options.bandwidth_mb_s = 1e-12; }
    const StorageThrottle throttle(options, 17);
    ReaderLinks links = stage.reader_links();
    links.throttle = &throttle;
    ReaderPool readers(links, {.threads = 1});
    for (std::uint64_t id = 0; id < 8; ++id) stage.request(id);
    CHECK(all_reach(readers, Activity::reading));
  }
  CHECK(stage.reports.count() == 0);
  CHECK(stage.budget.in_flight() == 0);
}

TEST_CASE("the emulated store fails reads, and the retries get them all through") {
  constexpr int kSamples = 200;
  Stage stage(kSamples);
  const StorageThrottle throttle({.latency_ms = 0.01, .jitter = 1, .fail_rate = 0.3}, 17);
  int expected_retries = 0;
  for (std::uint64_t id = 0; id < kSamples; ++id)
    for (std::uint32_t retry = 0; throttle.draw({.position = id}, retry).fails; ++retry) ++expected_retries;
  Tally tally(kSamples);
  DecoderPool decoders(stage.decoder_links(tally), 1);
  ReaderLinks links = stage.reader_links();
  links.throttle = &throttle;
  ReaderPool readers(links, {.threads = 4, .attempts = 100, .backoff = 1ns});
  for (std::uint64_t id = 0; id < kSamples; ++id) stage.request(id);
  REQUIRE(tally.wait_for(kSamples));
  CHECK(expected_retries > 0);
  CHECK(stage.totals.retries == static_cast<std::uint64_t>(expected_retries));
}

}  // namespace forebay::test_readers
