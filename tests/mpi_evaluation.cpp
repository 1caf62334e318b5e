#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <forebay/feeder.hpp>

#include "memory_dataset.hpp"
#include "mpi_world.hpp"

// Evaluation leaves bad samples out: every good one is evaluated once, with its own pixels and label, and none twice.

using namespace forebay;
using namespace forebay::testing;

namespace {

using IsBad = bool (*)(std::uint64_t);

std::shared_ptr<MemoryDataset> made(std::uint64_t size, IsBad is_bad) {
  return std::make_shared<MemoryDataset>(size, [is_bad](std::uint64_t id) {
    if (is_bad(id)) throw SampleError("is broken on purpose");
  });
}

struct Evaluated {
  std::vector<std::uint64_t> ids;  // of this rank
  std::vector<std::uint32_t> sizes;
  std::uint64_t steps = 0;
  Summary summary;
  std::vector<std::string> lines;  // of its log
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

// Over all ranks.
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

}  // namespace

TEST_CASE("bad samples anywhere in a batch are left out") {
  check_all(eval_options(), 103, [](std::uint64_t id) { return id % 10 == 3; });
  check_all(eval_options(), 103, [](std::uint64_t id) { return id % 5 == 0; });   // the first of each batch
  check_all(eval_options(), 103, [](std::uint64_t id) { return id % 5 == 4; });   // the last
  check_all(eval_options(), 103, [](std::uint64_t id) { return id % 5 != 2; });   // all but one
  check_all(eval_options(), 103, [](std::uint64_t id) { return id / 20 == 2; });  // whole batches
  check_all(eval_options(), 103, [](std::uint64_t id) { return id >= 100; });     // the short last one
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
    std::string said;
    try {
      while (feeder.next()) {
      }
    } catch (const Error& error) {
      said = error.what();
    }
    CHECK(said.find("of class \"4\" are bad: memory/") != std::string::npos);
    CHECK(said.find("is broken on purpose") != std::string::npos);
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
