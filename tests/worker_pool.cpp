#include "base/thread.hpp"
#include "base/wait.hpp"
#include "reader_stage.hpp"
#include "test.hpp"

namespace forebay::test_worker_pool {

using namespace forebay::make;
using namespace forebay::read;

namespace {

using namespace testing;
using namespace std::chrono_literals;
using Activity = WorkerStatus::Activity;

// A pool whose threads work, one piece after another, as long as there is work.
struct Works {
  static constexpr unsigned kMost = 6;

  explicit Works(unsigned wanted)
      : pool("pool",
             {.body =
                  [this](unsigned thread, WorkerStatus& status) {
                    while (pool.may_work(thread) && work) {
                      status.set(Activity::decoding, thread);
                      ++pieces.at(thread);
                      status.set(Activity::idle);
                    }
                  },
              .end = [this] { work = false; }},
             wanted, kMost) {}

  [[nodiscard]] unsigned parked() const {
    unsigned count = 0;
    for (const WorkerStatus& status : pool.statuses()) count += status.activity == Activity::parked ? 1 : 0;
    return count;
  }
  [[nodiscard]] bool works(unsigned thread) {
    const int before = pieces.at(thread);
    return eventually([&] { return pieces.at(thread) > before + 10; });
  }

  std::atomic<bool> work{true};
  std::array<std::atomic<int>, kMost> pieces{};
  WorkerPool pool;
};

TEST_CASE("as many threads work as are wanted, and the others are parked") {
  Works works(2);
  CHECK(works.pool.wanted() == 2);
  CHECK(works.pool.most() == 6);
  CHECK(works.works(0));
  CHECK(works.works(1));
  CHECK(works.pool.statuses()[2].activity == Activity::stopped);  // not started before it is wanted

  works.pool.want(5);
  for (unsigned thread = 0; thread < 5; ++thread) CHECK(works.works(thread));
  works.pool.want(1);
  REQUIRE(eventually([&] { return works.parked() == 4; }));
  const int before = works.pieces[3];
  CHECK(works.works(0));
  CHECK(works.pieces[3] == before);
  works.pool.want(3);
  CHECK(works.works(2));
  CHECK(eventually([&] { return works.parked() == 2; }));  // thread 1 need not have woken up yet
  works.pool.want(0);
  CHECK(works.pool.wanted() == 1);
  works.pool.want(100);
  CHECK(works.pool.wanted() == 6);
  for (unsigned thread = 0; thread < 6; ++thread) CHECK(works.works(thread));
}

TEST_CASE("a pool stops whatever its threads do") {
  Works works(6);
  CHECK(works.works(5));
  SUBCASE("at work") {}
  SUBCASE("parked") {
    works.pool.want(1);
    REQUIRE(eventually([&] { return works.parked() == 5; }));
  }
  works.pool.stop();
  works.pool.stop();
  for (const WorkerStatus& status : works.pool.statuses()) CHECK(status.activity == Activity::stopped);
}

TEST_CASE("times add up to those of the threads' lives, by activity") {
  using std::chrono::nanoseconds;
  const auto begin = std::chrono::steady_clock::now();
  nanoseconds lived{0};
  {
    Works works(3);
    CHECK(works.works(2));
    works.pool.want(1);
    REQUIRE(eventually([&] { return works.parked() == 2; }));
    CHECK(works.works(0));
    CHECK(works.pool.cpu_time() > nanoseconds(0));
    works.pool.stop();
    CHECK(works.pool.cpu_time() == nanoseconds(0));
    const ActivityTimes times = times_spent(works.pool.statuses());
    const auto spent = [&](Activity activity) { return times[static_cast<std::size_t>(activity)]; };
    CHECK(spent(Activity::decoding) > nanoseconds(0));
    CHECK(spent(Activity::parked) > nanoseconds(0));
    CHECK(spent(Activity::reading) == nanoseconds(0));
    lived = spent(Activity::decoding) + spent(Activity::parked) + spent(Activity::idle);
  }
  CHECK(lived > nanoseconds(0));
  CHECK(lived <= 3 * (std::chrono::steady_clock::now() - begin));
}

// Decoder threads: exceptions of their handler, and how they stop.

constexpr ReaderOptions kOneReader{.threads = 1, .attempts = 4, .backoff = 1us};

TEST_CASE("decoders report bad samples, return their bytes and know their own numbers") {
  Stage stage(100, 2000);
  Tally tally(100);
  std::atomic<bool> number_too_large{false};
  tally.before = [&](const EncodedSample& sample, unsigned thread) {
    if (thread >= 3) number_too_large = true;
    if (sample.request.sample % 10 == 3) throw SampleError("not a JPEG");
  };
  DecoderPool decoders(stage.decoder_links(tally), 3);
  ReaderPool readers(stage.reader_links(), {.threads = 2});
  for (std::uint64_t id = 0; id < 100; ++id) stage.request(id);
  REQUIRE(tally.wait_for(90));
  REQUIRE(stage.reports.wait_for(10));
  CHECK(eventually([&] { return stage.budget.in_flight() == 0; }));
  decoders.stop();
  CHECK(stage.totals.samples == 90);
  CHECK_FALSE(number_too_large);
  CHECK(std::ranges::all_of(stage.reports.bad, [](std::uint64_t id) { return id % 10 == 3; }));
}

TEST_CASE("any other exception of the handler ends the run with it") {
  Stage stage(1);
  Tally tally(1);
  tally.before = [](const EncodedSample&, unsigned) { throw std::runtime_error("a bug in the decoder"); };
  DecoderPool decoders(stage.decoder_links(tally), 2);
  ReaderPool readers(stage.reader_links(), kOneReader);
  stage.request(0);
  REQUIRE(stage.reports.wait_for(1));
  CHECK(stage.reports.failures == std::vector<std::string>{"a bug in the decoder"});
}

TEST_CASE("decoders stop while samples are queued") {
  Stage stage(10);
  WaitPoint gate;
  std::atomic<bool> stopping{false};
  std::atomic<int> begun{0};
  Tally tally(10);
  tally.before = [&](const EncodedSample&, unsigned) {
    ++begun;
    gate.notify_all();
    gate.wait_until(limit(), [&] { return stopping.load(); });
  };
  DecoderPool decoders(stage.decoder_links(tally), 2);
  std::vector<EncodedSample> samples;
  for (std::uint64_t id = 0; id < 10; ++id)
    samples.push_back({.request = {.order = id, .sample = id}, .bytes = stage.budget.take(id, 1)});
  stage.encoded.push(samples);
  REQUIRE(gate.wait_until(limit(), [&] { return begun.load() == 2; }));
  stage.encoded.close();
  stopping = true;
  gate.notify_all();
  decoders.stop();
  CHECK(tally.handled == 2);
}

}  // namespace
}  // namespace forebay::test_worker_pool
