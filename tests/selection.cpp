#include <sys/stat.h>
#include <forebay/feeder.hpp>
#include <forebay/given_order.hpp>
#include <forebay/order.hpp>

#include "dataset_support.hpp"
#include "memory_dataset.hpp"
#include "order/selection.hpp"
#include "test.hpp"

// Which samples a run uses: splits, fractions and weights, and an order that the program gives
// itself.
namespace forebay::test_selection {
namespace {

using namespace testing;
using Ids = std::vector<std::uint64_t>;

constexpr std::uint64_t kSeed = 17;

Ids ids_of(const Dataset& dataset, const DatasetOptions& options) {
  const auto selection = Selection::make(dataset, options, kSeed, false);
  Ids ids;
  for (std::uint64_t i = 0; i < (selection ? selection->size() : dataset.size()); ++i) {
    ids.push_back(selection ? selection->id(i) : i);
  }
  return ids;
}

std::string error_of(const Dataset& dataset, const DatasetOptions& options) {
  return testing::error_of<ConfigError>([&] { (void)Selection::make(dataset, options, kSeed, false); });
}

// How often each sample occurs in an epoch, by id.
std::map<std::uint64_t, int> uses_of(const Order& order, std::uint64_t epoch) {
  std::map<std::uint64_t, int> uses;
  for (std::uint64_t position = 0; position < order.options().samples; ++position) {
    ++uses[order.sample(epoch, position)];
  }
  return uses;
}

Order order_of(const Dataset& dataset, const DatasetOptions& options, bool shuffle = true) {
  const auto selection = Selection::make(dataset, options, kSeed, false);
  return Order({.samples = selection ? selection->size() : dataset.size(),
                .batch_size = 4,
                .seed = kSeed,
                .shuffle = shuffle,
                .drop_last = false,
                .selection = selection});
}

// Two class folders, with one sample and with nine.
DatasetOptions uneven_folders(const std::filesystem::path& root) {
  write_file(root / "data/rare/0.jpg", "x");
  for (int i = 0; i < 9; ++i) write_file(root / "data/usual" / (std::to_string(i) + ".jpg"), "x");
  DatasetOptions options;
  options.path = (root / "data").string();
  return options;
}

}  // namespace

TEST_CASE("without a split, a fraction and weights nothing is selected") {
  CHECK(Selection::make(MemoryDataset(10), DatasetOptions{}, kSeed, false) == nullptr);
}

TEST_CASE("the parts of a split are disjoint, have about their shares and hold every sample") {
  const MemoryDataset dataset(10'000);
  DatasetOptions options;
  options.split = {0.7, 0.2, 0.1};
  std::set<std::uint64_t> all;
  std::vector<std::size_t> sizes;
  for (options.part = 0; options.part < 3; ++options.part) {
    const Ids ids = ids_of(dataset, options);
    CHECK(std::ranges::is_sorted(ids));
    all.insert(ids.begin(), ids.end());
    sizes.push_back(ids.size());
  }
  CHECK(all.size() == dataset.size());
  CHECK(sizes[0] + sizes[1] + sizes[2] == dataset.size());
  CHECK(sizes[0] == doctest::Approx(7000).epsilon(0.03));
  CHECK(sizes[1] == doctest::Approx(2000).epsilon(0.06));
  CHECK(sizes[2] == doctest::Approx(1000).epsilon(0.1));
}

TEST_CASE("a split that does not add up to 1 leaves the rest to nobody") {
  const MemoryDataset dataset(10'000);
  DatasetOptions options;
  options.split = {0.5, 0.25};
  const Ids first = ids_of(dataset, options);
  options.part = 1;
  CHECK(first.size() + ids_of(dataset, options).size() == doctest::Approx(7500).epsilon(0.03));
}

TEST_CASE("a smaller fraction is a part of a larger one, within every part of a split") {
  const MemoryDataset dataset(10'000);
  DatasetOptions options;
  options.split = {0.5, 0.5};
  options.fraction = 0.4;
  const Ids larger = ids_of(dataset, options);
  options.fraction = 0.1;
  const Ids smaller = ids_of(dataset, options);
  CHECK(larger.size() == doctest::Approx(2000).epsilon(0.1));
  CHECK(smaller.size() == doctest::Approx(500).epsilon(0.2));
  CHECK(std::ranges::includes(larger, smaller));
  options.fraction = 1;
  CHECK(std::ranges::includes(ids_of(dataset, options), larger));
}

TEST_CASE("a split is the same wherever the data lie") {
  const testing::TemporaryDirectory one;
  const testing::TemporaryDirectory other;
  std::vector<Ids> parts;
  for (const auto& root : {one.path(), other.path()}) {
    for (int i = 0; i < 200; ++i) write_file(root / "data/a" / (std::to_string(i) + ".jpg"), "x");
    DatasetOptions options;
    options.path = (root / "data").string();
    options.format = "folder";
    options.split = {0.5, 0.5};
    parts.push_back(ids_of(*build_dataset(options), options));
  }
  CHECK(parts[0] == parts[1]);
  CHECK(parts[0].size() > 50);
  CHECK(parts[0].size() < 150);
}

TEST_CASE(
    "a split of files that a program gives is the same for a copy in another folder, and for ./ and // in a list") {
  class Files final : public LikeDataset {
   public:
    explicit Files(std::string folder)
        : LikeDataset(std::make_shared<MemoryDataset>(200)), folder_(std::move(folder)) {}
    [[nodiscard]] std::string name(std::uint64_t id) const override {
      return folder_ + (id % 2 == 0 ? "/cat/" : "/dog/") + std::to_string(id) + ".jpg";
    }

   private:
    std::string folder_;
  };
  DatasetOptions options;
  options.split = {0.5, 0.5};
  const Ids part = ids_of(Files("/data"), options);
  CHECK(part.size() > 50);
  CHECK(part.size() < 150);
  CHECK(ids_of(Files("/scratch/job 7/data"), options) == part);
  // What else decides is told.
  CHECK(Selection::make(Files("/data"), options, 1, false)->folder() == "/data/");
  CHECK(Selection::make(Files("data"), options, 1, false)->folder().empty());

  const testing::TemporaryDirectory dir;
  std::vector<Ids> parts;
  for (const std::string before : {"a/", "./a/", "a//", "a/./", ".//a/"}) {
    std::string list;
    for (int i = 0; i < 200; ++i) list += before + std::to_string(i) + ".jpg 0\n";
    write_file(dir.path() / "list.txt", list);
    options.path = (dir.path() / "list.txt").string();
    parts.push_back(ids_of(*build_dataset(options), options));
  }
  for (const Ids& other : parts) CHECK(other == parts[0]);
  // Weights may name them in either way.
  options.split.clear();
  for (const std::string name : {"a/7.jpg", "./a/7.jpg", "a//7.jpg"}) {
    write_file(dir.path() / "weights.txt", name + " 0\n");
    options.weights = (dir.path() / "weights.txt").string();
    CHECK_FALSE(uses_of(order_of(*build_dataset(options), options), 0).contains(7));
  }
}

TEST_CASE("all objects of an image are in one part of a split") {
  const testing::TemporaryDirectory dir;
  for (int i = 0; i < 60; ++i) {
    const std::string name = std::to_string(i);
    write_file(dir.path() / "data/JPEGImages" / (name + ".jpg"), "x");
    write_file(dir.path() / "data/Annotations" / (name + ".xml"),
               testing::annotation(testing::object("cat") + testing::object("dog") + testing::object("cat")));
  }
  DatasetOptions options;
  options.path = (dir.path() / "data").string();
  options.format = "voc";
  const auto dataset = build_dataset(options);
  REQUIRE(dataset->size() == 180);
  options.split = {0.5, 0.5};
  const Ids ids = ids_of(*dataset, options);
  std::map<std::uint64_t, int> objects;
  for (const std::uint64_t id : ids) ++objects[dataset->source(id)];
  CHECK(objects.size() > 10);
  CHECK(objects.size() < 50);
  for (const auto& [image, count] : objects) CHECK(count == 3);
}

TEST_CASE("with balanced weights every class has the same share of every epoch") {
  const testing::TemporaryDirectory dir;
  DatasetOptions options = uneven_folders(dir.path());
  options.weights = "balanced";
  const auto dataset = build_dataset(options);
  const Order order = order_of(*dataset, options);
  REQUIRE(order.options().samples == 10);
  for (std::uint64_t epoch = 0; epoch < 20; ++epoch) {
    int rare = 0;
    for (const auto& [id, uses] : uses_of(order, epoch)) {
      const bool is_rare = dataset->classes()[static_cast<std::size_t>(dataset->sample(id).label)] == "rare";
      rare += is_rare ? uses : 0;
      CHECK(uses <= (is_rare ? 5 : 1));
    }
    CHECK(rare == 5);
  }
}

TEST_CASE("balanced weights in step with the data serve every kind of sample in every epoch") {
  // A list whose classes come in turn, one of them twice, and whose images are a left and a right eye in turn.
  constexpr int kOfRare = 60;
  const testing::TemporaryDirectory dir;
  std::string list;
  for (int i = 0; i < 4 * kOfRare; ++i) {
    const std::string name = std::to_string(i) + ".jpg";
    write_file(dir.path() / name, "x");
    list += name + " " + std::array{"a", "b", "c", "c"}[static_cast<std::size_t>(i % 4)] + "\n";
  }
  write_file(dir.path() / "list.txt", list);
  DatasetOptions options;
  options.path = (dir.path() / "list.txt").string();
  options.weights = "balanced";
  const auto dataset = build_dataset(options);
  const Order order = order_of(*dataset, options, false);
  for (std::uint64_t epoch = 0; epoch < 20; ++epoch) {
    std::map<std::int64_t, int> classes;
    int left = 0;
    for (const auto& [id, uses] : uses_of(order, epoch)) {
      const std::int64_t label = dataset->sample(id).label;
      classes[label] += uses;
      if (label == 2 && id % 4 == 2) left += uses;
      CHECK(uses <= (label == 2 ? 1 : 2));
    }
    // 80 of each class and 40 of a kind are expected; this is five standard deviations, or more.
    for (const auto& [label, uses] : classes) CHECK(std::abs(uses - 80) <= 20);
    CHECK(std::abs(left - 40) <= 20);
    Ids ids;
    for (std::uint64_t position = 0; position < order.options().samples; ++position) {
      ids.push_back(order.sample(epoch, position));
    }
    CHECK(std::ranges::is_sorted(ids));
  }
}

TEST_CASE("a sample comes as often as its weight over the mean weight says: rounded in an epoch, exact over many") {
  const testing::TemporaryDirectory dir;
  const MemoryDataset dataset(6);
  DatasetOptions options;
  options.weights = (dir.path() / "weights.txt").string();
  write_file(options.weights,
             "# name and weight\n#memory/0 1\n#memory/0 1\nmemory/0 2.5\nmemory/1,1\nmemory/2\t0.5\n0003 0\n");
  CHECK(testing::contains(error_of(dataset, options), "weights.txt:7: no sample and no class is called \"0003\""));
  write_file(options.weights, "memory/0 2.5\nmemory/1, 1\nmemory/2\t0.5\nmemory/3 0\n");
  const Order order = order_of(dataset, options);
  REQUIRE(order.options().samples == 5);
  std::map<std::uint64_t, int> all;
  constexpr int kEpochs = 2000;
  for (std::uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
    const auto uses = uses_of(order, epoch);
    for (const auto& [id, count] : uses) {
      all[id] += count;
      CHECK(count <= (id == 0 ? 3 : 1));
    }
    CHECK(uses.at(0) >= 2);
  }
  CHECK_FALSE(all.contains(3));
  constexpr double kMean = (2.5 + 1 + 0.5 + 1 + 1) / 5;
  CHECK(all[0] == doctest::Approx(kEpochs * 2.5 / kMean).epsilon(0.03));
  CHECK(all[2] == doctest::Approx(kEpochs * 0.5 / kMean).epsilon(0.1));
  CHECK(all[4] == doctest::Approx(kEpochs * 1.0 / kMean).epsilon(0.05));
}

TEST_CASE("weights of classes hold for their samples unless a sample has its own") {
  const testing::TemporaryDirectory dir;
  DatasetOptions options = uneven_folders(dir.path());
  write_file(dir.path() / "data/#h/0.jpg", "x");
  options.weights = (dir.path() / "weights.txt").string();
  write_file(options.weights, "\xEF\xBB\xBFusual 0\nusual/3.jpg 1\n#h 0\n");
  const auto dataset = build_dataset(options);
  CHECK(ids_of(*dataset, options).size() == 2);
}

TEST_CASE("evaluation serves every sample of the part once, whatever the weights") {
  const MemoryDataset dataset(100);
  DatasetOptions options;
  options.weights = "balanced";
  CHECK(Selection::make(dataset, options, kSeed, true) == nullptr);
  options.split = {0.5, 0.5};
  const auto part = Selection::make(dataset, options, kSeed, true);
  for (std::uint64_t place = 0; place < part->size(); ++place) CHECK(part->at(3, place) == place);
}

TEST_CASE("selections that cannot be made are refused with key, file and line") {
  const testing::TemporaryDirectory dir;
  const MemoryDataset dataset(4);
  DatasetOptions options;
  options.fraction = 1e-9;
  CHECK(
      testing::contains(error_of(dataset, options), "dataset.split, part and fraction: none of the 4 samples is left"));
  options = {};
  options.weights = (dir.path() / "none.txt").string();
  CHECK(testing::contains(error_of(dataset, options), "none.txt: cannot open: no such file"));
  options.weights = (dir.path() / "weights.txt").string();
  const auto error_in = [&](const std::string& text) {
    write_file(options.weights, text);
    return error_of(dataset, options);
  };
  CHECK(testing::contains(error_in("memory/0 1\nmemory/0 2\n"),
                          "weights.txt:2: \"memory/0\" is listed twice, first in line 1"));
  for (const char* const weight : {"-1", "nan", "inf", "1e10", "many", "0x1", "1e999"}) {
    CAPTURE(weight);
    CHECK(testing::contains(error_in("memory/0 " + std::string(weight) + "\n"), "weights.txt:1: "));
  }
  CHECK(testing::contains(error_in("memory/0\n"), "is not a name and a weight"));
  CHECK(testing::contains(error_in(std::string(70'000, 'x')), "weights.txt:1: a line of more than 65536 bytes"));
  CHECK(testing::contains(error_in("0 0\n1 0\n2 0\n3 0\n"), "dataset.weights: none of the 4 samples is left"));
  options.weights = dir.path().string();
  CHECK(testing::contains(error_of(dataset, options), ": is a directory"));
  options.weights = (dir.path() / "fifo").string();
  REQUIRE(::mkfifo(options.weights.c_str(), 0600) == 0);  // opening it would wait for a writer
  CHECK(testing::contains(error_of(dataset, options), "fifo: is a FIFO"));
}

TEST_CASE("replacements are other samples of the selection, and all of them before one comes again") {
  const MemoryDataset dataset(40);
  DatasetOptions options;
  options.split = {0.3, 0.7};
  options.weights = "balanced";
  const Order order = order_of(dataset, options);
  const Ids ids = ids_of(dataset, options);
  for (std::uint64_t position = 0; position < order.options().samples; ++position) {
    const std::uint64_t bad = order.sample(0, position);
    CHECK(order.replacement(0, position, 0) == bad);
    std::set<std::uint64_t> tried;
    for (std::uint32_t attempt = 1; attempt < ids.size(); ++attempt) {
      tried.insert(order.replacement(0, position, attempt));
    }
    CHECK(tried.size() == ids.size() - 1);
    CHECK_FALSE(tried.contains(bad));
    CHECK(std::ranges::includes(ids, tried));
  }
}

TEST_CASE("a feeder serves the samples of its part and no others, each once per epoch") {
  Options options = memory_options(8);
  options.dataset.split = {0.6, 0.4};
  options.dataset.part = 1;
  const auto dataset = std::make_shared<MemoryDataset>(200);
  const Ids expected = ids_of(*dataset, options.dataset);
  Parts parts;
  parts.dataset = dataset;
  Feeder feeder(options, std::move(parts));
  Ids served;
  while (auto batch = feeder.next()) served.insert(served.end(), batch->ids().begin(), batch->ids().end());
  std::ranges::sort(served);
  CHECK(served == expected);
}

TEST_CASE("a given order of another number of samples, or beside a selection, is refused") {
  const auto error_with = [](std::uint64_t samples, double fraction) {
    const auto dataset = std::make_shared<MemoryDataset>(20);
    dataset->order_ = std::make_shared<GivenOrder>(samples, 5);
    Options options = memory_options(2);
    options.dataset.fraction = fraction;
    return testing::error_of<ConfigError>([&] { Feeder feeder(options, Parts{.dataset = dataset}); });
  };
  CHECK(error_with(20, 1).empty());
  CHECK(testing::contains(error_with(21, 1), "is of 21 samples, and the dataset has 20"));
  CHECK(testing::contains(error_with(20, 0.5), "leave one of them out"));
}

TEST_CASE("a feeder serves the order that the program gives, and reads nothing of an epoch before its order is there") {
  std::atomic<int> reads = 0;
  const auto dataset = std::make_shared<MemoryDataset>(20, [&reads](std::uint64_t) { ++reads; });
  dataset->order_ = std::make_shared<GivenOrder>(20, 5);
  Options options = memory_options(2);
  options.run.epochs = 3;
  Parts parts;
  parts.dataset = dataset;
  Feeder feeder(options, std::move(parts));
  CHECK(feeder.batches_per_epoch() == 3);
  const std::vector<std::vector<std::uint32_t>> orders{{3, 19, 3, 0, 7}, {4, 5, 6, 7, 8}, {1, 2, 1, 2, 1}};
  for (std::uint64_t epoch = 0; epoch < orders.size(); ++epoch) {
    CHECK(reads == static_cast<int>(5 * epoch));
    dataset->order_->give(epoch, orders[epoch]);
    REQUIRE(feeder.next_epoch());
    Ids served;
    while (auto batch = feeder.next()) served.insert(served.end(), batch->ids().begin(), batch->ids().end());
    CHECK(served == Ids(orders[epoch].begin(), orders[epoch].end()));
  }
  CHECK_FALSE(feeder.next_epoch());
  CHECK_THROWS_WITH_AS(dataset->order_->give(2, orders[2]), "the order of epoch 2 was given before, and may be in use",
                       Error);
  CHECK_THROWS_WITH_AS(dataset->order_->give(3, {1, 2}), "the order of epoch 3 has 2 places, and each epoch has 5",
                       ConfigError);
  CHECK_THROWS_WITH_AS(dataset->order_->give(3, {1, 2, 3, 4, 20}),
                       "the order of epoch 3 has sample 20, and the dataset has 20", ConfigError);
}

TEST_CASE("a program that does not give an order is told so, at once") {
  const auto dataset = std::make_shared<MemoryDataset>(20);
  dataset->order_ = std::make_shared<GivenOrder>(20, 5);
  const auto feeder = [&dataset] {
    Parts parts;
    parts.dataset = dataset;
    return Feeder(memory_options(2), std::move(parts));
  };
  CHECK_THROWS_WITH_AS((void)feeder().next_epoch(), "the order of epoch 0 is not there: give() it before next_epoch()",
                       Error);
  CHECK_THROWS_WITH_AS((void)feeder().next(),
                       "the program gives the order of each epoch, so next_epoch() comes before the first next()",
                       Error);
}

TEST_CASE("a job resumes with the selection that it had, and is refused with another") {
  const testing::TemporaryDirectory dir;
  const auto weights = (dir.path() / "weights.txt").string();
  write_file(weights, "0 2\n7 0.5\n");
  Options options = memory_options(8);
  options.dataset.split = {0.5, 0.5};
  options.dataset.weights = weights;
  const auto make = [](const Options& with) {
    Parts parts;
    parts.dataset = std::make_shared<MemoryDataset>(200);
    return Feeder(with, std::move(parts));
  };
  const auto uses = [](Feeder& feeder, int steps) {
    std::map<std::uint64_t, int> count;
    while (steps-- != 0) {
      const auto batch = feeder.next();
      if (!batch) break;
      for (const std::uint64_t id : batch->ids()) ++count[id];
    }
    return count;
  };
  Feeder whole = make(options);
  const auto expected = uses(whole, -1);
  Feeder first = make(options);
  auto together = uses(first, 3);
  const std::string state = first.state();
  first.close();
  Feeder second = make(options);
  second.restore_state(state);
  for (const auto& [id, count] : uses(second, -1)) together[id] += count;
  CHECK(together == expected);

  const auto error_with = [&](const Options& with) -> std::string {
    Feeder feeder = make(with);
    return testing::error_of<ConfigError>([&] { feeder.restore_state(state); });
  };
  Options other = options;
  other.dataset.part = 1;
  CHECK(testing::contains(error_with(other), "had dataset.part = 0 and this one has dataset.part = 1"));
  other = options;
  other.dataset.split.clear();
  other.dataset.weights.clear();
  CHECK(testing::contains(error_with(other),
                          "had dataset.split = [0.5, 0.5] and this one has dataset.split = [] (the default)"));
  // The same weights in another place, as on another machine.
  other = options;
  other.dataset.weights = (dir.path() / "moved.txt").string();
  write_file(other.dataset.weights, "0 2\n7 0.5\n");
  CHECK(error_with(other).empty());
  other.dataset.weights.clear();
  CHECK(testing::contains(error_with(other), "and this one has dataset.weights = \"\""));
  write_file(weights, "0 3\n7 0.5\n");
  CHECK(testing::contains(error_with(options), "the contents of dataset.weights"));
}

}  // namespace forebay::test_selection
