#include <nlohmann/json.hpp>

#include "allocation_counter.hpp"
#include "measure/record_ring.hpp"
#include "measure/run_files.hpp"
#include "measure/telemetry.hpp"
#include "screen.hpp"
#include "test.hpp"

// Recording steps without delaying the trainer, and the lines, intervals and status line that are
// written from the records.
namespace forebay::test_telemetry {
namespace {

using namespace forebay::measure;
using namespace forebay::read;
using namespace forebay::testing;
using nlohmann::json;

// Every field is a function of `i`, so that a torn record is recognisable.
StepRecord numbered(std::uint64_t i) {
  StepRecord out;
  out.step = i;
  out.epoch = i + 1;
  out.batch = i * 3;
  out.use_index = i % 5;
  out.t_s = static_cast<double>(i) * 0.5;
  out.wait_s = static_cast<double>(i) * 0.00390625;  // exact in nine decimals
  out.census_wait_s = static_cast<double>(i) * 0.001953125;
  out.step_s = 0.25;
  out.ahead_s = static_cast<double>(i) * 0.0625;
  out.produced = i + 7;
  out.blocked_s = static_cast<double>(i) * 0.125;
  out.size = static_cast<std::uint32_t>(i % 64);
  out.depth = static_cast<std::uint32_t>(i % 17);
  out.served = i % 5 == 0 ? Decision::fresh : Decision::reuse;
  out.padding = i % 7 == 3;
  out.adjacent = i % 2 == 1;
  out.exhausted = i % 17 == 0;
  return out;
}

json expected_line(const StepRecord& r) {
  return {{"step", r.step},
          {"t_s", r.t_s},
          {"epoch", r.epoch},
          {"batch", r.batch},
          {"use_index", r.use_index},
          {"decision", std::string(to_string(r.served))},
          {"depth", r.depth},
          {"size", r.size},
          {"wait_s", r.wait_s},
          {"census_wait_s", r.census_wait_s},
          {"step_s", r.step_s},
          {"ahead_s", r.ahead_s},
          {"padding", r.padding},
          {"adjacent", r.adjacent},
          {"exhausted", r.exhausted},
          {"produced", r.produced},
          {"blocked_producer_s", r.blocked_s}};
}

TelemetrySetup setup_in(const std::string& dir, std::uint32_t rank = 0) {
  TelemetrySetup setup;
  setup.options.dir = dir;
  setup.options.live = Live::never;
  setup.rank = rank;
  return setup;
}

Gauges no_gauges() { return {}; }

}  // namespace

TEST_CASE("the record ring keeps order, and when full drops what is new and counts it") {
  RecordRing<StepRecord> ring(3);
  REQUIRE(ring.capacity() == 4);
  StepRecord out;
  CHECK_FALSE(ring.pop(out));
  for (std::uint64_t i = 0; i < 4; ++i) CHECK(ring.push(numbered(i)));
  CHECK_FALSE(ring.push(numbered(4)));
  CHECK_FALSE(ring.push(numbered(5)));
  CHECK(ring.dropped() == 2);
  REQUIRE(ring.pop(out));
  CHECK(out.step == 0);
  CHECK(ring.push(numbered(6)));
  for (const std::uint64_t expected : {1U, 2U, 3U, 6U}) {
    REQUIRE(ring.pop(out));
    CHECK(out.step == expected);
  }
  CHECK_FALSE(ring.pop(out));
}

TEST_CASE("under two threads every record arrives whole and in order, or is counted as dropped") {
  for (const std::size_t capacity : {2U, 64U, 4096U}) {
    CAPTURE(capacity);
    constexpr std::uint64_t kRecords = 40'000;
    RecordRing<StepRecord> ring(capacity);
    std::atomic<bool> done{false};
    std::uint64_t pushed = 0;
    std::thread producer([&] {
      for (std::uint64_t i = 0; i < kRecords; ++i) {
        if (ring.push(numbered(i))) {
          ++pushed;
        } else {
          std::this_thread::yield();
        }
      }
      done.store(true, std::memory_order_release);
    });
    std::uint64_t popped = 0;
    std::uint64_t next = 0;
    bool sound = true;
    const auto take_all = [&] {
      for (StepRecord record; ring.pop(record); ++popped) {
        const StepRecord whole = numbered(record.step);
        sound = sound && record.step >= next && record.epoch == whole.epoch && record.batch == whole.batch &&
                record.t_s == whole.t_s && record.wait_s == whole.wait_s && record.produced == whole.produced &&
                record.blocked_s == whole.blocked_s && record.size == whole.size && record.depth == whole.depth &&
                record.served == whole.served && record.adjacent == whole.adjacent;
        next = record.step + 1;
      }
    };
    for (bool last = false; !last;) {
      last = done.load(std::memory_order_acquire);
      take_all();
      std::this_thread::yield();
    }
    producer.join();
    CHECK(sound);
    CHECK(popped == pushed);
    CHECK(popped + ring.dropped() == kRecords);
  }
}

TEST_CASE("step lines hold exactly what was recorded") {
  const TemporaryDirectory dir;
  Screen screen;
  const WorkerTotals totals;
  Telemetry telemetry(setup_in(dir.path().string(), 3), totals, no_gauges, screen.log);
  constexpr std::uint64_t kRecords = 2000;
  for (std::uint64_t i = 0; i < kRecords; ++i) telemetry.record(numbered(i));
  telemetry.close();
  telemetry.close();
  CHECK(telemetry.dropped() == 0);
  const std::vector<json> lines = read_lines(dir / "steps.3.jsonl");
  REQUIRE(lines.size() == kRecords);
  for (std::uint64_t i = 0; i < kRecords; ++i) REQUIRE(lines[i] == expected_line(numbered(i)));
}

TEST_CASE("recording neither allocates nor waits for a reader") {
  const TemporaryDirectory dir;
  Screen screen;
  const WorkerTotals totals;
  TelemetrySetup setup = setup_in(dir.path().string());
  setup.records = 8;
  Telemetry telemetry(setup, totals, no_gauges, screen.log);
  constexpr std::uint64_t kRecords = 100'000;
  {
    const AllocationCounter allocated;
    for (std::uint64_t i = 0; i < kRecords; ++i) telemetry.record(numbered(i));
    CHECK(allocated.count() == 0);
  }
  telemetry.close();
  CHECK(telemetry.dropped() > 0);
  CHECK(read_lines(dir / "steps.0.jsonl").size() + telemetry.dropped() == kRecords);
}

TEST_CASE("without a directory, an interval and a status line there is nothing to do") {
  Screen screen;
  const WorkerTotals totals;
  TelemetrySetup setup = setup_in("");
  setup.options.interval_s = 0;
  setup.records = 2;
  Telemetry telemetry(setup, totals, no_gauges, screen.log);
  for (std::uint64_t i = 0; i < 100; ++i) telemetry.record(numbered(i));
  telemetry.close();
  CHECK(telemetry.dropped() == 0);
  CHECK(screen.text().empty());
}

TEST_CASE("figures that JSON cannot hold do not break the line") {
  StepRecord record = numbered(1);
  record.wait_s = std::numeric_limits<double>::infinity();
  record.step_s = std::numeric_limits<double>::quiet_NaN();
  std::string line;
  append_json(line, record);
  CHECK(json::parse(line).at("wait_s") == 0);
  CHECK(json::parse(line).at("step_s") == 0);
}

TEST_CASE("an interval's figures, its JSON and its line") {
  const TemporaryDirectory dir;
  Screen screen;
  WorkerTotals totals;
  Gauges gauges{.depth = 16, .capacity = 16, .produced = 10, .blocked_s = 2.0, .bad_samples = 1};
  TelemetrySetup setup = setup_in(dir.path().string());
  setup.options.interval_s = 5;
  Reporter reporter(
      setup, totals, [&] { return gauges; }, screen.log);

  totals.bytes_read = 1000;  // before the first step: belongs to no interval
  reporter.tick(95.0, 0);
  StepRecord first;
  first.wait_s = 90;  // start-up
  first.size = 32;
  reporter.add(first);
  reporter.tick(100.0, 0);
  for (std::uint64_t i = 1; i < 11; ++i) {
    StepRecord record;
    record.step = i;
    record.epoch = 2;
    record.t_s = static_cast<double>(i) * 0.5;
    record.step_s = 0.4;
    record.wait_s = 0.1;
    record.census_wait_s = i % 5 == 0 ? 0.0625 : 0;
    record.size = 32;
    record.served = i % 2 == 0 ? Decision::fresh : Decision::reuse;
    record.exhausted = i == 5;
    record.job_fresh_samples = 1000 + i;
    record.job_uses = i == 4 ? 9 : i % 3;
    reporter.add(record);
  }
  gauges = {.depth = 7, .capacity = 16, .produced = 18, .blocked_s = 3.0, .bad_samples = 3};
  totals.bytes_read = 5000;
  totals.retries = 2;
  totals.decode_ns = 1'500'000'000;
  totals.read_ns = 500'000'000;
  reporter.tick(105.0, 4);
  gauges.produced = 20;
  reporter.tick(110.0, 4);  // no step was served
  StepRecord last;
  last.step = 11;
  last.t_s = 11;
  last.step_s = 6;
  reporter.add(last);
  reporter.finish(112.0, 4);

  const std::vector<json> lines = read_lines(dir / "intervals.0.jsonl");
  REQUIRE(lines.size() == 3);
  check_figures(lines[0], R"({
    "t_s": 5, "interval_s": 5, "step_num": 10, "epoch": 2, "queue_size": 7, "capacity": 16, "steps": 11, "fresh": 6,
    "reused": 5, "fresh_fraction": 0.545455, "mean_enqueue_rate": 1.6, "mean_dequeue_rate": 1.2,
    "mean_running_time": 0.5, "lambda": 2.0, "mu": 2.5, "R": 1.25, "stall": 0.2, "exhausted_steps": 1,
    "census_waits": 2, "census_wait_s": 0.125, "job_fresh_samples": 1010, "job_uses_max": 9, "images_per_s": 38.4,
    "blocked_producer_s": 1, "bytes_read": 4000, "retries": 2, "read_s": 0.5, "decode_s": 1.5, "bad_samples": 3,
    "dropped_records": 4
  })");
  check_figures(lines[1], R"({
    "steps": 0, "step_num": 10, "mu": null, "R": null, "stall": null, "mean_running_time": null, "lambda": 0.4
  })");
  check_figures(lines[2], R"({"steps": 1, "interval_s": 2})");

  CHECK(screen.text() ==
        "[forebay] step 10  depth 7/16  fresh 54.5 %  lambda 2.0/s  mu 2.5/s  R 1.25  stall 20.0 %  38 images/s  bad 3"
        "  dropped 4\n"
        "[forebay] step 10  depth 7/16  no step for 5.0 s  bad 3  dropped 4\n");
}

TEST_CASE("only rank 0 prints intervals") {
  const TemporaryDirectory dir;
  Screen screen(Live::always, 1);
  const WorkerTotals totals;
  Reporter reporter(setup_in(dir.path().string(), 1), totals, no_gauges, screen.log);
  reporter.add(numbered(0));
  reporter.tick(0, 0);
  reporter.tick(20, 0);
  reporter.finish(21, 0);
  CHECK(screen.text().empty());
  CHECK(read_lines(dir / "intervals.1.jsonl").size() == 1);
}

TEST_CASE("the status line shows the queue, makes way for other lines and ends with a newline") {
  Screen screen(Live::always);
  const WorkerTotals totals;
  TelemetrySetup setup = setup_in("");
  Gauges gauges{.depth = 8, .capacity = 16};
  Reporter reporter(
      setup, totals, [&] { return gauges; }, screen.log);
  reporter.add(numbered(0));
  reporter.tick(0.0, 0);
  const std::string half = "\u2588\u2588\u2588\u2588\u2588\u2588\u2588\u2588        ";
  CHECK(screen.text().find("\r[forebay] step 0  [" + half + "] 8/16") == 0);
  screen.log.info("hello");
  CHECK(screen.count("\r\033[K[forebay] hello\n[forebay] step 0  [") == 1);
  gauges.depth = 1;
  reporter.tick(0.05, 0);  // too early to draw again
  CHECK(screen.count("] 1/16") == 0);
  reporter.tick(0.25, 0);
  CHECK(screen.count("[\u2588               ] 1/16") == 1);
  reporter.finish(0.3, 0);
  CHECK(screen.text().back() == '\n');
  screen.log.end_status();
  CHECK(screen.text().ends_with("\033[K\n"));
}

TEST_CASE("a directory that disappears is told once and its records count as dropped") {
  const TemporaryDirectory dir;
  Screen screen;
  const WorkerTotals totals;
  const std::filesystem::path run = dir / "run";
  std::filesystem::create_directory(run);
  Telemetry telemetry(setup_in(run.string()), totals, no_gauges, screen.log);
  std::filesystem::remove_all(run);
  for (std::uint64_t i = 0; i < 100; ++i) telemetry.record(numbered(i));
  telemetry.close();
  CHECK(telemetry.dropped() >= 100);
  CHECK(screen.count("steps.0.jsonl is gone") == 1);
}

TEST_CASE("a failing gauge is told once and the records are still written") {
  const TemporaryDirectory dir;
  Screen screen;
  const WorkerTotals totals;
  std::atomic<bool> fail{false};
  const auto gauges = [&]() -> Gauges {
    if (fail) throw std::runtime_error("gauge broke");
    return {};
  };
  Telemetry telemetry(setup_in(dir.path().string()), totals, gauges, screen.log);
  fail = true;
  for (std::uint64_t i = 0; i < 10; ++i) telemetry.record(numbered(i));
  telemetry.close();
  CHECK(screen.count("gauge broke") == 1);
  CHECK(read_lines(dir / "steps.0.jsonl").size() == 10);
}

TEST_CASE("without memory to report with, the run continues") {
  const TemporaryDirectory dir;
  Screen screen;
  const WorkerTotals totals;
  std::atomic<bool> fail{false};
  std::atomic<bool> has_failed{false};
  const auto gauges = [&]() -> Gauges {
    if (!fail) return {};
    forebay::testing::end_allocations();  // on telemetry's thread
    has_failed = true;
    throw std::bad_alloc();
  };
  Telemetry telemetry(setup_in(dir.path().string()), totals, gauges, screen.log);
  fail = true;
  for (std::uint64_t i = 0; i < 10; ++i) telemetry.record(numbered(i));
  CHECK(forebay::testing::eventually([&] { return has_failed.load(); }));
  constexpr std::uint64_t kAll = 5000;  // more than the buffers hold
  for (std::uint64_t i = 10; i < kAll; ++i) telemetry.record(numbered(i));
  telemetry.close();
  CHECK(has_failed);
  // Records for which there was no memory are counted, and nothing is written twice.
  const std::vector<json> lines = read_lines(dir / "steps.0.jsonl");
  CHECK(lines.size() + telemetry.dropped() == kAll);
  for (std::size_t i = 1; i < lines.size(); ++i) CHECK(lines[i].at("step") > lines[i - 1].at("step"));
}

}  // namespace forebay::test_telemetry
