#include <doctest/doctest.h>

#include "dataset_support.hpp"
#include "support.hpp"

#include <sys/stat.h>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <thread>

#include <forebay/error.hpp>
#include <forebay/random.hpp>

#include "source/index_image.hpp"

using namespace forebay;
using namespace forebay::testing;

namespace {

DatasetOptions make_voc(const TemporaryDirectory& folder, int images = 3) {
  for (int i = 0; i < images; ++i) {
    const std::string name = "img" + std::to_string(i);
    write_file(folder / (name + ".jpg"), "jpeg");
    write_file(folder / (name + ".xml"),
               annotation(object("dog") + object("cat", i == 1 ? "" : bndbox("1", "2", "3", "4"))));
  }
  return options_for(folder.path(), "voc");
}

DatasetOptions make_list(const TemporaryDirectory& folder, const std::string& list = "a.jpg,0\nb.jpg,1\n") {
  write_file(folder / "list.txt", list);
  return options_for(folder / "list.txt", "filelist");
}

DatasetOptions make_idx(const TemporaryDirectory& folder) {
  write_file(folder / "train-images-idx3-ubyte", std::string("\0\0\x08\x03\0\0\0\2\0\0\0\1\0\0\0\2abcd", 20));
  write_file(folder / "train-labels-idx1-ubyte", std::string("\0\0\x08\x01\0\0\0\2\1\0", 10));
  return options_for(folder / "train-images-idx3-ubyte", "idx");
}

std::vector<std::vector<std::byte>> sound_indexes() {
  const TemporaryDirectory a;
  const TemporaryDirectory b;
  const TemporaryDirectory c;
  return {build_dataset(make_voc(a))->serialize(), build_dataset(make_list(b))->serialize(),
          build_dataset(make_idx(c))->serialize()};
}

// Uses whatever was restored the way a run would, so that a sanitizer sees any access out of range.
void use(const Dataset& dataset) {
  (void)describe_samples(dataset);
  (void)fingerprint(dataset);
  for (std::uint64_t id = 0; id < dataset.size(); ++id) {
    const auto label = dataset.sample(id).label;
    if (label >= 0) (void)dataset.classes().at(static_cast<std::size_t>(label));
  }
}

// True when it was refused with an Error.
bool is_refused(std::span<const std::byte> bytes) {
  try {
    use(*restore_dataset(bytes, "fuzz"));
  } catch (const Error&) {
    return true;
  }
  return false;
}

std::uint64_t test_seed() {
  const char* given = std::getenv("FOREBAY_TEST_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : 20240229;
}

}  // namespace

TEST_CASE("any flipped bit and any cut of an index is refused") {
  for (const auto& sound : sound_indexes()) {
    REQUIRE_FALSE(is_refused(sound));
    for (std::size_t at = 0; at < sound.size(); ++at) {
      auto damaged = sound;
      damaged[at] ^= std::byte{1} << (at % 8);
      CAPTURE(at);
      CHECK(is_refused(damaged));
    }
    for (std::size_t size = 0; size < sound.size(); ++size) CHECK(is_refused(std::span(sound).first(size)));
    auto longer = sound;
    longer.push_back(std::byte{0});
    CHECK(is_refused(longer));
  }
}

TEST_CASE("contents that pass the checksum but make no sense never read out of range") {
  const std::uint64_t seed = test_seed();
  CAPTURE(seed);
  Random random(seed);
  for (const auto& sound : sound_indexes()) {
    const IndexParts index = parse_index(sound, "sound");
    const IndexRecord record = read_index_record(index, "sound");
    for (int round = 0; round < 3000; ++round) {
      std::vector<std::byte> content(index.content.begin(), index.content.end());
      const auto changes = 1 + random.below(4);
      for (std::uint64_t i = 0; i < changes; ++i) {
        // Extremes find more than random values: counts and offsets of 64 bits, labels of 32.
        const std::uint64_t value = random.below(3) == 0 ? random.bits() : random.below(300) - 150;
        const std::size_t width = std::size_t{1} << random.below(4);
        const auto at = static_cast<std::size_t>(random.below(content.size()));
        std::memcpy(content.data() + at, &value, std::min(width, content.size() - at));
      }
      if (random.below(4) == 0) content.resize(static_cast<std::size_t>(random.below(content.size())));
      (void)is_refused(seal_index(record, content.size(), [&](IndexWriter& writer) { writer.column(content); }));
    }
  }
}

TEST_CASE("what is no index, or of another version, says so") {
  const auto reason = [](std::span<const std::byte> bytes) {
    return error_of([&] { (void)restore_dataset(bytes, "the message"); });
  };
  CHECK(reason({}) == "the message: not an index of Forebay");
  CHECK(reason(bytes_of(std::string(100, 'x'))) == "the message: not an index of Forebay");
  auto newer = sound_indexes().front();
  newer[8] = std::byte{99};
  CHECK(contains(reason(newer), "version 99"));
  auto older = sound_indexes().front();
  older[8] = std::byte{1};
  CHECK(
      contains(reason(older), "an index of version 1, this Forebay reads version 2; delete it to have it built again"));
  auto damaged = sound_indexes().front();
  damaged.back() ^= std::byte{1};
  CHECK(contains(reason(damaged), " to " + std::to_string(damaged.size() - 1) + " does not match; delete it"));
  auto header = sound_indexes().front();
  header[20] ^= std::byte{1};
  CHECK(contains(reason(header), "its header, bytes 0 to 55, does not match"));
}

TEST_CASE("saving replaces in one step and leaves nothing behind; errors name the file") {
  const TemporaryDirectory data;
  const TemporaryDirectory folder;
  const auto dataset = build_dataset(make_voc(data));
  const std::string file = (folder / "set.index").string();
  write_file(file, "old");
  save_index(*dataset, file);
  CHECK(describe_samples(*load_index(file)) == describe_samples(*dataset));
  std::size_t files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder.path())) ++files;
  CHECK(files == 1);

  const std::string nowhere = (folder / "absent" / "set.index").string();
  CHECK(contains(error_of([&] { save_index(*dataset, nowhere); }), nowhere));
  CHECK(contains(error_of([&] { (void)load_index(nowhere); }), nowhere));
  write_file(file, "text");
  CHECK(contains(error_of([&] { (void)load_index(file); }), file + ": not an index"));
}

namespace {

// A saved index of many chunks, with its bytes to be damaged.
struct LargeIndex {
  explicit LargeIndex(std::uint64_t images) {
    std::string list;
    for (std::uint64_t i = 0; i < images; ++i) list += "folder/image" + std::to_string(i) + ".jpg,0\n";
    write_file(folder / "list.txt", list);
    save_index(*build_dataset(options_for(folder / "list.txt", "filelist")), file());
    bytes = read_file(file());
  }
  [[nodiscard]] std::string file() const { return (folder / "large.index").string(); }

  TemporaryDirectory folder;
  std::string bytes;
};

}  // namespace

TEST_CASE("a saved index is mapped; what is not used is not read, and damage is found where it is used") {
  const LargeIndex large(50'000);
  const IndexParts parts = parse_index(bytes_of(large.bytes), "large");
  REQUIRE(parts.content.size() > 10 * kIndexChunk);
  // The paths come last: this is the path of the last sample.
  std::string damaged = large.bytes;
  damaged.back() = 'x';
  write_file(large.file(), damaged);
  const auto dataset = load_index(large.file());
  const IndexImage* image = image_of(*dataset);
  REQUIRE(image != nullptr);
  CHECK(image->is_mapped());
  CHECK(dataset->size() == 50'000);
  CHECK(dataset->name(0).ends_with("/folder/image0.jpg"));
  CHECK(dataset->sample(49'999).label == 0);

  const std::string message = error_of([&] { (void)dataset->name(49'999); });
  CHECK(contains(message, "index " + large.file() + ": a damaged index: the checksum of bytes "));
  CHECK(contains(message, " to " + std::to_string(damaged.size() - 1) + " does not match"));
  CHECK(contains(message, "delete it to have it built again"));
  // Again, and by the check of everything.
  CHECK(error_of([&] { (void)dataset->name(49'999); }) == message);
  CHECK(error_of([&] { image->check(); }) == message);
}

TEST_CASE("a mapped index keeps its bytes when the file is replaced or removed") {
  const LargeIndex large(20'000);
  const auto dataset = load_index(large.file());
  save_index(*build_dataset(options_for(large.folder / "list.txt", "filelist")), large.file());
  std::filesystem::remove(large.file());
  CHECK_NOTHROW(image_of(*dataset)->check());
  CHECK(dataset->name(19'999).ends_with("/folder/image19999.jpg"));
}

TEST_CASE("a mapped index that is shortened in place ends in an error") {
  const LargeIndex large(50'000);
  const auto dataset = load_index(large.file());
  std::filesystem::resize_file(large.file(), 64 << 10);
  const std::string message = error_of([&] { (void)dataset->name(49'999); });
  // Older kernels cannot tell beforehand; this one must be new enough to be tested.
  CHECK(contains(message, "index " + large.file() + ": cannot read bytes "));
}

TEST_CASE("threads that use a mapped index at the same time see the same") {
  const LargeIndex large(20'000);
  const auto dataset = load_index(large.file());
  std::atomic<int> wrong{0};
  {
    std::vector<std::jthread> threads;
    for (std::uint64_t first = 0; first < 4; ++first) {
      threads.emplace_back([&, first] {
        for (std::uint64_t i = 0; i < 20'000; i += 7) {
          const std::uint64_t id = (i * 7919 + first) % 20'000;
          wrong += dataset->name(id).ends_with("/image" + std::to_string(id) + ".jpg") ? 0 : 1;
        }
      });
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("open_dataset builds and saves once, then loads") {
  const TemporaryDirectory data;
  const TemporaryDirectory folder;
  DatasetOptions options = make_voc(data);
  options.index = (folder / "set.index").string();
  const auto built = open_dataset(options);
  REQUIRE(std::filesystem::exists(options.index));
  // The annotations are gone: what comes back was not built again.
  for (int i = 0; i < 3; ++i) std::filesystem::remove(data / ("img" + std::to_string(i) + ".xml"));
  const auto loaded = open_dataset(options);
  CHECK(describe_samples(*loaded) == describe_samples(*built));
  CHECK(loaded->skipped().size() == built->skipped().size());
  CHECK(loaded->counts().objects == built->counts().objects);
  CHECK(fingerprint(*loaded) == fingerprint(*built));
  options.format = "auto";
  CHECK(open_dataset(options)->size() == built->size());
  options.path += "/";
  CHECK(open_dataset(options)->size() == built->size());
}

TEST_CASE("open_dataset without an index file builds") {
  const TemporaryDirectory data;
  CHECK(open_dataset(make_voc(data))->size() == 5);
}

TEST_CASE("an index of other options is refused with what it was built for") {
  const TemporaryDirectory data;
  const TemporaryDirectory other;
  const TemporaryDirectory folder;
  DatasetOptions options = make_voc(data);
  options.index = (folder / "set.index").string();
  (void)open_dataset(options);
  const auto refusal = [&](auto&& change) {
    DatasetOptions changed = options;
    change(changed);
    CHECK_THROWS_AS((void)open_dataset(changed), ConfigError);
    return error_of([&] { (void)open_dataset(changed); });
  };
  const std::string by_path = refusal([&](auto& changed) { changed.path = other.path().string(); });
  CHECK(contains(by_path, "dataset.index = \"" + options.index + "\" was built for path " + data.path().string()));
  CHECK(contains(by_path, "delete it to have it built again"));
  CHECK(contains(refusal([](auto& changed) { changed.format = "folder"; }), "format voc, not folder"));
  CHECK(contains(refusal([](auto& changed) { changed.classes = {"dog"}; }), "other classes"));
  CHECK(contains(refusal([](auto& changed) { changed.difficult = false; }), "difficult = true"));
  CHECK(contains(refusal([](auto& changed) { changed.labels = "labels.txt"; }), "no labels file"));
}

TEST_CASE("a list that changed makes its index stale") {
  const TemporaryDirectory folder;
  DatasetOptions options = make_list(folder);
  options.index = (folder / "set.index").string();
  CHECK(open_dataset(options)->size() == 2);
  CHECK(open_dataset(options)->size() == 2);
  (void)make_list(folder, "a.jpg,1\nb.jpg,0\n");
  CHECK(contains(error_of([&] { (void)open_dataset(options); }), "other contents of the list"));
}

TEST_CASE("an index works from another working directory") {
  const TemporaryDirectory data;
  write_file(data / "set/class/x.jpg", "jpeg");
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(data.path());
  DatasetOptions options = options_for("set");
  options.index = (data / "set.index").string();
  (void)open_dataset(options);
  std::filesystem::current_path(data / "set");
  const auto dataset = load_index(options.index);
  std::filesystem::current_path(before);
  CHECK(read_sample(*dataset, 0) == "jpeg");
}
