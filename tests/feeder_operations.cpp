// transform.operations, from files to leases.
#include <forebay/feeder.hpp>

#include "make/canvas_math.hpp"
#include "memory_dataset.hpp"
#include "test.hpp"
#include "twin_renderer.hpp"

namespace forebay::test_feeder_operations {

using namespace forebay::make;

namespace {

using namespace testing;
using Bytes = std::vector<std::byte>;

// Draws one number and adds it to every pixel.
class Shift final : public Operation {
 public:
  void apply(const PixelView& view, Random& random) const override {
    const auto by = static_cast<std::uint8_t>(random.below(200) + 1);
    for (Pixel& pixel : view.pixels) pixel.red = static_cast<std::uint8_t>(pixel.red + by);
  }
};

// Fails for views that begin with this sample's first pixel.
class FailsAt final : public Operation {
 public:
  explicit FailsAt(std::uint64_t id) : pixel_(MemoryDataset::pixel(id, 0)) {}
  void apply(const PixelView& view, Random& /*random*/) const override {
    if (view.row(0)[0].red == pixel_) throw std::runtime_error("not this one");
  }

 private:
  std::uint8_t pixel_;
};

Parts parts_of(std::uint64_t samples) {
  Parts parts{.dataset = std::make_shared<MemoryDataset>(samples)};
  parts.operations.add("shift", [](const TransformOptions&) { return std::make_unique<Shift>(); });
  parts.operations.add("fails", [](const TransformOptions&) { return std::make_unique<FailsAt>(7); });
  return parts;
}

Options options_with(std::vector<std::string> operations) {
  Options options = memory_options(4);
  options.transform.operations = std::move(operations);
  options.transform.mean = {100, 110, 120};
  options.run.epochs = 2;
  return options;
}

Batches run(const Options& options) { return batches_of(options, parts_of(40)); }

TEST_CASE("operations are the same in every run, whatever threads make the samples, and others with another seed") {
  for (const std::vector<std::string>& names :
       {std::vector<std::string>{"shift"}, {"colour", "erase"}, {"shift", "erase", "colour"}}) {
    Options options = options_with(names);
    const Batches one = run(options);
    CHECK(one.size() == 20);
    options.workers.decode = 1;
    options.workers.io = 1;
    CHECK(run(options) == one);
    options.workers.decode = 4;
    CHECK(run(options) == one);
    CHECK(run(options_with({})) != one);
    options.seed += 1;
    CHECK(run(options) != one);
  }
}

TEST_CASE("a resumed run draws what the run that never stopped draws") {
  const Options options = options_with({"shift", "colour", "erase"});
  const Batches whole = run(options);
  Batches served;
  std::string state;
  {
    Feeder feeder(options, parts_of(40));
    add_batches(feeder, served, 7);
    state = feeder.state();
  }
  Feeder feeder(options, parts_of(40));
  feeder.restore_state(state);
  add_batches(feeder, served);
  CHECK(served == whole);
}

TEST_CASE("a saved job is not resumed with other operations") {
  std::string state;
  {
    Feeder feeder(options_with({"colour"}), parts_of(40));
    Batches served;
    add_batches(feeder, served, 3);
    state = feeder.state();
  }
  Feeder without(options_with({}), parts_of(40));
  CHECK_THROWS_WITH_AS(without.restore_state(state), doctest::Contains("transform.operations"), ConfigError);
  Options weaker = options_with({"colour"});
  weaker.transform.colour.hue = 0;
  Feeder other(weaker, parts_of(40));
  CHECK_THROWS_WITH_AS(other.restore_state(state), doctest::Contains("colour.hue"), ConfigError);
}

TEST_CASE("an operation that throws ends the run with its name and the sample's") {
  Options options = options_with({"colour", "fails", "erase"});
  options.transform.colour = {.brightness = 0, .contrast = 0, .saturation = 0, .hue = 0};
  options.on_bad = OnBad::replace;  // it does not count as a bad sample
  const auto run_it = [&] {
    Feeder feeder(options, parts_of(40));
    Batches served;
    add_batches(feeder, served);
  };
  CHECK_THROWS_WITH_AS(
      run_it(), doctest::Contains("memory/7: the operation \"fails\" of transform.operations failed: not this"), Error);
}

TEST_CASE("an unknown operation is refused when the feeder is made") {
  CHECK_THROWS_WITH_AS(Feeder(options_with({"shft"}), parts_of(4)),
                       doctest::Contains(R"(no operation "shft"; known operations: )"), ConfigError);
}

// The start-up line of the feeder, and the effective transform.when.
std::pair<std::string, When> told(Options options) {
  options.transform.when = When::dequeue;
  auto lines = std::make_shared<std::pair<std::mutex, std::string>>();
  Parts parts = parts_of(8);
  parts.log = [lines](LogLevel, std::string_view text) {
    const std::scoped_lock lock(lines->first);
    lines->second.append(text).append("\n");
  };
  Feeder feeder(options, std::move(parts));
  const When when = feeder.options().transform.when;
  feeder.close();
  const std::scoped_lock lock(lines->first);
  return {lines->second, when};
}

TEST_CASE("an operation that needs the whole view is applied when batches are enqueued, and the start says so") {
  const auto [text, when] = told(options_with({"shift", "colour"}));
  CHECK(when == When::enqueue);
  CHECK(contains(text, "transform.when = \"enqueue\""));
  CHECK(contains(text, "\"shift\""));
  const auto [silence, unchanged] = told(options_with({"colour", "erase"}));
  CHECK(unchanged == When::dequeue);
  CHECK_FALSE(contains(silence, "enqueue"));
  Options evaluation = options_with({"shift"});
  evaluation.run.eval = true;
  CHECK(told(evaluation).second == When::dequeue);
}

TEST_CASE("with dequeue each use of a batch has operations of its own, and each run the same") {
  Options options = options_with({"colour", "erase"});
  options.transform.when = When::dequeue;
  options.transform.canvas = {4, 4};
  options.policy.name = "interval";
  options.policy.interval = 3;
  options.queue.pool = 1;
  using Uses = std::map<std::pair<std::uint64_t, std::uint64_t>, Bytes>;  // by batch and use
  const auto uses = [&] {
    Feeder feeder(options, parts_of(16));
    Uses all;
    while (const auto batch = feeder.next()) {
      if (batch->epoch() > 0) break;
      Bytes bytes(batch->images().bytes());
      batch->copy_to_host(bytes);
      all.emplace(std::pair(batch->batch(), batch->use_index()), std::move(bytes));
    }
    return all;
  };
  const Uses once = uses();
  CHECK(once == uses());
  CHECK(once.size() == 12);
  for (const auto& [use, bytes] : once) {
    if (use.second > 0) CHECK(bytes != once.at({use.first, use.second - 1}));
  }
}

TEST_CASE("the start-up line names operations") {
  const Feeder feeder(options_with({"colour", "erase"}), parts_of(8));
  CHECK(contains(feeder.describe(), "operations colour, erase"));
  const Feeder plain(options_with({}), parts_of(8));
  CHECK_FALSE(contains(plain.describe(), "operations"));
}

// A policy that throws in a step, from decide() or from served().
class Throwing final : public Policy {
 public:
  Throwing(std::uint64_t step, bool is_told) : step_(step), is_told_(is_told) {}
  [[nodiscard]] Decision decide(const Signals& signals) override { return at(signals, false); }
  void served(Decision, const Signals& signals) override { (void)at(signals, true); }

 private:
  [[nodiscard]] Decision at(const Signals& signals, bool is_told) const {
    if (signals.step == step_ && is_told == is_told_) throw std::runtime_error("the policy lost count");
    return Decision::fresh;
  }
  std::uint64_t step_;
  bool is_told_;
};

TEST_CASE("what a policy throws ends a single rank in the step that it was thrown in, and no sample is lost") {
  struct Case {
    std::uint64_t step;
    bool is_told;
  };
  for (const Case given : {Case{1, false}, Case{3, false}, Case{0, true}, Case{3, true}}) {
    CAPTURES(given.step, given.is_told);
    Options options = memory_options(2);
    options.policy.name = "throwing";
    Parts made = parts(20);
    made.policies.add("throwing",
                      [given](const PolicyOptions&) { return std::make_unique<Throwing>(given.step, given.is_told); });
    Feeder feeder(options, std::move(made));
    for (std::uint64_t step = 0; step < given.step; ++step) CHECK(feeder.next()->is_fresh());
    CHECK_THROWS_WITH_AS((void)feeder.next(), "the policy lost count", std::runtime_error);
    CHECK_THROWS_WITH_AS((void)feeder.next(), "the policy lost count", Error);
    const std::string state = feeder.state();
    options.policy.name = "block";
    Feeder resumed(options, parts(20));
    resumed.restore_state(state);
    std::uint64_t fresh = 0;
    while (const auto batch = resumed.next()) fresh += batch->is_fresh() ? 1 : 0;
    CHECK(fresh == 10 - given.step);
  }
}

TEST_CASE("run.steps ends an evaluation early, says so, and makes no batch of an evaluation empty") {
  for (const std::int64_t steps : {0, 2, 3, 4, 1000}) {
    CAPTURE(steps);
    Options options = memory_options(8);
    options.run.eval = true;
    options.run.steps = steps;
    Parts given = parts(20);
    std::string said;
    given.log = [&said](LogLevel level, std::string_view line) {
      if (level == LogLevel::warning) said += line;
    };
    Feeder feeder(options, std::move(given));
    std::uint64_t next = 0;
    std::uint64_t batches = 0;
    while (auto batch = feeder.next()) {
      ++batches;
      CHECK(batch->size() > 0);
      for (const std::uint64_t id : batch->ids()) CHECK(id == next++);
    }
    CHECK(batches == (steps == 2 ? 2 : 3));
    CHECK(next == (steps == 2 ? 16 : 20));
    CHECK((contains(said, "run.steps = 2 ends the evaluation after 2 of the 3 batches")) == (steps == 2));
  }
}

// transform.when = "dequeue", from files to leases.

namespace dequeue {

Options dequeue_options() {
  Options options = memory_options(4);
  options.transform.when = When::dequeue;
  options.transform.crop = Crop::random_resized;
  options.transform.size = {3, 3};
  options.transform.canvas = {4, 4};
  options.transform.mirror = 0.5;
  options.transform.dtype = DType::float32;
  options.transform.layout = Layout::nchw;
  options.run.epochs = 2;
  return options;
}

// The served bytes by epoch, batch and use.
using Served = std::map<std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>, std::vector<std::byte>>;

Served run(const Options& options, std::uint64_t samples) {
  Feeder feeder(options, Parts{.dataset = std::make_shared<MemoryDataset>(samples)});
  Served served;
  while (auto batch = feeder.next()) {
    std::vector<std::byte> bytes(batch->images().bytes());
    batch->copy_to_host(bytes);
    served.emplace(std::tuple(batch->epoch(), batch->batch(), batch->use_index()), std::move(bytes));
  }
  return served;
}

TEST_CASE("every serving of a batch shows another view of it, the same ones in every run") {
  Options options = dequeue_options();
  options.policy.name = "interval";
  options.policy.interval = 3;
  options.queue.pool = 1;
  const Served one = run(options, 40);
  options.workers.decode = 1;
  options.workers.io = 1;
  CHECK(run(options, 40) == one);
  CHECK(one.size() == 19 * 3 + 1);  // the run ends with the last fresh batch
  std::set<std::vector<std::byte>> different;
  for (const auto& [use, bytes] : one) different.insert(bytes);
  CHECK(different.size() > 50);  // some views of 4 x 4 pixels are equal
  options.seed += 1;
  CHECK(run(options, 40) != one);
}

TEST_CASE("a lease shows what the renderer's definition gives, at one address while one is held at a time") {
  Options options = dequeue_options();
  SUBCASE("one view of each sample") {}
  SUBCASE("several views of each sample") { options.transform.views = 3; }
  const auto each = static_cast<std::uint32_t>(options.transform.views);
  Feeder feeder(options, Parts{.dataset = std::make_shared<MemoryDataset>(20)});
  RenderPlan plan = render_plan(options.transform, options.seed, false, 4);
  plan.views = each;
  TwinRenderer twin(plan);
  const CanvasFormat format{.batch_size = 4, .height = 4, .width = 4};
  const void* address = nullptr;
  while (auto batch = feeder.next()) {
    std::vector<std::byte> canvases(format.batch_bytes());
    for (std::uint32_t i = 0; i < batch->size(); ++i) {
      const CanvasInfo info{.width = 4, .height = 4, .canvas_width = 4, .canvas_height = 4};
      std::memcpy(canvases.data() + format.infos_offset() + i * sizeof(info), &info, sizeof(info));
      for (std::size_t pixel = 0; pixel < 16; ++pixel) {
        const auto grey = MemoryDataset::pixel(batch->ids()[i], pixel);
        const std::size_t at = i * format.place_bytes() + pixel / 4 * format.row_bytes() + 3 * (pixel % 4);
        std::memset(canvases.data() + at, grey, 3);
      }
    }
    std::vector<std::byte> expected(batch->images().bytes());
    twin.render({.canvases = canvases.data(),
                 .size = batch->size() * each,
                 .epoch = batch->epoch(),
                 .first_position = batch->batch() * 4 * each,
                 .use_index = batch->use_index()},
                expected.data(), {});
    CHECK(std::memcmp(expected.data(), batch->images().data, expected.size()) == 0);
    const std::vector<SampleView> views = batch->views();
    REQUIRE(views.size() == batch->size() * each);
    for (std::size_t i = 0; i < views.size(); ++i) {
      const ImageView shown = canvas_view(plan, {.width = 4, .height = 4, .canvas_width = 4, .canvas_height = 4},
                                          batch->epoch(), batch->batch() * 4 * each + i, batch->use_index());
      CHECK(views[i].region == shown.region);
      CHECK(views[i].mirror == shown.mirror);
    }
    if (address == nullptr) address = batch->images().data;
    CHECK(batch->images().data == address);
  }
}

TEST_CASE("two leases on one batch have two tensors, each whole until it ends") {
  Options options = dequeue_options();
  options.policy.name = "interval";
  options.policy.interval = 2;
  options.queue.pool = 1;
  Feeder feeder(options, Parts{.dataset = std::make_shared<MemoryDataset>(40)});
  auto first = feeder.next();
  REQUIRE(first);
  std::vector<std::byte> before(first->images().bytes());
  first->copy_to_host(before);
  auto second = feeder.next();
  REQUIRE(second);
  CHECK(second->use_index() == 1);
  CHECK(second->batch() == first->batch());
  CHECK(second->images().data != first->images().data);
  CHECK(std::memcmp(before.data(), first->images().data, before.size()) == 0);
  const void* const free = first->images().data;
  first->release();
  const auto third = feeder.next();
  REQUIRE(third);
  CHECK(third->images().data == free);
}

TEST_CASE("an evaluation shows each sample once, from its middle, short batch and all") {
  Options options = dequeue_options();
  options.run.eval = true;
  const Served served = run(options, 10);
  CHECK(served.size() == 3);
  CHECK(served.at({0, 2, 0}).size() == 2UL * 3 * 3 * 3 * 4);
  options.seed += 1;
  CHECK(run(options, 10) == served);
}

}  // namespace dequeue

}  // namespace
}  // namespace forebay::test_feeder_operations
