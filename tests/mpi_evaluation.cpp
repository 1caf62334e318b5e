#include <forebay/feeder.hpp>

#include "dataset_support.hpp"
#include "make/operation_chain.hpp"
#include "make/sample_maker.hpp"
#include "measure/recording.hpp"
#include "memory_dataset.hpp"
#include "mpi_world.hpp"
#include "test.hpp"

namespace forebay::test_mpi_evaluation {

using namespace forebay::make;
using namespace forebay::measure;

namespace {

using namespace testing;

// Evaluation leaves bad samples out: every good one is evaluated exactly once, with its own pixels
// and label.

using IsBad = bool (*)(std::uint64_t);

std::shared_ptr<MemoryDataset> made(std::uint64_t size, IsBad is_bad) {
  return std::make_shared<MemoryDataset>(size, [is_bad](std::uint64_t id) {
    if (is_bad(id)) throw SampleError("is broken on purpose");
  });
}

struct Evaluated {
  std::vector<std::uint64_t> ids;  // served to this rank
  std::vector<std::uint32_t> sizes;
  std::uint64_t steps = 0;
  Summary summary;
  std::vector<std::string> lines;  // logged by it
};

void check_contents(const Lease& batch) {
  CHECK(batch.images().shape[0] == batch.size());
  CHECK(batch.ids().size() == batch.size());
  CHECK(batch.labels().size() == batch.size());
  constexpr std::size_t kPixels = std::size_t{3} * MemoryDataset::kSide * MemoryDataset::kSide;
  const auto* const pixels = batch.images().as<const std::uint8_t>();
  for (std::size_t i = 0; i < batch.size(); ++i) {
    CHECK(batch.labels()[i] == static_cast<std::int64_t>(batch.ids()[i] % 10));
    for (std::size_t p = 0; p < kPixels; ++p) {
      REQUIRE(pixels[i * kPixels + p] == MemoryDataset::pixel(batch.ids()[i], p / 3));
    }
  }
}

Evaluated evaluate(const Options& options, std::shared_ptr<const Dataset> dataset) {
  Evaluated result;
  const auto lines = std::make_shared<std::vector<std::string>>();
  Parts parts{.dataset = std::move(dataset)};
  parts.log = [lines](LogLevel, std::string_view text) { lines->emplace_back(text); };
  Feeder feeder(options, world(), std::move(parts));
  while (auto batch = feeder.next()) {
    ++result.steps;
    if (batch->size() > 0) {
      check_contents(*batch);
      CHECK(batch->is_fresh());
    }
    result.sizes.push_back(batch->size());
    result.ids.insert(result.ids.end(), batch->ids().begin(), batch->ids().end());
  }
  result.summary = feeder.summary();
  feeder.close();
  result.lines = *lines;
  return result;
}

// The sum over all ranks.
std::uint64_t sum(std::uint64_t value) {
  const auto communicator = world().duplicate();
  std::uint64_t total = 0;
  for (const std::string& each : communicator->all_gather(std::to_string(value))) total += std::stoull(each);
  return total;
}

void check_all(const Options& options, std::uint64_t size, IsBad is_bad) {
  const Evaluated result = evaluate(options, made(size, is_bad));
  std::uint64_t good = 0;
  std::uint64_t id_sum = 0;
  for (std::uint64_t id = 0; id < size; ++id) {
    good += is_bad(id) ? 0 : 1;
    id_sum += is_bad(id) ? 0 : id * id;
  }
  CHECK(std::ranges::none_of(result.ids, is_bad));
  CHECK(std::ranges::is_sorted(result.ids));
  CHECK(std::ranges::adjacent_find(result.ids) == result.ids.end());
  CHECK(sum(result.ids.size()) == good);
  CHECK(sum(std::accumulate(result.ids.begin(), result.ids.end(), std::uint64_t{0},
                            [](std::uint64_t total, std::uint64_t id) { return total + id * id; })) == id_sum);
  CHECK(sum(result.summary.left_out) == size - good);
  CHECK(sum(result.steps) == result.steps * world().size());
}

Options eval_options() {
  Options options = memory_options(5);
  options.run.eval = true;
  return options;
}

TEST_CASE("bad samples anywhere in a batch are left out") {
  check_all(eval_options(), 103, [](std::uint64_t id) { return id % 10 == 3; });
  check_all(eval_options(), 103, [](std::uint64_t id) { return id % 5 == 0; });   // the first of each batch
  check_all(eval_options(), 103, [](std::uint64_t id) { return id % 5 == 4; });   // the last of each batch
  check_all(eval_options(), 103, [](std::uint64_t id) { return id % 5 != 2; });   // all but one
  check_all(eval_options(), 103, [](std::uint64_t id) { return id / 20 == 2; });  // whole batches
  check_all(eval_options(), 103, [](std::uint64_t id) { return id >= 100; });     // the short last batch
  check_all(eval_options(), 40, [](std::uint64_t) { return true; });
  check_all(eval_options(), 40, [](std::uint64_t) { return false; });
}

TEST_CASE("what was left out is said of all samples by one rank, and by each of several of its own share") {
  const Evaluated result = evaluate(eval_options(), made(100, [](std::uint64_t id) { return id % 5 == 2; }));
  const std::uint64_t good = result.ids.size();
  const std::uint64_t bad = result.summary.left_out;
  REQUIRE(bad > 0);
  const std::string figures = std::to_string(good) + " of " + std::to_string(good + bad) + " samples; " +
                              std::to_string(bad) + " left out because";
  const std::string line = (world().size() == 1 ? "evaluated " : "this rank evaluated ") + figures;
  CHECK(std::ranges::any_of(result.lines, [&](const std::string& one) {
    return one.starts_with(line) && one.ends_with("of all ranks") == (world().size() > 1);
  }));
}

TEST_CASE("the same where views are rendered at every serving") {
  Options options = eval_options();
  options.transform.when = When::dequeue;
  options.transform.canvas = {MemoryDataset::kSide, MemoryDataset::kSide};
  check_all(options, 103, [](std::uint64_t id) { return id % 10 == 3 || id / 20 == 2; });
}

TEST_CASE("batches shrink and keep their order") {
  if (world().size() > 1) return;
  const Evaluated result = evaluate(eval_options(), made(14, [](std::uint64_t id) { return id == 1 || id == 3; }));
  CHECK(result.sizes == std::vector<std::uint32_t>{3, 5, 4});
  CHECK(result.ids == std::vector<std::uint64_t>{0, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13});
  CHECK(result.summary.left_out == 2);
  CHECK(result.summary.bad_samples == 2);
}

TEST_CASE("a rank alone gets no batch without samples; with others it makes their steps") {
  const Evaluated result =
      evaluate(eval_options(), made(25, [](std::uint64_t id) { return id / 5 == 1 || id / 5 == 4; }));
  if (world().size() == 1) {
    CHECK(result.sizes == std::vector<std::uint32_t>{5, 5, 5});
    CHECK(result.summary.left_out == 10);
  }
  std::uint64_t steps = 0;
  for (const std::string& theirs : testing::gather_texts(std::to_string(result.sizes.size()))) {
    if (steps == 0) steps = std::stoull(theirs);
    CHECK(std::stoull(theirs) == steps);
  }
}

TEST_CASE("the budget counts in evaluation too") {
  Options options = eval_options();
  options.max_bad = std::int64_t{3};
  const auto tenth = [](std::uint64_t id) { return id % 10 == 3; };
  CHECK_THROWS_WITH_AS((void)evaluate(options, made(103, tenth)), doctest::Contains("max_bad"), Error);
  options.max_bad = 1.0;
  options.on_bad = OnBad::fail;
  CHECK_THROWS_WITH_AS((void)evaluate(options, made(103, tenth)), doctest::Contains("is broken on purpose"), Error);
}

TEST_CASE("by default a class that is missing ends all ranks with one message, whoever met its samples") {
  for (const bool eval : {false, true}) {
    Options options = memory_options(4);
    options.max_bad = AutomaticBudget{};
    options.run.eval = eval;
    const auto dataset = std::make_shared<MemoryDataset>(4000, [](std::uint64_t id) {
      if (id < 20) throw SampleError("is broken on purpose");
    });
    dataset->label_ = [](std::uint64_t id) { return id < 20 ? 4 : 5; };
    Feeder feeder(options, world(), Parts{.dataset = dataset});
    const std::string said = testing::error_of([&] {
      while (feeder.next()) {
      }
    });
    CHECK(contains(said, "of class \"4\" are bad: memory/"));
    CHECK(contains(said, "is broken on purpose"));
    for (const std::string& theirs : testing::gather_texts(said)) CHECK(theirs == said);
  }
}

TEST_CASE("run.steps ends an evaluation on all ranks after as many steps, with bad batches too") {
  Options options = eval_options();
  options.run.steps = 2;
  const Evaluated all_good = evaluate(options, made(103, [](std::uint64_t) { return false; }));
  CHECK(all_good.sizes == std::vector<std::uint32_t>{5, 5});
  const Evaluated without = evaluate(options, made(103, [](std::uint64_t id) { return id < 5; }));
  CHECK(sum(without.steps) == without.steps * world().size());
  CHECK(without.steps <= 2);
}

// Operations depend on (seed, epoch, position) alone, whichever rank makes a sample.

class Shift final : public Operation {
 public:
  void apply(const PixelView& view, Random& random) const override {
    for (Pixel& pixel : view.pixels) pixel.red = static_cast<std::uint8_t>(pixel.red + random.below(256));
  }
};

class Fails final : public Operation {
 public:
  void apply(const PixelView& /*view*/, Random& /*random*/) const override { throw std::runtime_error("cannot"); }
};

OperationRegistry registry() {
  OperationRegistry all = OperationRegistry::builtin();
  all.add("shift", [](const TransformOptions&) { return std::make_unique<Shift>(); });
  all.add("fails", [](const TransformOptions&) { return std::make_unique<Fails>(); });
  return all;
}

Options options_with(std::vector<std::string> operations) {
  Options options = memory_options(4);
  options.dataset.drop_last = true;
  options.transform.operations = std::move(operations);
  options.run.epochs = 3;
  return options;
}

std::vector<std::byte> pixels_of(std::uint64_t id) {
  std::vector<std::byte> bytes(std::size_t{MemoryDataset::kSide} * MemoryDataset::kSide);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(MemoryDataset::pixel(id, i));
  return bytes;
}

TEST_CASE("every rank serves what the sample's place in the epoch says") {
  const Options options = options_with({"shift", "colour", "erase"});
  const auto dataset = std::make_shared<MemoryDataset>(96);
  const SampleMaker maker(options.transform, options.seed, false, OperationChain(registry(), options.transform, false));
  SampleMaker::Workspace workspace;
  std::vector<std::byte> expected(maker.sample_bytes());
  Feeder feeder(options, world(), Parts{.dataset = dataset, .operations = registry()});
  std::uint64_t wrong = 0;
  std::uint64_t samples = 0;
  while (const auto batch = feeder.next()) {
    std::vector<std::byte> served(batch->images().bytes());
    batch->copy_to_host(served);
    for (std::uint32_t i = 0; i < batch->size(); ++i, ++samples) {
      const std::uint64_t id = batch->ids()[i];
      maker.make(pixels_of(id), dataset->sample(id), batch->epoch(), batch->batch() * 4 + i, std::span(expected),
                 workspace);
      const std::span<const std::byte> given = std::span(served).subspan(i * expected.size(), expected.size());
      if (!std::equal(given.begin(), given.end(), expected.begin())) ++wrong;
    }
  }
  CHECK(wrong == 0);
  CHECK(samples > 0);
}

TEST_CASE("what an operation throws ends the run on every rank") {
  const auto run = [] {
    Feeder feeder(options_with({"fails"}), world(),
                  Parts{.dataset = std::make_shared<MemoryDataset>(96), .operations = registry()});
    while (feeder.next()) {
    }
  };
  CHECK_THROWS_WITH_AS(run(), doctest::Contains("the operation \"fails\" of transform.operations failed: cannot"),
                       Error);
}

// A recorded run of several ranks and epochs, and its replay.

// Epoch, batch and use of every step, and the ends of epochs.
std::string course(const Options& options, std::uint64_t samples, bool by_epochs, std::atomic<int>& read_us) {
  Feeder feeder(options, world(), parts(samples, [&](std::uint64_t) {
                  std::this_thread::sleep_for(std::chrono::microseconds(read_us));
                }));
  std::string course;
  for (bool is_first = true; by_epochs ? feeder.next_epoch() : is_first; is_first = false) {
    while (auto batch = feeder.next()) {
      course += std::to_string(batch->epoch()) + "/" + std::to_string(batch->batch()) + "/" +
                std::to_string(batch->use_index()) + " ";
      std::this_thread::sleep_for(std::chrono::microseconds(50));  // a spinning trainer cannot be recorded
    }
    course += "| ";
  }
  feeder.close();
  return course;
}

std::string fresh_steps_of(const std::string& course) {
  std::string fresh;
  std::istringstream words(course);
  for (std::string word; words >> word;) {
    if (word != "|") fresh += word.ends_with("/0") ? 'f' : '-';
  }
  return fresh;
}

// This rank's steps that served fresh; padding does not count, although ranks in lockstep decided
// for fresh there.
std::string fresh_steps_recorded(const std::string& dir) {
  const Recording recording = read_recording(recording_file(dir, world().rank()));
  DecisionRuns::Cursor decided;
  DecisionRuns::Cursor padded;
  std::string fresh;
  for (std::uint64_t step = 0; step < recording.fresh.size(); ++step) {
    fresh += decided.is_set(recording.fresh, step) && !padded.is_set(recording.padded, step) ? 'f' : '-';
  }
  return fresh;
}

TEST_CASE("a recorded run of epochs is repeated exactly, and only in a loop of its kind") {
  for (const MpiMode mode : {MpiMode::local, MpiMode::lockstep}) {
    for (const bool by_epochs : {true, false}) {
      CAPTURES(static_cast<int>(mode), by_epochs);
      const TemporaryDirectory mine;
      const std::string dir = gather_texts(mine.path().string())[0];
      Options options = memory_options(2);
      options.mpi.mode = mode;
      options.mpi.epoch_end = EpochEnd::reuse;  // pads at the end of every epoch
      options.policy.name = "greedy";
      options.run.epochs = 3;
      options.telemetry.dir = dir + "/recorded";
      std::atomic<int> read_us{world().rank() == 0 ? 300 : 0};
      const std::uint64_t samples = 15 * world().size() + 1;
      const std::string recorded = course(options, samples, by_epochs, read_us);
      (void)gather_texts("");
      options.policy.name = "replay";
      options.policy.recording = dir + "/recorded";
      options.telemetry.dir = "";
      read_us = 0;
      CHECK(course(options, samples, by_epochs, read_us) == recorded);
      CHECK(fresh_steps_recorded(dir + "/recorded") == fresh_steps_of(recorded));
      if (world().size() > 1) {
        const std::string error = error_of([&] { (void)course(options, samples, !by_epochs, read_us); });
        CHECK(contains(error, "a loop over epochs (next_epoch())"));
      }
      (void)gather_texts("");
    }
  }
}

}  // namespace
}  // namespace forebay::test_mpi_evaluation
