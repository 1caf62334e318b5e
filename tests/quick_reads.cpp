// Samples that decoders read themselves because reads are quick, and those that they leave to the
// readers.
#include "base/file_io.hpp"
#include "read/read_pace.hpp"
#include "reader_stage.hpp"
#include "test.hpp"

namespace forebay::test_quick_reads {
namespace {

using namespace forebay::make;
using namespace forebay::read;
using namespace std::chrono_literals;
using namespace testing;

constexpr ReaderOptions kOneReader{.threads = 1, .attempts = 4, .backoff = 1us};

void make_quick(ReadPace& pace) {
  for (int i = 0; i < 1000; ++i) pace.add(0);
}

// Records the threads that reach a place.
class Threads {
 public:
  void note() {
    const std::lock_guard lock(mutex_);
    ids_.insert(std::this_thread::get_id());
  }
  [[nodiscard]] std::set<std::thread::id> ids() const {
    const std::lock_guard lock(mutex_);
    return ids_;
  }

 private:
  mutable std::mutex mutex_;
  std::set<std::thread::id> ids_;
};

// A stage whose decoders should read.
struct QuickStage : Stage {
  using Stage::Stage;

  [[nodiscard]] ReaderLinks links() {
    ReaderLinks links = reader_links();
    links.pace = &pace;
    return links;
  }
  [[nodiscard]] DecoderLinks decoders_that_read(SampleHandler& handler) {
    DecoderLinks links = decoder_links(handler);
    links.reads.emplace(this->links());
    return links;
  }
  void ask(std::uint64_t first, std::uint64_t count) {
    std::vector<EncodedSample> samples;
    for (std::uint64_t id = first; id < first + count; ++id) {
      samples.push_back({.request = {.order = id, .position = id, .sample = id}, .bytes = {}, .is_read = false});
    }
    encoded.push(samples);
  }

  ReadPace pace;
};

bool all_once(const Tally& tally) {
  return std::ranges::all_of(tally.seen, [](const std::atomic<int>& count) { return count == 1; });
}

}  // namespace

TEST_CASE("reads are quick once it is known, not for one that was held up, and no more once several were") {
  ReadPace pace;
  CHECK_FALSE(pace.is_quick());
  for (int i = 0; i < 200; ++i) pace.add(3'000);
  CHECK(pace.is_quick());
  pace.add(10'000'000);
  CHECK(pace.is_quick());
  for (int i = 0; i < 100; ++i) pace.add(3'000);
  for (int i = 0; i < 12; ++i) pace.add(10'000'000);
  CHECK_FALSE(pace.is_quick());
  for (int i = 0; i < 200; ++i) pace.add(3'000);
  CHECK(pace.is_quick());
  for (int i = 0; i < 200; ++i) pace.add(60'000);
  CHECK_FALSE(pace.is_quick());
}

TEST_CASE("where one read in a hundred waits for the disk, readers read for a while, and then for longer") {
  constexpr std::int64_t kSecond = 1'000'000'000;
  ReadPace pace;
  make_quick(pace);
  std::int64_t now = 0;
  const auto read = [&](int groups, int from_disk) {
    for (int i = 0; i < groups; ++i) pace.add_group(10, i < from_disk, now);
  };
  read(60, 5);  // of 600
  CHECK(pace.is_quick(now));
  read(60, 7);
  CHECK_FALSE(pace.is_quick(now));
  CHECK_FALSE(pace.is_quick(now + kSecond - 1));
  now += kSecond;
  CHECK(pace.is_quick(now));
  read(60, 7);
  CHECK_FALSE(pace.is_quick(now + kSecond));
  now += 2 * kSecond;
  CHECK(pace.is_quick(now));
  read(60, 0);  // now they come from memory
  CHECK(pace.is_quick(now));
  read(60, 60);
  CHECK_FALSE(pace.is_quick(now));
  CHECK(pace.is_quick(now + kSecond));
}

TEST_CASE("decoders read what is quick to read, and leave nothing in the budget") {
  constexpr std::uint64_t kSamples = 12;  // so few that slow ones do not change the pace
  QuickStage stage(kSamples);
  make_quick(stage.pace);
  Tally tally(kSamples);
  std::uint64_t bytes = 0;
  for (std::uint64_t id = 0; id < kSamples; ++id) bytes += size_of(id);
  {
    DecoderPool decoders(stage.decoders_that_read(tally), 2);
    stage.ask(0, kSamples);
    REQUIRE(tally.wait_for(kSamples));
    CHECK(eventually([&] { return stage.budget.in_flight() == 0; }));
  }
  CHECK(all_once(tally));
  CHECK_FALSE(tally.wrong);
  CHECK(stage.totals.samples == kSamples);
  CHECK(stage.totals.reads == kSamples);
  CHECK(stage.totals.bytes_read == bytes);
  CHECK(stage.reports.count() == 0);
}

TEST_CASE("while reads are slow, or nobody knows, readers read what decoders were asked to") {
  constexpr std::uint64_t kSamples = 100;
  QuickStage stage(kSamples);
  Threads read;
  Threads decoded;
  stage.dataset.before = [&](std::uint64_t, int) { read.note(); };
  stage.dataset.after = [&](std::uint64_t, int) { stage.pace.add(1'000'000); };
  Tally tally(kSamples);
  tally.before = [&](const EncodedSample&, unsigned) { decoded.note(); };
  DecoderPool decoders(stage.decoders_that_read(tally), 2);
  ReaderPool readers(stage.links(), {.threads = 3});
  stage.ask(0, kSamples);
  REQUIRE(tally.wait_for(kSamples));
  CHECK(all_once(tally));
  CHECK_FALSE(tally.wrong);
  for (const std::thread::id id : read.ids()) CHECK_FALSE(decoded.ids().contains(id));
}

TEST_CASE("a decoder waits for no room: a reader does") {
  QuickStage stage(1, 100);
  make_quick(stage.pace);
  std::vector<std::byte> others = stage.budget.take(1, 100);
  Tally tally(1);
  DecoderPool decoders(stage.decoders_that_read(tally), 1);
  ReaderPool readers(stage.links(), kOneReader);
  stage.ask(0, 1);
  CHECK(eventually([&] { return stage.budget.waiting() == 1; }));
  CHECK(decoders.workers().statuses()[0].activity.load() != WorkerStatus::Activity::waiting_budget);
  CHECK(tally.handled == 0);
  stage.budget.give_back(std::move(others));
  REQUIRE(tally.wait_for(1));
  CHECK_FALSE(tally.wrong);
}

TEST_CASE("a read of a decoder counts among the attempts at its sample") {
  QuickStage stage(3);
  make_quick(stage.pace);
  stage.dataset.before = [](std::uint64_t id, int) {
    if (id == 1) throw TruncatedFile(SampleError("the store hiccuped", SampleError::Kind::transient));
  };
  Tally tally(3);
  DecoderPool decoders(stage.decoders_that_read(tally), 1);
  ReaderPool readers(stage.links(), kOneReader);
  stage.ask(0, 3);
  REQUIRE(tally.wait_for(2));
  REQUIRE(stage.reports.wait_for(1));
  CHECK(stage.dataset.reads(1) == 4);
  CHECK(stage.totals.retries == 3);
  CHECK(stage.reports.retried == std::vector<std::uint64_t>{1, 1, 1});
  CHECK(stage.reports.bad == std::vector<std::uint64_t>{1});
  CHECK(stage.reports.reasons.back() == "the store hiccuped (read 4 times)");
  CHECK(eventually([&] { return stage.budget.in_flight() == 0; }));
}

TEST_CASE("a reader's pause before it reads a sample again is no time of a read") {
  constexpr std::uint64_t kSamples = 102;
  QuickStage stage(kSamples);
  Tally tally(kSamples);
  DecoderPool decoders(stage.decoder_links(tally), 1);
  ReaderPool readers(stage.links(), {.threads = 1, .attempts = 4, .backoff = 2s});
  for (std::uint64_t id = 0; id < 100; ++id) stage.request(id);
  REQUIRE(tally.wait_for(100));  // from then on it takes several at a time
  const std::vector<ReadRequest> requests{{.order = 100, .sample = 100}, {.order = 101, .sample = 101, .failed = 1}};
  stage.requests.push(requests);
  REQUIRE(tally.wait_for(kSamples));
  readers.stop();
  CHECK(stage.totals.retries == 1);
  CHECK(stage.totals.read_ns < 1'900'000'000);
}

TEST_CASE("a decoder that finds no room for a field leaves all of the sample to a reader") {
  QuickStage stage(1, 100);
  make_quick(stage.pace);
  stage.dataset.size_of_sample = [](std::uint64_t) { return std::size_t{60}; };
  std::atomic<bool> has_image{false};
  stage.dataset.after = [&](std::uint64_t, int) { has_image = true; };
  const testing::NotedDataset dataset(stage.dataset);
  ReaderLinks links = stage.reader_links(dataset);
  links.pace = &stage.pace;
  std::vector<std::byte> others = stage.budget.take(1, 20);
  Tally tally(1);
  DecoderLinks decoder_links = stage.decoder_links(tally);
  decoder_links.reads.emplace(links);
  DecoderPool decoders(decoder_links, 1);
  stage.ask(0, 1);
  CHECK(eventually([&] { return has_image && stage.budget.in_flight() == 20; }));
  stage.budget.give_back(std::move(others));
  ReaderPool readers(links, kOneReader);
  REQUIRE(tally.wait_for(1));
  CHECK(stage.dataset.reads(0) == 2);
  CHECK(dataset.read_fields == 1);
  CHECK(stage.reports.count() == 0);
}

TEST_CASE("a bad sample that a decoder met is replaced, with all attempts") {
  QuickStage stage(6);
  make_quick(stage.pace);
  stage.reports.queue = &stage.requests;
  stage.dataset.before = [](std::uint64_t id, int read) {
    if (id == 3) throw SampleError("no such file");
    if (id == 4 && read < 4) throw SampleError("the store hiccuped", SampleError::Kind::transient);
  };
  Tally tally(6);
  DecoderPool decoders(stage.decoders_that_read(tally), 1);
  ReaderPool readers(stage.links(), kOneReader);
  stage.ask(3, 1);
  REQUIRE(tally.wait_for(1));
  CHECK(stage.dataset.reads(3) == 1);
  CHECK(stage.dataset.reads(4) == 4);
  CHECK(stage.reports.bad == std::vector<std::uint64_t>{3});
  CHECK(tally.seen[3] == 1);
}

TEST_CASE("each sample is delivered exactly once while reads are now quick and now slow") {
  constexpr std::uint64_t kSamples = 3000;
  for (const std::size_t room : {std::size_t{1500}, std::size_t{1} << 20}) {
    CAPTURE(room);
    QuickStage stage(kSamples, room);
    Tally tally(kSamples);
    std::atomic<bool> over{false};
    std::thread weather([&] {
      for (int i = 0; !over.load(); ++i) {
        if (i % 2 == 0)
          make_quick(stage.pace);
        else
          for (int slow = 0; slow < 80; ++slow) stage.pace.add(1'000'000);
        std::this_thread::yield();
      }
    });
    {
      DecoderPool decoders(stage.decoders_that_read(tally), 3);
      ReaderPool readers(stage.links(), {.threads = 4});
      for (std::uint64_t id = 0; id < kSamples; id += 10) {
        if (id % 20 == 0) {
          stage.ask(id, 10);
        } else {
          for (std::uint64_t each = id; each < id + 10; ++each) stage.request(each);
        }
      }
      CHECK(tally.wait_for(kSamples));
      CHECK(eventually([&] { return stage.budget.in_flight() == 0; }));
    }
    over = true;
    weather.join();
    CHECK(all_once(tally));
    CHECK_FALSE(tally.wrong);
    CHECK(stage.totals.samples == kSamples);
    CHECK(stage.totals.reads == kSamples);
    CHECK(stage.reports.count() == 0);
  }
}

TEST_CASE("decoders stop while samples that they are to read are queued") {
  QuickStage stage(1000);
  make_quick(stage.pace);
  WaitPoint begun;
  std::atomic<bool> has_begun{false};
  std::atomic<bool> go_on{false};
  stage.dataset.before = [&](std::uint64_t, int) {
    has_begun = true;
    begun.notify_all();
    begun.wait_until(limit(), [&] { return go_on.load(); });
  };
  Tally tally(1000);
  ReaderPool readers(stage.links(), kOneReader);
  DecoderPool decoders(stage.decoders_that_read(tally), 1);
  stage.ask(0, 1000);
  REQUIRE(begun.wait_until(limit(), [&] { return has_begun.load(); }));
  readers.stop();
  stage.encoded.close();
  go_on = true;
  begun.notify_all();
  decoders.stop();
  CHECK(tally.handled < 1000);
  CHECK(stage.reports.count() == 0);
}

}  // namespace forebay::test_quick_reads
