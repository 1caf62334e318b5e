#include <forebay/feeder.hpp>
#include <forebay/order.hpp>

#include "container_files.hpp"
#include "dataset_support.hpp"
#include "every_container.hpp"
#include "memory_dataset.hpp"
#include "mpi_world.hpp"
#include "shared_folder.hpp"
#include "test.hpp"

// Each container under mpirun: every record is fresh exactly once per epoch with its own pixels,
// label and fields, in the batches that the order determines for any number of ranks, also across
// resumes. Broken records are replaced and named, or are fatal, as configured. mpi_resume.cpp
// resumes on other numbers of ranks.

namespace forebay::test_mpi_containers {

using namespace forebay::testing;

namespace {

constexpr std::uint64_t kSamples = 45;
constexpr std::uint64_t kEpochs = 2;

void write(SharedFolder& folder, const ContainerKind::Files& files) {
  for (const auto& [name, content] : files) folder.write(name, content);
}

Options options_of(const SharedFolder& folder, const ContainerKind& kind) {
  Options options = memory_options(4);
  options.dataset.path = (folder / kind.path).string();
  options.dataset.window = 16;
  options.dataset.run = 4;
  options.transform.size = {1, 1};
  options.run.epochs = kEpochs;
  add_fields(options, kind);
  return options;
}

// The samples of each serving, by epoch and batch.
using Served = std::multimap<std::pair<std::uint64_t, std::uint64_t>, std::vector<std::uint64_t>>;

// Serves until the end or for `steps` steps. Adds fresh batches, and checks each sample's content.
void serve(Feeder& feeder, const ContainerKind& kind, Served& served, int steps = -1) {
  for (; steps != 0; --steps) {
    const auto batch = feeder.next();
    if (!batch) return;
    std::vector<std::uint64_t> samples;
    for (std::size_t i = 0; i < batch->ids().size(); ++i) {
      samples.push_back(sample_at(*batch, i));
      CHECK(is_sample(*batch, i, samples.back(), kind));
    }
    if (batch->is_fresh()) served.emplace(std::pair(batch->epoch(), batch->batch()), std::move(samples));
  }
}

// What all ranks together have served.
Served of_all(SharedFolder& folder, const Served& mine) {
  std::ostringstream text;
  for (const auto& [key, samples] : mine) {
    text << key.first << ' ' << key.second << ' ' << samples.size();
    for (const std::uint64_t sample : samples) text << ' ' << sample;
    text << '\n';
  }
  Served all;
  for (const std::string& part : folder.gather(text.str())) {
    std::istringstream in(part);
    std::pair<std::uint64_t, std::uint64_t> key;
    for (std::size_t size = 0; in >> key.first >> key.second >> size;) {
      std::vector<std::uint64_t> samples(size);
      for (std::uint64_t& sample : samples) in >> sample;
      all.emplace(key, std::move(samples));
    }
  }
  return all;
}

// The batches by the order, which does not depend on ranks.
Served expected_batches(const Options& options) {
  const Order order({.samples = kSamples,
                     .batch_size = static_cast<std::uint32_t>(options.dataset.batch_size),
                     .seed = options.seed,
                     .shuffle = options.dataset.shuffle,
                     .drop_last = options.dataset.drop_last,
                     .window = options.dataset.order == SampleOrder::shards ? 16ULL : 0ULL,
                     .run = 4});
  Served batches;
  for (std::uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
    for (std::uint64_t batch = 0; batch < order.batches(); ++batch) {
      std::vector<std::uint64_t> samples;
      for (std::uint32_t i = 0; i < order.batch(epoch, batch).size; ++i) {
        samples.push_back(order.sample(epoch, batch * order.options().batch_size + i));
      }
      batches.emplace(std::pair(epoch, batch), std::move(samples));
    }
  }
  return batches;
}

// With orders "global" and "shards", and unshuffled; under a sanitizer only "shards".
template <typename Check>
void for_each_order(const ContainerKind& kind, Check&& check) {
  SharedFolder folder;
  write(folder, kind.files_of(kSamples));
  Options options = options_of(folder, kind);
  for (const auto& [order, shuffle] :
       {std::pair(SampleOrder::global, true), {SampleOrder::shards, true}, {SampleOrder::global, false}}) {
    if (kSanitized && order != SampleOrder::shards) continue;
    CAPTURES(kind.name, shuffle, order == SampleOrder::shards);
    options.dataset.order = order;
    options.dataset.shuffle = shuffle;
    check(folder, options);
    folder.meet();
  }
}

// A way to break a record, or the end of a file, which costs its last record.
struct Damage {
  std::string kind;
  std::string what;
  std::uint64_t lost;
  std::string said;  // where it is
  std::string cause;
  std::function<void(std::string& record)> of_record;
  std::size_t cut = 0;
};

void flip(std::string& text, std::size_t at) { text[at] = static_cast<char>(text[at] ^ 1); }

std::vector<Damage> damages() {
  std::vector<Damage> all;
  const auto no_tail = [&](const char* kind, std::size_t cut, const char* said, const char* cause) {
    all.push_back({kind, "no tail", kSamples - 1, said, cause, [](std::string&) {}, cut});
  };
  const auto record = [&](const char* kind, const char* what, std::uint64_t lost, const char* said, const char* cause,
                          std::function<void(std::string&)> change) {
    all.push_back({kind, what, lost, said, cause, std::move(change)});
  };
  no_tail("tfrecord", 5, "x.tfrecord", "ends within a record of");
  no_tail("webdataset", 512 + 512 + 400, "x.tar", "");
  no_tail("recordio", 5, "x.rec", "");
  no_tail("cifar", 5, "data_batch_1.bin", "ends within a record");
  record("tfrecord", "a flipped byte", 13, "x.tfrecord[record 13]", "damaged",
         [](std::string& bytes) { flip(bytes, bytes.size() / 2); });
  record("tfrecord", "a flipped checksum", 13, "x.tfrecord[record 13]", "damaged",
         [](std::string& bytes) { flip(bytes, bytes.size() - 1); });
  record("tfrecord", "an absurd length", 44, "x.tfrecord", "ends within a record of 1152921504606846976 bytes",
         [](std::string& bytes) {
           const std::string length = little_endian(std::uint64_t{1} << 60U);
           bytes.replace(0, 12, length + masked_sum(length));
         });
  record("webdataset", "a missing member", 13, "x.tar[record 13", "has no image",
         [](std::string& bytes) { bytes = tar_member("13.cls", "3"); });
  record("webdataset", "an absurd length", 44, "x.tar", "", [](std::string& bytes) {
    bytes = tar_member("44.png", tiny_png(grey_of(44)), '0',
                       [](TarHeader& header) { std::snprintf(header.data() + 124, 12, "77777777777"); });
  });
  record("webdataset with fields", "a missing member", 13, "x.tar[record 13",
         "field \"mask\" is no member .mask of the sample",
         [](std::string& bytes) { bytes.resize(bytes.find("13.mask")); });
  record("recordio", "an absurd length", 44, "x.rec", "",
         [](std::string& bytes) { bytes.replace(4, 4, little_endian(std::uint32_t{(1U << 29U) - 1})); });
  record("recordio", "more labels announced than there are", 13, "x.rec[record 13]", "labels that its header announces",
         [](std::string& bytes) { bytes.replace(8, 4, little_endian(std::uint32_t{1'000'000})); });
  record("lmdb", "a value cut short", 13, "data.mdb[record 13", "",
         [](std::string& bytes) { bytes.resize(bytes.size() / 2); });
  record("lmdb", "an absurd length", 13, "data.mdb[record 13", "",
         [](std::string& bytes) { bytes = wire_number(1, 3) + varint(4U << 3U | 2U) + varint(1ULL << 60U); });
  for (const char* const kind : {"tfrecord", "webdataset", "recordio", "lmdb"}) {
    record(kind, "a picture cut short", 11, "[record 11", "",
           [kind](std::string& bytes) { bytes = container_of(kind).record(11, tiny_png(grey_of(11)).substr(0, 40)); });
  }
  return all;
}

}  // namespace

TEST_CASE("every record of a container comes fresh exactly once per epoch, in the batches of any number of ranks") {
  for (const ContainerKind& kind : every_container()) {
    for_each_order(kind, [&](SharedFolder& folder, const Options& options) {
      Feeder feeder(options, world());
      Served served;
      serve(feeder, kind, served);
      feeder.close();
      CHECK(of_all(folder, served) == expected_batches(options));
    });
  }
}

TEST_CASE("a run that is stopped and resumed serves every record of a container exactly once") {
  for (const ContainerKind& kind : every_container()) {
    for_each_order(kind, [&](SharedFolder& folder, const Options& options) {
      Served served;
      const std::string state = (folder / "feed.state").string();
      for (const int steps : {2, 3, -1}) {
        Feeder feeder(options, world());
        CHECK(feeder.restore_if_present(state) == (steps != 2));
        serve(feeder, kind, served, steps);
        feeder.save(state);
        feeder.close();
      }
      CHECK(of_all(folder, served) == expected_batches(options));
      if (world().rank() == 0) std::filesystem::remove(state);
    });
  }
}

TEST_CASE("broken records are left out or replaced and named, and end the run where they must not be") {
  SampleOrder order = SampleOrder::global;
  for (const Damage& damage : damages()) {
    const ContainerKind& kind = container_of(damage.kind);
    CAPTURES(damage.kind, damage.what);
    SharedFolder folder;
    std::vector<std::string> records;
    for (std::uint64_t i = 0; i < kSamples; ++i) records.push_back(kind.record_of(i));
    damage.of_record(records[damage.lost]);
    auto files = kind.files(records);
    std::string& file = files.begin()->second;
    file.resize(file.size() - damage.cut);
    write(folder, files);
    Options options = options_of(folder, kind);
    options.run.epochs = 1;
    options.max_bad = std::int64_t{5};
    if (kind.name == "cifar") options.dataset.format = kind.name;  // detected by its size, which is wrong here
    order = order == SampleOrder::global ? SampleOrder::shards : SampleOrder::global;
    options.on_bad = OnBad::replace;
    options.dataset.order = order;
    options.telemetry.dir = (folder / "telemetry").string();
    Served served;
    {
      Feeder feeder(options, world());
      serve(feeder, kind, served);
      feeder.close();
    }
    std::set<std::uint64_t> seen;
    for (const auto& [key, samples] : of_all(folder, served)) seen.insert(samples.begin(), samples.end());
    for (std::uint64_t i = 0; i < kSamples; ++i) CHECK(seen.contains(i) != (i == damage.lost));
    std::string quarantine;
    for (std::uint32_t rank = 0; rank < world().size(); ++rank) {
      quarantine += read_text(options.telemetry.dir + "/quarantine." + std::to_string(rank) + ".jsonl");
    }
    CHECK(contains(quarantine, damage.said));
    CHECK(contains(quarantine, damage.cause.substr(0, damage.cause.find('"'))));
    folder.meet();

    options.on_bad = OnBad::fail;
    const std::string error = error_of([&] {
      Feeder feeder(options, world());
      Served until_then;
      serve(feeder, kind, until_then);
    });
    CHECK(contains(error, damage.said));
    CHECK(contains(error, damage.cause));
    folder.meet();
  }
}

TEST_CASE("a file of raw images that is shorter than its header says is refused on all ranks") {
  for (const OnBad on_bad : {OnBad::replace, OnBad::fail}) {
    const ContainerKind& kind = container_of("idx");
    SharedFolder folder;
    auto files = kind.files_of(kSamples);
    files.begin()->second.pop_back();
    write(folder, files);
    Options options = options_of(folder, kind);
    options.on_bad = on_bad;
    const std::string error = error_of([&] { Feeder feeder(options, world()); });
    CHECK(contains(error, kind.path));
    CHECK(contains(error, "byte " + std::to_string(16 + kSamples - 1)));
  }
}

}  // namespace forebay::test_mpi_containers
