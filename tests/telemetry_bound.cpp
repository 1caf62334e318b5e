// Telemetry that takes no more than telemetry.max_bytes: writing it, and reading it back.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "measure/counters.hpp"
#include "measure/figures.hpp"
#include "measure/run_files.hpp"
#include "measure/run_log.hpp"
#include "report/run_data.hpp"
#include "screen.hpp"
#include "support.hpp"

namespace {

using namespace forebay;
using forebay::testing::contains;
using forebay::testing::read_lines;
using forebay::testing::Screen;
using forebay::testing::TemporaryDirectory;
using nlohmann::json;

std::string step_lines(std::uint64_t first, std::uint64_t count) {
  std::string lines;
  for (std::uint64_t step = first; step < first + count; ++step) {
    StepRecord record;
    record.step = step;
    record.t_s = 0.1 * static_cast<double>(step);
    append_json(lines, record);
  }
  return lines;
}

double steps_of(const RunData& run) {
  double steps = 0;
  for (const Bin& bin : run.job) steps += bin.steps;
  return steps;
}

}  // namespace

TEST_CASE("a bounded file keeps the latest lines, whole and in order, within its bound") {
  const TemporaryDirectory dir;
  Screen screen;
  const std::filesystem::path path = dir / "steps.0.jsonl";
  const std::filesystem::path earlier = dir / "steps.0.earlier.jsonl";
  constexpr std::uint64_t kMost = 4000;
  std::uint64_t next = 0;
  const auto check = [&] {
    std::vector<json> lines = std::filesystem::exists(earlier) ? read_lines(earlier) : std::vector<json>{};
    for (json& line : read_lines(path)) lines.push_back(std::move(line));
    REQUIRE_FALSE(lines.empty());
    for (std::size_t i = 0; i < lines.size(); ++i) CHECK(lines[i].at("n") == next - lines.size() + i);
    const std::uint64_t before = std::filesystem::exists(earlier) ? std::filesystem::file_size(earlier) : 0;
    CHECK(before + std::filesystem::file_size(path) <= kMost);
    CHECK(before <= kMost / 2);
  };
  const auto write = [&](JsonLinesFile& file, int count) {
    std::string lines;
    for (int i = 0; i < count; ++i) lines += "{\"n\":" + std::to_string(next++) + "}\n";
    file.write(lines, static_cast<std::uint64_t>(count));
    file.sync();
    check();
  };
  {
    JsonLinesFile file(path, screen.log, JsonLinesFile::Mode::truncate, kMost);
    for (int i = 0; i < 100; ++i) write(file, 7);
    CHECK(file.has_rotated());
    write(file, 1000);  // several files' worth at once
  }
  // Killed after the renaming: the run that resumes finds the earlier file alone.
  std::filesystem::rename(path, earlier);
  JsonLinesFile file(path, screen.log, JsonLinesFile::Mode::append, kMost);
  CHECK_FALSE(file.has_rotated());
  for (int i = 0; i < 100; ++i) write(file, 3);
  CHECK(file.lost() == 0);
  CHECK(screen.text().empty());
}

TEST_CASE("a file that cannot be renamed grows up to its bound, and what is lost is told once and counted") {
  const TemporaryDirectory dir;
  Screen screen;
  std::filesystem::create_directory(dir / "steps.0.earlier.jsonl");
  JsonLinesFile file(dir / "steps.0.jsonl", screen.log, JsonLinesFile::Mode::truncate, 100);
  for (int i = 0; i < 20; ++i) {
    file.write("{\"a\":1}\n", 1);
    file.sync();
  }
  const std::size_t kept = read_lines(dir / "steps.0.jsonl").size();
  CHECK(kept == 12);
  CHECK(file.lost() == 20 - kept);
  CHECK(screen.count("cannot become steps.0.earlier.jsonl") == 1);
  std::filesystem::remove(dir / "steps.0.earlier.jsonl");
  file.write("{\"a\":2}\n", 1);
  file.sync();
  CHECK(file.has_rotated());
  CHECK(read_lines(dir / "steps.0.jsonl").size() == 1);
}

TEST_CASE("a link at the earlier file's name is replaced, not followed") {
  const TemporaryDirectory dir;
  Screen screen;
  std::ofstream(dir / "elsewhere") << "mine";
  std::filesystem::create_symlink(dir / "elsewhere", dir / "steps.1.earlier.jsonl");
  JsonLinesFile file(dir / "steps.1.jsonl", screen.log, JsonLinesFile::Mode::truncate, 60);
  for (int i = 0; i < 9; ++i) file.write("{\"a\":1}\n", 1);
  file.sync();
  CHECK(file.has_rotated());
  CHECK_FALSE(std::filesystem::is_symlink(dir / "steps.1.earlier.jsonl"));
  CHECK(std::filesystem::file_size(dir / "elsewhere") == 4);
}

TEST_CASE("a run whose first steps made way for later ones is read from the earlier file on") {
  const TemporaryDirectory dir;
  std::ofstream(dir / "run.0.jsonl") << head_line({.started = utc_now()});
  std::ofstream(dir / "steps.0.earlier.jsonl") << step_lines(500, 100);
  const auto read = [&] { return read_run(dir.path(), {}, {}); };
  CHECK(steps_of(read()) == doctest::Approx(100));  // killed between the renaming and the new file
  std::ofstream(dir / "steps.0.jsonl") << step_lines(600, 100);
  const RunData run = read();
  CHECK(steps_of(run) == doctest::Approx(200));
  CHECK(run.ranks[0].last_step == 699);
  CHECK(std::ranges::any_of(run.notes, [](const std::string& note) {
    return contains(note, "before step 500 of rank 0 are no longer there");
  }));
}
