// The finding of `forebay feed --profile` in runs whose limit is known.
#include <nlohmann/json.hpp>

#include "test.hpp"
#include "workplace.hpp"

namespace forebay::test_feed_profile {
namespace {

using namespace testing;
using Json = nlohmann::json;

struct Run {
  std::string output;
  Json profile;
  Json summary;
};

Run profiled(Workplace& place, int ranks, const std::string& name, std::vector<std::string> more) {
  more.insert(more.end(), {"--profile", "--set", "policy.name=\"block\""});
  const auto outcome = place.feed(ranks, name, more);
  REQUIRE_MESSAGE(outcome.code == 0, outcome.output);
  const Json summary = place.summary(name);
  CHECK(outcome.output.find(summary.at("profile").at("sentence").get<std::string>()) != std::string::npos);
  REQUIRE(summary.at("ranks").size() == static_cast<std::size_t>(ranks));
  for (const Json& rank : summary.at("ranks")) CHECK(rank.at("profile").at("ranks") == 1);
  return {outcome.output, summary.at("profile"), summary};
}

double sum_of_shares(const Json& stage) {
  return stage.at("busy").get<double>() + stage.at("blocked_in").get<double>() + stage.at("blocked_out").get<double>();
}

TEST_CASE("a slow store is storage-bound, on any number of ranks") {
  Workplace place;
  for (const int ranks : rank_counts()) {
    CAPTURE(ranks);
    const Run run = profiled(place, ranks, "slow" + std::to_string(ranks),
                             {"--steps", "20", "--set", "storage.latency_ms=60", "--set", "workers.io=2"});
    CHECK_MESSAGE(run.profile.at("bound") == "storage-bound", run.output);
    CHECK(contains(run.output, "workers.io = "));
    CHECK(run.profile.at("ranks") == ranks);
    CHECK(run.profile.at("read_ms") > 30);
    CHECK(run.profile.at("decoder_reads") == 0);  // the store is slow
    const Json& stages = run.profile.at("stages");
    for (const char* const stage : {"order", "storage", "decode", "trainer"}) {
      CHECK(sum_of_shares(stages.at(stage)) == doctest::Approx(1).epsilon(0.02));
    }
    CHECK(stages.at("storage").at("threads") == doctest::Approx(2).epsilon(0.02));
    // Two readers cannot make more than two reads of 60 ms at a time.
    CHECK(stages.at("storage").at("images_per_s") <= 34 * ranks);
    CHECK(run.profile.at("queues").at("ring").at("full") < 0.1);
    CHECK((contains(run.output, "slowest   rank")) == (ranks > 1));
  }
}

TEST_CASE("decoders make reads where no core is left to readers, if anywhere") {
  Workplace place;
  const auto reads_of = [&](const std::string& decoders) {
    const Run run = profiled(place, 1, decoders, {"--steps", "2000", "--set", "workers.decode=" + decoders});
    return run.profile.at("decoder_reads").get<double>();
  };
  const double share = reads_of("64");  // the speed of reads on this machine is unknown
  CHECK(share >= 0);
  CHECK(share < 1);
  if (std::thread::hardware_concurrency() > 1) CHECK(reads_of("1") == 0);
}

TEST_CASE("large images and one decoder are decode-bound") {
  // Sanitizers decode and resize slowly.
  const std::string size = testing::kSanitized ? "400x300" : "1600x1200";
  const std::string transformed = testing::kSanitized ? "[96,128]" : "[480,640]";
  Workplace place;
  const auto made = testing::run(place.dir.path(), 1,
                                 {"make-dataset", (place.dir / "large").string(), "--images", "6", "--classes", "2",
                                  "--seed", "3", "--size", size});
  REQUIRE_MESSAGE(made.code == 0, made.output);
  const auto run_for = [&](int steps) {
    return profiled(
        place, 1, "decode",
        {"--steps", std::to_string(steps), "--set", "dataset.path=\"" + (place.dir / "large").string() + "\"", "--set",
         "trainer.step_ms=0", "--set", "workers.io=1", "--set", "workers.decode=1", "--set", "queue.capacity=16",
         "--set", "transform.size=" + transformed});
  };
  Run run = run_for(30);
  // As long as this machine needs. If other programs keep the cores busy, the reader or the trainer
  // may be descheduled for longer than the queue lasts, which a longer run evens out.
  for (int steps = 120; steps < 2000 && run.profile.at("bound") != "decode-bound"; steps *= 4) run = run_for(steps);
  CHECK_MESSAGE(run.profile.at("bound") == "decode-bound", run.output);
  CHECK(run.profile.at("stages").at("decode").at("busy") > 0.85);
  CHECK(run.profile.at("decoder_cpu") > 0);
  CHECK(run.profile.at("process_cores") > 0);
  CHECK(run.profile.at("decode_fixed") == 1);
}

TEST_CASE("samples that a scaled decode would make smaller are counted, until it does") {
  Workplace place;
  const auto made = testing::run(place.dir.path(), 1,
                                 {"make-dataset", (place.dir / "large").string(), "--images", "6", "--classes", "2",
                                  "--seed", "3", "--size", "400x300"});
  REQUIRE_MESSAGE(made.code == 0, made.output);
  const auto shrinkable = [&](const std::string& name, const std::string& decode, const std::string& size) {
    const Run run =
        profiled(place, 1, name,
                 {"--steps", "300", "--set", "dataset.path=\"" + (place.dir / "large").string() + "\"", "--set",
                  "transform.crop=center", "--set", "transform.size=" + size, "--set", "transform.decode=" + decode});
    return run.profile.at("shrinkable").get<double>();
  };
  // Not all: objects of one image that are decoded together would gain nothing.
  CHECK(shrinkable("half", "region", "[8,8]") > 0.3);
  CHECK(shrinkable("all", "full", "[8,8]") > 0.3);
  CHECK(shrinkable("scaled", "scaled", "[8,8]") == 0);
  CHECK(shrinkable("same", "region", "[300,400]") == 0);
}

TEST_CASE("crops come by a decode index; where it is damaged, without it and with a warning") {
  Workplace place;
  const std::string data = (place.dir / "large").string();
  const std::string index = (place.dir / "large.index").string();
  const auto made =
      testing::run(place.dir.path(), 1,
                   {"make-dataset", data, "--images", "8", "--classes", "2", "--seed", "3", "--size", "400x300"});
  REQUIRE_MESSAGE(made.code == 0, made.output);
  const auto indexed = testing::run(place.dir.path(), 1, {"index", data, "--save", index, "--decode-index"});
  REQUIRE_MESSAGE(indexed.code == 0, indexed.output);
  CHECK(contains(indexed.output, "decode index 8 of 8 JPEG files"));
  // More samples than the queue can hold when the profile begins; it may miss the decoding of
  // those.
  const auto run_with = [&](const std::string& name, const std::string& jpeg) {
    return profiled(place, 1, name,
                    {"--steps", "1000", "--set", "dataset.path=\"" + data + "\"", "--set",
                     "dataset.index=\"" + index + "\"", "--set", "workers.jpeg=" + jpeg});
  };
  const Run by_index = run_with("by_index", "own");
  CHECK(by_index.profile.at("own_jpeg") > 0.9);
  CHECK(by_index.profile.at("indexed_jpeg") > 0.1);
  CHECK(contains(by_index.output, "by the decode index"));
  CHECK(run_with("turbo", "turbo").profile.at("indexed_jpeg") == 0);
  std::fstream(index + ".points", std::ios::binary | std::ios::in | std::ios::out).seekp(16).put('x');
  const Run damaged = run_with("damaged", "own");
  CHECK(damaged.profile.at("own_jpeg") > 0.9);
  CHECK(damaged.profile.at("indexed_jpeg") == 0);
  CHECK(contains(damaged.output, "images are decoded without it"));
}

TEST_CASE("a slow trainer is trainer-bound") {
  Workplace place;
  const Run run = profiled(place, 1, "trainer", {"--steps", "30", "--set", "trainer.step_ms=60"});
  CHECK_MESSAGE(run.profile.at("bound") == "trainer-bound", run.output);
  CHECK(run.profile.at("producer_blocked") > 0.1);
  CHECK(run.profile.at("stages").at("order").at("blocked_out") > 0.1);
}

TEST_CASE("two steps are too short to say") {
  Workplace place;
  const Run run = profiled(place, 1, "short", {"--steps", "2"});
  CHECK(run.profile.at("bound") == "too short to say");
}

TEST_CASE("encoded bytes in flight never exceed workers.bytes, except for a single sample that is larger") {
  Workplace place;
  std::uintmax_t largest = 0;
  for (const auto& file : std::filesystem::directory_iterator(place.dir / "data" / "JPEGImages")) {
    largest = std::max(largest, file.file_size());
  }
  for (const std::uintmax_t budget : {4 * largest, largest / 2}) {
    CAPTURE(budget);
    const Run run =
        profiled(place, 1, "budget" + std::to_string(budget),
                 {"--epochs", "3", "--set", "workers.io=8", "--set", "workers.bytes=" + std::to_string(budget)});
    const auto most = run.profile.at("queues").at("bytes").at("most").get<double>();
    CHECK(most > 0);
    CHECK(most <= static_cast<double>(std::max(budget, largest)));
  }
}

TEST_CASE("--trace writes what each thread of each rank did") {
  Workplace place;
  for (const int ranks : rank_counts()) {
    CAPTURE(ranks);
    const auto file = place.dir / ("trace" + std::to_string(ranks) + ".json");
    const auto outcome = place.feed(
        ranks, "t" + std::to_string(ranks),
        {"--steps", "12", "--trace", file.string(), "--set", "policy.name=\"interval\"", "--set", "policy.interval=3"});
    REQUIRE_MESSAGE(outcome.code == 0, outcome.output);
    CHECK(contains(outcome.output, "trace of "));
    for (int rank = 0; rank < ranks; ++rank) {
      auto name = file;
      if (ranks > 1) name.replace_extension("." + std::to_string(rank) + ".json");
      const Json events = Json::parse(read_text(name));
      std::multiset<std::string> names;
      for (const Json& event : events) {
        names.insert(event.at("name").get<std::string>());
        CHECK(event.at("pid") == rank);
        if (event.at("ph") == "X") CHECK(event.at("dur") >= 0);
      }
      CHECK(names.count("next: fresh") == 4);
      CHECK(names.count("next: reuse") == 8);
      CHECK(names.count("step") == 11);
      CHECK(names.count("ring depth") == 12);
      CHECK(names.count("decoding") > 0);
      CHECK(names.count("reading") > 0);
    }
  }
  const auto refused = place.feed(1, "nowhere", {"--trace", (place.dir / "none" / "t.json").string()});
  CHECK(refused.code == 2);
  CHECK(contains(refused.output, "none/t.json"));
}

TEST_CASE("a ring that memory cannot hold is refused before it is touched") {
  Workplace place;
  for (const int ranks : rank_counts()) {
    const auto refused = place.feed(
        ranks, "huge",
        {"--set", "queue.capacity=4096", "--set", "transform.size=[2048,2048]", "--set", "dataset.batch_size=64"});
    CHECK(refused.code == 2);
    CHECK(contains(refused.output, "lower queue.capacity"));
  }
}

}  // namespace
}  // namespace forebay::test_feed_profile
