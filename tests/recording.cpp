// The recording of decisions as a file: what is written reads back, and gaps are never skipped
// silently.
#include <sys/stat.h>
#include <nlohmann/json.hpp>

#include "measure/record_ring.hpp"
#include "measure/recording.hpp"
#include "measure/telemetry.hpp"
#include "measure/timeline_file.hpp"
#include "screen.hpp"
#include "test.hpp"

namespace forebay::test_recording {

using namespace forebay::measure;
using namespace forebay::read;

namespace {

namespace fs = std::filesystem;
using namespace testing;
using Json = nlohmann::json;

RecordingHeader header_of(std::uint32_t rank = 0, std::uint32_t ranks = 1) {
  return {.rank = rank,
          .ranks = ranks,
          .dataset = "00000000000000ab",
          .settings = {{"seed", "17"}, {"policy.pick", "\"least_used\""}},
          .policy = "greedy",
          .capacity = 16};
}

// Decisions as letters: F fresh, R reuse; lower case if padding was served.
RecordedStep step_of(char letter) {
  return {.fresh = letter == 'F' || letter == 'f', .padded = letter == 'f' || letter == 'r'};
}

std::string letters(const Recording& recording) {
  std::string out;
  DecisionRuns::Cursor fresh;
  DecisionRuns::Cursor padded;
  CHECK(recording.padded.size() == recording.fresh.size());
  for (std::uint64_t step = 0; step < recording.fresh.size(); ++step) {
    const bool is_padded = padded.is_set(recording.padded, step);
    out += fresh.is_set(recording.fresh, step) ? (is_padded ? 'f' : 'F') : (is_padded ? 'r' : 'R');
  }
  return out;
}

void add(DecisionLog& log, const std::string& decisions) {
  for (const char decision : decisions) log.add(step_of(decision));
}

std::string random_decisions(std::size_t steps, std::uint64_t seed) {
  Random random(seed);
  std::string out = "F";
  // Runs of very different lengths.
  while (out.size() < steps) out.append(1 + random.below(random.below(2) == 0 ? 3 : 200), "FRfr"[random.below(4)]);
  out.resize(steps);
  return out;
}

// The message with which the text is refused as a recording; "" if it is accepted.
std::string refusal(const std::string& text) {
  const TemporaryDirectory dir;
  std::ofstream(dir / "decisions.0.jsonl") << text;
  try {
    (void)read_recording(dir / "decisions.0.jsonl");
  } catch (const ConfigError& error) {
    CHECK(std::string(error.what()).starts_with("policy.recording: "));
    CHECK(std::string(error.what()).find((dir / "decisions.0.jsonl").string()) != std::string::npos);
    return error.what();
  }
  return "";
}

std::string read_text_as_recording(const std::string& text) {
  const TemporaryDirectory dir;
  std::ofstream(dir / "file") << text;
  return letters(read_recording(dir / "file"));
}

TEST_CASE("what is recorded reads back, head and decisions") {
  const TemporaryDirectory dir;
  const std::uint64_t seed = 11;
  for (const std::size_t steps : {1U, 2U, 63U, 64U, 65U, 5000U, 200'000U}) {
    CAPTURE(steps);
    const std::string decisions = random_decisions(steps, seed);
    const fs::path file = recording_file(dir.path(), 3);
    CHECK(file == dir / "decisions.3.jsonl");
    Screen screen;
    {
      DecisionLog log(file, header_of(3, 4), screen.log);
      for (std::size_t step = 0; step < steps; ++step) {
        log.add(step_of(decisions[step]));
        if (step % 997 == 5) log.sync();
      }
    }
    const Recording read = read_recording(file);
    CHECK(letters(read) == decisions);
    CHECK(read.header.rank == 3);
    CHECK(read.header.ranks == 4);
    CHECK(read.header.dataset == "00000000000000ab");
    CHECK(read.header.settings == header_of().settings);
    CHECK(read.header.policy == "greedy");
    CHECK(read.header.capacity == 16);
    CHECK(screen.text().empty());
  }
}

TEST_CASE("a line is a step and runs that begin with fresh") {
  const TemporaryDirectory dir;
  Screen screen;
  DecisionLog log(dir / "file", header_of(), screen.log);
  for (const char* decisions : {"FRRFF", "", "F", "RRR", "FffRr", "r"}) {
    add(log, decisions);
    log.sync();
  }
  const auto lines = read_lines(dir / "file");
  REQUIRE(lines.size() == 6);
  CHECK(lines[0].at("forebay") == "decisions");
  CHECK(lines[0].at("version") == 3);
  CHECK(lines[1] == nlohmann::json{{"step", 0}, {"runs", {1, 2, 2}}});
  CHECK(lines[2] == nlohmann::json{{"step", 5}, {"runs", {1}}});
  CHECK(lines[3] == nlohmann::json{{"step", 6}, {"runs", {0, 3}}});
  CHECK(lines[4] == nlohmann::json{{"step", 9}, {"runs", {3, 2}}, {"padded", {1, 2, 1, 1}}});
  CHECK(lines[5] == nlohmann::json{{"step", 14}, {"runs", {0, 1}}, {"padded", {0, 1}}});
}

// A run in a temporary folder that records decisions but no steps.
struct Recorded {
  TemporaryDirectory dir;
  Screen screen;
  WorkerTotals totals;
  TelemetrySetup setup;

  Recorded() {
    setup.options.dir = dir.path().string();
    setup.options.live = Live::never;
    setup.options.interval_s = 0;
    setup.options.per_step = false;
    setup.recording = header_of();
  }
  // Makes one step per decision; `between` is called before each. Returns how many records were
  // dropped.
  template <typename Between>
  std::uint64_t run(const std::string& decisions, Between&& between) {
    Telemetry telemetry(
        setup, totals, [] { return Gauges{}; }, screen.log);
    for (std::uint64_t step = 0; step < decisions.size(); ++step) {
      between(step);
      const RecordedStep recorded = step_of(decisions[step]);
      telemetry.record({.step = step, .padding = recorded.padded, .decided_fresh = recorded.fresh});
    }
    telemetry.close();
    return telemetry.dropped();
  }
  [[nodiscard]] std::string read() const { return letters(read_recording(recording_file(dir.path(), 0))); }
};

TEST_CASE("every decision is recorded, however many step records are dropped") {
  Recorded recorded;
  recorded.setup.records = 2;
  const std::string decisions = random_decisions(300'000, 8);
  CHECK(recorded.run(decisions, [](std::uint64_t) {}) > 0);
  CHECK(recorded.read() == decisions);
  CHECK_FALSE(fs::exists(recorded.dir / "steps.0.jsonl"));
}

TEST_CASE("a recording that the disk cannot follow ends with what came before the first lost decision, and says so") {
  const std::string decisions = random_decisions(200'000, 6);
  for (const std::size_t waiting : {2U, 128U, 4096U, 1U << 20U}) {
    CAPTURE(waiting);
    Recorded recorded;
    recorded.setup.decisions = waiting;
    (void)recorded.run(decisions, [](std::uint64_t step) {
      if (step % 256 == 0) std::this_thread::yield();
    });
    const std::string read = recorded.read();
    const bool is_cut = read.size() < decisions.size();
    CHECK(read == decisions.substr(0, read.size()));
    CHECK(read.size() >= std::min<std::size_t>(waiting, decisions.size()));
    if (waiting == 2) CHECK(is_cut);
    CHECK(recorded.screen.count("ends before step " + std::to_string(read.size()) +
                                " (the disk of telemetry.dir is too slow)") == (is_cut ? 1 : 0));
  }
}

TEST_CASE("a ring of decisions hands over every one in order, also across its end") {
  const std::string decisions = random_decisions(100'000, 3);
  RecordRing<RecordedStep> ring(128);
  std::string taken;
  Random random(4);
  std::size_t pushed = 0;
  while (taken.size() < decisions.size()) {
    const std::size_t waiting = pushed - taken.size();
    const std::size_t until = std::min(decisions.size(), pushed + random.below(128 - waiting + 1));
    for (; pushed < until; ++pushed) REQUIRE(ring.push(step_of(decisions[pushed])));
    std::uint64_t most = random.below(128);
    for (RecordedStep step; most > 0 && ring.pop(step); --most) {
      taken += step.fresh ? (step.padded ? 'f' : 'F') : (step.padded ? 'r' : 'R');
    }
  }
  CHECK(ring.dropped() == 0);
  CHECK(taken == decisions);
}

TEST_CASE("a recording that must end early says so once, and is used up to there") {
  const TemporaryDirectory dir;
  Screen screen;
  DecisionLog log(dir / "file", header_of(), screen.log);
  add(log, "FRRF");
  log.end("the disk is slow");
  add(log, "RR");
  log.end("again");
  log.sync();
  CHECK(screen.count("file ends before step 4 (the disk is slow): a replay of this run will end there") == 1);
  CHECK(screen.count("again") == 0);
  CHECK(letters(read_recording(dir / "file")) == "FRRF");
}

TEST_CASE("a disk that fails is told, and never throws") {
  Screen screen;
  DecisionLog log("/dev/full", header_of(), screen.log);
  add(log, "FRRRR");
  log.sync();
  add(log, "FRRRR");
  log.sync();
  CHECK(log.lost() == 2);
  CHECK(screen.count("/dev/full ends before step 5 (it could not be written)") == 1);
}

TEST_CASE("a file that was cut off is used up to the last whole line") {
  const std::string head = header_line(header_of());
  const std::vector<std::uint64_t> first{2, 1};
  const std::vector<std::uint64_t> second{0, 1, 12};
  const std::string whole = head + decisions_line(0, first) + decisions_line(3, second);
  CHECK(read_text_as_recording(whole) == "FFRRFFFFFFFFFFFF");
  CHECK(read_text_as_recording(whole.substr(0, whole.size() - 1)) == "FFRRFFFFFFFFFFFF");
  for (std::size_t cut = 2; cut <= decisions_line(3, second).size(); ++cut) {
    CAPTURE(cut);
    CHECK(read_text_as_recording(whole.substr(0, whole.size() - cut)) == "FFR");
  }
}

TEST_CASE("what is no recording is refused with file, line and cause") {
  const std::string head = header_line(header_of());
  CHECK(contains(refusal(""), "is empty"));
  CHECK(contains(refusal(head), "holds no steps"));
  CHECK(contains(refusal(head + "{\"step\":0,\"ru"), "holds no steps"));
  for (const std::string other : {"hello\n", "{}\n", "[]\n", "{\"forebay\":\"steps\",\"version\":1}\n",
                                  "{\"forebay\":\"decisions\",\"version\":3,\"rank\":\"no\"}\n", "\xff\xfe\n"}) {
    CAPTURE(other);
    CHECK(
        contains(refusal(other + "{\"step\":0,\"runs\":[1]}\n"), "decisions.0.jsonl:1 is not the head of a recording"));
  }
  CHECK(contains(refusal("{\"forebay\":\"decisions\",\"version\":4}\n"), ":1 is of version 4"));
  CHECK(contains(refusal("{\"forebay\":\"decisions\",\"version\":1}\n"),
                 ":1 is of version 1, and this Forebay reads version 3: replay it with the Forebay that recorded it"));
  for (const char* number : {"-1", "1.5", "4294967296", "29223372036854775808", "1e30"}) {
    CAPTURE(number);
    for (const char* key : {"rank", "ranks", "first_step", "capacity"}) {
      const bool fits = !std::string_view(key).starts_with("rank") && std::string_view(number) == "4294967296";
      std::string other =
          R"({"forebay":"decisions","version":3,"rank":0,"ranks":1,"first_step":0,"dataset":"","settings":{},)"
          R"("policy":"","capacity":1})";
      const std::string was = std::string(key) == "ranks" || std::string(key) == "capacity" ? "1" : "0";
      const std::string member = "\"" + std::string(key) + "\":";
      other.replace(other.find(member), member.size() + was.size(), member + number);
      const bool is_refused =
          contains(refusal(other + "\n{\"step\":0,\"runs\":[1]}\n"), "is no whole number from 0 to");
      CHECK(is_refused == !fits);
    }
  }

  const std::string good = "{\"step\":0,\"runs\":[3]}\n";
  for (const std::string bad :
       {"x\n", "{\"step\":3}\n", "{\"step\":3,\"runs\":[-1]}\n", "{\"step\":3,\"runs\":[1.5]}\n",
        "{\"step\":3,\"runs\":[1,\n", "{\"step\":3,\"runs\":[99999999999999]}\n",
        "{\"step\":3,\"runs\":[900000000,900000000]}\n", "{\"step\":3,\"runs\":[2],\"padded\":[1]}\n",
        "{\"step\":3,\"runs\":[2],\"padded\":2}\n", "{\"step\":3,\"runs\":[2],\"padded\":[1,-1]}\n", "\n"}) {
    CAPTURE(bad);
    CHECK(contains(refusal(head + good + bad + "{\"step\":3,\"runs\":[1]}\n"), "decisions.0.jsonl:3 is not a line of"));
  }
  CHECK(contains(refusal(head + good + "{\"step\":4,\"runs\":[1]}\n"), ":3 comes after a hole: steps 3 to 3"));
  CHECK(contains(refusal(head + good + "{\"step\":2,\"runs\":[1]}\n"), ":3 begins at step 2"));
  CHECK(contains(refusal(head + "{\"step\":1,\"runs\":[1]}\n" + good), ":2 comes after a hole: steps 0 to 0"));
}

TEST_CASE("a recording that is not there says which key makes it") {
  const TemporaryDirectory dir;
  for (const fs::path& file : {dir / "decisions.0.jsonl", dir.path()}) {
    CAPTURE(file.string());
    const std::string message = testing::error_of<ConfigError>([&] { (void)read_recording(file); });
    CHECK(contains(
        message, "policy.recording: " + file.string() +
                     (file == dir.path() ? " is a directory, not a regular file; " : " cannot be read: No such file")));
    CHECK(contains(message, "telemetry.decisions = true"));
  }
}

TEST_CASE("a FIFO is refused without waiting for a writer") {
  const TemporaryDirectory dir;
  REQUIRE(::mkfifo((dir / "decisions.0.jsonl").c_str(), 0600) == 0);
  CHECK_THROWS_WITH_AS((void)read_recording(dir / "decisions.0.jsonl"),
                       doctest::Contains("is a FIFO, not a regular file"), ConfigError);
  CHECK_THROWS_WITH_AS((void)read_recording("/dev/zero"), doctest::Contains("is a device, not a regular file"),
                       ConfigError);
}

TEST_CASE("what is deep or long is refused, and a few bytes take no more memory than a few bytes") {
  std::string head = header_line(header_of());
  const auto with_version = [&](const std::string& version) {
    std::string changed = head;
    return changed.replace(changed.find("\"version\":3"), 11, "\"version\":" + version);
  };
  CHECK(contains(refusal(with_version("[[2]]")), "is of version [[2]]"));
  for (const std::size_t depth : {10U, 200'000U}) {
    CAPTURE(depth);
    const std::string deep = with_version(std::string(depth, '[') + std::string(depth, ']'));
    CHECK(contains(refusal(deep), ":1 is not the head of a recording of decisions"));
    const std::string objects =
        std::string("{\"step\":0,\"runs\":") + std::string(depth, '[') + std::string(depth, ']');
    CHECK(contains(refusal(head + objects + "}\n" + objects + "}\n"), ":2 is not a line of decisions"));
  }
  CHECK(contains(refusal(head + "{\"step\":0,\"runs\":[" + std::string(5'000'000, ' ') + "1]}\n"),
                 "has a line of more than 4194304 bytes: line 2"));
  // Would take 128 MiB per line with a bit for each step.
  constexpr std::uint64_t kSteps = std::uint64_t{1} << 30U;
  std::string text = head;
  for (std::uint64_t line = 0; line < 400; ++line) {
    text += decisions_line(line * kSteps, std::vector<std::uint64_t>{kSteps - 1, 1});
  }
  const TemporaryDirectory dir;
  std::ofstream(dir / "file") << text;
  const Recording recording = read_recording(dir / "file");
  REQUIRE(recording.fresh.size() == 400 * kSteps);
  DecisionRuns::Cursor cursor;
  CHECK(cursor.is_set(recording.fresh, kSteps - 2));
  CHECK_FALSE(cursor.is_set(recording.fresh, kSteps - 1));
  CHECK(cursor.is_set(recording.fresh, 399 * kSteps));
  CHECK_FALSE(cursor.is_set(recording.fresh, 400 * kSteps - 1));
  CHECK(cursor.is_set(recording.fresh, 0));
}

TEST_CASE("runs are what was appended, however it was cut") {
  const std::uint64_t seed = 31;
  Random random(seed);
  for (int round = 0; round < 200; ++round) {
    std::vector<bool> expected;
    DecisionRuns runs;
    DecisionRuns alike;
    for (int part = 0; part < 20; ++part) {
      const bool fresh = random.below(2) == 0;
      const std::uint64_t steps = random.below(4);
      expected.insert(expected.end(), steps, fresh);
      runs.append(steps, fresh);
      for (std::uint64_t step = 0; step < steps; ++step) alike.append(1, fresh);
    }
    REQUIRE(runs.size() == expected.size());
    CHECK(runs == alike);
    DecisionRuns::Cursor cursor;
    for (std::size_t step = 0; step < expected.size(); ++step) CHECK(cursor.is_set(runs, step) == expected[step]);
  }
  DecisionRuns huge;
  huge.append(std::uint64_t{1} << 40U, true);
  huge.append(std::uint64_t{1} << 33U, false);
  huge.append(1, true);
  DecisionRuns::Cursor cursor;
  CHECK(cursor.is_set(huge, (std::uint64_t{1} << 40U) - 1));
  CHECK_FALSE(cursor.is_set(huge, std::uint64_t{1} << 40U));
  CHECK(cursor.is_set(huge, huge.size() - 1));
}

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

TEST_CASE("a track takes what begins in time, as long as there is room, and counts the rest") {
  TimelineTrack track("reader 0", 3, 5000);
  track.add_work("reading", 0, 999, 1);  // too short to be shown
  track.add_work("reading", 0, 1000, 2);
  track.add_step("step", 4999, 90000, 7, 8, 9);
  track.add_work("idle", 5000, 8000, 3);
  track.add_counter("depth", 100, 4);
  track.add_counter("depth", 200, 5);
  REQUIRE(track.events().size() == 3);
  CHECK(track.events()[0].id == 2);
  CHECK(track.events()[1].value == 8);
  CHECK(track.events()[2].value == 4);
  CHECK(track.late() == 1);
  CHECK(track.refused() == 1);
}

TEST_CASE("the file is a JSON array of events, one thread per track that has some") {
  const TemporaryDirectory dir;
  Timeline timeline(dir / "trace.json", 3600, 0, 1);
  TimelineTrack& trainer = timeline.track("trainer");
  TimelineTrack& reader = timeline.track("reader 0");
  (void)timeline.track("reader 1");
  const std::int64_t t = now_ns();
  trainer.add_step("next: fresh", t, t + 1500, 3, 11, 0);
  trainer.add_counter("ring depth", t, 4);
  for (int i = 0; i < 5000; ++i) reader.add_work("reading", t + i, t + i + 2000, 42);
  CHECK(timeline.write() == "trace of 5002 events in " + (dir / "trace.json").string());
  const Json events = Json::parse(read_text(dir / "trace.json"));
  std::map<std::string, int> counts;
  for (const Json& event : events) ++counts[event.at("ph").get<std::string>() + event.at("name").get<std::string>()];
  CHECK(counts ==
        std::map<std::string, int>{
            {"Mprocess_name", 1}, {"Mthread_name", 2}, {"Xnext: fresh", 1}, {"Cring depth", 1}, {"Xreading", 5000}});
  for (const Json& event : events) {
    if (event.at("name") != "next: fresh") continue;
    CHECK(event.at("ts").get<double>() == doctest::Approx(static_cast<double>(t) * 1e-3));
    CHECK(event.at("dur").get<double>() == doctest::Approx(1.5));
    CHECK(event.at("args") == Json{{"step", 3}, {"batch", 11}, {"use_index", 0}});
  }
}

TEST_CASE("truncation is reported; each of several ranks has a file; an impossible file is an error") {
  const TemporaryDirectory dir;
  Timeline timeline(dir / "trace.json", 1e-9, 3, 4);
  TimelineTrack& track = timeline.track("decoder 0");
  track.add_work("decoding", now_ns() + 1'000'000'000, std::numeric_limits<std::int64_t>::max(), 1);
  CHECK(contains(timeline.write(), "cut off after 1e-09 s"));
  CHECK(Json::parse(read_text(dir / "trace.3.json")).size() == 1);

  Timeline full(dir / "full.json", 3600, 0, 1);
  TimelineTrack& many = full.track("decoder 0");
  for (std::size_t i = 0; i < Timeline::kEventsPerThread + 7; ++i) many.add_counter("depth", 0, i);
  CHECK(contains(full.write(), "7 events left out"));
  CHECK_THROWS_WITH_AS(Timeline(dir / "none" / "trace.json", 1, 0, 1), doctest::Contains("none/trace.json"),
                       ConfigError);
}

}  // namespace
}  // namespace forebay::test_recording
