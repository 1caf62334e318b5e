// Adjacent samples are read with one request.
#include <forebay/feeder.hpp>

#include "base/file_io.hpp"
#include "container_files.hpp"
#include "data/placed_samples.hpp"
#include "dataset_support.hpp"
#include "jpeg_support.hpp"
#include "make/decoder_pool.hpp"
#include "memory_dataset.hpp"
#include "produce/shared_read.hpp"
#include "read/coalesced_reads.hpp"
#include "reader_stage.hpp"
#include "test.hpp"

namespace forebay::test_coalesced_reads {

using namespace forebay::data;
using namespace forebay::make;
using namespace forebay::produce;
using namespace forebay::read;

namespace {

using namespace testing;

std::optional<Placement> at(std::uint64_t source, std::uint64_t offset, std::uint64_t length) {
  return Placement{.source = source, .offset = offset, .length = length};
}

using Cut = std::vector<std::vector<std::size_t>>;

TEST_CASE("neighbours in a source are one coalesced read; what is alone is in none") {
  const CoalescingLimits limits{.gap = 10, .bytes = 1000, .samples = 4};
  using Placements = std::vector<std::optional<Placement>>;
  CHECK(coalesce({}, limits).empty());
  CHECK(coalesce(Placements{at(0, 0, 50)}, limits).empty());
  CHECK(coalesce(Placements{at(0, 50, 50), at(0, 0, 50)}, limits) == Cut{{1, 0}});
  CHECK(coalesce(Placements{at(0, 0, 50), std::nullopt, at(0, 60, 50)}, limits) == Cut{{0, 2}});
  CHECK(coalesce(Placements{at(0, 0, 50), at(0, 61, 50)}, limits).empty());
  CHECK(coalesce(Placements{at(0, 0, 50), at(1, 50, 50)}, limits).empty());
  // Limits on the number of samples and of bytes.
  CHECK(coalesce(Placements{at(0, 0, 9), at(0, 9, 9), at(0, 18, 9), at(0, 27, 9), at(0, 36, 9), at(0, 45, 9)},
                 limits) == Cut{{0, 1, 2, 3}, {4, 5}});
  CHECK(coalesce(Placements{at(0, 0, 500), at(0, 500, 500), at(0, 1000, 500), at(0, 1500, 500)}, limits) ==
        Cut{{0, 1}, {2, 3}});
  CHECK(coalesce(Placements{at(0, 0, 50), at(0, 50, 1001), at(0, 1051, 50)}, limits).empty());
  // The same sample twice, and samples that overlap.
  CHECK(coalesce(Placements{at(0, 0, 50), at(0, 0, 50), at(0, 50, 50)}, limits) == Cut{{0, 2}});
  CHECK(coalesce(Placements{at(0, 0, 50), at(0, 40, 50), at(0, 50, 50)}, limits) == Cut{{0, 2}});
  // The bytes of a checksum belong to the sample.
  const Placement checked{.source = 0, .offset = 65, .length = 10, .before = 5, .after = 4};
  CHECK(coalesce(Placements{at(0, 0, 50), checked, at(0, 89, 5)}, limits) == Cut{{0, 1, 2}});
}

TEST_CASE("several records are read as each by itself is, damage is found, and a file that ends early") {
  const testing::TemporaryDirectory folder;
  std::string file;
  std::vector<std::size_t> ends;
  for (int i = 0; i < 12; ++i) {
    const std::string image =
        "\xFF\xD8\xFF\xE0" + std::string(static_cast<std::size_t>(100 + 37 * i), static_cast<char>('a' + i));
    file += testing::tf_record(testing::image_example(image, i % 3));
    ends.push_back(file.size());
  }
  testing::write_file(folder / "x.tfrecord", file);
  const auto dataset = build_dataset(testing::options_for(folder / "x.tfrecord"));
  const PlacedSamples* const placed = placed_samples(*dataset);
  REQUIRE(placed != nullptr);
  const auto read = [&](const std::vector<std::uint64_t>& ids) {
    std::vector<std::vector<std::byte>> bytes;
    for (const std::uint64_t id : ids) bytes.emplace_back(placed->placement(id).value().length);
    const std::vector<std::span<std::byte>> spans(bytes.begin(), bytes.end());
    placed->read_together(ids, spans);
    std::vector<std::string> texts;
    for (const auto& each : bytes) texts.emplace_back(reinterpret_cast<const char*>(each.data()), each.size());
    return texts;
  };
  for (const auto& ids : {std::vector<std::uint64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, {3}, {2, 5, 11}}) {
    const auto texts = read(ids);
    for (std::size_t i = 0; i < ids.size(); ++i) CHECK(texts[i] == testing::read_sample(*dataset, ids[i]));
  }
  // Changes one byte of record 5: each reading of it must fail, and no other. Beyond the first 8
  // KiB, size and stamp do not reveal the change, so the dataset keeps the file open that it knows.
  std::string broken = file;
  broken[ends[4] + 60] = static_cast<char>(broken[ends[4] + 60] ^ 1);
  {
    std::fstream out(folder / "x.tfrecord", std::ios::in | std::ios::out | std::ios::binary);
    out.write(broken.data(), static_cast<std::streamsize>(broken.size()));
  }
  CHECK_THROWS_AS(read({4, 5, 6}), SampleError);
  CHECK_THROWS_WITH_AS(testing::read_sample(*dataset, 5), doctest::Contains("damaged"), SampleError);
  CHECK(read({6, 7})[1] == testing::read_sample(*dataset, 7));
  std::filesystem::resize_file(folder / "x.tfrecord", ends[8] + 20);
  CHECK_THROWS_AS(read({8, 9}), SampleError);
  CHECK(read({7, 8}).size() == 2);
}

TEST_CASE("whole files and what the index holds have no place") {
  const testing::TemporaryDirectory folder;
  CHECK(placed_samples(testing::FakeDataset(3)) == nullptr);
}

// Consecutive samples in one source; counts samples and requests.
class Tape final : public PlacedSamples {
 public:
  explicit Tape(std::uint64_t count) {
    for (std::uint64_t id = 0; id < count; ++id) ends_.push_back((id == 0 ? 0 : ends_.back()) + size_of(id));
  }
  std::function<void(std::span<const std::uint64_t>)> before = [](std::span<const std::uint64_t>) {};
  mutable std::atomic<int> requests{0};
  mutable std::atomic<int> samples{0};

  [[nodiscard]] std::optional<Placement> placement(std::uint64_t id) const override {
    return Placement{.source = 0, .offset = ends_[id] - size_of(id), .length = size_of(id)};
  }
  void read_together(std::span<const std::uint64_t> ids, std::span<const std::span<std::byte>> bytes) const override {
    ++requests;
    samples += static_cast<int>(ids.size());
    before(ids);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (i > 0) CHECK(ids[i] > ids[i - 1]);
      std::ranges::fill(bytes[i], byte_of(ids[i]));
    }
  }

 private:
  std::vector<std::uint64_t> ends_;
};

// Batches of a shuffled window, planned as a whole and requested one after another, with readers
// and decoders.
struct Run {
  Run(std::uint64_t count, std::uint64_t batch_size, std::size_t budget_bytes)
      : samples(count), batch(batch_size), stage(count, budget_bytes), tape(count) {
    ids.resize(count);
    std::iota(ids.begin(), ids.end(), 0U);
    Random random(17);
    for (std::size_t i = count - 1; i > 0; --i) std::swap(ids[i], ids[random.below(i + 1)]);
    coalesced.emplace(tape, stage.budget, stage.requests, stage.encoded, budget_bytes);
  }

  [[nodiscard]] ReadRequest request(std::uint64_t position) const {
    return {.order = position, .turn = position / batch, .position = position, .sample = ids[position]};
  }
  void plan(std::uint64_t begin, std::uint64_t end) {
    std::vector<ReadRequest> requests;
    for (std::uint64_t position = begin; position < end; ++position) requests.push_back(request(position));
    coalesced->plan(requests);
  }
  void ask(std::uint64_t turn) {
    std::vector<ReadRequest> requests;
    for (std::uint64_t i = 0; i < batch && turn * batch + i < samples; ++i)
      requests.push_back(request(turn * batch + i));
    coalesced->request(requests);
    stage.requests.push(requests);
  }
  // Requests all batches, at most `ahead` of them before they are decoded, as the ring would.
  void drive(unsigned readers, std::uint64_t ahead = 4) {
    testing::Tally tally(samples);
    DecoderPool decoders(stage.decoder_links(tally), 2);
    ReaderLinks links = stage.reader_links();
    links.coalesced = &*coalesced;
    ReaderPool pool(links, {.threads = readers, .backoff = std::chrono::nanoseconds(1), .hedge = hedge});
    const std::uint64_t turns = (samples + batch - 1) / batch;
    for (std::uint64_t turn = 0; turn < turns; ++turn) {
      if (turn >= ahead) {
        const auto done = static_cast<int>((turn - ahead + 1) * batch);
        REQUIRE(tally.wait_for(done - static_cast<int>(stage.reports.count())));
      }
      if (!coalesced->is_planned(0, turn * batch)) plan(turn * batch, samples);
      ask(turn);
    }
    REQUIRE(eventually(
        [&] { return tally.handled + static_cast<int>(stage.reports.count()) == static_cast<int>(samples); }));
    CHECK_FALSE(tally.wrong);
    for (std::uint64_t position = 0; position < samples; ++position) {
      const bool is_bad = std::ranges::find(stage.reports.bad, ids[position]) != stage.reports.bad.end();
      CHECK(tally.seen[position] == (is_bad ? 0 : 1));
    }
    pool.stop();
    decoders.stop();
    CHECK(stage.reports.failures.empty());
    coalesced.reset();
    CHECK(stage.budget.in_flight() == 0);
  }

  std::uint64_t samples;
  std::uint64_t batch;
  bool hedge = false;
  Stage stage;
  Tape tape;
  std::vector<std::uint64_t> ids;
  std::optional<CoalescedReads> coalesced;
};

TEST_CASE("each sample is decoded once, by few requests") {
  for (const unsigned readers : {1U, 2U, 5U}) {
    CAPTURE(readers);
    Run run(600, 16, 1 << 22);
    run.drive(readers);
    CHECK(run.tape.samples == 600);
    CHECK(run.tape.requests <= 3);
    for (std::uint64_t id = 0; id < 600; ++id) CHECK(run.stage.dataset.reads(id) == 0);
  }
}

TEST_CASE("a coalesced read that cannot be read is read sample by sample, and the bad one is named") {
  for (const bool is_truncated : {false, true}) {
    const auto fail = [is_truncated] {
      const SampleError error("is broken on purpose",
                              is_truncated ? SampleError::Kind::transient : SampleError::Kind::permanent);
      if (is_truncated) throw TruncatedFile(error);
      throw SampleError(error);
    };
    Run run(300, 16, 1 << 22);
    run.tape.before = [&](std::span<const std::uint64_t> ids) {
      if (std::ranges::find(ids, 123U) != ids.end()) fail();
    };
    run.stage.dataset.before = [&](std::uint64_t id, int) {
      if (id == 123) fail();
    };
    run.drive(2);
    CHECK(run.stage.reports.bad == std::vector<std::uint64_t>{123});
    CHECK(run.stage.dataset.reads(123) == (is_truncated ? 4 : 1));
  }
}

TEST_CASE(
    "a budget that is smaller than a window, a batch or a sample ends in single reads and never in a standstill") {
  for (const std::size_t budget : {1UL, 500UL, 5'000UL, 50'000UL, 150'000UL}) {
    CAPTURE(budget);
    for (const unsigned readers : {1U, 4U}) {
      Run run(600, 16, budget);
      run.drive(readers);
      CHECK(run.stage.budget.most_in_flight() <= std::max<std::size_t>(budget, 1000));
    }
  }
}

TEST_CASE("samples that nobody asked for yet give way when a reader has to wait for memory") {
  Run run(64, 16, 1 << 16);
  run.stage.dataset.size_of_sample = [](std::uint64_t id) { return id == 1000 ? std::size_t{60'000} : size_of(id); };
  testing::Tally tally(64);
  ReaderLinks links = run.stage.reader_links();
  links.coalesced = &*run.coalesced;
  run.plan(0, 64);
  ReaderPool pool(links, {.threads = 2});
  // All samples are read and kept, as far as the budget allows.
  REQUIRE(eventually([&] { return run.tape.samples >= 48; }));
  REQUIRE(eventually([&] { return run.stage.budget.in_flight() > 20'000; }));
  auto room = run.stage.budget.take(0, (1 << 16) - 1000);
  CHECK(run.stage.budget.in_flight() <= 1 << 16);
  run.stage.budget.give_back(std::move(room));
  pool.stop();
}

TEST_CASE("of what is kept, that which is needed last gives way, and only as much as is needed") {
  Run run(640, 16, 1 << 22);
  testing::Tally tally(640);
  ReaderLinks links = run.stage.reader_links();
  links.coalesced = &*run.coalesced;
  run.plan(0, 640);
  ReaderPool pool(links, {.threads = 1});
  DecoderPool decoders(run.stage.decoder_links(tally), 1);
  std::size_t all = 0;
  for (std::uint64_t id = 0; id < 640; ++id) all += size_of(id);
  // All samples are read and kept: a reader is idle only after it has handed on what it read.
  REQUIRE(eventually([&] {
    return run.tape.samples == 640 && pool.workers().statuses()[0].activity == WorkerStatus::Activity::idle;
  }));
  REQUIRE(run.stage.budget.in_flight() == all);
  const std::size_t half = (1 << 22) - all / 2;
  run.stage.budget.give_back(run.stage.budget.take(0, half));
  CHECK(run.stage.budget.in_flight() <= all - all / 2);
  CHECK(run.stage.budget.in_flight() > all - all / 2 - 1000);
  for (std::uint64_t turn = 0; turn < 40; ++turn) run.ask(turn);
  REQUIRE(tally.wait_for(640));
  std::uint64_t alone = 0;
  for (std::uint64_t position = 0; position < 640; ++position) {
    const int reads = run.stage.dataset.reads(run.ids[position]);
    if (alone > 0) CHECK(reads == 1);
    alone += static_cast<std::uint64_t>(reads);
  }
  CHECK(alone > 250);
  CHECK(alone < 390);
  pool.stop();
  decoders.stop();
  CHECK_FALSE(tally.wrong);
}

TEST_CASE("a batch of many windows is read in long pieces") {
  Run run(600, 300, 1 << 22);
  testing::Tally tally(600);
  ReaderLinks links = run.stage.reader_links();
  links.coalesced = &*run.coalesced;
  ReaderPool pool(links, {.threads = 2});
  DecoderPool decoders(run.stage.decoder_links(tally), 2);
  for (std::uint64_t turn = 0; turn < 2; ++turn) {
    for (std::uint64_t window = 0; window < 10; ++window) {
      const std::uint64_t begin = turn * 300 + window * 30;
      CHECK_FALSE(run.coalesced->is_planned(0, begin));
      run.plan(begin, begin + 30);
    }
    CHECK(run.coalesced->is_planned(0, turn * 300));
    run.ask(turn);
  }
  REQUIRE(tally.wait_for(600));
  pool.stop();
  decoders.stop();
  CHECK_FALSE(tally.wrong);
  std::uint64_t alone = 0;
  for (std::uint64_t id = 0; id < 600; ++id) alone += static_cast<std::uint64_t>(run.stage.dataset.reads(id));
  CHECK(alone < 100);  // those with no neighbour in their window
}

TEST_CASE("what is planned may be far apart, and batches may be planned twice") {
  Run run(64, 16, 1 << 22);
  testing::Tally tally(64);
  ReaderLinks links = run.stage.reader_links();
  links.coalesced = &*run.coalesced;
  std::vector<ReadRequest> requests;
  for (std::uint64_t i = 0; i < 64; ++i) {
    ReadRequest request = run.request(i);
    request.position = i < 32 ? i : (std::uint64_t{1} << 60U) + i;
    requests.push_back(request);
  }
  requests[31].position = requests[30].position;
  requests[31].sample = requests[30].sample;
  run.coalesced->plan(requests);
  CHECK(run.coalesced->is_planned(0, (std::uint64_t{1} << 60U) + 40));
  CHECK_FALSE(run.coalesced->is_planned(0, 1000));
  ReaderPool pool(links, {.threads = 2});
  DecoderPool decoders(run.stage.decoder_links(tally), 2);
  run.coalesced->request(requests);
  run.stage.requests.push(requests);
  REQUIRE(tally.wait_for(64));
  pool.stop();
  decoders.stop();
  CHECK_FALSE(tally.wrong);
  CHECK_FALSE(run.coalesced->is_planned(0, 0));
  run.coalesced.reset();
  CHECK(run.stage.budget.in_flight() == 0);
}

TEST_CASE("what was planned and is not asked for is dropped in the end") {
  Run run(400, 16, 1 << 22);
  ReaderLinks links = run.stage.reader_links();
  links.coalesced = &*run.coalesced;
  ReaderPool pool(links, {.threads = 2});
  for (std::uint64_t i = 0; i < 5; ++i) run.plan(i * 80, (i + 1) * 80);
  REQUIRE(eventually([&] { return run.tape.samples > 300; }));
  pool.stop();
  run.coalesced.reset();
  CHECK(run.stage.budget.in_flight() == 0);
}

// Adjacent objects of one image are read and decoded once.

// JPEG files with several boxes each; the samples of a file are consecutive.
class ObjectDataset final : public LikeDataset {
 public:
  struct Object {
    std::size_t file;
    Box box;
  };

  ObjectDataset(std::size_t files, std::size_t most_objects, std::uint64_t seed, bool told_apart)
      : LikeDataset(std::make_shared<MemoryDataset>()), told_apart_(told_apart) {
    Random random(seed);
    for (std::size_t file = 0; file < files; ++file) {
      Recipe recipe;
      recipe.width = 60 + static_cast<int>(random.below(200));
      recipe.height = 60 + static_cast<int>(random.below(200));
      recipe.progressive = random.below(4) == 0;
      files_.push_back(make_jpeg(recipe));
      for (std::uint64_t i = 1 + random.below(most_objects); i > 0; --i) {
        const auto left = static_cast<std::int32_t>(random.below(40));
        const auto top = static_cast<std::int32_t>(random.below(40));
        objects_.push_back({file,
                            {left, top, left + 1 + static_cast<std::int32_t>(random.below(100)),
                             top + 1 + static_cast<std::int32_t>(random.below(100))}});
      }
    }
  }

  [[nodiscard]] std::uint64_t size() const noexcept override { return objects_.size(); }
  [[nodiscard]] Sample sample(std::uint64_t id) const override {
    Sample sample;
    sample.label = static_cast<std::int64_t>(id % 10);
    sample.box = objects_[id].box;
    return sample;
  }
  [[nodiscard]] std::uint64_t source(std::uint64_t id) const override { return told_apart_ ? id : objects_[id].file; }
  void read(std::uint64_t id, ReadTarget& target) const override {
    ++reads_;
    const auto& file = files_[objects_[id].file];
    std::ranges::copy(file, target.reserve(file.size()).begin());
  }
  [[nodiscard]] IndexCounts counts() const noexcept override { return {}; }

  [[nodiscard]] std::size_t files() const { return files_.size(); }
  [[nodiscard]] std::uint64_t reads() const { return reads_; }

  std::vector<std::vector<std::byte>> files_;
  std::vector<Object> objects_;

 private:
  bool told_apart_;
  mutable std::atomic<std::uint64_t> reads_{0};
};

struct Outcome {
  std::map<std::uint64_t, std::vector<std::byte>> batches;
  std::map<std::uint64_t, std::vector<std::uint64_t>> ids;
  std::uint64_t bad = 0;

  friend bool operator==(const Outcome&, const Outcome&) = default;
};

// An epoch in the order of the dataset.
Outcome run(const std::shared_ptr<const Dataset>& dataset, Decode decode, Crop crop = Crop::random_resized,
            When when = When::enqueue) {
  Options options = memory_options(8);
  options.dataset.shuffle = false;
  options.transform.crop = crop;
  options.transform.size = {24, 20};
  options.transform.mirror = 0.5;
  options.transform.decode = decode;
  options.transform.when = when;
  Feeder feeder(options, Parts{.dataset = dataset});
  Outcome outcome;
  while (auto batch = feeder.next()) {
    const auto* bytes = batch->images().as<std::byte>();
    outcome.batches[batch->batch()].assign(bytes, bytes + batch->images().bytes());
    outcome.ids[batch->batch()].assign(batch->ids().begin(), batch->ids().end());
    for (std::size_t i = 0; i < batch->ids().size(); ++i) {
      CHECK(batch->labels()[i] == static_cast<std::int64_t>(batch->ids()[i] % 10));
    }
  }
  outcome.bad = feeder.summary().bad_samples;
  return outcome;
}

constexpr std::uint64_t kSeed = 20261121;

TEST_CASE("requests of the same bytes become one, in order, up to a limit") {
  const ObjectDataset dataset(30, 40, kSeed, false);
  const Order order({.samples = dataset.size(), .batch_size = 64, .seed = 1, .shuffle = false});
  std::vector<ReadRequest> requests;
  for (std::uint32_t i = 0; i < 64; ++i) {
    add_request(requests, {.order = 640 + i, .position = i, .sample = i, .slot = 3, .index = i}, dataset);
  }
  CHECK(requests.size() < 32);
  std::uint32_t next = 0;
  for (const ReadRequest& request : requests) {
    REQUIRE(request.count >= 1);
    REQUIRE(request.count <= kMostOfOneRead);
    for (std::uint32_t i = 0; i < request.count; ++i, ++next) {
      const ReadRequest member = member_of(request, i, order);
      CHECK(member.order == 640 + next);
      CHECK(member.position == next);
      CHECK(member.sample == next);
      CHECK(member.index == next);
      CHECK(member.slot == 3);
      CHECK(member.count == 1);
      CHECK(dataset.source(member.sample) == dataset.source(request.sample));
    }
  }
  CHECK(next == 64);
}

TEST_CASE("objects decoded together are the same bytes as alone") {
  CAPTURE(kSeed);
  const auto together = std::make_shared<ObjectDataset>(40, 12, kSeed, false);
  const auto apart = std::make_shared<ObjectDataset>(40, 12, kSeed, true);
  for (const Decode decode : {Decode::region, Decode::full, Decode::scaled}) {
    for (const Crop crop : {Crop::none, Crop::random_resized}) {
      const std::uint64_t before = together->reads();
      const Outcome expected = run(apart, decode, crop);
      CHECK(run(together, decode, crop) == expected);
      CHECK(expected.bad == 0);
      // Each batch of 8 may begin and end within an image, and those images are read twice.
      CHECK(together->reads() - before <= together->files() + (together->size() + 7) / 8);
    }
  }
  CHECK(apart->reads() >= 6 * apart->size());
}

TEST_CASE("canvases of objects decoded together are the same bytes as alone") {
  CAPTURE(kSeed);
  const auto together = std::make_shared<ObjectDataset>(30, 12, kSeed, false);
  const auto apart = std::make_shared<ObjectDataset>(30, 12, kSeed, true);
  const Outcome expected = run(apart, Decode::region, Crop::random_resized, When::dequeue);
  CHECK(run(together, Decode::region, Crop::random_resized, When::dequeue) == expected);
  CHECK(run(together, Decode::full, Crop::random_resized, When::dequeue) == expected);
  CHECK(expected.bad == 0);
}

TEST_CASE("a bad object spoils no other of its image, and a bad image all of its own") {
  CAPTURE(kSeed);
  const auto make = [](bool told_apart) {
    auto dataset = std::make_shared<ObjectDataset>(20, 6, kSeed, told_apart);
    dataset->objects_[3].box = {5000, 5000, 5010, 5010};  // outside of its image
    dataset->objects_[10].box = {5000, 5000, 5010, 5010};
    dataset->files_[dataset->objects_.back().file].resize(200);
    return dataset;
  };
  const auto together = make(false);
  const Outcome outcome = run(together, Decode::region);
  CHECK(outcome == run(make(true), Decode::region));
  const auto in_bad_file = std::ranges::count_if(together->objects_, [&](const ObjectDataset::Object& object) {
    return object.file == together->objects_.back().file;
  });
  CHECK(outcome.bad == 2 + static_cast<std::uint64_t>(in_bad_file));
}

}  // namespace
}  // namespace forebay::test_coalesced_reads
