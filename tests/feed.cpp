// The command end to end: real processes, real files, and mpirun for several ranks. feed_end.cpp
// tests how runs end.
#include <nlohmann/json.hpp>

#include "process.hpp"
#include "screen.hpp"
#include "test.hpp"
#include "workplace.hpp"

namespace forebay::test_feed {
namespace {

namespace fs = std::filesystem;
using namespace testing;
using Json = nlohmann::json;

TEST_CASE("the same batches, bit for bit, for any number of ranks and threads and again with the same seed") {
  Workplace place;
  REQUIRE(place.feed(1, "one").code == 0);
  const auto one = place.hashes("one");
  std::multiset<int> ids;
  for (const Json& line : place.served("one")) {
    if (line.at("use_index") == 0) ids.insert(line.at("ids").begin(), line.at("ids").end());
  }
  const int samples = static_cast<int>(ids.size());
  CHECK(samples >= 40);
  CHECK(std::set<int>(ids.begin(), ids.end()).size() == ids.size());
  CHECK(*ids.rbegin() == samples - 1);
  CHECK(one.size() == static_cast<std::size_t>((samples + 3) / 4));

  at_once(rank_counts(), [&](int ranks) {
    for (const std::string threads : {"1", "8"}) {
      CAPTURES(ranks, threads);
      const std::string name = "ranks" + std::to_string(ranks) + "threads" + threads;
      const auto outcome = place.feed(ranks, name, {"--set", "workers.decode=" + threads});
      REQUIRE_MESSAGE(outcome.code == 0, outcome.output);
      CHECK(place.hashes(name) == one);
      CHECK(place.summary(name).at("ranks").size() == static_cast<std::size_t>(ranks));
    }
  });
  REQUIRE(place.feed(1, "other", {"--set", "seed=6"}).code == 0);
  CHECK(place.hashes("other") != one);
}

TEST_CASE("the summary tells a wait for other ranks from a wait for data") {
  Workplace place;
  for (const int ranks : rank_counts()) {
    CAPTURE(ranks);
    // Steps of 2 ms on average, of different length on every rank, with nothing in them that
    // synchronises the ranks.
    const std::string name = "drift" + std::to_string(ranks);
    const auto outcome = place.feed(
        ranks, name,
        {"--steps", "100", "--set", "trainer.step_ms=2", "--set", "trainer.step_distribution=\"exponential\""});
    REQUIRE_MESSAGE(outcome.code == 0, outcome.output);
    const Json job = place.summary(name);
    CHECK((contains(outcome.output, "s of it for other ranks")) == (ranks > 1));
    CHECK((job.at("census_waits") > 0) == (ranks > 1));
    CHECK(job.at("census_wait_s") <= job.at("stall_s"));
    for (int rank = 0; rank < ranks; ++rank) {
      const auto log = testing::read_lines(place.dir / (name + ".run") / ("run." + std::to_string(rank) + ".jsonl"));
      REQUIRE(log.size() == 2);
      CHECK(log[0].at("ranks") == ranks);
      CHECK(log[0].contains("settings") == (rank == 0));
      if (rank == 0) CHECK(log[0].at("settings").at("trainer.step_ms") == "2.0");
      CHECK(log[1].at("summary").at("steps") == 100);
      CHECK(log[1].at("profile").contains("sentence"));
    }
  }
}

TEST_CASE("evaluation serves every sample once and in order") {
  Workplace place;
  for (const int ranks : rank_counts()) {
    const std::string name = "eval" + std::to_string(ranks);
    REQUIRE(place.feed(ranks, name, {"--eval"}).code == 0);
    for (const Json& line : place.served(name)) {
      for (std::size_t i = 0; i < line.at("ids").size(); ++i) {
        CHECK(line.at("ids")[i] == line.at("batch").get<std::size_t>() * 4 + i);
      }
    }
    CHECK(place.summary(name).at("reused") == 0);
  }
}

// Damages files in ten ways, each of which the quarantine log must report by file.
std::vector<std::string> break_files(const fs::path& data) {
  const auto image = [&](const std::string& name) { return data / "JPEGImages" / (name + ".jpg"); };
  const auto xml = [&](const std::string& name) { return data / "Annotations" / (name + ".xml"); };
  const auto put = [](const fs::path& file, const std::string& text) { std::ofstream(file, std::ios::binary) << text; };
  const auto annotation = [](const std::string& name, const std::string& box) {
    return "<annotation><filename>" + name + ".jpg</filename><object><name>circle</name><bndbox>" + box +
           "</bndbox></object></annotation>";
  };
  const auto box = [](int xmin, int ymin, int xmax, int ymax) {
    return "<xmin>" + std::to_string(xmin) + "</xmin><ymin>" + std::to_string(ymin) + "</ymin><xmax>" +
           std::to_string(xmax) + "</xmax><ymax>" + std::to_string(ymax) + "</ymax>";
  };
  fs::path whole;
  for (const auto& file : fs::directory_iterator(data / "JPEGImages")) whole = std::max(whole, file.path());
  const std::string jpeg = read_text(whole);
  const std::vector<std::string> names{"b_zero", "b_cut",     "b_png",     "b_text", "b_folder", "b_missing",
                                       "b_torn", "b_outside", "b_crossed", "b_bomb", "b_wide"};
  for (const std::string& name : names) {
    put(image(name), jpeg);
    put(xml(name), annotation(name, box(1, 1, 40, 40)));
  }
  put(image("b_zero"), "");
  put(image("b_cut"), jpeg.substr(0, jpeg.size() / 2));
  put(image("b_png"), "\x89PNG\r\n\x1a\n not really");
  put(image("b_text"), "this is no image\n");
  fs::remove(image("b_folder"));
  fs::create_directory(image("b_folder"));
  fs::remove(image("b_missing"));
  put(xml("b_torn"), "<annotation><object><name>circle</name>");
  put(xml("b_outside"), annotation("b_outside", box(5000, 5000, 6000, 6000)));
  put(xml("b_crossed"), annotation("b_crossed", box(40, 1, 20, 30)));
  put(xml("b_bomb"), "<?xml version=\"1.0\"?><!DOCTYPE a [<!ENTITY b \"bbbbbbbbbb\"><!ENTITY c \"&b;&b;&b;\">]>" +
                         annotation("b_bomb", box(1, 1, 2, 2)));
  // A header that claims 65,500 x 65,500 pixels.
  std::string wide = jpeg;
  const std::size_t frame = wide.find("\xff\xc0");
  REQUIRE(frame != std::string::npos);
  for (const std::size_t at : {frame + 5, frame + 7}) {
    wide[at] = static_cast<char>(65500 >> 8);
    wide[at + 1] = static_cast<char>(65500 & 0xff);
  }
  put(image("b_wide"), wide);
  return names;
}

TEST_CASE("slow reads are begun twice if a list names files elsewhere, and not if all are on a local disk") {
  Workplace place;
  std::string entries;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(place.dir / "data")) {
    if (entry.path().extension() == ".jpg") entries += entry.path().string() + ",0\n";
  }
  const auto output_of = [&](const std::string& name, const std::string& list) {
    std::ofstream(place.dir / name) << list;
    const auto outcome = place.feed(1, name + ".run",
                                    {"--steps", "2", "--set", "dataset.format=filelist", "--set",
                                     "dataset.path=" + (place.dir / name).string(), "--set", "max_bad=10"});
    CHECK(outcome.code == 0);
    return outcome.output;
  };
  const std::string local = output_of("local", entries);
  CAPTURE(local);
  if (contains(local, "begun twice")) {
    MESSAGE("skipped: temporary files are on no local disk");
    return;
  }
  const std::string elsewhere = output_of("elsewhere", "/proc/version,0\n" + entries);
  CAPTURE(elsewhere);
  CHECK(contains(elsewhere, "slow reads begun twice"));
}

TEST_CASE("broken files are replaced and named, the same way for any number of ranks; or end the run") {
  Workplace place;
  const auto names = break_files(place.dir / "data");
  REQUIRE(place.feed(1, "one", {"--epochs", "2", "--set", "max_bad=1.0"}).code == 0);
  const auto one = place.hashes("one");
  const auto check_replaced = [&](int ranks, const std::string& name) {
    const auto outcome = place.feed(ranks, name, {"--epochs", "2", "--set", "max_bad=1.0"});
    REQUIRE_MESSAGE(outcome.code == 0, outcome.output);
    CHECK(place.hashes(name) == one);
    std::string log;
    for (const auto& file : fs::directory_iterator(place.dir / (name + ".run"))) {
      if (file.path().filename().string().starts_with("quarantine.")) log += read_text(file.path());
    }
    for (const std::string& broken : names) {
      CAPTURE(broken);
      CHECK(contains(log, broken));
    }
    CHECK(place.summary(name).at("bad_samples") == names.size());
  };
  at_once(testing::all_tries<std::string>({"", "on_bad=\"fail\"", "max_bad=0.05"}), [&](const auto& one_try) {
    const auto& [ranks, setting] = one_try;
    CAPTURES(ranks, setting);
    const std::string key = setting.substr(0, setting.find('='));
    const std::string name = "ranks" + std::to_string(ranks) + key;
    if (key.empty()) return check_replaced(ranks, name);
    const auto failed = place.feed(ranks, name, {"--set", setting});
    CHECK(failed.code == 1);
    CHECK(failed.output.find(key == "on_bad" ? "on_bad = \"fail\"" : key) != std::string::npos);
  });
}

TEST_CASE("--summary - is JSON on standard output and nothing else there") {
  Workplace place;
  const Outcome outcome = testing::run(
      place.dir.path(), 1,
      {"feed", place.config.string(), "--steps", "5", "--profile", "--summary", "-", "--set", "telemetry.dir=\"\""});
  REQUIRE(outcome.code == 0);
  const std::string& output = outcome.output;
  const std::size_t begin = output.find('{');  // after the lines on standard error
  REQUIRE(begin != std::string::npos);
  CHECK(Json::parse(output.substr(begin)).at("steps") == 5);
}

}  // namespace
}  // namespace forebay::test_feed
