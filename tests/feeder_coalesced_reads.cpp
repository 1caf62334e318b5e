// dataset.order = "shards" through the whole feeder: the order and the reads differ, the samples do
// not.
#include <forebay/feeder.hpp>

#include "container_files.hpp"
#include "data/placed_samples.hpp"
#include "dataset_support.hpp"
#include "every_container.hpp"
#include "jpeg_support.hpp"
#include "memory_dataset.hpp"
#include "reader_stage.hpp"
#include "test.hpp"

namespace forebay::test_feeder_coalesced_reads {

using namespace forebay::data;
using namespace forebay::make;
using namespace forebay::read;

namespace {

using namespace testing;

// A CIFAR-10 file whose samples encode their number.
void write_cifar(const std::filesystem::path& path, std::uint32_t samples) {
  std::string file;
  for (std::uint32_t id = 0; id < samples; ++id) {
    std::string record(3073, static_cast<char>(id * 7));
    record[0] = static_cast<char>(id % 10);
    std::memcpy(record.data() + 1, &id, sizeof id);
    file += record;
  }
  testing::write_file(path, file);
}

Options options_of(const std::filesystem::path& path, std::int64_t batch_size) {
  Options options = memory_options(batch_size);
  options.dataset.path = path.string();
  options.dataset.order = SampleOrder::shards;
  options.dataset.window = 200;
  options.dataset.run = 10;
  options.transform.size = {8, 8};
  return options;
}

struct Served {
  std::map<std::uint64_t, std::string> pixels;      // by sample
  std::vector<std::vector<std::uint64_t>> batches;  // as they came
  Summary summary;
};

// Serves a run, and checks that every sample comes once per epoch.
Served serve(const Options& options, std::uint64_t samples) {
  Served served;
  Feeder feeder(options);
  std::set<std::uint64_t> seen;
  while (auto batch = feeder.next()) {
    REQUIRE(batch->is_fresh());
    const auto ids = batch->ids();
    served.batches.emplace_back(ids.begin(), ids.end());
    const TensorView images = batch->images();
    const std::size_t each = images.bytes() / ids.size();
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const std::string pixels(images.as<char>() + i * each, each);
      const auto [found, is_new] = served.pixels.emplace(ids[i], pixels);
      CHECK(found->second == pixels);
      CHECK(seen.insert(ids[i]).second);
    }
    if (seen.size() == samples) seen.clear();
  }
  CHECK(seen.empty());
  served.summary = feeder.summary();
  return served;
}

TEST_CASE("the samples are those of a global order, pixel by pixel, whatever the budget, the threads and the queue") {
  const TemporaryDirectory folder;
  write_cifar(folder / "data_batch_1.bin", 700);
  Options options = options_of(folder.path(), 16);
  options.run.epochs = 2;
  Options global = options;
  global.dataset.order = SampleOrder::global;
  const Served expected = serve(global, 700);
  const Served first = serve(options, 700);
  CHECK(first.pixels == expected.pixels);
  CHECK(first.batches != expected.batches);
  for (const auto& [bytes, io, capacity] :
       {std::tuple(1 << 20, 1, 1), std::tuple(3000, 3, 4), std::tuple(100'000, 2, 16), std::tuple(1 << 28, 5, 40)}) {
    CAPTURE(bytes);
    options.workers.bytes = bytes;
    options.workers.io = io;
    options.queue.capacity = capacity;
    const Served other = serve(options, 700);
    CHECK(other.pixels == expected.pixels);
    CHECK(other.batches == first.batches);
  }
}

// How many files of a folder this process has open.
std::size_t open_files_of(const std::filesystem::path& folder) {
  std::size_t open = 0;
  for (const auto& descriptor : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code closed;  // the descriptor of this listing, for example
    open += std::filesystem::read_symlink(descriptor, closed).string().starts_with(folder.string() + "/") ? 1 : 0;
  }
  return open;
}

TEST_CASE("shards are closed with the feeder, whoever keeps it or its dataset, and opened again for the next") {
  const TemporaryDirectory folder;
  for (int shard = 1; shard <= 5; ++shard) write_cifar(folder / ("data_batch_" + std::to_string(shard) + ".bin"), 100);
  Options options = options_of(folder.path(), 10);
  options.run.epochs = 2;
  Feeder first(options);
  while (first.next()) continue;
  CHECK(open_files_of(folder.path()) > 0);
  first.close();
  CHECK(open_files_of(folder.path()) == 0);
  Feeder second(options, Parts{.dataset = first.shared_dataset()});
  std::uint64_t batches = 0;
  while (second.next()) ++batches;
  CHECK(batches == 100);
  second.close();
  CHECK(open_files_of(folder.path()) == 0);
}

TEST_CASE("an evaluation reads in order, and together what lies side by side") {
  const TemporaryDirectory folder;
  write_cifar(folder / "data_batch_1.bin", 333);
  Options options = options_of(folder.path(), 16);
  options.run.eval = true;
  const Served served = serve(options, 333);
  std::uint64_t next = 0;
  for (const auto& batch : served.batches)
    for (const std::uint64_t id : batch) CHECK(id == next++);
  CHECK(served.pixels.size() == 333);
}

TEST_CASE("a failing store loses nothing, and the batches do not depend on it") {
  const TemporaryDirectory folder;
  write_cifar(folder / "data_batch_1.bin", 500);
  Options options = options_of(folder.path(), 16);
  const Served expected = serve(options, 500);
  options.storage.fail_rate = 0.2;
  options.storage.slow_rate = 0.05;
  options.storage.slow_ms = 30;
  options.workers.hedge = Hedge::automatic;
  const Served served = serve(options, 500);
  CHECK(served.batches == expected.batches);
  CHECK(served.pixels == expected.pixels);
}

TEST_CASE("a damaged record is replaced and quarantined by its name, and others around it are served") {
  const TemporaryDirectory folder;
  std::string file;
  std::size_t broken = 0;
  for (int i = 0; i < 300; ++i) {
    testing::Recipe recipe;
    recipe.width = 16 + i % 5;
    recipe.height = 16;
    const auto jpeg = testing::make_jpeg(recipe);
    if (i == 200) broken = file.size() + 100;
    file += testing::tf_record(
        testing::image_example(std::string(reinterpret_cast<const char*>(jpeg.data()), jpeg.size()), i % 3));
  }
  testing::write_file(folder / "x.tfrecord", file);
  Options options = options_of(folder / "x.tfrecord", 16);
  options.dataset.index = (folder / "x.index").string();
  { Feeder builds_the_index(options); }
  file[broken] = static_cast<char>(file[broken] ^ 1);
  testing::write_file(folder / "x.tfrecord", file);
  options.telemetry.dir = (folder / "out").string();
  std::map<std::uint64_t, int> times;
  {
    Feeder feeder(options);
    while (auto batch = feeder.next()) {
      for (const std::uint64_t id : batch->ids()) ++times[id];
    }
    CHECK(feeder.summary().bad_samples == 1);
  }
  CHECK(times.size() == 299);
  CHECK(!times.contains(200));
  std::ifstream log(folder / "out" / "quarantine.0.jsonl");
  std::string line;
  REQUIRE(std::getline(log, line));
  CHECK(contains(line, "x.tfrecord[record 200]"));
  CHECK(contains(line, "damaged"));
  CHECK_FALSE(std::getline(log, line));
}

TEST_CASE("weights and parts of a split work in windows") {
  const TemporaryDirectory folder;
  write_cifar(folder / "data_batch_1.bin", 700);
  Options options = options_of(folder.path(), 16);
  options.dataset.split = {0.6, 0.4};
  std::set<std::uint64_t> all;
  std::size_t served = 0;
  for (std::int64_t part = 0; part < 2; ++part) {
    options.dataset.part = part;
    Feeder feeder(options);
    while (auto batch = feeder.next()) {
      for (const std::uint64_t id : batch->ids()) all.insert(id);
      served += batch->ids().size();
    }
  }
  CHECK(all.size() == 700);
  CHECK(served == 700);
  options.dataset.split.clear();
  options.dataset.part = 0;
  options.dataset.weights = "balanced";
  options.run.epochs = 3;
  Feeder feeder(options);
  std::map<std::uint64_t, int> times;
  while (auto batch = feeder.next()) {
    for (const std::uint64_t id : batch->ids()) ++times[id];
  }
  CHECK(times.size() == 700);
}

// Samples with fields: image, fields and neighbours are read with one request if they are adjacent.

using Texts = std::vector<std::string>;

// Image and fields of a sample, each read separately.
Texts one_by_one(const Dataset& dataset, std::uint64_t id) {
  Texts texts{testing::read_sample(dataset, id)};
  for (std::size_t field = 0; field < dataset.fields().size(); ++field) {
    testing::Reading reading;
    dataset.read_field(id, field, reading);
    texts.push_back(reading.text());
  }
  return texts;
}

// The same for several samples, read with one request.
std::vector<Texts> together(const Dataset& dataset, const std::vector<std::uint64_t>& ids) {
  const PlacedSamples& placed = *placed_samples(dataset);
  std::vector<std::vector<std::byte>> buffers;
  for (const std::uint64_t id : ids) {
    const Placement placement = placed.placement(id).value();
    buffers.emplace_back(placement.length);
    for (const std::uint64_t bytes : placement.fields) buffers.emplace_back(bytes);
  }
  const std::vector<std::span<std::byte>> parts(buffers.begin(), buffers.end());
  placed.read_together(ids, parts);
  std::vector<Texts> texts;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (i % (1 + dataset.fields().size()) == 0) texts.emplace_back();
    texts.back().emplace_back(reinterpret_cast<const char*>(buffers[i].data()), buffers[i].size());
  }
  return texts;
}

struct Made {
  const ContainerKind& kind;
  TemporaryDirectory folder;
  Options options = memory_options(16);

  Made(const ContainerKind& made, const std::vector<std::string>& records) : kind(made) {
    for (const auto& [name, content] : kind.files(records)) testing::write_file(folder / name, content);
    options.dataset.path = (folder / kind.path).string();
    options.transform.size = {1, 1};
    add_fields(options, kind);
  }
  Made(const ContainerKind& made, std::uint64_t samples) : Made(made, records_of(made, samples)) {}

  [[nodiscard]] static std::vector<std::string> records_of(const ContainerKind& kind, std::uint64_t samples) {
    std::vector<std::string> records;
    for (std::uint64_t i = 0; i < samples; ++i) records.push_back(kind.record_of(i));
    return records;
  }
};

template <typename Check>
void for_each_with_fields(Check&& check) {
  for (const ContainerKind& kind : testing::every_container()) {
    if (!kind.has_fields) continue;
    CAPTURE(kind.name);
    check(kind);
  }
}

FieldOptions field(const std::string& name, FieldKind kind, const std::string& from, std::int64_t most = 0) {
  FieldOptions options;
  options.name = name;
  options.kind = kind;
  options.from = from;
  options.most = most;
  return options;
}

// Serves an epoch of a container, and checks that each sample comes once and is correct.
std::vector<std::uint64_t> serve(const Options& options, const ContainerKind& kind, std::uint64_t samples) {
  Feeder feeder(options);
  std::vector<std::uint64_t> order;
  while (auto batch = feeder.next()) {
    for (std::size_t i = 0; i < batch->ids().size(); ++i) {
      order.push_back(batch->ids()[i]);
      CHECK(is_sample(*batch, i, batch->ids()[i], kind));
    }
  }
  CHECK(std::set(order.begin(), order.end()).size() == samples);
  CHECK(order.size() == samples);
  return order;
}

TEST_CASE("several samples read together have the images and fields that each has by itself") {
  for_each_with_fields([](const ContainerKind& kind) {
    const Made made(kind, 40);
    const auto dataset = build_dataset(made.options.dataset);
    REQUIRE(dataset->size() == 40);
    std::vector<std::uint64_t> all;
    for (std::uint64_t id = 0; id < 40; ++id) all.push_back(id);
    for (const auto& ids : {all, {7}, {3, 4, 30}}) {
      const auto texts = together(*dataset, ids);
      for (std::size_t i = 0; i < ids.size(); ++i) CHECK(texts[i] == one_by_one(*dataset, ids[i]));
    }
  });
}

TEST_CASE("a field may be the image again, or empty, and samples may have more parts than one system call takes") {
  std::string file;
  for (int i = 0; i < 300; ++i) {
    const std::string stem = std::to_string(i);
    file += testing::tar_member(stem + ".png", testing::tiny_png(i % 251)) +
            testing::tar_member(stem + ".txt", std::string(static_cast<std::size_t>(i % 3), 't')) +
            testing::tar_member(stem + ".a", "a" + stem) + testing::tar_member(stem + ".b", "b" + stem);
  }
  const TemporaryDirectory folder;
  testing::write_file(folder / "x.tar", file);
  DatasetOptions options = testing::options_for(folder / "x.tar");
  options.fields = {field("again", FieldKind::bytes, "png", 500), field("txt", FieldKind::bytes, "txt", 9),
                    field("b", FieldKind::bytes, "b", 9), field("a", FieldKind::bytes, "a", 9)};
  const auto dataset = build_dataset(options);
  REQUIRE(dataset->size() == 300);
  std::vector<std::uint64_t> all;
  for (std::uint64_t id = 0; id < 300; ++id) all.push_back(id);
  const auto texts = together(*dataset, all);
  for (const std::uint64_t id : all) CHECK(texts[id] == one_by_one(*dataset, id));
}

TEST_CASE("samples whose parts do not lie together are placed nowhere, or say how much of them is idle") {
  const TemporaryDirectory folder;
  const std::string image = testing::tiny_png(3);
  testing::write_file(folder / "x.tar",
                      testing::tar_member("a.png", image) + testing::tar_member("a.txt", "0123456789") +
                          testing::tar_member("a.raw", std::string(5000, 'r')) + testing::tar_member("a.end", "e"));
  const auto placement_with = [&](std::vector<FieldOptions> fields) {
    DatasetOptions options = testing::options_for(folder / "x.tar");
    options.fields = std::move(fields);
    return placed_samples(*build_dataset(options))->placement(0);
  };
  CHECK(placement_with({field("txt", FieldKind::bytes, "txt", 10)}).has_value());
  CHECK_FALSE(placement_with({field("txt", FieldKind::bytes, "txt", 9)}).has_value());  // more than `most`
  const auto far = placement_with({field("end", FieldKind::bytes, "end", 9)});
  REQUIRE(far.has_value());
  CHECK(far->end() - far->begin() == 512 + 1024 + 512 + 5120 + 512 + 1);
  CHECK(far->idle == far->end() - far->begin() - image.size() - 1);
  // Overlapping ranges, and a range outside of what a checksum covers.
  Placement plain{.offset = 100, .length = 50};
  CHECK_FALSE(enclose({{100, 150}, {140, 160}}, plain));
  CHECK(enclose({{100, 150}, {100, 150}, {20, 30}}, plain));
  CHECK(plain.begin() == 20);
  CHECK(plain.end() == 150);
  CHECK(plain.idle == 70);
  Placement checked{.offset = 100, .length = 50, .before = 10, .after = 24};
  CHECK(enclose({{100, 150}, {155, 160}}, checked));
  CHECK(checked.idle == 0);
  CHECK_FALSE(enclose({{100, 150}, {80, 95}}, checked));
}

// Stores what the readers deliver.
class Parts final : public SampleHandler {
 public:
  explicit Parts(std::size_t fields) : fields_(fields) {}
  std::uint32_t handle(const EncodedSample& sample, unsigned /*thread*/) override {
    const auto text = [](std::span<const std::byte> bytes) {
      return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    };
    Texts texts{text(sample.image())};
    for (std::size_t field = 0; field < fields_; ++field) texts.push_back(text(sample.field(field, fields_)));
    {
      const std::lock_guard lock(mutex_);
      seen_[sample.request.sample] = std::move(texts);
    }
    ++handled_;
    return 1;
  }
  [[nodiscard]] int handled() const { return handled_; }
  [[nodiscard]] const std::map<std::uint64_t, Texts>& seen() const { return seen_; }

 private:
  std::size_t fields_;
  std::mutex mutex_;
  std::map<std::uint64_t, Texts> seen_;
  std::atomic<int> handled_{0};
};

TEST_CASE("a sample with fields costs one request, and neighbours cost one together") {
  for_each_with_fields([](const ContainerKind& kind) {
    const Made made(kind, 60);
    const auto dataset = build_dataset(made.options.dataset);
    for (const bool in_windows : {false, true}) {
      CAPTURE(in_windows);
      testing::Stage stage(60, std::size_t{1} << 24U);
      std::optional<CoalescedReads> coalesced;
      ReaderLinks links = stage.reader_links(*dataset);
      std::vector<ReadRequest> requests;
      for (std::uint64_t id = 0; id < 60; ++id) requests.push_back({.order = id, .position = id, .sample = id});
      if (in_windows) {
        coalesced.emplace(*placed_samples(*dataset), stage.budget, stage.requests, stage.encoded,
                          std::size_t{1} << 24U);
        links.coalesced = &*coalesced;
        coalesced->plan(requests);
        coalesced->request(requests);
        CHECK(requests.empty());
      }
      stage.requests.push(requests);
      Parts parts(dataset->fields().size());
      {
        ReaderPool readers(links, {.threads = 2});
        DecoderPool decoders(stage.decoder_links(parts), 1);
        REQUIRE(testing::eventually([&] { return parts.handled() == 60; }));
        readers.stop();
        decoders.stop();
      }
      CHECK(stage.totals.reads == (in_windows ? 1 : 60));
      for (const auto& [id, texts] : parts.seen()) CHECK(texts == one_by_one(*dataset, id));
      coalesced.reset();
      CHECK(stage.budget.in_flight() == 0);
    }
  });
}

TEST_CASE("samples with fields are the same in windows as in a global order, whatever the budget and the threads") {
  for_each_with_fields([](const ContainerKind& kind) {
    Made made(kind, 251);
    const auto global = serve(made.options, kind, 251);
    made.options.dataset.order = SampleOrder::shards;
    made.options.dataset.window = 64;
    made.options.dataset.run = 8;
    const auto windows = serve(made.options, kind, 251);
    CHECK(windows != global);
    for (const auto& [bytes, io, capacity] :
         {std::tuple(1, 2, 4), std::tuple(3000, 3, 4), std::tuple(60'000, 2, 16), std::tuple(1 << 26, 5, 40)}) {
      CAPTURE(bytes);
      made.options.workers.bytes = bytes;
      made.options.workers.io = io;
      made.options.queue.capacity = capacity;
      CHECK(serve(made.options, kind, 251) == windows);
    }
    made.options.workers.bytes = 1 << 26;
    made.options.storage.fail_rate = 0.1;
    made.options.storage.slow_rate = 0.05;
    made.options.storage.slow_ms = 30;
    made.options.workers.hedge = Hedge::automatic;
    CHECK(serve(made.options, kind, 251) == windows);
  });
}

TEST_CASE("a bad field between others is quarantined by its sample and its own name, in any order") {
  for_each_with_fields([](const ContainerKind& kind) {
    std::vector<std::string> records = Made::records_of(kind, 120);
    const std::string good = testing::tiny_png(testing::mask_of(77));
    const std::string bad = "no picture" + std::string(good.size() - 10, '.');
    const std::size_t at = records[77].find(good);
    REQUIRE(at != std::string::npos);
    std::string broken = records[77];
    broken.replace(at, good.size(), bad);
    // With a correct checksum, so that only decoding detects it.
    if (kind.path == "x.tfrecord") broken = testing::tf_record(broken.substr(12, broken.size() - 16));
    records[77] = broken;
    Made made(kind, records);
    for (const SampleOrder order : {SampleOrder::global, SampleOrder::shards}) {
      made.options.dataset.order = order;
      made.options.telemetry.dir = (made.folder / (order == SampleOrder::global ? "global" : "shards")).string();
      std::map<std::uint64_t, int> times;
      {
        Feeder feeder(made.options);
        while (auto batch = feeder.next()) {
          for (std::size_t i = 0; i < batch->ids().size(); ++i) {
            ++times[batch->ids()[i]];
            CHECK(is_sample(*batch, i, batch->ids()[i], kind));
          }
        }
        CHECK(feeder.summary().bad_samples == 1);
      }
      CHECK(times.size() == 119);
      CHECK_FALSE(times.contains(77));
      std::ifstream log(std::filesystem::path(made.options.telemetry.dir) / "quarantine.0.jsonl");
      std::string line;
      REQUIRE(std::getline(log, line));
      CHECK(contains(line, "[record 77"));
      CHECK(contains(line, "field \\\"mask\\\""));
      CHECK_FALSE(std::getline(log, line));
    }
  });
}

TEST_CASE("a damaged byte of a field is found by the checksum of its record") {
  for (const ContainerKind& kind : testing::every_container()) {
    if (kind.name != "tfrecord with fields") continue;
    const Made made(kind, 30);
    const auto dataset = build_dataset(made.options.dataset);
    (void)together(*dataset, {0});  // so that the file is open
    const std::string file = testing::read_text(made.folder / kind.path);
    const std::size_t note = file.find(testing::note_of(20));
    REQUIRE(note != std::string::npos);
    {
      std::fstream out(made.folder / kind.path, std::ios::in | std::ios::out | std::ios::binary);
      out.seekp(static_cast<std::streamoff>(note));
      out.put('N');
    }
    CHECK_THROWS_AS(together(*dataset, {19, 20, 21}), SampleError);
    CHECK_THROWS_WITH_AS(together(*dataset, {20}), doctest::Contains("damaged"), SampleError);
    CHECK(together(*dataset, {18, 19})[1] == one_by_one(*dataset, 19));
  }
}

}  // namespace
}  // namespace forebay::test_feeder_coalesced_reads
