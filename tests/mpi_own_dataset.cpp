#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <new>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <forebay/error.hpp>
#include <forebay/feeder.hpp>

#include "dataset_support.hpp"
#include "field_dataset.hpp"
#include "memory_dataset.hpp"
#include "mpi_world.hpp"

// A program's own dataset that throws what it may not: every rank gets the same bad samples or the same error.

using namespace forebay;
using namespace forebay::testing;

namespace {

constexpr std::uint64_t kSamples = 120;

struct Throws {
  std::function<void(std::uint64_t)> sample;
  std::function<void(std::uint64_t)> source;
  std::function<void()> serialize;
  std::function<void()> name;
  bool forgets_to_reserve = false;
};

class OwnDataset final : public Dataset {
 public:
  explicit OwnDataset(MemoryDataset::Hook read, Throws throws = {})
      : inner_(kSamples, std::move(read)), throws_(std::move(throws)) {}

  [[nodiscard]] std::string_view format() const noexcept override { return "own"; }
  [[nodiscard]] std::uint64_t size() const noexcept override { return inner_.size(); }
  [[nodiscard]] const std::vector<std::string>& classes() const noexcept override { return inner_.classes(); }
  [[nodiscard]] Sample sample(std::uint64_t id) const override {
    if (throws_.sample) throws_.sample(id);
    return inner_.sample(id);
  }
  [[nodiscard]] std::uint64_t source(std::uint64_t id) const override {
    if (throws_.source) throws_.source(id);
    return id;
  }
  [[nodiscard]] std::string name(std::uint64_t id) const override {
    if (throws_.name) throws_.name();
    return inner_.name(id);
  }
  void read(std::uint64_t id, ReadTarget& target) const override {
    if (!throws_.forgets_to_reserve || id != 5) inner_.read(id, target);
  }
  [[nodiscard]] const std::vector<Skipped>& skipped() const noexcept override { return inner_.skipped(); }
  [[nodiscard]] IndexCounts counts() const noexcept override { return inner_.counts(); }
  [[nodiscard]] std::vector<std::byte> serialize() const override {
    if (throws_.serialize) throws_.serialize();
    return inner_.serialize();
  }

 private:
  MemoryDataset inner_;
  Throws throws_;
};

Options own_options() {
  Options options = memory_options(4);
  options.dataset.drop_last = true;
  return options;
}

// The ids that the job served, and what ended it.
struct Outcome {
  std::set<std::uint64_t> ids;
  std::uint64_t bad = 0;
  std::string error;
};

Outcome run(const std::shared_ptr<const Dataset>& dataset, const Options& options = own_options()) {
  Outcome outcome;
  try {
    Feeder feeder(options, world(), Parts{.dataset = dataset});
    CHECK(feeder.shared_dataset() == dataset);
    while (auto batch = feeder.next()) {
      if (batch->is_fresh()) outcome.ids.insert(batch->ids().begin(), batch->ids().end());
    }
    outcome.bad = feeder.summary().bad_samples;
  } catch (const Error& error) {
    outcome.error = error.what();
  }
  return outcome;
}

// On every rank.
void check_error(const Outcome& outcome, const std::string& part) {
  CAPTURE(outcome.error);
  CHECK(outcome.error.find(part) != std::string::npos);
}

}  // namespace

TEST_CASE("whatever read() throws makes a bad sample") {
  const auto throw_it = [](std::uint64_t id) {
    if (id == 10) throw std::runtime_error("the archive is torn");
    if (id == 20) throw 42;
    if (id == 40) throw SampleError("is gone");
    if (id == 50) throw Error("its member is missing");
  };
  const Outcome outcome = run(std::make_shared<OwnDataset>(throw_it));
  CHECK(outcome.error.empty());
  for (const std::uint64_t id : {10U, 20U, 40U, 50U}) CHECK_FALSE(outcome.ids.contains(id));
  if (world().size() == 1) CHECK(outcome.bad == 4);
}

TEST_CASE("a read that reserves nothing makes a bad sample") {
  Throws throws;
  throws.forgets_to_reserve = true;
  const Outcome outcome = run(std::make_shared<OwnDataset>(MemoryDataset::Hook{}, throws));
  CHECK(outcome.error.empty());
  CHECK_FALSE(outcome.ids.contains(5));
}

TEST_CASE("bad samples of an own dataset count against the budget, and fail where that is asked for") {
  const auto throw_int = [](std::uint64_t id) {
    if (id % 10 == 3) throw 42;
  };
  Options options = own_options();
  options.max_bad = std::int64_t{3};
  check_error(run(std::make_shared<OwnDataset>(throw_int), options), "max_bad allows 3");
  options.max_bad = 1.0;
  options.on_bad = OnBad::fail;
  const Outcome failed = run(std::make_shared<OwnDataset>(throw_int), options);
  check_error(failed, "3: read() of sample ");
  check_error(failed, "3 threw: an object that is not a std::exception");

  Throws nameless;
  nameless.name = [] { throw std::runtime_error("no names here"); };
  check_error(run(std::make_shared<OwnDataset>(throw_int, nameless), options), "(its name(): no names here): read()");
}

TEST_CASE("what one rank's sample(), source() or serialize() throws at construction is every rank's error") {
  const std::uint32_t last = world().size() - 1;
  const bool throws_here = world().rank() == last;
  const auto throw_int = [throws_here](std::uint64_t) {
    if (throws_here) throw 42;
  };
  Throws throws;
  SUBCASE("sample()") {
    throws.sample = throw_int;
    check_error(run(std::make_shared<OwnDataset>(MemoryDataset::Hook{}, throws)),
                "the program's dataset \"own\": sample(0) threw: an object that is not a std::exception");
  }
  SUBCASE("source()") {
    throws.source = throw_int;
    check_error(run(std::make_shared<OwnDataset>(MemoryDataset::Hook{}, throws)), "source(0) threw");
  }
  SUBCASE("serialize()") {
    throws.serialize = [throws_here] {
      if (throws_here) throw std::bad_alloc();
    };
    check_error(run(std::make_shared<OwnDataset>(MemoryDataset::Hook{}, throws)),
                "serialize() threw: there is no memory (std::bad_alloc)");
  }
}

TEST_CASE("ranks whose own datasets have other fields say so, each with both fields") {
  const std::uint32_t last = world().size() - 1;
  const auto error_with = [&](const std::function<void(std::vector<Field>&)>& change) {
    std::vector<Field> fields = FieldDataset::every_plain_field();
    if (world().rank() == last) change(fields);
    return error_of([&] {
      Feeder feeder(memory_options(4), world(), Parts{.dataset = std::make_shared<FieldDataset>(24, fields)});
    });
  };
  CHECK(error_with([](std::vector<Field>&) {}).empty());
  if (last == 0) return;
  const std::string who = "rank " + std::to_string(last) + " runs with another configuration or dataset than rank 0 (";
  const std::string other_name = error_with([](std::vector<Field>& fields) { fields[2].name = "weight"; });
  CHECK(contains(other_name, who + "\"the dataset's field \"weight\": numbers, float64"));
  CHECK(contains(other_name, "\"the dataset's field \"age\": numbers, float64"));
  CHECK(contains(other_name, "give all ranks the same dataset"));
  const std::string other_shape = error_with([](std::vector<Field>& fields) { fields[3].shape = {3, 2}; });
  CHECK(contains(other_shape, "shape [3 2]"));
  CHECK(contains(other_shape, "shape [2 3]"));
  CHECK(contains(error_with([](std::vector<Field>& fields) { fields[0].classes[1] = "other"; }), "3 classes (hash "));
  CHECK(contains(error_with([](std::vector<Field>& fields) { fields[0].mean[1] = 1e-9; }), "mean and std 0 1 1e-09 1"));
  CHECK(contains(error_with([](std::vector<Field>& fields) { fields[0].min_visible = 1e-9; }), "min_visible 1e-09"));
  CHECK(contains(error_with([](std::vector<Field>& fields) { fields.pop_back(); }), "number of fields 4\" there"));
}

TEST_CASE("what sample() throws later is every rank's error at one step") {
  Throws throws;
  throws.sample = [](std::uint64_t id) {
    if (id == 77) throw std::out_of_range("no record 77");
  };
  check_error(run(std::make_shared<OwnDataset>(MemoryDataset::Hook{}, throws)), "sample(77) threw: no record 77");
}
