// What a resumed job does with the files of its earlier parts: telemetry, quarantine log,
// recordings.
#include <forebay/feeder.hpp>
#include <nlohmann/json.hpp>

#include "measure/recording.hpp"
#include "memory_dataset.hpp"
#include "order/state_file.hpp"
#include "process.hpp"
#include "screen.hpp"
#include "test.hpp"

namespace forebay::test_resume_files {

using namespace forebay::measure;
using namespace forebay::order;

namespace {

namespace fs = std::filesystem;
using namespace testing;
using Json = nlohmann::json;

constexpr std::uint64_t kSamples = 40;
constexpr std::uint64_t kBroken = 7;

// A dataset with one unreadable sample and one that the index left out, unless it is `whole`.
std::shared_ptr<MemoryDataset> dataset(bool whole) {
  auto made = std::make_shared<MemoryDataset>(kSamples, [whole](std::uint64_t id) {
    if (!whole && id == kBroken) throw SampleError("broken");
  });
  if (!whole) made->skipped_.push_back({.path = "memory/left-out", .reason = "no label", .bad = true});
  return made;
}

Options recorded_options(const fs::path& dir) {
  Options options = memory_options(4);
  options.run.epochs = 3;
  options.policy.name = "interval";
  options.policy.interval = 2;
  options.telemetry.dir = dir.string();
  options.telemetry.per_step = true;
  return options;
}

// epoch, batch, use_index, first sample
using Served = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t>;

std::vector<Served> serve(Feeder& feeder, std::uint64_t steps = UINT64_MAX) {
  std::vector<Served> served;
  while (served.size() < steps) {
    const auto batch = feeder.next();
    if (!batch) break;
    served.emplace_back(batch->epoch(), batch->batch(), batch->use_index(), batch->ids()[0]);
    // Compute time of the trainer: without it, there would be more steps than can be recorded.
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return served;
}

void check_steps(const fs::path& dir, std::uint64_t steps) {
  const std::vector<Json> lines = read_lines(dir / "steps.0.jsonl");
  REQUIRE(lines.size() == steps);
  for (std::uint64_t step = 0; step < steps; ++step) CHECK(lines[step].at("step") == step);
}

TEST_CASE("a resumed run adds to the files of its earlier parts; a new run clears them all") {
  const TemporaryDirectory dir;
  const Options options = recorded_options(dir / "run");
  const fs::path file = dir / "feed.state";
  const auto part = [&](std::uint64_t steps) {
    Parts parts{.dataset = dataset(false)};
    parts.resume = file;
    Feeder feeder(options, std::move(parts));
    (void)serve(feeder, steps);
    feeder.save(file);
    return feeder.steps();
  };
  CHECK(part(17) == 17);
  check_steps(dir / "run", 17);
  const std::size_t bad = read_lines(dir / "run" / "quarantine.0.jsonl").size();
  CHECK(bad >= 1);
  {
    // The other way to resume: a feeder that does not know yet that it will must leave the files
    // alone.
    Feeder feeder(options, {.dataset = dataset(false)});
    feeder.restore(file);
    (void)serve(feeder, 6);
    feeder.save(file);
  }
  const std::uint64_t steps = part(UINT64_MAX);
  CHECK(steps > 50);
  check_steps(dir / "run", steps);
  CHECK(read_lines(dir / "run" / "quarantine.0.jsonl").size() > bad);
  for (const std::uint64_t first : {0U, 17U, 23U}) {
    CAPTURE(first);
    const Recording recording = read_recording(recording_file(dir / "run", 0, first));
    CHECK(recording.header.first_step == first);
    CHECK(recording.fresh.size() == (first == 0 ? 17 : first == 17 ? 6 : steps - 23));
  }

  Feeder anew(options, {.dataset = dataset(true)});
  (void)serve(anew, 5);
  anew.close();
  check_steps(dir / "run", 5);
  CHECK(fs::exists(recording_file(dir / "run", 0)));
  CHECK_FALSE(fs::exists(recording_file(dir / "run", 0, 17)));
  CHECK_FALSE(fs::exists(recording_file(dir / "run", 0, 23)));
  CHECK_FALSE(fs::exists(dir / "run" / "quarantine.0.jsonl"));
}

TEST_CASE("a run's folder stays where it was when the program works in another") {
  const TemporaryDirectory dir;
  const fs::path before = fs::current_path();
  fs::create_directory(dir / "elsewhere");
  fs::current_path(dir.path());
  Feeder feeder(recorded_options("run"), Parts{.dataset = dataset(true)});
  fs::current_path(dir / "elsewhere");
  const std::size_t steps = serve(feeder).size();
  feeder.close();
  fs::current_path(before);
  check_steps(dir / "run", steps);
  CHECK(fs::is_empty(dir / "elsewhere"));
}

TEST_CASE("a state is not saved behind a URL, and no folder of its name is made") {
  Feeder feeder(recorded_options(""), Parts{.dataset = dataset(true)});
  CHECK(contains(error_of([&] { feeder.save("s3://bucket/feed.state"); }), "only files are written"));
  CHECK(error_of([&] { feeder.save(""); }) == "cannot save the state to : the name is empty: name a file or folder");
  CHECK_FALSE(fs::exists("s3:"));
  CHECK_FALSE(serve(feeder).empty());
}

TEST_CASE("a complete run that is resumed leaves the files as they are") {
  const TemporaryDirectory dir;
  const Options options = recorded_options(dir / "run");
  Feeder feeder(options, {.dataset = dataset(true)});
  (void)serve(feeder);
  const std::string state = feeder.state();
  feeder.close();
  Feeder again(options, {.dataset = dataset(true)});
  again.restore_state(state);
  CHECK_FALSE(again.next().has_value());
  CHECK(again.steps() > 50);
  again.close();
  check_steps(dir / "run", again.steps());
}

// A job stopped by a signal during its start has made no step, so it has no files to append to.
TEST_CASE("a run that resumes from before its first step is a new one for its files") {
  const TemporaryDirectory dir;
  const Options options = recorded_options(dir / "run");
  {
    Feeder other(options, {.dataset = dataset(false)});
    (void)serve(other, 30);
  }
  Parts stopped{.dataset = dataset(true)};
  const std::atomic<bool> stop{true};
  stopped.stop = &stop;
  Feeder nothing(options, std::move(stopped));
  CHECK_FALSE(nothing.next().has_value());
  CHECK(nothing.was_stopped());
  const std::string state = nothing.state();
  nothing.close();

  Feeder feeder(options, {.dataset = dataset(true)});
  feeder.restore_state(state);
  (void)serve(feeder, 9);
  feeder.close();
  check_steps(dir / "run", 9);
  CHECK_FALSE(fs::exists(dir / "run" / "quarantine.0.jsonl"));
}

TEST_CASE("a killed run may leave half a line: what is added begins a line of its own") {
  const TemporaryDirectory dir;
  const Options options = recorded_options(dir / "run");
  std::string state;
  {
    Feeder feeder(options, {.dataset = dataset(true)});
    (void)serve(feeder, 8);
    state = feeder.state();
  }
  const fs::path steps = dir / "run" / "steps.0.jsonl";
  fs::resize_file(steps, fs::file_size(steps) - 20);
  Feeder feeder(options, {.dataset = dataset(true)});
  feeder.restore_state(state);
  (void)serve(feeder, 4);
  feeder.close();
  std::vector<std::uint64_t> whole;
  std::ifstream in(steps);
  for (std::string line; std::getline(in, line);) {
    const Json parsed = Json::parse(line, nullptr, false);
    if (!parsed.is_discarded()) whole.push_back(parsed.at("step").get<std::uint64_t>());
  }
  const std::vector<std::uint64_t> all_but_one{0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 11};
  CHECK(whole == all_but_one);
}

TEST_CASE("a run killed while its steps made way for new ones goes on with them") {
  const TemporaryDirectory dir;
  const Options options = recorded_options(dir / "run");
  const fs::path steps = dir / "run" / "steps.0.jsonl";
  const fs::path earlier = dir / "run" / "steps.0.earlier.jsonl";
  std::string state;
  {
    Feeder feeder(options, {.dataset = dataset(true)});
    (void)serve(feeder, 12);
    state = feeder.state();
  }
  fs::rename(steps, earlier);  // killed before it created the new file
  Feeder feeder(options, {.dataset = dataset(true)});
  feeder.restore_state(state);
  (void)serve(feeder, 5);
  feeder.close();
  CHECK(read_lines(earlier).size() == 12);
  const std::vector<Json> after = read_lines(steps);
  REQUIRE(after.size() == 5);
  CHECK(after.front().at("step") == 12);
  CHECK(feeder.summary().dropped_records == 0);
}

// A source with irregular delays, so that no two runs make the same decisions on their own.
Options jittery(const fs::path& dir) {
  Options options = recorded_options(dir);
  options.policy.name = "greedy";
  options.policy.pick = Pick::least_used;
  options.queue.pool = 3;
  options.storage.latency_ms = 0.5;
  options.storage.jitter = 2;
  options.storage.outage_every_s = 0.01;
  options.storage.outage_s = 0.005;
  return options;
}

Options replaying(Options options, const fs::path& recording) {
  options.policy.name = "replay";
  options.policy.recording = recording.string();
  options.telemetry.dir = recording.string() + ".again";
  options.storage = {};
  return options;
}

Parts from(const fs::path& state) {
  Parts parts{.dataset = dataset(true)};
  parts.resume = state;
  return parts;
}

TEST_CASE("each part of a run is repeated from its own recording and the state that it began with") {
  const TemporaryDirectory dir;
  const Options options = jittery(dir / "run");
  const fs::path state = dir / "feed.state";
  Feeder first(options, {.dataset = dataset(true)});
  const auto part_one = serve(first, 23);
  first.save(state);
  first.close();
  Feeder second(options, from(state));
  const auto part_two = serve(second);
  second.close();

  Feeder again_one(replaying(options, dir / "run"), {.dataset = dataset(true)});
  CHECK(serve(again_one) == part_one);
  again_one.close();  // the next run writes to the same folder
  Feeder again_two(replaying(options, dir / "run"), from(state));
  CHECK(serve(again_two) == part_two);
  CHECK(again_two.epochs_completed() == 3);
  again_two.close();
  Feeder restored(replaying(options, dir / "run"), {.dataset = dataset(true)});
  restored.restore(state);
  CHECK(serve(restored) == part_two);
}

TEST_CASE("a state that no recording begins at is refused, and the replay from the beginning still works") {
  const TemporaryDirectory dir;
  const Options options = jittery(dir / "run");
  Feeder recorded(options, {.dataset = dataset(true)});
  const auto served = serve(recorded, 23);
  recorded.save(dir / "feed.state");
  recorded.close();
  Feeder replay(replaying(options, dir / "run"), {.dataset = dataset(true)});
  CHECK_THROWS_WITH_AS(replay.restore(dir / "feed.state"), doctest::Contains("decisions.0.from-23.jsonl"), ConfigError);
  CHECK(serve(replay) == served);
}

// States are written on a separate thread: nobody waits for the disk, and no failure is forgotten.

// A fake disk that lets writes pass one at a time and stores what was written.
struct Disk {
  StateWriter::Write write() {
    return [this](const std::filesystem::path& file, const std::string& text) {
      ++begun;
      gate.pass();
      if (text.starts_with("bad")) throw Error("no room for " + text);
      const std::lock_guard lock(mutex);
      written.push_back(file.string() + ":" + text);
    };
  }
  bool waits_for(int writes) {
    return eventually([&] { return begun.load() == writes; });
  }

  std::atomic<int> begun{0};
  Gate gate;
  std::mutex mutex;
  std::vector<std::string> written;
};

TEST_CASE("save() returns while the disk stalls; one is written at a time, and the newest of those that wait") {
  Disk disk;
  StateWriter writer(disk.write());
  writer.save("a", "1");
  CHECK(disk.waits_for(1));
  for (int i = 2; i < 100; ++i) writer.save("a", std::to_string(i));
  CHECK(disk.begun == 1);
  CHECK(writer.take_error() == "");
  disk.gate.open();
  writer.finish();
  CHECK(disk.written == std::vector<std::string>{"a:1", "a:99"});
  writer.save("a", "100");
  writer.finish();
  CHECK(disk.written.back() == "a:100");
}

TEST_CASE("a state for another file takes no other's place") {
  Disk disk;
  StateWriter writer(disk.write());
  writer.save("a", "1");
  CHECK(disk.waits_for(1));
  writer.save("a", "2");
  std::atomic<bool> returned{false};
  std::thread saver([&] {
    writer.save("b", "3");
    returned = true;
  });
  disk.gate.open(1);
  CHECK(disk.waits_for(2));
  CHECK(eventually([&] { return returned.load(); }));  // returns once the second one is being written
  disk.gate.open();
  saver.join();
  writer.finish();
  CHECK(disk.written == std::vector<std::string>{"a:1", "a:2", "b:3"});
}

TEST_CASE("the first error is kept until it is asked for, and later states are written all the same") {
  Disk disk;
  disk.gate.open();
  StateWriter writer(disk.write());
  writer.save("a", "bad 1");
  writer.finish();
  writer.save("a", "bad 2");
  writer.finish();
  writer.save("a", "3");
  writer.finish();
  CHECK(disk.written == std::vector<std::string>{"a:3"});
  CHECK(writer.take_error() == "no room for bad 1");
  CHECK(writer.take_error() == "");
}

TEST_CASE("the end waits for what was handed over") {
  Disk disk;
  {
    StateWriter writer(disk.write());
    writer.save("a", "1");
    CHECK(disk.waits_for(1));
    writer.save("a", "2");
    disk.gate.open();
  }
  CHECK(disk.written == std::vector<std::string>{"a:1", "a:2"});
  StateWriter idle(disk.write());  // has no thread
  idle.finish();
}

}  // namespace
}  // namespace forebay::test_resume_files
