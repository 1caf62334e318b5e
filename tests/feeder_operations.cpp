// transform.operations, from files to leases.
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <forebay/feeder.hpp>

#include "memory_dataset.hpp"

namespace forebay {
namespace {

using testing::memory_options;
using testing::MemoryDataset;
using Bytes = std::vector<std::byte>;
using Served = std::map<std::pair<std::uint64_t, std::uint64_t>, Bytes>;  // by epoch and batch, first use

// Draws one number and adds it to every pixel.
class Shift final : public Operation {
 public:
  void apply(const PixelView& view, Random& random) const override {
    const auto by = static_cast<std::uint8_t>(random.below(200) + 1);
    for (Pixel& pixel : view.pixels) pixel.red = static_cast<std::uint8_t>(pixel.red + by);
  }
};

// Fails at views that begin with this sample's first pixel.
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

void serve(Feeder& feeder, Served& served, std::size_t most = SIZE_MAX) {
  for (std::size_t i = 0; i < most; ++i) {
    const auto batch = feeder.next();
    if (!batch) return;
    Bytes bytes(batch->images().bytes());
    batch->copy_to_host(bytes);
    served.emplace(std::pair(batch->epoch(), batch->batch()), std::move(bytes));
  }
}

Served run(const Options& options, std::uint64_t samples = 40) {
  Feeder feeder(options, parts_of(samples));
  Served served;
  serve(feeder, served);
  return served;
}

TEST_CASE("operations are the same in every run, whatever threads make the samples, and others with another seed") {
  for (const std::vector<std::string>& names :
       {std::vector<std::string>{"shift"}, {"colour", "erase"}, {"shift", "erase", "colour"}}) {
    Options options = options_with(names);
    const Served one = run(options);
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
  const Served whole = run(options);
  Served served;
  std::string state;
  {
    Feeder feeder(options, parts_of(40));
    serve(feeder, served, 7);
    state = feeder.state();
  }
  Feeder feeder(options, parts_of(40));
  feeder.restore_state(state);
  serve(feeder, served);
  CHECK(served == whole);
}

TEST_CASE("a saved job is not resumed with other operations") {
  std::string state;
  {
    Feeder feeder(options_with({"colour"}), parts_of(40));
    Served served;
    serve(feeder, served, 3);
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
  options.on_bad = OnBad::replace;  // it is no bad sample
  const auto run_it = [&] {
    Feeder feeder(options, parts_of(40));
    Served served;
    serve(feeder, served);
  };
  CHECK_THROWS_WITH_AS(
      run_it(), doctest::Contains("memory/7: the operation \"fails\" of transform.operations failed: not this"), Error);
}

TEST_CASE("an unknown operation is refused when the feeder is made") {
  CHECK_THROWS_WITH_AS(Feeder(options_with({"shft"}), parts_of(4)),
                       doctest::Contains(R"(no operation "shft"; known operations: )"), ConfigError);
}

// What the feeder says, and what transform.when has become.
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
  CHECK(text.find("transform.when = \"enqueue\"") != std::string::npos);
  CHECK(text.find("\"shift\"") != std::string::npos);
  const auto [silence, unchanged] = told(options_with({"colour", "erase"}));
  CHECK(unchanged == When::dequeue);
  CHECK(silence.find("enqueue") == std::string::npos);
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
  CHECK(feeder.describe().find("operations colour, erase") != std::string::npos);
  const Feeder plain(options_with({}), parts_of(8));
  CHECK(plain.describe().find("operations") == std::string::npos);
}

}  // namespace
}  // namespace forebay
