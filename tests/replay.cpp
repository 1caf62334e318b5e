// Policy replay in a feeder: a run is repeated exactly, whatever the timing; what cannot be repeated is refused.
#include <forebay/feeder.hpp>

#include "dataset_support.hpp"
#include "measure/recording.hpp"
#include "memory_dataset.hpp"
#include "test.hpp"

namespace forebay::test_replay {

using namespace forebay::measure;

namespace {

namespace fs = std::filesystem;
using namespace testing;

Parts parts(std::uint64_t size = 40) { return {.dataset = std::make_shared<MemoryDataset>(size)}; }

// Compute time of the trainer. Without it there are a million steps per second, more than can be
// recorded.
constexpr std::chrono::microseconds kStep{50};

// epoch, batch, use_index, first sample
using Served = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t>;

// Serves to the end, or asks the feeder to stop after `stop_at` steps.
std::vector<Served> serve(const Options& options, std::uint64_t stop_at = UINT64_MAX) {
  Feeder feeder(options, parts());
  std::vector<Served> served;
  bool consistent = true;
  while (auto batch = feeder.next()) {
    served.emplace_back(batch->epoch(), batch->batch(), batch->use_index(), batch->ids()[0]);
    consistent = consistent && batch->is_fresh() == (batch->use_index() == 0);
    if (served.size() == stop_at) feeder.request_stop();
    std::this_thread::sleep_for(kStep);
  }
  CHECK(consistent);
  CHECK_FALSE(feeder.next().has_value());
  return served;
}

std::uint64_t reused(const std::vector<Served>& served) {
  return static_cast<std::uint64_t>(
      std::ranges::count_if(served, [](const Served& step) { return std::get<2>(step) > 0; }));
}

// A source with irregular delays.
Options jittery(const fs::path& dir) {
  Options options = memory_options(2);
  options.run.epochs = 3;
  options.policy.name = "greedy";
  options.policy.pick = Pick::least_used;
  options.queue.pool = 3;
  options.storage.latency_ms = 0.5;
  options.storage.jitter = 2;
  options.storage.outage_every_s = 0.01;
  options.storage.outage_s = 0.005;
  options.telemetry.dir = dir.string();
  options.telemetry.per_step = false;
  return options;
}

Options replaying(Options options, const fs::path& recording) {
  options.policy.name = "replay";
  options.policy.recording = recording.string();
  options.telemetry.dir = recording.string() + ".again";
  options.storage = {};
  return options;
}

TEST_CASE("a run is repeated exactly behind a source of quite other timing") {
  const TemporaryDirectory dir;
  int count = 0;
  const auto repeat = [&](const Options& recorded) {
    const auto served = serve(recorded);
    CHECK(served.size() > 60);
    CHECK(reused(served) > 0);
    Options again = replaying(recorded, recorded.telemetry.dir);
    CHECK(serve(again) == served);  // a source that is always ahead
    again.storage.latency_ms = 2;
    again.workers.io = 1;
    again.queue.capacity = 1;
    CHECK(serve(again) == served);  // and one that is always late
    const auto twice = read_recording(recording_file(again.telemetry.dir, 0));
    CHECK(twice.fresh == read_recording(recording_file(recorded.telemetry.dir, 0)).fresh);
    CHECK(twice.header.policy == "replay");
  };
  const auto options = [&] { return jittery(dir / std::to_string(count++)); };
  SUBCASE("greedy, least used of three") { repeat(options()); }
  SUBCASE("greedy, the current one") {
    Options recorded = options();
    recorded.policy.pick = Pick::current;
    repeat(recorded);
  }
  SUBCASE("watermark") {
    Options recorded = options();
    recorded.policy.name = "watermark";
    repeat(recorded);
  }
  SUBCASE("a cap on uses and a bounded wait, which changed decisions then and must not change them again") {
    Options recorded = options();
    recorded.policy.max_uses = 4;
    recorded.policy.max_wait_ms = 0.05;
    repeat(recorded);
  }
  SUBCASE("epochs that end by reusing, the last one with padding") {
    Options recorded = options();
    recorded.mpi.epoch_end = EpochEnd::reuse;
    repeat(recorded);
  }
}

TEST_CASE("a run that was stopped is repeated up to there, and no further") {
  const TemporaryDirectory dir;
  Options recorded = jittery(dir / "run");
  recorded.run.epochs = 1'000'000;
  const auto served = serve(recorded, 500);
  CHECK(served.size() == 500);
  const Options again = replaying(recorded, dir / "run");
  CHECK(serve(again) == served);

  Options shorter = again;
  shorter.run.steps = 200;
  CHECK(serve(shorter) == std::vector<Served>(served.begin(), served.begin() + 200));
  Options longer = again;
  longer.run.steps = 1000;
  CHECK(serve(longer) == served);
}

TEST_CASE("a recording whose end was lost is repeated up to there") {
  const TemporaryDirectory dir;
  const Options recorded = jittery(dir / "run");
  const auto served = serve(recorded);
  const fs::path file = recording_file(dir / "run", 0);
  Recording recording = read_recording(file);
  REQUIRE(recording.fresh.size() == served.size());
  std::ofstream(file, std::ios::trunc) << header_line(recording.header)
                                       << decisions_line(0, std::vector<std::uint64_t>{1, 2, 1}) << "{\"step\":4,\"ru";
  Options again = replaying(recorded, dir / "run");
  const auto repeated = serve(again);
  REQUIRE(repeated.size() == 4);
  CHECK(std::get<2>(repeated[0]) == 0);
  CHECK(std::get<2>(repeated[2]) == 2);
  CHECK(std::get<2>(repeated[3]) == 0);
}

TEST_CASE("what would make another run is refused with its key") {
  const TemporaryDirectory dir;
  Options recorded = jittery(dir / "run");
  recorded.run.steps = 20;
  (void)serve(recorded);
  const auto refusal = [&](const std::function<void(Options&)>& change, std::uint64_t size = 40) -> std::string {
    Options again = replaying(recorded, dir / "run");
    change(again);
    return testing::error_of<ConfigError>([&] { Feeder feeder(again, parts(size)); });
  };
  const auto contains = [](const std::string& text, const std::string& part) {
    CAPTURES(text, part);
    CHECK(testing::contains(text, part));
  };
  CHECK(refusal([](Options&) {}).empty());
  const std::string head = "policy.recording: " + recording_file(dir / "run", 0).string() + ":1: ";
  contains(refusal([](Options& o) { o.seed = 18; }),
           head + "the run was recorded with seed = 17 and this one has seed = 18");
  contains(refusal([](Options& o) { o.queue.pool = 2; }), "queue.pool = 3 and this one has queue.pool = 2");
  contains(refusal([](Options& o) { o.policy.pick = Pick::current; }), "policy.pick = \"least_used\" and this one has");
  contains(refusal([](Options& o) { o.dataset.batch_size = 4; }), "dataset.batch_size = 2 and");
  contains(refusal([](Options& o) { o.dataset.shuffle = false; }), "dataset.shuffle = true and");
  contains(refusal([](Options& o) { o.transform.mirror = 0.25; }), "transform.mirror = 0.0 and");
  contains(refusal([](Options& o) { o.mpi.epoch_end = EpochEnd::reuse; }), "mpi.epoch_end = \"next\" and");
  contains(refusal([](Options& o) { o.dataset.fraction = 0.5; }),
           "dataset.fraction = 1.0 (the default) and this one has dataset.fraction = 0.5");
  contains(refusal([](Options&) {}, 41), head + "the run was recorded with another dataset (fingerprint ");
  contains(refusal([](Options& o) { o.policy.recording.clear(); }), "needs policy.recording");
  contains(refusal([&](Options& o) { o.policy.recording = (dir / "nothing").string(); }), "telemetry.decisions = true");
  for (const std::string name : {"run", "run/", "link", "run/../run"}) {
    CAPTURE(name);
    if (name == "link") fs::create_directory_symlink(dir / "run", dir / "link");
    contains(refusal([&](Options& o) { o.telemetry.dir = (dir / name).string(); }),
             "policy.recording and telemetry.dir are the same folder");
  }
  // The recording still exists; neither the capacity nor the number of threads must be those of the
  // recorded run.
  CHECK(refusal([](Options& o) {
          o.queue.capacity = 7;
          o.workers.io = 5;
          o.telemetry.dir = "";
        }).empty());

  Recording recording = read_recording(recording_file(dir / "run", 0));
  recording.header.ranks = 2;
  std::ofstream(recording_file(dir / "run", 0), std::ios::trunc)
      << header_line(recording.header) << decisions_line(0, std::vector<std::uint64_t>{20});
  contains(refusal([](Options&) {}), head + "the run was recorded on 2 ranks and this job has 1");
}

TEST_CASE("evaluation neither records nor replays, and recording can be turned off") {
  const TemporaryDirectory dir;
  Options options = memory_options(2);
  options.run.eval = true;
  options.policy.name = "replay";
  options.policy.recording = (dir / "nothing").string();
  options.telemetry.dir = (dir / "eval").string();
  CHECK(reused(serve(options)) == 0);
  CHECK_FALSE(fs::exists(dir / "eval" / "decisions.0.jsonl"));

  options = jittery(dir / "off");
  options.telemetry.decisions = false;
  (void)serve(options);
  CHECK_FALSE(fs::exists(dir / "off" / "decisions.0.jsonl"));
}

TEST_CASE("a run leaves no files of an earlier, larger job beside its own") {
  const TemporaryDirectory dir;
  for (const char* name : {"decisions.0.jsonl", "decisions.1.jsonl", "steps.7.jsonl"}) {
    std::ofstream(dir / name) << "old\n";
  }
  std::ofstream(dir / "notes.txt") << "mine\n";
  Options options = jittery(dir.path());
  options.run.steps = 5;
  (void)serve(options);
  CHECK(read_recording(dir / "decisions.0.jsonl").fresh.size() == 5);
  CHECK_FALSE(fs::exists(dir / "decisions.1.jsonl"));
  CHECK_FALSE(fs::exists(dir / "steps.7.jsonl"));
  CHECK(fs::exists(dir / "notes.txt"));
}

TEST_CASE("a run is not repeated on other contents of files of the same sizes") {
  const TemporaryDirectory dir;
  const auto images = dir / "train-images-idx3-ubyte";
  const auto write = [&](char last) {
    write_file(dir / "train-labels-idx1-ubyte", std::string("\0\0\x08\x01\0\0\0\xC8", 8) + std::string(200, '\0'));
    write_file(images, std::string("\0\0\x08\x03\0\0\0\xC8\0\0\0\x08\0\0\0\x08", 16) + std::string(199 * 64, 'x') +
                           std::string(64, last));
  };
  Options options = memory_options(4);
  options.dataset.path = images.string();
  options.telemetry.dir = (dir / "run").string();
  write('a');
  {
    Feeder feeder(options);
    while (feeder.next()) {
    }
  }
  const Options again = replaying(options, dir / "run");
  const auto error_of_repeating = [&] { return error_of<ConfigError>([&] { Feeder{again}; }); };
  CHECK(error_of_repeating().empty());
  write('b');
  CHECK(contains(error_of_repeating(), "the run was recorded with files of the same sizes, but other contents ("));
}

}  // namespace
}  // namespace forebay::test_replay
