#include <doctest/doctest.h>

#include "jpeg_support.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include <forebay/feeder.hpp>

#include "container_files.hpp"
#include "dataset_support.hpp"
#include "memory_dataset.hpp"
#include "support.hpp"

// dataset.order = "shards" through the whole feeder: other order, other reads, the same samples.
namespace forebay {
namespace {

using testing::memory_options;
using testing::TemporaryDirectory;

// A CIFAR-10 file whose samples tell their number.
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

// Every sample once per epoch, or the case fails.
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

// Files of a folder that this process has open.
std::size_t open_files_of(const std::filesystem::path& folder) {
  std::size_t open = 0;
  for (const auto& descriptor : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code closed;  // as the one of this very listing may be
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
  CHECK(line.find("x.tfrecord[record 200]") != std::string::npos);
  CHECK(line.find("damaged") != std::string::npos);
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

}  // namespace
}  // namespace forebay
