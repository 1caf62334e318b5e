// Telemetry limited to telemetry.max_bytes: writing it and reading it back.
#include <sys/resource.h>
#include <csignal>
#include <nlohmann/json.hpp>

#include "allocation_counter.hpp"
#include "base/file_io.hpp"
#include "measure/bounded_lines.hpp"
#include "measure/counters.hpp"
#include "measure/figures.hpp"
#include "measure/run_files.hpp"
#include "measure/run_log.hpp"
#include "report/page.hpp"
#include "report/run_data.hpp"
#include "screen.hpp"
#include "test.hpp"

namespace forebay::test_telemetry_bound {
namespace {

using namespace forebay::measure;
using namespace forebay::report;
using namespace forebay::testing;
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

// While it exists, no file can grow beyond this size: a write takes what fits, and the next one
// fails.
class LargestFile {
 public:
  explicit LargestFile(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &before_) == 0);
    const rlimit limit{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
  }
  ~LargestFile() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    (void)std::signal(SIGXFSZ, handler_);
  }
  LargestFile(const LargestFile&) = delete;
  LargestFile& operator=(const LargestFile&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int);
};

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
    write(file, 1000);  // enough for several files at once
  }
  // As if killed after the renaming: the resumed run finds only the earlier file.
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

TEST_CASE("a file that cannot be begun anew is written on, and begun when that is possible") {
  if (forebay::testing::kSanitized) {
    MESSAGE("skipped: UBSan opens a pipe to look at an object's type");
    return;
  }
  const TemporaryDirectory dir;
  Screen screen;
  JsonLinesFile file(dir / "steps.0.jsonl", screen.log, JsonLinesFile::Mode::truncate, 100);
  const auto write = [&](int count) {
    for (int i = 0; i < count; ++i) file.write("{\"a\":1}\n", 1);
    file.sync();
  };
  write(5);
  {
    const NoMoreFiles none;
    write(3);
  }
  CHECK(read_lines(dir / "steps.0.jsonl").size() == 8);
  CHECK_FALSE(std::filesystem::exists(dir / "steps.0.earlier.jsonl"));
  CHECK(screen.count("Too many open files; the file of before is written to") == 1);
  write(1);
  CHECK(file.has_rotated());
  CHECK(read_lines(dir / "steps.0.earlier.jsonl").size() == 8);
  CHECK(read_lines(dir / "steps.0.jsonl").size() == 1);
  CHECK(file.lost() == 0);
}

TEST_CASE("where nothing more fits on the disk around a renaming, what is lost is counted, and the rest is whole") {
  const TemporaryDirectory dir;
  Screen screen;
  JsonLinesFile file(dir / "steps.0.jsonl", screen.log, JsonLinesFile::Mode::truncate, 400);
  std::uint64_t next = 100;
  const auto write = [&](std::uint64_t until) {
    while (next < until) {
      file.write("{\"n\":" + std::to_string(next++) + "}\n", 1);
      file.sync();
    }
  };
  write(130);  // the file has been renamed, and the new one has lines
  REQUIRE(file.has_rotated());
  {
    const LargestFile full(std::filesystem::file_size(dir / "steps.0.jsonl") + 15);
    write(140);
  }
  const std::uint64_t lost = file.lost();
  CHECK(lost > 0);
  write(157);  // and is renamed again
  CHECK(file.lost() == lost);
  CHECK(screen.count("cannot write") == 1);
  std::set<std::uint64_t> kept;
  int cut = 0;
  for (const char* name : {"steps.0.earlier.jsonl", "steps.0.jsonl"}) {
    std::ifstream in(dir / name);
    for (std::string line; std::getline(in, line);) {
      const json parsed = json::parse(line, nullptr, false);
      parsed.is_discarded() ? void(++cut) : void(kept.insert(parsed.at("n").get<std::uint64_t>()));
    }
  }
  CHECK(cut == 1);
  CHECK(*kept.rbegin() == 156);
  CHECK(157 - *kept.begin() - kept.size() == lost);
}

TEST_CASE("where memory runs out too, each line is there once or counted as lost") {
  for (const bool is_full : {true, false}) {
    for (std::size_t allowed = 0, refusals = 1; refusals > 0; ++allowed) {
      REQUIRE(allowed < 100);
      const TemporaryDirectory dir;
      Screen screen;
      const std::filesystem::path path = dir / "steps.0.jsonl";
      if (!is_full) std::filesystem::create_directory(dir / "steps.0.earlier.jsonl");  // cannot be renamed
      JsonLinesFile file(path, screen.log, JsonLinesFile::Mode::truncate, is_full ? 0 : 100);
      int next = 10;
      const auto write = [&](int count) {
        for (int i = 0; i < count; ++i) file.write("{\"n\":" + std::to_string(next++) + "}\n", 1);
        file.sync();
      };
      write(9);
      {
        std::optional<LargestFile> full;
        if (is_full) full.emplace(std::filesystem::file_size(path) + 4);
        const RefusedAllocation refused(allowed);
        for (int i = 0; i < 9; ++i) file.write("{\"n\":19}\n", 1);
        file.sync();
        refusals = refused.has_come() ? 1 : 0;
      }
      next = 28;
      write(1);
      std::multiset<int> kept;
      std::ifstream in(path);
      for (std::string line; std::getline(in, line);) {
        const json parsed = json::parse(line, nullptr, false);
        if (!parsed.is_discarded()) kept.insert(parsed.at("n").get<int>());
      }
      CAPTURE(allowed);
      CHECK(kept.size() <= 19);
      CHECK(kept.size() + file.lost() >= 19);
      CHECK(kept.count(19) <= 9);
      CHECK(kept.count(10) == 1);
    }
  }
}

TEST_CASE("what is read of ranks that go on has no gap, though their files make way for new ones meanwhile") {
  constexpr std::uint64_t kSteps = 6000;
  const TemporaryDirectory dir;
  Screen screen;
  std::atomic<int> writing{2};
  std::vector<std::jthread> writers;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    JsonLinesFile(rank_file(dir.path(), "steps", rank), screen.log).write(step_lines(0, 1), 1);
    writers.emplace_back([&, rank] {
      JsonLinesFile file(rank_file(dir.path(), "steps", rank), screen.log, JsonLinesFile::Mode::append, 20'000);
      for (std::uint64_t step = 1; step < kSteps; ++step) {
        file.write(step_lines(step, 1), 1);
        if (step % 7 == 0) file.sync();
      }
      CHECK(file.has_rotated());
      file.sync();
      CHECK(file.lost() == 0);
      --writing;
    });
  }
  std::uint64_t last = 0;
  for (bool is_over = false; !is_over;) {
    is_over = writing == 0;
    const RunData run = read_run(dir.path(), {}, {});
    REQUIRE(run.ranks.size() == 2);
    for (const RankData& rank : run.ranks) {
      REQUIRE(rank.first_step);
      CHECK(rank.bins.total().steps == doctest::Approx(static_cast<double>(rank.last_step + 1 - *rank.first_step)));
    }
    CHECK(run.ranks[0].last_step >= last);
    last = run.ranks[0].last_step;
  }
  CHECK(last == kSteps - 1);
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

TEST_CASE("files that are renamed while they are opened are opened again") {
  const TemporaryDirectory dir;
  const std::filesystem::path file = dir / "steps.0.jsonl";
  const auto rotate = [&] {
    std::filesystem::rename(file, earlier_file(file));
    std::ofstream(file) << "later\n";
  };
  const auto first_line = [](std::optional<LineFile>& lines) {
    std::string line;
    return lines && lines->next(line) ? line : "";
  };
  int calls = 0;
  const auto open_while = [&](auto&& meanwhile) {
    calls = 0;
    std::ofstream(file) << "earlier\n";
    std::filesystem::remove(earlier_file(file));
    return open_bounded<LineFile>(file, [&](const std::filesystem::path& path) { return meanwhile(path, ++calls); });
  };
  auto gone = open_while([&](const std::filesystem::path& path, int call) {
    if (call > 1) return LineFile(path, 100);
    rotate();
    throw Error("there is no such file any more");
  });
  CHECK(first_line(gone.earlier) == "earlier");
  CHECK(first_line(gone.latest) == "later");
  auto renamed = open_while([&](const std::filesystem::path& path, int call) {
    LineFile lines(path, 100);
    if (call == 1) rotate();
    return lines;
  });
  CHECK_FALSE(renamed.earlier);
  CHECK(first_line(renamed.latest) == "earlier");
  CHECK_THROWS_WITH_AS(open_while([](const auto&, int) -> LineFile { throw Error("not permitted"); }), "not permitted",
                       Error);
  CHECK(calls > 1);
}

TEST_CASE("names of a run's files, and others") {
  CHECK(rank_file_name("steps.0.earlier.jsonl")->is_earlier);
  CHECK(rank_file_name("intervals.10.jsonl")->rank == 10);
  CHECK(rank_file_name("decisions.3.from-20.jsonl")->goes_on);
  for (const char* other :
       {"steps.jsonl", "steps.x.jsonl", "steps.07.jsonl", "steps.1.jsonl.old", "steps.1.later.jsonl"}) {
    CAPTURE(other);
    CHECK_FALSE(rank_file_name(other));
  }
}

TEST_CASE("a line that was cut when it was read stays the last, though its writer goes on") {
  const TemporaryDirectory dir;
  std::ofstream out(dir / "lines");
  out << "whole\ncu" << std::flush;
  LineFile lines(dir / "lines", 100);
  std::string line;
  REQUIRE(lines.next(line));
  REQUIRE(lines.next(line));
  CHECK(line == "cu");
  CHECK(lines.is_cut());
  out << "t\nnext\n" << std::flush;
  CHECK_FALSE(lines.next(line));
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
  const std::string page = report_page({run}, "now");
  CHECK(contains(page, "before step 500 of rank 0 are no longer there"));
  CHECK(contains(page, " % (of what is shown)</dd>"));
}

}  // namespace forebay::test_telemetry_bound
