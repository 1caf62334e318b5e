#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <fstream>
#include <limits>
#include <map>
#include <string>

#include <forebay/error.hpp>
#include <nlohmann/json.hpp>

#include "measure/timeline_file.hpp"
#include "support.hpp"

namespace forebay {
namespace {

using Json = nlohmann::json;
using testing::TemporaryDirectory;

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

Json json_in(const std::filesystem::path& file) {
  std::ifstream in(file);
  return Json::parse(in);
}

TEST_CASE("a track takes what begins in time, as long as there is room, and counts the rest") {
  TimelineTrack track("reader 0", 3, 5000);
  track.add_work("reading", 0, 999, 1);  // too short to be seen
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
  const Json events = json_in(dir / "trace.json");
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
  CHECK(timeline.write().find("cut off after 1e-09 s") != std::string::npos);
  CHECK(json_in(dir / "trace.3.json").size() == 1);

  Timeline full(dir / "full.json", 3600, 0, 1);
  TimelineTrack& many = full.track("decoder 0");
  for (std::size_t i = 0; i < Timeline::kEventsPerThread + 7; ++i) many.add_counter("depth", 0, i);
  CHECK(full.write().find("7 events left out") != std::string::npos);
  CHECK_THROWS_WITH_AS(Timeline(dir / "none" / "trace.json", 1, 0, 1), doctest::Contains("none/trace.json"),
                       ConfigError);
}

}  // namespace
}  // namespace forebay
