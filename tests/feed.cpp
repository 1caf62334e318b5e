// The command end to end: real processes, real files, mpirun where there are several ranks.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "process.hpp"
#include "workplace.hpp"

namespace forebay {
namespace {

namespace fs = std::filesystem;
using testing::forebay_command;
using testing::Outcome;
using testing::Process;
using testing::rank_counts;
using testing::read_text;
using testing::Workplace;
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

  for (const int ranks : rank_counts()) {
    for (const std::string threads : {"1", "8"}) {
      CAPTURE(ranks);
      CAPTURE(threads);
      const std::string name = "ranks" + std::to_string(ranks) + "threads" + threads;
      const auto outcome = place.feed(ranks, name, {"--set", "workers.decode=" + threads});
      REQUIRE_MESSAGE(outcome.code == 0, outcome.output);
      CHECK(place.hashes(name) == one);
      CHECK(place.summary(name).at("ranks").size() == static_cast<std::size_t>(ranks));
    }
  }
  REQUIRE(place.feed(1, "other", {"--set", "seed=6"}).code == 0);
  CHECK(place.hashes("other") != one);
}

TEST_CASE("one of several processes that cannot find each other is refused") {
  Workplace place;
  // Of a launcher that no MPI here belongs to.
  REQUIRE(::setenv("MV2_COMM_WORLD_SIZE", "2", 1) == 0);
  REQUIRE(::setenv("MV2_COMM_WORLD_RANK", "0", 1) == 0);
  const Outcome outcome = place.feed(1, "alone");
  ::unsetenv("MV2_COMM_WORLD_SIZE");
  ::unsetenv("MV2_COMM_WORLD_RANK");
  CHECK(outcome.code != 0);
  CHECK(outcome.output.find("one of") != std::string::npos);
  CHECK(outcome.output.find("MV2_COMM_WORLD_SIZE") != std::string::npos);
  CHECK_FALSE(fs::exists(place.dir / "alone.run"));
}

TEST_CASE("two jobs never write one telemetry folder") {
  Workplace place;
  const std::string dir = "telemetry.dir=\"" + (place.dir / "shared.run").string() + "\"";
  for (const int ranks : rank_counts()) {
    CAPTURE(ranks);
    Process first(forebay_command(ranks, {"feed", place.config.string(), "--set", dir, "--set", "run.epochs=1000000",
                                          "--set", "trainer.step_ms=5"}),
                  place.dir / "first");
    REQUIRE(testing::eventually([&] { return fs::exists(place.dir / "shared.run" / ".writer.0"); }));
    const Outcome second = testing::run(place.dir.path(), ranks, {"feed", place.config.string(), "--set", dir});
    CHECK(second.code == 2);
    CHECK(second.output.find("is being written by process") != std::string::npos);
    ::kill(first.pid(), SIGTERM);
    (void)first.wait();
    fs::remove_all(place.dir / "shared.run");
  }
}

TEST_CASE("the summary tells a wait for other ranks from a wait for data") {
  Workplace place;
  for (const int ranks : rank_counts()) {
    CAPTURE(ranks);
    // Steps of 2 ms on average, of another length on every rank, and nothing in them that brings ranks together.
    const std::string name = "drift" + std::to_string(ranks);
    const auto outcome = place.feed(
        ranks, name,
        {"--steps", "100", "--set", "trainer.step_ms=2", "--set", "trainer.step_distribution=\"exponential\""});
    REQUIRE_MESSAGE(outcome.code == 0, outcome.output);
    const Json job = place.summary(name);
    CHECK((outcome.output.find("s of it for other ranks") != std::string::npos) == (ranks > 1));
    CHECK((job.at("census_waits") > 0) == (ranks > 1));
    CHECK(job.at("census_wait_s") <= job.at("stall_s"));
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

// Ten kinds of damage, each told in the quarantine log by its file.
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
  if (local.find("begun twice") != std::string::npos) {
    MESSAGE("skipped: temporary files are on no local disk");
    return;
  }
  const std::string elsewhere = output_of("elsewhere", "/proc/version,0\n" + entries);
  CAPTURE(elsewhere);
  CHECK(elsewhere.find("slow reads begun twice") != std::string::npos);
}

TEST_CASE("broken files are replaced and named, the same way for any number of ranks; or end the run") {
  Workplace place;
  const auto names = break_files(place.dir / "data");
  REQUIRE(place.feed(1, "one", {"--epochs", "2"}).code == 0);
  const auto one = place.hashes("one");
  for (const int ranks : rank_counts()) {
    CAPTURE(ranks);
    const std::string name = "ranks" + std::to_string(ranks);
    const auto outcome = place.feed(ranks, name, {"--epochs", "2"});
    REQUIRE_MESSAGE(outcome.code == 0, outcome.output);
    CHECK(place.hashes(name) == one);
    std::string log;
    for (const auto& file : fs::directory_iterator(place.dir / (name + ".run"))) {
      if (file.path().filename().string().starts_with("quarantine.")) log += read_text(file.path());
    }
    for (const std::string& broken : names) {
      CAPTURE(broken);
      CHECK(log.find(broken) != std::string::npos);
    }
    CHECK(place.summary(name).at("bad_samples") == names.size());

    const auto failed = place.feed(ranks, name + "fail", {"--set", "on_bad=\"fail\""});
    CHECK(failed.code == 1);
    CHECK(failed.output.find("on_bad = \"fail\"") != std::string::npos);
    const auto budget = place.feed(ranks, name + "budget", {"--set", "max_bad=0.05"});
    CHECK(budget.code == 1);
    CHECK(budget.output.find("max_bad") != std::string::npos);
  }
}

TEST_CASE("a store that never answers again ends in the watchdog's error on all ranks") {
  Workplace place("[storage]\nlatency_ms = 1.0\noutage_every_s = 0.5\noutage_s = inf\n[policy]\nwatchdog_s = 1.0\n");
  for (const int ranks : rank_counts()) {
    for (const std::string policy : {"block", "proportional"}) {
      CAPTURE(ranks);
      CAPTURE(policy);
      const auto outcome =
          place.feed(ranks, "r" + std::to_string(ranks) + policy,
                     {"--steps", "100000000", "--set", "policy.name=\"" + policy + "\"", "--set", "trainer.step_ms=2"});
      CHECK(outcome.code == 1);
      CHECK(outcome.output.find("no fresh batch for") != std::string::npos);
      CHECK(outcome.output.find("reading from the store") != std::string::npos);
    }
  }
}

// Gone, or a zombie that an init process has yet to collect.
bool has_ended(pid_t pid) {
  const std::string stat = read_text("/proc/" + std::to_string(pid) + "/stat");
  return stat.empty() || stat.find(") Z ") != std::string::npos;
}

// Starts a long run, signals it once it serves, and returns what became of it.
Outcome interrupt(Workplace& place, int ranks, const std::string& name, int signal, bool one_rank) {
  const fs::path log = place.dir / name;
  Process process(forebay_command(ranks, {"feed", place.config.string(), "--steps", "100000000", "--log-ids",
                                          log.string(), "--summary", (place.dir / (name + ".json")).string(), "--set",
                                          "telemetry.dir=\"\"", "--set", "trainer.step_ms=5"}),
                  place.dir / (name + ".output"));
  const fs::path last = log / ("ids." + std::to_string(ranks - 1) + ".jsonl");
  REQUIRE(testing::eventually([&] { return read_text(last).size() > 1000; }));
  const auto children = ranks > 1 ? process.children() : std::vector<pid_t>{process.pid()};
  REQUIRE(children.size() == static_cast<std::size_t>(ranks));
  ::kill(one_rank ? children.back() : process.pid(), signal);
  const int code = process.wait();
  for (const pid_t child : children) CHECK(testing::eventually([&] { return has_ended(child); }));
  return {code, process.output()};
}

TEST_CASE("SIGTERM to one rank, SIGINT and SIGTERM to all: every rank ends, with a summary") {
  Workplace place;
  for (const int ranks : rank_counts()) {
    for (const int signal : {SIGTERM, SIGINT}) {
      for (const bool one_rank : {true, false}) {
        CAPTURE(ranks);
        CAPTURE(signal);
        CAPTURE(one_rank);
        const std::string name = "s" + std::to_string(ranks) + std::to_string(signal) + (one_rank ? "one" : "all");
        const auto outcome = interrupt(place, ranks, name, signal, one_rank);
        // mpirun itself ends with an error when it was signalled.
        CHECK_MESSAGE(outcome.code == (ranks > 1 && !one_rank ? 1 : 0), outcome.output);
        const Json summary = place.summary(name);
        CHECK(summary.at("ranks").size() == static_cast<std::size_t>(ranks));
        CHECK(summary.at("steps").get<int>() > 0);
      }
    }
  }
}

TEST_CASE("a run that cannot start says so once, with exit code 2") {
  Workplace place;
  for (const int ranks : rank_counts()) {
    CAPTURE(ranks);
    const auto missing = place.feed(ranks, "m", {"--set", "dataset.path=\"/no/such/folder\""});
    CHECK(missing.code == 2);
    CHECK(missing.output.find("dataset.path") != std::string::npos);
    CHECK(missing.output.find("/no/such/folder") != std::string::npos);
    const std::size_t first = missing.output.find("forebay: error:");
    CHECK(first != std::string::npos);
    CHECK(missing.output.find("forebay: error:", first + 1) == std::string::npos);
    CHECK(place.feed(ranks, "p", {"--set", "policy.name=\"gredy\""}).code == 2);
  }
}

TEST_CASE("a result that cannot be written is reported before the first step") {
  Workplace place;
  const std::string folder = place.dir.path().string();
  const std::string ids = (place.dir / "ids").string();
  for (const std::string flag : {"--summary", "--state"}) {
    CAPTURE(flag);
    const Outcome refused = testing::run(place.dir.path(), rank_counts().back(),
                                         {"feed", place.config.string(), "--log-ids", ids, flag, folder});
    CHECK(refused.code == 2);
    CHECK(refused.output.find(flag + ": cannot write " + folder + ": it is a folder; name a file") !=
          std::string::npos);
    CHECK_FALSE(fs::exists(ids));
  }
}

TEST_CASE("--summary - is JSON on standard output and nothing else there") {
  Workplace place;
  const Outcome outcome = testing::run(
      place.dir.path(), 1,
      {"feed", place.config.string(), "--steps", "5", "--profile", "--summary", "-", "--set", "telemetry.dir=\"\""});
  REQUIRE(outcome.code == 0);
  const std::string& output = outcome.output;
  const std::size_t begin = output.find('{');  // after the lines of standard error
  REQUIRE(begin != std::string::npos);
  CHECK(Json::parse(output.substr(begin)).at("steps") == 5);
}

}  // namespace
}  // namespace forebay
