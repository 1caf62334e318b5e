// A job that stops and resumes: all its parts together serve what a run without a stop serves.
#include <forebay/feeder.hpp>

#include "dataset_support.hpp"
#include "memory_dataset.hpp"
#include "order/job_state.hpp"
#include "test.hpp"

namespace forebay::test_resume {

using namespace forebay::order;

namespace {

using namespace testing;

constexpr std::uint64_t kSamples = 37;
constexpr std::uint64_t kBatches = 10;  // the last one has one sample

Parts parts(std::uint64_t size = kSamples, MemoryDataset::Hook hook = {}) {
  return {.dataset = std::make_shared<MemoryDataset>(size, std::move(hook))};
}

// Mirrored at random, so that the bytes also depend on epoch and position.
Options three_epochs() {
  Options options = memory_options(4);
  options.transform.mirror = 0.5;
  options.run.epochs = 3;
  return options;
}

struct Batch {
  std::uint64_t epoch;
  std::uint64_t batch;
  std::vector<std::uint64_t> ids;
  std::vector<std::uint8_t> pixels;

  friend bool operator==(const Batch&, const Batch&) = default;
};

Batch copy(const Lease& batch) {
  const TensorView images = batch.images();
  const auto* pixels = images.as<std::uint8_t>();
  return {.epoch = batch.epoch(),
          .batch = batch.batch(),
          .ids = {batch.ids().begin(), batch.ids().end()},
          .pixels = {pixels, pixels + images.bytes()}};
}

// The fresh batches of all remaining steps, or of at most this many.
std::vector<Batch> serve(Feeder& feeder, std::uint64_t steps = UINT64_MAX) {
  std::vector<Batch> fresh;
  for (std::uint64_t step = 0; step < steps; ++step) {
    const auto batch = feeder.next();
    if (!batch) break;
    if (batch->is_fresh()) fresh.push_back(copy(*batch));
  }
  return fresh;
}

void append(std::vector<Batch>& to, const std::vector<Batch>& more) { to.insert(to.end(), more.begin(), more.end()); }

std::vector<Batch> without_a_stop(const Options& options) {
  Feeder feeder(options, parts());
  return serve(feeder);
}

JobState parsed(Feeder& feeder) { return parse_state(feeder.state(), "the state of a test"); }

TEST_CASE("what was not served before a stop is served after it, whatever else has changed meanwhile") {
  const std::vector<Batch> all = without_a_stop(three_epochs());
  REQUIRE(all.size() == 3 * kBatches);
  const TemporaryDirectory dir;
  const auto file = dir / "feed.state";
  for (const std::uint64_t stop : {0U, 1U, 9U, 10U, 11U, 25U, 29U}) {
    CAPTURE(stop);
    Feeder first(three_epochs(), parts());
    std::vector<Batch> served = serve(first, stop);
    first.save(file);
    const std::string text = first.state();
    first.close();

    Options other = three_epochs();
    other.policy.name = "interval";
    other.policy.interval = 2;
    other.queue.capacity = 7;
    other.queue.pool = 2;
    other.workers.decode = 1;
    const auto go_on = [&](Feeder& feeder) {
      CHECK(feeder.steps() == stop);
      CHECK(feeder.epochs_completed() == stop / kBatches);
      std::vector<Batch> both = served;
      append(both, serve(feeder));
      CHECK(both == all);
      CHECK(feeder.epochs_completed() == 3);
      CHECK_FALSE(feeder.was_stopped());
    };
    Feeder by_text(other, parts());
    by_text.restore_state(text);
    go_on(by_text);
    Feeder by_file(three_epochs(), parts());
    by_file.restore(file);
    go_on(by_file);
    Feeder if_present(other, parts());
    CHECK(if_present.restore_if_present(file));
    go_on(if_present);
    Parts at_once = parts();
    at_once.resume = file;
    Feeder by_parts(three_epochs(), std::move(at_once));
    go_on(by_parts);
  }
}

TEST_CASE("a job may stop after every step; steps, epochs and samples go on counting") {
  const std::vector<Batch> all = without_a_stop(three_epochs());
  std::vector<Batch> served;
  std::string state;
  std::uint64_t samples = 0;
  for (std::uint64_t step = 0; step < 3 * kBatches; ++step) {
    CAPTURE(step);
    Feeder feeder(three_epochs(), parts());
    if (step > 0) feeder.restore_state(state);
    CHECK(feeder.steps() == step);
    CHECK(feeder.epochs_completed() == step / kBatches);
    const auto batch = feeder.next();
    REQUIRE(batch);
    CHECK(batch->step() == step);
    CHECK(batch->job_fresh_samples() == samples);
    samples += batch->size();
    served.push_back(copy(*batch));
    state = feeder.state();
    const JobState made = parse_state(state, "state");
    CHECK(made.steps == step + 1);
    CHECK(made.fresh_samples == samples);
    CHECK(made.epochs == (step + 1) / kBatches);
    CHECK(feeder.state() == state);
  }
  CHECK(served == all);
}

TEST_CASE("only fresh batches count: after reuses the state is what it was, but for the steps") {
  Options options = three_epochs();
  options.policy.name = "greedy";
  options.workers.io = 1;
  Gate gate;
  gate.open(4);  // one batch
  Feeder feeder(options, parts(kSamples, [&](std::uint64_t) { gate.pass(); }));
  std::vector<Batch> served = serve(feeder, 1);
  const JobState after_one = parsed(feeder);
  CHECK(serve(feeder, 20).empty());
  JobState after_more = parsed(feeder);
  CHECK(after_more.steps == 21);
  after_more.steps = after_one.steps;
  CHECK(after_more == after_one);
  after_more.steps = 21;
  gate.open();

  Feeder resumed(three_epochs(), parts());
  resumed.restore_state(to_text(after_more));
  const auto first = resumed.next();
  REQUIRE(first);
  CHECK(first->is_fresh());  // nothing is resident yet
  CHECK(first->step() == 21);
  served.push_back(copy(*first));
  append(served, serve(resumed));
  CHECK(served == without_a_stop(three_epochs()));
}

TEST_CASE("run.steps and run.epochs are totals over all parts of a run") {
  Options options = three_epochs();
  options.run.steps = 23;
  Feeder first(options, parts());
  CHECK(serve(first, 9).size() == 9);
  Feeder second(options, parts());
  second.restore_state(first.state());
  CHECK(serve(second).size() == 14);
  CHECK(second.steps() == 23);
  CHECK(second.epochs_completed() == 2);

  // A run limited to fewer steps than were already made is over; one limited to more continues.
  const std::string state = second.state();
  options.run.steps = 5;
  Feeder over(options, parts());
  over.restore_state(state);
  CHECK_FALSE(over.next().has_value());
  CHECK(over.steps() == 23);
  options.run.steps = 25;
  Feeder longer(options, parts());
  longer.restore_state(state);
  CHECK(serve(longer).size() == 2);
}

TEST_CASE("a run that was complete ends at once when it is resumed; with more epochs it continues") {
  Feeder complete(three_epochs(), parts());
  const std::vector<Batch> all = serve(complete);
  const std::string state = complete.state();  // after the end, before close()
  CHECK(parse_state(state, "state").left.empty());

  std::atomic<int> reads{0};
  Parts again = parts(kSamples, [&](std::uint64_t) { ++reads; });
  std::string log;
  again.log = [&](LogLevel level, std::string_view text) { log += level == LogLevel::warning ? text : ""; };
  Feeder resumed(three_epochs(), again);
  resumed.restore_state(state);
  CHECK_FALSE(resumed.next().has_value());
  CHECK_FALSE(resumed.next().has_value());
  CHECK_FALSE(resumed.was_stopped());
  CHECK(contains(log, "that run was complete, so there are no batches"));
  CHECK(resumed.steps() == 3 * kBatches);
  CHECK(resumed.epochs_completed() == 3);
  CHECK(resumed.state() == state);

  Options longer = three_epochs();
  longer.run.epochs = 5;
  Feeder more(longer, parts());
  more.restore_state(state);
  std::vector<Batch> five = all;
  append(five, serve(more));
  CHECK(five == without_a_stop(longer));

  Options shorter = three_epochs();
  shorter.run.epochs = 1;
  Feeder over(shorter, parts());
  over.restore_state(state);
  CHECK_FALSE(over.next().has_value());
}

TEST_CASE("a run that was asked to stop says so, and can be saved then") {
  Options endless = three_epochs();
  endless.run.epochs = 1'000'000;
  Feeder feeder(endless, parts());
  std::vector<Batch> served = serve(feeder, 13);
  feeder.request_stop();
  CHECK_FALSE(feeder.next().has_value());
  CHECK(feeder.was_stopped());
  CHECK(feeder.steps() == 13);
  const std::string state = feeder.state();
  CHECK(parse_state(state, "state").steps == 13);

  Feeder resumed(three_epochs(), parts());
  resumed.restore_state(state);
  CHECK_FALSE(resumed.was_stopped());
  append(served, serve(resumed));
  CHECK(served == without_a_stop(three_epochs()));
}

TEST_CASE("what comes at the wrong time is an error, and changes nothing") {
  const TemporaryDirectory dir;
  Feeder feeder(three_epochs(), parts());
  const std::string beginning = feeder.state();
  feeder.save(dir / "feed.state");
  std::vector<Batch> served = serve(feeder, 1);
  for (const auto& call : std::vector<std::function<void()>>{
           [&] { feeder.restore_state(beginning); },
           [&] { feeder.restore(dir / "feed.state"); },
           [&] { (void)feeder.restore_if_present(dir / "feed.state"); },
       }) {
    CHECK(contains(error_of(call), "before the first next()"));
  }
  append(served, serve(feeder));
  CHECK(served == without_a_stop(three_epochs()));
  feeder.close();
  CHECK(contains(error_of([&] { (void)feeder.state(); }), "before close()"));
  CHECK(contains(error_of([&] { feeder.save(dir / "late.state"); }), "before close()"));
  CHECK_FALSE(std::filesystem::exists(dir / "late.state"));

  Options evaluation = three_epochs();
  evaluation.run.eval = true;
  Feeder held_out(evaluation, parts());
  CHECK(contains(error_of([&] { (void)held_out.state(); }), "run.eval"));
  CHECK_THROWS_WITH_AS(held_out.restore_state(beginning), doctest::Contains("run.eval"), ConfigError);
  CHECK(serve(held_out).size() == kBatches);
}

TEST_CASE("a save that fails names the file, and the run continues") {
  const TemporaryDirectory dir;
  std::ofstream(dir / "file") << "no folder";
  const auto file = dir / "file" / "feed.state";
  Feeder feeder(three_epochs(), parts());
  std::vector<Batch> served = serve(feeder, 3);
  std::string said = error_of([&] { feeder.save(file); });
  said += error_of([&] { feeder.finish_saves(); });
  CHECK(contains(said, "cannot save the state to " + file.string()));
  feeder.finish_saves();  // reported only once
  append(served, serve(feeder));
  CHECK(contains(error_of([&] { feeder.save(file); }), "cannot save the state to " + file.string()));
  CHECK(served == without_a_stop(three_epochs()));
}

TEST_CASE("a file that is not there begins a run anew or is an error, as the call says") {
  const TemporaryDirectory dir;
  Parts missing = parts();
  missing.resume = dir / "nothing";
  Feeder feeder(three_epochs(), std::move(missing));
  CHECK_FALSE(feeder.restore_if_present(dir / "nothing"));
  CHECK_THROWS_WITH_AS(feeder.restore(dir / "nothing"), doctest::Contains((dir / "nothing").c_str()), ConfigError);
  CHECK(serve(feeder) == without_a_stop(three_epochs()));
}

// The number of parts is that of the saved job, whatever nodes this job has, unless dataset.nodes
// differs.
TEST_CASE("in parts, a job goes on with those it began with; another dataset.nodes is refused") {
  Options options = three_epochs();
  options.dataset.order = SampleOrder::local;
  options.dataset.exchange = 0.2;
  options.dataset.nodes = 3;
  const std::vector<Batch> all = without_a_stop(options);
  const TemporaryDirectory dir;
  const auto file = dir / "feed.state";
  Feeder first(options, parts());
  std::vector<Batch> served = serve(first, 13);
  first.save(file);
  first.finish_saves();
  options.dataset.nodes = 0;
  Feeder restored(options, parts());  // which by itself would have one part
  CHECK(restored.restore_if_present(file));
  Parts at_once = parts();
  at_once.resume = file;
  Feeder resumed(options, std::move(at_once));
  for (Feeder* const feeder : {&restored, &resumed}) {
    std::vector<Batch> both = served;
    append(both, serve(*feeder));
    CHECK(both == all);
  }
  Feeder anew(options, parts());
  CHECK(serve(anew) != all);
  options.dataset.nodes = 2;
  Feeder other(options, parts());
  CHECK(contains(error_of([&] { other.restore(file); }),
                 "had dataset.nodes = 3 and this one has dataset.nodes = 2: set it as it was"));
  options.dataset.exchange = 0;
  options.dataset.nodes = 0;
  Feeder without(options, parts());
  CHECK(contains(error_of([&] { without.restore(file); }), "dataset.exchange = 0.2"));
}

TEST_CASE("a state that deals its batches out in another way than its settings is refused, and says how") {
  Feeder saved(three_epochs(), parts());
  (void)serve(saved, 3);
  const JobState whole = parse_state(saved.state(), "here");
  const auto error_with = [&](const std::function<void(JobState&)>& change) {
    JobState state = whole;
    change(state);
    Feeder feeder(three_epochs(), parts());
    return error_of([&] { feeder.restore_state(to_text(state)); });
  };
  CHECK(error_with([](JobState&) {}).empty());
  CHECK(
      contains(error_with([](JobState& state) { state.contiguous = true; }),
               "the saved job dealt its batches out to 1024 shards of batches in a row and this one deals them out to "
               "1024 shards in turn: the state is not as it was saved"));
  CHECK(contains(error_with([](JobState& state) { state.virtual_shards = 512; }),
                 "to 512 shards in turn and this one deals them out to 1024 shards in turn"));
}

TEST_CASE("another job's state is refused with its file, the key and what to do, and the feeder serves on as it was") {
  const TemporaryDirectory dir;
  const auto file = dir / "feed.state";
  Feeder saved(three_epochs(), parts());
  (void)serve(saved, 12);
  saved.save(file);
  saved.finish_saves();
  std::string text = saved.state();

  const auto refused = [&](const std::function<void(Options&)>& change, std::uint64_t size, const std::string& what) {
    Options options = three_epochs();
    change(options);
    Feeder feeder(options, parts(size));
    for (const auto& call : std::vector<std::function<void()>>{
             [&] { feeder.restore(file); },
             [&] { (void)feeder.restore_if_present(file); },
             [&] {
               Parts made = parts(size);
               made.resume = file;
               Feeder{options, std::move(made)};
             },
         }) {
      const std::string error = error_of(call);
      CAPTURE(error);
      CHECK(error.starts_with(file.string()));
      CHECK(contains(error, what));
    }
    CHECK_THROWS_AS(feeder.restore(file), ConfigError);
    CHECK_THROWS_WITH_AS(feeder.restore_state(text), doctest::Contains("the state given to restore_state()"),
                         ConfigError);
    CHECK(feeder.steps() == 0);
    Feeder fresh(options, parts(size));
    CHECK(serve(feeder) == serve(fresh));
  };
  const auto other_key = [](const std::string& key, const std::string& theirs, const std::string& ours) {
    return "the saved job had " + key + " = " + theirs + " and this one has " + key + " = " + ours +
           ": set it as it was, or move the file away to begin anew";
  };
  refused([](Options& o) { o.seed = 18; }, kSamples, other_key("seed", "17", "18"));
  refused([](Options& o) { o.dataset.batch_size = 5; }, kSamples, other_key("dataset.batch_size", "4", "5"));
  refused([](Options& o) { o.dataset.shuffle = false; }, kSamples, other_key("dataset.shuffle", "true", "false"));
  refused([](Options& o) { o.dataset.drop_last = true; }, kSamples, other_key("dataset.drop_last", "false", "true"));
  refused([](Options& o) { o.transform.mirror = 0.25; }, kSamples, other_key("transform.mirror", "0.5", "0.25"));
  refused([](Options& o) { o.transform.dtype = DType::float32; }, kSamples, "transform.dtype");
  refused([](Options& o) { o.transform.crop = Crop::random; }, kSamples, "and this one has transform.crop = ");
  CHECK_FALSE(contains(text, "transform.padding"));  // empty: older states have no such key
  refused([](Options& o) { o.mpi.virtual_shards = 8; }, kSamples, other_key("mpi.virtual_shards", "1024", "8"));
  refused([](Options&) {}, kSamples + 1, "the saved job had another dataset (37 samples, fingerprint ");
  refused([](Options&) {}, kSamples + 1, "check dataset.path, dataset.classes and dataset.index");

  // Only what differs is named, and not the other keys of a selection, which have their defaults.
  refused(
      [](Options& o) {
        o.dataset.split = {0.9, 0.1};
      },
      kSamples, other_key("dataset.split", "[] (the default)", "[0.9, 0.1]"));

  const auto same = [](Options&) {};
  const std::string good = text;
  const auto damaged = [&](const std::string& what) {
    std::ofstream(file, std::ios::trunc | std::ios::binary) << text;
    refused(same, kSamples, what);
    text = good;
  };
  text.replace(text.find("\"steps\":12"), 10, "\"steps\":13");
  damaged("has the checksum");
  text.replace(text.find("\"forebay_state\":2"), 17, "\"forebay_state\":3");
  damaged("is a state of version 3, written by a newer Forebay");
  text.replace(text.find("\"forebay_state\":2"), 17, "\"forebay_state\":1");
  damaged("is a state of version 1, written by an older Forebay");
  text.resize(text.size() / 2);
  damaged("is cut off after");
  text.clear();
  damaged("is empty");
  text = "{}\n";
  damaged("is not a Forebay state");
}

TEST_CASE("a job does not go on with other contents behind the first bytes of files of the same sizes") {
  const TemporaryDirectory dir;
  const auto images = dir / "train-images-idx3-ubyte";
  const auto write = [&](char pixel) {
    write_file(dir / "train-labels-idx1-ubyte", std::string("\0\0\x08\x01\0\0\0\xC8", 8) + std::string(200, '\0'));
    write_file(images, std::string("\0\0\x08\x03\0\0\0\xC8\0\0\0\x08\0\0\0\x08", 16) + std::string(199 * 64, 'x') +
                           std::string(64, pixel));
  };
  Options options = memory_options(4);
  options.dataset.path = images.string();
  const auto state_of = [&] { return Feeder(options).state(); };
  const auto error_with = [&](const std::string& state) {
    Feeder feeder(options);
    return error_of([&] { feeder.restore_state(state); });
  };
  write('a');
  const std::string saved = state_of();
  CHECK(error_with(saved).empty());
  JobState unknown = parse_state(saved, "here");  // as of a mirror in a store, and of states of before
  CHECK(unknown.settings.erase("the contents of its files") == 1);
  write('b');
  CHECK(parse_state(state_of(), "here").dataset == unknown.dataset);
  const std::string error = error_with(saved);
  CAPTURE(error);
  CHECK(contains(error, "had the same number of samples in files of the same sizes, but other contents ("));
  CHECK(contains(error, "check dataset.path"));
  CHECK(error_with(to_text(unknown)).empty());
}

}  // namespace
}  // namespace forebay::test_resume
