#include <forebay/feeder.hpp>
#include <new>

#include "dataset_support.hpp"
#include "detection_support.hpp"
#include "field_dataset.hpp"
#include "memory_dataset.hpp"
#include "mpi_world.hpp"
#include "shared_folder.hpp"
#include "test.hpp"

namespace forebay::test_mpi_datasets {
namespace {

using namespace testing;

// A program's own dataset that throws where it should not: every rank gets the same bad samples or
// the same error.

constexpr std::uint64_t kSamples = 120;

struct Throws {
  std::function<void(std::uint64_t)> sample;
  std::function<void(std::uint64_t)> source;
  std::function<void()> serialize;
  std::function<void()> name;
  std::function<std::int64_t(std::uint64_t)> label;
  bool forgets_to_reserve = false;
};

class OwnDataset final : public LikeDataset {
 public:
  explicit OwnDataset(MemoryDataset::Hook read, Throws throws = {})
      : LikeDataset(std::make_shared<MemoryDataset>(kSamples, std::move(read))), throws_(std::move(throws)) {}

  [[nodiscard]] std::string_view format() const noexcept override { return "own"; }
  [[nodiscard]] Sample sample(std::uint64_t id) const override {
    if (throws_.sample) throws_.sample(id);
    Sample sample = LikeDataset::sample(id);
    if (throws_.label) sample.label = throws_.label(id);
    return sample;
  }
  [[nodiscard]] std::uint64_t source(std::uint64_t id) const override {
    if (throws_.source) throws_.source(id);
    return id;
  }
  [[nodiscard]] std::string name(std::uint64_t id) const override {
    if (throws_.name) throws_.name();
    return LikeDataset::name(id);
  }
  void read(std::uint64_t id, ReadTarget& target) const override {
    if (!throws_.forgets_to_reserve || id != 5) LikeDataset::read(id, target);
  }
  [[nodiscard]] std::vector<std::byte> serialize() const override {
    if (throws_.serialize) throws_.serialize();
    return LikeDataset::serialize();
  }

 private:
  Throws throws_;
};

Options own_options() {
  Options options = memory_options(4);
  options.dataset.drop_last = true;
  return options;
}

// The ids that the job served, and the error that ended it.
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

// Checks the error on every rank.
void check_error(const Outcome& outcome, const std::string& part) {
  CAPTURE(outcome.error);
  CHECK(contains(outcome.error, part));
}

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

TEST_CASE("ranks whose own datasets have other sizes or classes say so, whatever serialize() says") {
  class Plain final : public LikeDataset {
   public:
    Plain(std::uint64_t size, std::vector<std::string> classes)
        : LikeDataset(std::make_shared<MemoryDataset>(size, MemoryDataset::Hook{})), classes_(std::move(classes)) {}
    [[nodiscard]] std::string_view format() const noexcept override { return "plain"; }
    [[nodiscard]] const std::vector<std::string>& classes() const noexcept override { return classes_; }
    [[nodiscard]] Sample sample(std::uint64_t id) const override {
      Sample sample = LikeDataset::sample(id);
      sample.label = static_cast<std::int64_t>(id % classes_.size());
      return sample;
    }
    [[nodiscard]] std::vector<std::byte> serialize() const override { return {}; }

   private:
    std::vector<std::string> classes_;
  };
  const bool is_last = world().rank() + 1 == world().size();
  const auto error_with = [&](std::uint64_t size, std::vector<std::string> classes) {
    auto dataset = is_last ? std::make_shared<Plain>(size, std::move(classes))
                           : std::make_shared<Plain>(40, std::vector<std::string>{"a", "b"});
    return error_of([&] { Feeder feeder(memory_options(4), world(), Parts{.dataset = std::move(dataset)}); });
  };
  CHECK(error_with(40, {"a", "b"}).empty());
  if (world().size() == 1) return;
  CHECK(contains(error_with(41, {"a", "b"}), "\"the dataset's number of samples 41\" there"));
  CHECK(contains(error_with(40, {"a", "b", "c"}), "\"the dataset's number of classes 3\" there"));
  CHECK(contains(error_with(40, {"b", "a"}), "the dataset's fingerprint"));
}

TEST_CASE("a label that stands for no class is every rank's error") {
  for (const std::int64_t label : {std::int64_t{-2}, INT64_MAX}) {
    Throws throws;
    throws.label = [label](std::uint64_t id) { return id == 77 ? label : -1; };
    check_error(run(std::make_shared<OwnDataset>(MemoryDataset::Hook{}, throws)),
                "sample(77) gives the label " + std::to_string(label) + ", and labels are -1, for none");
  }
}

TEST_CASE("what sample() throws later is every rank's error at one step") {
  Throws throws;
  throws.sample = [](std::uint64_t id) {
    if (id == 77) throw std::out_of_range("no record 77");
  };
  check_error(run(std::make_shared<OwnDataset>(MemoryDataset::Hook{}, throws)), "sample(77) threw: no record 77");
}

// Fields of a program's own dataset arrive with their samples, each fresh exactly once, on any
// number of ranks, in both modes, with reuse, and across a resume.

namespace fields {

constexpr std::uint64_t kSamples = 96;

// Serves a run; counts how often each sample was fresh on this rank, and checks every batch.
std::map<std::uint64_t, int> served(Feeder& feeder) {
  std::map<std::uint64_t, int> times;
  while (auto batch = feeder.next()) {
    CHECK(are_right(*batch));
    if (!batch->is_fresh()) continue;
    for (const std::uint64_t id : batch->ids()) ++times[id];
  }
  return times;
}

// The sum over all ranks.
std::map<std::uint64_t, int> of_all(const std::map<std::uint64_t, int>& mine) {
  std::string text;
  for (const auto& [id, times] : mine) text += std::to_string(id) + "=" + std::to_string(times) + ";";
  std::map<std::uint64_t, int> all;
  const auto communicator = world().duplicate();
  for (const std::string& part : communicator->all_gather(text)) {
    for (std::size_t at = 0; at < part.size();) {
      const std::size_t equals = part.find('=', at);
      const std::size_t end = part.find(';', at);
      all[std::stoull(part.substr(at, equals - at))] += std::stoi(part.substr(equals + 1, end - equals - 1));
      at = end + 1;
    }
  }
  communicator->close(30);
  return all;
}

TEST_CASE("every sample comes once with its own fields") {
  Options options = memory_options(4);
  options.policy.name = "adaptive";
  SUBCASE("assembled as tensors") {}
  SUBCASE("kept as canvases") { options.transform.when = When::dequeue; }
  SUBCASE("with one thread of each kind and room for little") {
    options.workers.io = options.workers.decode = 1;
    options.workers.bytes = 1;
  }
  Feeder feeder(options, world(), Parts{.dataset = std::make_shared<FieldDataset>(kSamples)});
  const auto times = of_all(served(feeder));
  CHECK(times.size() == kSamples);
  for (const auto& [id, count] : times) {
    CAPTURE(id);
    CHECK(count == 1);
  }
  feeder.close();
}

TEST_CASE("a sample with a bad field is replaced by one whose fields are its own") {
  auto dataset = std::make_shared<FieldDataset>(kSamples);
  dataset->replace_field = [](std::uint64_t id, const Field& field, FieldDataset::Bytes& bytes) {
    if (field.name != "age" || id % 10 != 3) return false;
    FieldDataset::add(bytes, std::numeric_limits<double>::quiet_NaN());
    return true;
  };
  Feeder feeder(memory_options(4), world(), Parts{.dataset = dataset});
  const auto times = of_all(served(feeder));
  for (const auto& [id, count] : times) CHECK(id % 10 != 3);
  feeder.close();
}

}  // namespace fields

// Images with all their objects under mpirun: each is fresh exactly once with its own boxes, for
// any format and number of ranks, also across a resume.

constexpr int kImages = 41;
constexpr int kSide = 60;
constexpr int kMost = 4;

// Image i has grey level i everywhere; its objects j = 0 to i % 4 - 1 are [i, j, i + 10, j + 5], of
// class j % 2.
int objects_of(int image) { return image % 4; }
std::string name_of(int image) { return "x" + std::to_string(100 + image) + ".npy"; }

std::string number(int value) { return std::to_string(value); }

struct Written {
  std::string path;
  std::function<void(SharedFolder&)> write;
};

void write_voc(SharedFolder& folder) {
  for (int i = 0; i < kImages; ++i) {
    std::string objects;
    for (int j = 0; j < objects_of(i); ++j) {
      objects += object(j % 2 == 0 ? "a" : "b", bndbox(number(i + 1), number(j + 1), number(i + 10), number(j + 5)));
    }
    folder.write("x" + number(100 + i) + ".xml", annotation(objects));
  }
}

void write_coco(SharedFolder& folder) {
  std::string images;
  std::string objects;
  for (int i = 0; i < kImages; ++i) {
    images += (i == 0 ? "" : ", ") + (R"({"id": )" + number(i * 3) + R"(, "file_name": ")" + name_of(i) + "\"}");
    for (int j = 0; j < objects_of(i); ++j) {
      objects += (objects.empty() ? "" : ", ") + (R"({"image_id": )" + number(i * 3) + R"(, "category_id": )") +
                 number(j % 2 == 0 ? 5 : 17) + R"(, "bbox": [)" + number(i) + ", " + number(j) + ", 10, 5]}";
    }
  }
  folder.write("instances.json", "{\"images\": [" + images + "], \"annotations\": [" + objects +
                                     R"(], "categories": [{"id": 5, "name": "a"}, {"id": 17, "name": "b"}]})");
}

void write_table(SharedFolder& folder) {
  std::string rows = "image,xmin,ymin,xmax,ymax,class\n";
  for (int j = 0; j < kMost; ++j) {
    for (int i = 0; i < kImages; ++i) {
      if (j < objects_of(i)) {
        rows += name_of(i) + "," + number(i) + "," + number(j) + "," + number(i + 10) + "," + number(j + 5) + "," +
                (j % 2 == 0 ? "a" : "b") + "\n";
      } else if (j == 0) {
        rows += name_of(i) + ",,,,,\n";
      }
    }
  }
  folder.write("boxes.csv", rows);
}

const std::vector<Written> kFormats{{"", write_voc}, {"instances.json", write_coco}, {"boxes.csv", write_table}};

Options options_of(const SharedFolder& folder, const Written& format) {
  Options options = memory_options(4);
  const std::int64_t batch_size = options.dataset.batch_size;
  options.dataset = images_options(folder / format.path);
  options.dataset.fields = {boxes_field(kMost)};
  options.dataset.batch_size = batch_size;
  options.dataset.drop_last = false;
  options.transform.size = {2 * kSide, 2 * kSide};
  options.transform.mirror = 1;
  return options;
}

// Counts fresh samples by their grey level, and checks that each has its own boxes, mirrored and
// twice as large.
std::map<int, int> serve(Feeder& feeder, int steps = -1) {
  std::map<int, int> times;
  const std::size_t boxes = feeder.field_number("boxes");
  for (; steps != 0; --steps) {
    const auto batch = feeder.next();
    if (!batch) break;
    if (!batch->is_fresh()) continue;
    const TensorView images = batch->images();
    const auto* const pixels = images.as<std::uint8_t>();
    const auto* const sides = batch->field(boxes).as<float>();
    const auto* const classes = batch->field("boxes.class").as<std::int64_t>();
    for (std::size_t i = 0; i < static_cast<std::size_t>(images.shape[0]); ++i) {
      const int image = pixels[i * 4 * kSide * kSide * 3];
      ++times[image];
      CHECK(batch->counts(boxes).as<std::int32_t>()[i] == objects_of(image));
      for (int j = 0; j < objects_of(image); ++j) {
        const float* const box = sides + (i * kMost + static_cast<std::size_t>(j)) * 4;
        CHECK(std::vector<float>(box, box + 4) ==
              std::vector<float>{static_cast<float>(2 * (kSide - image - 10)), static_cast<float>(2 * j),
                                 static_cast<float>(2 * (kSide - image)), static_cast<float>(2 * j + 10)});
        CHECK(classes[i * kMost + static_cast<std::size_t>(j)] == j % 2);
      }
    }
  }
  return times;
}

TEST_CASE("every image comes once with its own boxes, in a run that is stopped and resumed too") {
  for (const Written& format : kFormats) {
    CAPTURE(format.path);
    SharedFolder folder;
    for (int i = 0; i < kImages; ++i) folder.write(name_of(i), grey_npy(kSide, kSide, i));
    format.write(folder);
    const std::string state = (folder / "feed.state").string();
    std::map<int, int> mine;
    {
      Feeder feeder(options_of(folder, format), world());
      mine = serve(feeder, 2);
      feeder.save(state);
      feeder.close();
    }
    Feeder feeder(options_of(folder, format), world());
    CHECK(feeder.restore_if_present(state));
    for (const auto& [image, count] : serve(feeder)) mine[image] += count;
    const auto times = folder.sum(mine);
    CHECK(times.size() == kImages);
    for (const auto& [image, count] : times) CHECK(count == 1);
    feeder.close();
  }
}

}  // namespace
}  // namespace forebay::test_mpi_datasets
