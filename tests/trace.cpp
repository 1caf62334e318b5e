// Reads a run's telemetry back as a source for the simulator.
#include <sys/stat.h>

#include "simulate/trace.hpp"
#include "test.hpp"

namespace forebay::test_trace {

using namespace forebay::simulate;

namespace {

namespace fs = std::filesystem;
using testing::TemporaryDirectory;

struct Step {
  int step = 0;
  int batch = 0;
  int use_index = 0;
  int depth = 0;
  int produced = 0;
  double t_s = 0;
  double wait_s = 0;
  double step_s = 0;
  double blocked_s = 0;
};

std::string text_of(const Step& step) {
  const auto key = [](const char* name, auto value) { return std::string(name) + std::to_string(value); };
  return key(R"({"step":)", step.step) + key(R"(,"t_s":)", step.t_s) + key(R"(,"epoch":0,"batch":)", step.batch) +
         key(R"(,"use_index":)", step.use_index) + R"(,"decision":"fresh")" + key(R"(,"depth":)", step.depth) +
         key(R"(,"wait_s":)", step.wait_s) + key(R"(,"step_s":)", step.step_s) + key(R"(,"produced":)", step.produced) +
         key(R"(,"blocked_producer_s":)", step.blocked_s) + "}";
}

// Steps of 10 ms and a batch every 30 ms, which is used until the next one arrives. The first step
// waited 0.5 s.
std::vector<Step> steady(int steps) {
  std::vector<Step> lines;
  for (int i = 0; i < steps; ++i) {
    lines.push_back({.step = i,
                     .batch = i / 3,
                     .use_index = i % 3,
                     .depth = i % 3 == 0 ? 1 : 0,
                     .produced = 1 + i / 3,
                     .t_s = 0.01 * i,
                     .wait_s = i == 0 ? 0.5 : 0,
                     .step_s = i == 0 ? 0 : 0.01});
  }
  return lines;
}

void write(const fs::path& file, const std::vector<Step>& lines, const std::string& more = "") {
  std::ofstream out(file, std::ios::binary);
  for (const Step& line : lines) out << text_of(line) << "\n";
  out << more;
}

Trace trace_of(const std::vector<Step>& lines, const std::string& more = "") {
  const TemporaryDirectory dir;
  write(dir / "steps.0.jsonl", lines, more);
  const std::vector<Trace> traces = read_traces(dir.path());
  REQUIRE(traces.size() == 1);
  return traces.front();
}

double total(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

TEST_CASE("rates, and what was served") {
  const Trace trace = trace_of(steady(300));
  CHECK(trace.steps == 300);
  CHECK(trace.fresh == 100);
  CHECK(trace.uses_p99 == 3);
  CHECK(trace.uses_max == 3);
  CHECK(trace.most_depth == 1);
  CHECK(trace.stall_s == 0);  // the wait for the first batch does not count
  CHECK(trace.wall_s == doctest::Approx(2.99));
  CHECK(trace.mean_step_s == doctest::Approx(0.01));
  CHECK(trace.mean_work_s == doctest::Approx(0.03));
  CHECK(trace.source->kind == SourceKind::trace);
  REQUIRE(trace.source->work.size() == 100);
  CHECK(trace.source->work[0] == 0);                       // ready before the first step
  CHECK(trace.source->work[1] == doctest::Approx(0.025));  // between the steps at 0.02 and 0.03
  CHECK(trace.source->work[50] == doctest::Approx(0.030));
}

TEST_CASE("batches that came between the same two steps are spread evenly; a blocked producer's clock stops") {
  std::vector<Step> lines = steady(2);
  lines.push_back({.step = 2, .produced = 5, .t_s = 0.05, .step_s = 0.04});
  lines.push_back({.step = 3, .produced = 5, .t_s = 1.05, .step_s = 1, .blocked_s = 0.96});
  lines.push_back({.step = 4, .produced = 6, .t_s = 2.05, .step_s = 1, .blocked_s = 1.94});
  const std::vector<double> work = trace_of(lines).source->work;
  REQUIRE(work.size() == 6);
  CHECK(work[0] == 0);
  CHECK(work[1] == doctest::Approx(0.015));  // 0.01 s plus half of a quarter of 0.04 s
  for (int i = 2; i < 5; ++i) CHECK(work[i] == doctest::Approx(0.01));
  CHECK(work[5] == doctest::Approx(0.005 + 0.04 + 0.01));
}

TEST_CASE("what next() takes with a batch ready is part of the step; a wait for a batch is not") {
  std::vector<Step> lines = steady(4);
  lines[1].depth = 1;
  lines[1].wait_s = 0.002;
  lines[2].wait_s = 0.5;
  const Trace trace = trace_of(lines);
  REQUIRE(trace.step_s.size() == 3);
  CHECK(trace.step_s[0] == doctest::Approx(0.012));
  CHECK(trace.step_s[1] == doctest::Approx(0.010));
  CHECK(trace.stall_s == doctest::Approx(0.502));
}

TEST_CASE("a truncated last line is ignored, wherever it was cut") {
  const std::vector<Step> lines = steady(30);
  const std::string next = text_of({.step = 30, .batch = 10, .produced = 11, .t_s = 0.3, .step_s = 0.01});
  for (std::size_t length = 0; length < next.size(); ++length) {
    CAPTURE(length);
    CHECK(trace_of(lines, next.substr(0, length)).steps == 30);
  }
  CHECK(trace_of(lines, next).steps == 31);
}

TEST_CASE("lines that telemetry dropped do not change the rates") {
  std::vector<Step> lines;
  for (const Step& line : steady(3000)) {
    if (line.step % 100 < 60 || line.step == 2999) lines.push_back(line);
  }
  const Trace trace = trace_of(lines);
  CHECK(trace.mean_work_s == doctest::Approx(0.03).epsilon(0.01));
  CHECK(trace.mean_step_s == doctest::Approx(0.01));
  CHECK(total(trace.source->work) == doctest::Approx(30).epsilon(0.01));
  CHECK(trace.source->work.size() == 1000);
}

TEST_CASE("of a resumed run, only the steps after the last resume count") {
  // Batches every 30 ms at first and every 50 ms after the resume, which restarts clock and counts.
  const auto resumed = [](int from, int produced) {
    std::vector<Step> lines;
    for (int i = 0; i < 200; ++i) {
      lines.push_back({.step = from + i,
                       .batch = (from + i) / 5,
                       .use_index = i % 5,
                       .depth = i % 5 == 0 ? 1 : 0,
                       .produced = produced + i / 5,
                       .t_s = 0.01 * i,
                       .step_s = i == 0 ? 0 : 0.01});
    }
    return lines;
  };
  const Trace alone = trace_of(resumed(300, 1));
  CHECK(alone.mean_work_s == doctest::Approx(0.05));
  for (const int produced : {1, 40, 150}) {  // fewer than before; about as many; more, if it was killed early
    CAPTURE(produced);
    std::vector<Step> lines = steady(300);
    const std::vector<Step> second = resumed(300, produced);
    lines.insert(lines.end(), second.begin(), second.end());
    const Trace trace = trace_of(lines);
    CHECK(trace.steps == 200);
    CHECK(trace.wall_s == doctest::Approx(alone.wall_s));
    CHECK(trace.mean_work_s == doctest::Approx(0.05));
    CHECK(trace.fresh == alone.fresh);
    CHECK(trace.source->work.size() == 39U + static_cast<unsigned>(produced));
    lines.push_back({.step = 400, .produced = produced + 40, .t_s = 5});
    CHECK_THROWS_WITH_AS((void)trace_of(lines), doctest::Contains("steps go backwards"), Error);
  }
}

TEST_CASE("a run whose first steps made way for later ones is a trace from there on") {
  const Trace whole = trace_of(steady(300));
  for (const int before : {3'000, 3'000'000}) {
    std::vector<Step> lines = steady(300);
    for (Step& line : lines) {
      line.step += 2 * before;
      line.produced += before;
      line.t_s += 50'000;
    }
    const Trace late = trace_of(lines);
    CHECK(late.mean_work_s == doctest::Approx(whole.mean_work_s));
    CHECK(late.source->work.size() == whole.source->work.size());
  }
}

TEST_CASE("counts that rise and fall from line to line take no memory") {
  std::vector<Step> lines;
  for (int i = 0; i < 2'000; ++i) lines.push_back({.step = i, .produced = i % 2 == 0 ? 0 : 1 << 20, .t_s = 0.01 * i});
  lines.push_back({.step = 2'000, .produced = 1, .t_s = 20});
  lines.push_back({.step = 2'001, .produced = 2, .t_s = 20.01, .step_s = 0.01});
  CHECK(trace_of(lines).source->work.size() == 2);
}

TEST_CASE("a folder is read rank by rank, and nothing else in it; one file is one rank") {
  const TemporaryDirectory dir;
  for (const int rank : {10, 2, 0}) write(dir / ("steps." + std::to_string(rank) + ".jsonl"), steady(30 + rank));
  for (const char* other : {"steps.jsonl", "steps.1.jsonl.old", "steps.x.jsonl", "intervals.0.jsonl"}) {
    std::ofstream(dir / other) << "no steps\n";
  }
  const std::vector<Trace> traces = read_traces(dir.path());
  REQUIRE(traces.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(traces[i].rank == std::vector<std::uint64_t>{0, 2, 10}[i]);
    CHECK(traces[i].steps == 30 + traces[i].rank);
  }
  fs::rename(dir / "steps.2.jsonl", dir / "kept");
  CHECK(read_traces(dir / "steps.10.jsonl").front().rank == 10);
  CHECK(read_traces(dir / "kept").front().steps == 32);
}

TEST_CASE("lines that made way for later ones are read before them") {
  const TemporaryDirectory dir;
  const std::vector<Step> lines = steady(300);
  const Trace whole = trace_of(lines);
  write(dir / "steps.4.earlier.jsonl", {lines.begin(), lines.begin() + 120}, text_of(lines[120]).substr(0, 30));
  write(dir / "steps.4.jsonl", {lines.begin() + 120, lines.end()});
  for (const fs::path& path : {dir.path(), dir / "steps.4.jsonl"}) {
    const std::vector<Trace> traces = read_traces(path);
    REQUIRE(traces.size() == 1);
    CHECK(traces[0].rank == 4);
    CHECK(traces[0].steps == 300);
    CHECK(traces[0].source->work == whole.source->work);
  }
  fs::remove(dir / "steps.4.jsonl");  // killed between the renaming and the new file
  CHECK(read_traces(dir.path())[0].steps == 120);
  CHECK(read_traces(dir / "steps.4.jsonl")[0].steps == 120);
}

TEST_CASE("anything but a trace is refused with its file, its line and what to do") {
  const TemporaryDirectory dir;
  const std::string line = text_of({}) + "\n";
  const std::string later = text_of({.step = 1, .produced = 1, .t_s = 1, .step_s = 1}) + "\n";
  struct Case {
    std::string name;
    std::string text;
    std::string message;
  };
  for (const Case& one : {
           Case{"empty", "", "has too little in it"},
           Case{"short", line, "has too little in it"},
           Case{"still", line + text_of({.step = 1, .t_s = 1, .step_s = 1}) + "\n", "has too little in it"},
           Case{"prose", "It was a dark night.", "prose:1: not a step"},
           Case{"prose_lines", "It was\na dark\nnight.\n", "prose_lines:1: not a step"},
           Case{"binary", std::string("\0\1\xff\xfe\n\0", 6), "binary:1: not a step"},
           Case{"array", "[]\n" + line, "array:1: not a step"},
           Case{"other_json", "{\"t_s\": 5, \"lambda\": 3}\n", "other_json:1: not a step"},
           Case{"wrong_type", "{\"step\": \"1\"}\n", "wrong_type:1: not a step"},
           Case{"torn_inside", line + later.substr(0, 30) + "\n" + later, "torn_inside:2: not a step"},
           Case{"torn_whole_line", line + later + later.substr(0, 30) + "\n", "torn_whole_line:3: not a step"},
           Case{"two_runs", line + later + line + later, "two_runs:3: steps go backwards: two runs in one file?"},
           Case{"twice", line + later + later, "twice:3: steps go backwards"},
           Case{"endless",
                line + text_of({.step = 1, .produced = 1, .t_s = 1e308, .step_s = 1, .blocked_s = -1e308}) + "\n",
                "which no run takes"},
       }) {
    CAPTURE(one.name);
    std::ofstream(dir / one.name, std::ios::binary) << one.text;
    CHECK_THROWS_WITH_AS((void)read_traces(dir / one.name), doctest::Contains(one.message.c_str()), Error);
  }
  CHECK_THROWS_WITH_AS((void)read_traces(dir / "none"), doctest::Contains("is it the steps.RANK.jsonl of a run?"),
                       Error);
  const std::string unusable(300, 'a');  // too long for a file name
  CHECK_THROWS_WITH_AS((void)read_traces(dir / unusable), doctest::Contains("aaa cannot be read: File name too long"),
                       Error);
  fs::create_directory(dir / "folder");
  CHECK_THROWS_WITH_AS((void)read_traces(dir / "folder"), doctest::Contains("telemetry.per_step = true"), Error);
  // The file of one rank of several.
  write(dir / "folder/steps.0.jsonl", steady(30));
  std::ofstream(dir / "folder/steps.1.jsonl");
  CHECK_THROWS_WITH_AS((void)read_traces(dir / "folder"), doctest::Contains("steps.1.jsonl has too little"), Error);
}

TEST_CASE("a trace that claims more than its size allows is refused with its line") {
  const TemporaryDirectory dir;
  const fs::path file = dir / "steps.0.jsonl";
  const auto refusal = [&](const std::string& more) {
    write(file, steady(3), more);
    return testing::error_of([&] { (void)read_traces(file); });
  };
  const auto step = [](const std::string& produced) {
    return R"({"step":3,"epoch":0,"batch":1,"use_index":0,"depth":1,"t_s":1,"wait_s":0,"step_s":1,)"
           R"("blocked_producer_s":0,"produced":)" +
           produced + "}\n";
  };
  const std::string place = file.string() + ":4: ";
  CHECK(refusal(step("1000000000000")).starts_with(place + "produced is 1000000000000, and a run of so few steps"));
  CHECK(refusal(step("-1")) ==
        place + "not a step of Forebay's telemetry: \"produced\" is no whole number from 0 to 18446744073709551615");
  CHECK(refusal(step("1e300")).starts_with(place + "not a step"));
  CHECK(refusal(step(std::string(100'000, '[') + std::string(100'000, ']'))).ends_with("telemetry: nested too deep"));
  CHECK(refusal(std::string(2'000'000, ' ') + step("4")) ==
        file.string() + " has a line of more than 1048576 bytes: line 4");
  REQUIRE(::mkfifo((dir / "fifo").c_str(), 0600) == 0);
  CHECK_THROWS_WITH_AS((void)read_traces(dir / "fifo"), doctest::Contains("fifo is a FIFO, not a regular file"), Error);
}

}  // namespace
}  // namespace forebay::test_trace
