#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <forebay/error.hpp>
#include <nlohmann/json.hpp>

#include "measure/quarantine_log.hpp"
#include "measure/run_files.hpp"
#include "measure/telemetry.hpp"
#include "screen.hpp"
#include "support.hpp"

namespace {

using namespace forebay;
using forebay::testing::read_lines;
using forebay::testing::Screen;
using forebay::testing::TemporaryDirectory;
using nlohmann::json;

}  // namespace

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
  CHECK(std::filesystem::exists(dir / "steps.1.jsonl"));  // rank 1 does that itself
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
  CHECK(std::filesystem::exists(dir / "steps.9.jsonl"));  // rank 0 does that
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
  CHECK(std::filesystem::file_size(dir / "quarantine.1.jsonl") == 4);  // the folder is not to be touched yet
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
