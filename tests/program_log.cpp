// What a program gets from the feeder besides batches: lines for its logger, warnings at the start,
// and no files.
#include <forebay/feeder.hpp>
#include <nlohmann/json.hpp>

#include "fake_job.hpp"
#include "job/start_checks.hpp"
#include "measure/quarantine_log.hpp"
#include "measure/run_files.hpp"
#include "measure/telemetry.hpp"
#include "memory_dataset.hpp"
#include "screen.hpp"
#include "test.hpp"

namespace forebay::test_program_log {

using namespace forebay::job;
using namespace forebay::measure;
using namespace forebay::produce;
using namespace forebay::read;

namespace {

using namespace testing;
using nlohmann::json;
using Lines = std::vector<std::pair<LogLevel, std::string>>;

// A logger that stores lines, which arrive one at a time on any thread.
Logger into(const std::shared_ptr<Lines>& lines) {
  return [lines](LogLevel level, std::string_view text) { lines->emplace_back(level, text); };
}

bool has(const Lines& lines, LogLevel level, std::string_view part) {
  return std::ranges::any_of(lines,
                             [&](const auto& line) { return line.first == level && contains(line.second, part); });
}

TEST_CASE("a program's logger gets the lines as they are, with their level, and the console none") {
  const auto lines = std::make_shared<Lines>();
  const std::unique_ptr<std::FILE, testing::Screen::Close> file{std::tmpfile()};
  ConsoleLog log(3, Live::always, file.get(), into(lines));
  CHECK_FALSE(log.is_live());
  log.info("one");
  log.warn("two");
  log.error("three {} %v");
  CHECK(*lines == Lines{{LogLevel::info, "one"}, {LogLevel::warning, "two"}, {LogLevel::error, "three {} %v"}});
  std::fflush(file.get());
  CHECK(std::ftell(file.get()) == 0);
}

TEST_CASE("a line that the program's logger throws at is still seen") {
  const std::unique_ptr<std::FILE, testing::Screen::Close> file{std::tmpfile()};
  ConsoleLog log(0, Live::never, file.get(), [](LogLevel, std::string_view) { throw std::runtime_error("no logger"); });
  log.warn("the store is slow");
  std::rewind(file.get());
  std::string text(64, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  CHECK(text == "[forebay] warning: the store is slow\n");
}

TEST_CASE("a feeder talks to the logger of its Parts, and writes no files unless it is told to") {
  const testing::TemporaryDirectory dir;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(dir.path());
  Options options = memory_options(4);
  options.telemetry = Options{}.telemetry;
  const auto lines = std::make_shared<Lines>();
  {
    Parts parts;
    parts.dataset = std::make_shared<MemoryDataset>(12, [](std::uint64_t id) {
      if (id == 5) throw SampleError("torn");
    });
    parts.log = into(lines);
    Feeder feeder(options, std::move(parts));
    while (feeder.next()) {
    }
  }
  CHECK(has(*lines, LogLevel::warning, "torn"));
  CHECK(std::filesystem::is_empty(dir.path()));
  std::filesystem::current_path(before);
}

TEST_CASE("mean and std for pixels from 0 to 1 are warned of, and what is meant is not") {
  struct Case {
    std::array<double, 3> mean;
    std::array<double, 3> std;
    DType dtype;
    bool warned;
  };
  for (const Case& one :
       std::vector<Case>{{{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}, DType::float32, true},
                         {{0.5, 0.5, 0.5}, {0.5, 0.5, 0.5}, DType::float16, true},
                         {{0, 0, 0}, {0.5, 0.5, 0.5}, DType::float32, true},
                         {{0.5, 0.5, 0.5}, {0.5, 0.5, 0.5}, DType::uint8, false},
                         {{0, 0, 0}, {1, 1, 1}, DType::float32, false},
                         {{0, 0, 0}, {255, 255, 255}, DType::float32, false},
                         {{123.675, 116.28, 103.53}, {58.395, 57.12, 57.375}, DType::float32, false}}) {
    Options options;
    options.transform.mean = one.mean;
    options.transform.std = one.std;
    options.transform.dtype = one.dtype;
    const auto warnings = start_warnings(options, {}, 1);
    CAPTURE(one.mean[0]);
    CHECK((warnings.size() == 1) == one.warned);
    if (one.warned) CHECK(contains(warnings.front(), "multiply both by 255"));
  }
}

TEST_CASE("far more threads than cores are warned of, each key by its name") {
  Options options;
  WorkerPlan plan;
  plan.cores = 4;
  options.workers.decode = 8;
  options.workers.io = 512;
  CHECK(start_warnings(options, plan, 1).empty());
  options.workers.decode = 9;
  options.workers.io = 513;
  const auto warnings = start_warnings(options, plan, 1);
  REQUIRE(warnings.size() == 2);
  CHECK(warnings[0].starts_with("workers.decode = 9, and this rank has 4 cores"));
  CHECK(warnings[1].starts_with("workers.io = 513, and this rank has 4 cores"));
  options.workers.decode = options.workers.io = 0;  // auto
  CHECK(start_warnings(options, plan, 1).empty());
}

TEST_CASE("sections that are set and change nothing are warned of, but not in evaluation") {
  Options options;
  CHECK(start_warnings(options, {}, 1).empty());
  TransformOptions& transform = options.transform;
  transform.colour.hue = 0.5;
  transform.blur.sigma = {0.1, 3};
  transform.solarise.threshold = 100;
  transform.erase.probability = 1;
  transform.mixup.alpha = 0.5;
  transform.cutmix.probability = 0.5;
  options.dataset.batch_size = 1;
  const auto warnings = start_warnings(options, {}, 1);
  REQUIRE(warnings.size() == 6);
  constexpr auto kSections = std::to_array<const char*>({"[colour]", "[blur]", "[solarise]", "[erase]"});
  for (std::size_t i = 0; i < kSections.size(); ++i)
    CHECK(warnings[i].starts_with(std::string(kSections[i]) + " is set and not applied, because transform.operations"));
  CHECK(warnings[4].starts_with("[mixup] is set and mixes nothing, because mixup.probability = 0: set it"));
  CHECK(warnings[5].starts_with("cutmix.probability: mixes nothing"));
  options.run.eval = true;
  CHECK(start_warnings(options, {}, 1).empty());
  options.run.eval = false;
  transform.operations = {"colour", "blur", "solarise", "erase"};
  transform.mixup.probability = 0.5;
  options.dataset.batch_size = 2;
  CHECK(start_warnings(options, {}, 1).empty());
  options.storage = {.jitter = 1, .slow_rate = 0.1, .burst_mb = 3, .outage_s = 1};
  CHECK(contains(start_warnings(options, {}, 1).at(3), "storage.outage_s changes nothing, because storage.outage_e"));
}

TEST_CASE("shards that make lockstep's epochs longer than they have to be are warned of") {
  Options options;
  const auto warnings = [&](std::uint32_t ranks) { return start_warnings(options, {}, ranks); };
  CHECK(warnings(1000).empty());  // local mode hands over uneven shares
  options.mpi.mode = MpiMode::lockstep;
  for (const std::uint32_t ranks : {1U, 4U, 48U, 100U, 512U, 1024U}) CHECK(warnings(ranks).empty());
  REQUIRE(warnings(1000).size() == 1);
  CHECK(warnings(1000).front().starts_with(
      "mpi.virtual_shards = 1024 gives some of the 1000 ranks 2 shards and others 1, so an epoch takes 95 % more"));
  options.mpi.virtual_shards = 8000;
  CHECK(warnings(1000).empty());
}

// A rank that loses its network before it closes.
struct CutOff final : testing::FakeJob::SameRank {
  explicit CutOff(Communicator& named, bool* has_hook) : SameRank(named), has_hook_(has_hook) {}
  [[nodiscard]] std::unique_ptr<Communicator> duplicate() const override {
    return std::make_unique<CutOff>(rank_, has_hook_);
  }
  void while_waiting(std::function<void()> hook) override { *has_hook_ = static_cast<bool>(hook); }
  bool close(double /*timeout_s*/) override { throw Error("the network is gone"); }

  bool* has_hook_;
};

TEST_CASE("a communicator that fails at the end leaves nothing unfinished, and a destructor says so") {
  const testing::TemporaryDirectory dir;
  const std::filesystem::path file = dir.path() / "feed.state";
  const auto alone = solo_communicator();
  bool has_hook = false;
  const CutOff ranks(*alone, &has_hook);
  const auto lines = std::make_shared<Lines>();
  const auto parts = [&] {
    Parts made;
    made.dataset = std::make_shared<MemoryDataset>(12);
    made.log = into(lines);
    return made;
  };
  {
    Feeder feeder(memory_options(4), ranks, parts());
    CHECK(feeder.next());
    feeder.save(file.string());
    CHECK_THROWS_WITH_AS(feeder.close(), "the network is gone", Error);
    CHECK_FALSE(has_hook);
    CHECK(std::filesystem::exists(file));
    feeder.close();
  }
  CHECK_FALSE(has(*lines, LogLevel::error, "network"));
  {
    Feeder feeder(memory_options(4), ranks, parts());
    CHECK(feeder.next());
  }
  CHECK(has(*lines, LogLevel::error, "closing the feeder failed: the network is gone"));
  CHECK_FALSE(has_hook);
}

TEST_CASE("console lines name their rank and whether they are warnings") {
  Screen screen(Live::never, 2);
  screen.log.info("one");
  screen.log.warn("two");
  screen.log.error("three {} %v");
  screen.log.status("never shown");
  CHECK(screen.text() == "[forebay rank 2] one\n[forebay rank 2] warning: two\n[forebay rank 2] error: three {} %v\n");
}

TEST_CASE("lines of many threads stay whole beside a status line") {
  Screen screen(Live::always);
  std::vector<std::jthread> threads;
  threads.reserve(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        screen.log.info("abcdefghij");
        screen.log.status("klmnopqrst");
      }
    });
  }
  threads.clear();
  screen.log.end_status();
  CHECK(screen.count("[forebay] abcdefghij\n") == 800);
}

TEST_CASE("a full disk is told once, its lines are counted, and nothing is thrown") {
  Screen screen;
  JsonLinesFile file("/dev/full", screen.log);
  for (int i = 0; i < 3; ++i) {
    file.write("{\"a\":1}\n{\"a\":2}\n", 2);
    file.sync();
  }
  CHECK(file.lost() == 6);
  CHECK(screen.count("No space left on device") == 1);
}

TEST_CASE("a file of lines that a program empties has no hole, and one that it renames is told of") {
  Screen screen;
  const TemporaryDirectory dir;
  const std::filesystem::path path = dir / "steps.0.jsonl";
  JsonLinesFile file(path, screen.log);
  const auto write = [&] {
    file.write("{}\n", 1);
    file.sync();
  };
  write();
  std::filesystem::resize_file(path, 0);
  write();
  CHECK(testing::read_text(path) == "{}\n");
  CHECK(file.lost() == 0);
  std::filesystem::rename(path, dir / "steps.0.jsonl.1");
  std::ofstream(path).close();
  write();
  CHECK(file.lost() == 1);
  CHECK(screen.count("another file has its name") == 1);
}

TEST_CASE("clearing a run directory removes an earlier run's files and nothing else") {
  const TemporaryDirectory dir;
  const auto touch = [&](const char* name) { std::ofstream(dir / name) << "old\n"; };
  for (const char* name :
       {"steps.0.jsonl", "steps.1.jsonl", "intervals.5.jsonl", "quarantine.2.jsonl", "steps.x.jsonl", "steps.7.json",
        "other.3.jsonl", "steps.4.jsonl.bak", "decisions.0.from-17.jsonl", "decisions.1.from-17.jsonl",
        "decisions.1.jsonl", "steps.0.earlier.jsonl", "intervals.5.earlier.jsonl"}) {
    touch(name);
  }
  clear_run_directory(dir.path().string(), 0, 2);
  CHECK_FALSE(std::filesystem::exists(dir / "steps.0.jsonl"));
  CHECK(std::filesystem::exists(dir / "steps.1.jsonl"));  // rank 1 removes its own
  CHECK_FALSE(std::filesystem::exists(dir / "intervals.5.jsonl"));
  CHECK_FALSE(std::filesystem::exists(dir / "steps.0.earlier.jsonl"));
  CHECK_FALSE(std::filesystem::exists(dir / "intervals.5.earlier.jsonl"));
  CHECK_FALSE(std::filesystem::exists(dir / "quarantine.2.jsonl"));
  for (const char* name : {"steps.x.jsonl", "steps.7.json", "other.3.jsonl", "steps.4.jsonl.bak"}) {
    CHECK_MESSAGE(std::filesystem::exists(dir / name), name);
  }
  CHECK_FALSE(std::filesystem::exists(dir / "decisions.0.from-17.jsonl"));
  CHECK_FALSE(std::filesystem::exists(dir / "decisions.1.from-17.jsonl"));
  CHECK(std::filesystem::exists(dir / "decisions.1.jsonl"));
  touch("steps.0.jsonl");
  touch("steps.9.jsonl");
  clear_run_directory(dir.path().string(), 1, 2);
  CHECK_FALSE(std::filesystem::exists(dir / "steps.1.jsonl"));
  CHECK_FALSE(std::filesystem::exists(dir / "decisions.1.jsonl"));
  CHECK(std::filesystem::exists(dir / "steps.0.jsonl"));
  CHECK(std::filesystem::exists(dir / "steps.9.jsonl"));  // rank 0 removes it
  clear_run_directory("", 0, 1);
  make_run_directory("");
}

TEST_CASE("the quarantine log holds every bad sample, whatever its name is made of") {
  const TemporaryDirectory dir;
  Screen screen;
  std::ofstream(dir / "quarantine.1.jsonl") << "old\n";
  QuarantineLog log(dir.path().string(), 1, screen.log);
  log.add({.path = "list.txt", .reason = "malformed XML"});
  log.add({.sample = 12,
           .path = "bad\xff name\x1b[2J \xc3\xa9.jpg",
           .reason = "truncated \xc0\xaf",
           .epoch = 1,
           .position = 99,
           .attempt = 2,
           .replacement = 44});
  for (std::uint64_t i = 0; i < 20; ++i) log.add({.sample = i, .path = "p", .reason = "r"});

  CHECK(log.count() == 22);
  CHECK(std::filesystem::file_size(dir / "quarantine.1.jsonl") == 4);  // the folder must not be touched yet
  clear_run_directory(dir.path().string(), 1, 2);
  log.begin();
  const std::vector<json> lines = read_lines(dir / "quarantine.1.jsonl");
  REQUIRE(lines.size() == 22);
  CHECK(lines[0].at("path") == "list.txt");
  for (const char* key : {"sample", "epoch", "position", "attempt", "replacement"}) CHECK(lines[0].at(key).is_null());
  CHECK(lines[1].at("sample") == 12);
  CHECK(lines[1].at("path") == "bad\\xff name\x1b[2J \xc3\xa9.jpg");
  CHECK(lines[1].at("reason") == "truncated \\xc0\\xaf");
  CHECK(lines[1].at("epoch") == 1);
  CHECK(lines[1].at("position") == 99);
  CHECK(lines[1].at("attempt") == 2);
  CHECK(lines[1].at("replacement") == 44);
  const auto time = lines[1].at("time").get<std::string>();
  CHECK(time.size() == std::string_view("2026-01-31T12:34:56.789Z").size());
  CHECK(time.back() == 'Z');
  CHECK(screen.count("warning: bad sample") == QuarantineLog::kWarnings);
  CHECK(screen.count("quarantine.1.jsonl only") == 1);
  CHECK(screen.count("\x1b") == 0);
}

TEST_CASE("the quarantine log counts from many threads, on a disk or on none") {
  const TemporaryDirectory dir;
  for (const std::string& where : {dir.path().string(), std::string()}) {
    Screen screen;
    QuarantineLog log(where, 0, screen.log);
    std::vector<std::jthread> threads;
    threads.reserve(4);
    for (std::uint64_t t = 0; t < 4; ++t) {
      threads.emplace_back([&log, t] {
        for (std::uint64_t i = 0; i < 50; ++i) log.add({.sample = t * 50 + i, .path = "p", .reason = "r"});
      });
    }
    log.begin();
    threads.clear();
    CHECK(log.count() == 200);
  }
  CHECK(read_lines(dir / "quarantine.0.jsonl").size() == 200);
}

TEST_CASE("a quarantine log that cannot be written counts on and says so once") {
  const TemporaryDirectory dir;
  std::ofstream(dir / "file") << "x";
  Screen screen;
  QuarantineLog log((dir / "file").string(), 0, screen.log);
  log.begin();
  for (std::uint64_t i = 0; i < 10; ++i) log.add({.sample = i, .path = "p", .reason = "r"});
  CHECK(log.count() == 10);
  CHECK(screen.count("the quarantine log is incomplete") == 1);
}

TEST_CASE("a directory that cannot be made names telemetry.dir") {
  const TemporaryDirectory dir;
  std::ofstream(dir / "file") << "x";
  Screen screen;
  const WorkerTotals totals;
  const std::string below = (dir / "file").string() + "/run";
  TelemetrySetup setup;
  setup.options.dir = below;
  CHECK_THROWS_WITH_AS(make_run_directory(below), doctest::Contains("telemetry.dir"), ConfigError);
  CHECK_THROWS_WITH_AS(make_run_directory((dir / "file").string()), doctest::Contains("telemetry.dir"), ConfigError);
  CHECK_THROWS_WITH_AS(Telemetry(
                           setup, totals, [] { return Gauges{}; }, screen.log),
                       doctest::Contains("telemetry.dir"), ConfigError);
}

}  // namespace
}  // namespace forebay::test_program_log
