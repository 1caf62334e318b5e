// Feeders, pools and indexes on a system with no more threads: an error, and nothing left behind.
#include <forebay/dataset.hpp>
#include <forebay/feeder.hpp>

#include "base/thread.hpp"
#include "data/parallel.hpp"
#include "dataset_support.hpp"
#include "memory_dataset.hpp"
#include "reader_stage.hpp"
#include "test.hpp"
#include "thread_limit.hpp"

namespace {

using namespace forebay;
using namespace forebay::make;
using namespace forebay::read;
using namespace forebay::testing;
using Refuses = ThreadLimit::Refuses;

// Starts a first thread, because a sanitizer starts one of its own with it.
void start_the_first() {
  std::thread([] {}).join();
}

// Runs a feeder with all of its threads, of which some start at construction and some at the first
// step.
void run_a_feeder(const Options& options, const std::string& trace = {}) {
  Parts parts{.dataset = std::make_shared<MemoryDataset>(24)};
  parts.trace = trace;
  Feeder feeder(options, std::move(parts));
  int served = 0;
  while (feeder.next()) ++served;
  CHECK(served == 6);
}

}  // namespace

TEST_CASE("a pool that gets fewer threads than it needs ends those that it got") {
  start_the_first();
  for (const Refuses refuses : {Refuses::one, Refuses::all}) {
    Stage stage(8);
    Tally tally(8);
    // The threads wait for requests and samples that never come.
    CHECK(refuse_each_thread(refuses, [&] {
            Stage own(8);
            const ReaderPool readers(own.reader_links(), {.threads = 4});
          }) == 4);
    CHECK(refuse_each_thread(refuses, [&] {
            Stage own(8);
            const DecoderPool decoders(own.decoder_links(tally), 3);
          }) == 3);
  }
}

TEST_CASE("a pool that is to grow grows as far as there are threads") {
  start_the_first();
  std::atomic<bool> over{false};
  WaitPoint work;
  WorkerPool pool("forebay-test",
                  {.body =
                       [&](unsigned thread, WorkerStatus&) {
                         while (pool.may_work(thread) && !over) work.wait([&] { return over.load(); });
                       },
                   .end =
                       [&] {
                         over = true;
                         work.notify_all();
                       }},
                  1, 6);
  {
    const ThreadLimit limit(2, Refuses::all);
    pool.want(5);
    CHECK(ThreadLimit::refused() == 1);
  }
  CHECK(pool.wanted() == 3);
  pool.want(5);
  CHECK(pool.wanted() == 5);
}

TEST_CASE("a save whose thread is refused is an error, and the run continues") {
  start_the_first();
  const TemporaryDirectory folder;
  Feeder feeder(memory_options(4), Parts{.dataset = std::make_shared<MemoryDataset>(24)});
  REQUIRE(feeder.next());
  {
    const ThreadLimit limit(0, Refuses::all);
    const std::string what = testing::error_of([&] { feeder.save(folder / "feed.state"); });
    check_refusal(what);
  }
  REQUIRE(feeder.next());
  feeder.save(folder / "feed.state");
  feeder.finish_saves();
  CHECK(std::filesystem::exists(folder / "feed.state"));
}

TEST_CASE("a feeder that is refused any of its threads throws, and leaves none behind") {
  start_the_first();
  const TemporaryDirectory folder;
  Options options = memory_options(4);
  options.run.epochs = 1;
  std::string trace;
  int threads = 2 + 2 + 1 + 1 + 1;  // readers, decoders, issuer, profiler, clock
  SUBCASE("of fixed workers") {}
  SUBCASE("that tunes its workers") {
    options.workers.io = 0;  // never more for a store in memory: a thread refused later would not be an error
    threads = 16 + 2 + 1 + 1 + 1 + 1;
  }
  SUBCASE("with telemetry and a trace") {
    options.telemetry.dir = (folder / "run").string();
    options.telemetry.interval_s = 5;
    trace = (folder / "trace.json").string();
    threads += 1;
  }
  SUBCASE("that hedges slow reads") {
    options.workers.hedge = Hedge::automatic;
    threads += 1;
  }
  SUBCASE("that renders what it serves") {
    options.transform.when = When::dequeue;
    options.transform.canvas = {4, 4};
  }
  for (const Refuses refuses : {Refuses::one, Refuses::all}) {
    // Destructors do the work of a missing thread themselves.
    CHECK(refuse_each_thread(
              refuses, [&] { run_a_feeder(options, trace); }, true) >= threads);
  }
}

TEST_CASE("an index is built with the threads that there are") {
  start_the_first();
  const TemporaryDirectory folder;
  for (int i = 0; i < 4; ++i) {
    std::filesystem::create_directories(folder / std::to_string(i));
    std::ofstream(folder / (std::to_string(i) + "/a.jpg")) << "not looked into";
  }
  const DatasetOptions options = options_for(folder.path(), "folder");
  {
    const ThreadLimit none(0, Refuses::all);
    try {
      (void)open_dataset(options);
      FAIL("an index without a thread");
    } catch (const Error& error) {
      check_refusal(error.what());
    }
  }
  const ThreadLimit one(1, Refuses::one);
  CHECK(open_dataset(options)->size() == 4);
  CHECK(ThreadLimit::refused() == 1);
}
