#include <doctest/doctest.h>
#include <zlib.h>

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <forebay/error.hpp>
#include <forebay/feeder.hpp>

#include "container_files.hpp"
#include "dataset_support.hpp"
#include "memory_dataset.hpp"
#include "mpi_world.hpp"
#include "shared_folder.hpp"

// Each container under mpirun: every record fresh exactly once per epoch with its own label, over resumed runs too, and
// broken records replaced or fatal, as the run asks for.

using namespace forebay;
using namespace forebay::testing;

namespace {

constexpr int kSamples = 45;

std::string big_endian(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> static_cast<unsigned>(shift));
  return bytes;
}

std::string chunk(const std::string& type, const std::string& content) {
  const std::string covered = type + content;
  const auto crc = ::crc32(0, reinterpret_cast<const Bytef*>(covered.data()), static_cast<uInt>(covered.size()));
  return big_endian(static_cast<std::uint32_t>(content.size())) + covered + big_endian(static_cast<std::uint32_t>(crc));
}

// A PNG of one grey pixel.
std::string picture(int grey) {
  std::array<Bytef, 64> packed{};
  const std::array<Bytef, 2> row{0, static_cast<Bytef>(grey)};
  uLongf length = packed.size();
  CHECK(::compress(packed.data(), &length, row.data(), row.size()) == Z_OK);
  return std::string("\x89PNG\r\n\x1A\n") +
         chunk("IHDR", big_endian(1) + big_endian(1) + std::string("\x08\0\0\0\0", 5)) +
         chunk("IDAT", std::string(reinterpret_cast<const char*>(packed.data()), length)) + chunk("IEND", "");
}
int grey_of(int sample) { return sample * 5; }

// A container's file, of which sample i has grey_of(i) and class i; each sample is a line of these.
struct Container {
  std::string name;
  std::string file;  // in the folder
  std::function<std::string(const std::vector<std::string>&)> join;
  std::function<std::string(int, const std::string&)> record;
};

std::string concatenated(const std::vector<std::string>& records) {
  std::string all;
  for (const auto& record : records) all += record;
  return all;
}

const std::vector<Container>& containers() {
  static const std::vector<Container> all{
      {"tfrecord", "x.tfrecord", concatenated,
       [](int i, const std::string& image) { return tf_record(image_example(image, i)); }},
      {"webdataset", "x.tar", concatenated,
       [](int i, const std::string& image) {
         return tar_member(std::to_string(i) + ".png", image) +
                tar_member(std::to_string(i) + ".cls", std::to_string(i));
       }},
      {"recordio", "x.rec", concatenated,
       [](int i, const std::string& image) { return record_part(image_record(image, static_cast<float>(i))); }},
      {"lmdb", "data.mdb",
       [](const std::vector<std::string>& values) {
         LmdbFile::Entries entries;
         for (std::size_t i = 0; i < values.size(); ++i) entries.emplace_back(std::to_string(1000 + i), values[i]);
         return LmdbFile::of(entries, 7);
       },
       [](int i, const std::string& image) { return encoded_datum(image, i); }}};
  return all;
}

Options options_of(const SharedFolder& folder, const Container& container) {
  Options options = memory_options(4);
  options.dataset.path = (folder / container.file).string();
  options.transform.size = {1, 1};
  return options;
}

std::string file_of(const Container& container) {
  std::vector<std::string> records;
  for (int i = 0; i < kSamples; ++i) records.push_back(container.record(i, picture(grey_of(i))));
  return container.join(records);
}

// Serves until the end or `steps`; counts the fresh samples by their class, each of which must have its own picture.
std::map<int, int> serve(Feeder& feeder, int steps = -1) {
  std::map<int, int> times;
  for (; steps != 0; --steps) {
    const auto batch = feeder.next();
    if (!batch) break;
    if (!batch->is_fresh()) continue;
    const auto labels = batch->labels();
    const auto* pixels = static_cast<const std::uint8_t*>(batch->images().data);
    for (std::size_t i = 0; i < labels.size(); ++i) {
      CHECK(pixels[3 * i] == grey_of(static_cast<int>(labels[i])));
      ++times[static_cast<int>(labels[i])];
    }
  }
  return times;
}

}  // namespace

TEST_CASE("every record of a container comes fresh exactly once, with its own label") {
  for (const Container& container : containers()) {
    CAPTURE(container.name);
    SharedFolder folder;
    folder.write(container.file, file_of(container));
    Feeder feeder(options_of(folder, container), world());
    const auto times = folder.sum(serve(feeder));
    CHECK(times.size() == kSamples);
    for (const auto& [label, count] : times) CHECK(count == 1);
    feeder.close();
  }
}

TEST_CASE("a run that is stopped and resumed serves every record of a container exactly once") {
  for (const Container& container : containers()) {
    CAPTURE(container.name);
    SharedFolder folder;
    folder.write(container.file, file_of(container));
    std::map<int, int> mine;
    const std::string state = (folder / "feed.state").string();
    {
      Feeder feeder(options_of(folder, container), world());
      mine = serve(feeder, 2);
      feeder.save(state);
      feeder.close();
    }
    Feeder feeder(options_of(folder, container), world());
    CHECK(feeder.restore_if_present(state));
    for (const auto& [label, count] : serve(feeder)) mine[label] += count;
    const auto times = folder.sum(mine);
    CHECK(times.size() == kSamples);
    for (const auto& [label, count] : times) CHECK(count == 1);
    feeder.close();
  }
}

TEST_CASE("broken records are left out or replaced, and end the run where they must not be") {
  for (const Container& container : containers()) {
    CAPTURE(container.name);
    SharedFolder folder;
    std::vector<std::string> records;
    for (int i = 0; i < kSamples; ++i) {
      // What can be seen when it is indexed, and what only when it is read.
      const std::string image = i == 7 ? "" : i == 11 ? picture(grey_of(i)).substr(0, 20) : picture(grey_of(i));
      records.push_back(container.record(i, image));
    }
    if (container.name == "tfrecord") records[13][40] = static_cast<char>(records[13][40] ^ 1);
    folder.write(container.file, container.join(records));
    Options options = options_of(folder, container);
    options.dataset.shuffle = false;
    options.max_bad = std::int64_t{5};
    {
      Feeder feeder(options, world());
      const auto times = folder.sum(serve(feeder));
      const std::size_t bad = container.name == "tfrecord" ? 3 : 2;
      CHECK(times.size() == kSamples - bad);
      CHECK_FALSE(times.contains(7));
      CHECK_FALSE(times.contains(11));
      feeder.close();
    }
    options.on_bad = OnBad::fail;
    const std::string error = error_of([&] {
      Feeder feeder(options, world());
      (void)serve(feeder);
    });
    CHECK(contains(error, container.file));
    CHECK(contains(error, "[record 7"));
  }
}
