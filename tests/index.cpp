#include <sys/stat.h>
#include <forebay/config.hpp>

#include "data/formats.hpp"
#include "data/index_image.hpp"
#include "dataset_support.hpp"
#include "index_support.hpp"
#include "test.hpp"

// The index file of a dataset: damage, saving and loading, and when an index no longer fits its
// data or options. Also the registry of formats.
namespace forebay::test_index {

using namespace forebay::data;

namespace {

using namespace testing;

DatasetOptions make_voc(const TemporaryDirectory& folder, int images = 3) {
  for (int i = 0; i < images; ++i) {
    const std::string name = "img" + std::to_string(i);
    write_file(folder / (name + ".jpg"), "jpeg");
    write_file(folder / (name + ".xml"),
               annotation(object("dog") + object("cat", i == 1 ? "" : bndbox("1", "2", "3", "4"))));
  }
  return options_for(folder.path(), "voc");
}

DatasetOptions make_list(const TemporaryDirectory& folder) {
  write_file(folder / "list.txt", "a.jpg,0\nb.jpg,1\n");
  return options_for(folder / "list.txt", "filelist");
}

DatasetOptions make_idx(const TemporaryDirectory& folder) {
  write_file(folder / "train-images-idx3-ubyte", std::string("\0\0\x08\x03\0\0\0\2\0\0\0\1\0\0\0\2abcd", 20));
  write_file(folder / "train-labels-idx1-ubyte", std::string("\0\0\x08\x01\0\0\0\2\1\0", 10));
  return options_for(folder / "train-images-idx3-ubyte", "idx");
}

DatasetOptions make_cifar(const TemporaryDirectory& folder) {
  write_file(folder / "data_batch_1.bin", std::string(2 * 3073, '\1'));
  write_file(folder / "data_batch_2.bin", std::string(3073, '\2'));
  return options_for(folder.path(), "cifar");
}

std::vector<std::vector<std::byte>> sound_indexes() {
  const TemporaryDirectory a;
  const TemporaryDirectory b;
  const TemporaryDirectory c;
  const TemporaryDirectory d;
  return {build_dataset(make_voc(a))->serialize(), build_dataset(make_list(b))->serialize(),
          build_dataset(make_idx(c))->serialize(), build_dataset(make_cifar(d))->serialize()};
}

// Uses a restored index as a run would, so that a sanitizer detects accesses out of range.
void use(const Dataset& dataset) {
  (void)describe_samples(dataset);
  (void)fingerprint(dataset);
  if (const IndexImage* image = image_of(dataset)) (void)image->state();
  for (std::uint64_t id = 0; id < dataset.size(); ++id) {
    const auto label = dataset.sample(id).label;
    if (label >= 0) (void)dataset.classes().at(static_cast<std::size_t>(label));
  }
}

// True if it was refused with an Error.
template <typename Open>
bool ends_in_error(Open&& open) {
  try {
    use(*open());
  } catch (const Error&) {
    return true;
  }
  return false;
}
bool is_refused(std::span<const std::byte> bytes) {
  return ends_in_error([&] { return restore_dataset(bytes, "fuzz"); });
}

// The same for an index that stays in its file.
bool is_refused_on_disk(const std::string& file) {
  return ends_in_error([&] { return restore_index(open_index_file(file, 0)); });
}

std::uint64_t test_seed() {
  const char* given = std::getenv("FOREBAY_TEST_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : 20240229;
}

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
  Random random = testing::random_from(test_seed());
  const TemporaryDirectory folder;
  for (const auto& sound : sound_indexes()) {
    const auto sound_content = content_of(sound);
    const IndexRecord record = record_of(sound);
    for (int round = 0; round < 1000; ++round) {
      std::vector<std::byte> content(sound_content.begin(), sound_content.end());
      const auto changes = 1 + random.below(4);
      for (std::uint64_t i = 0; i < changes; ++i) {
        // Extreme values find more than random ones: counts and offsets have 64 bits, labels 32.
        const std::uint64_t value = random.below(3) == 0 ? random.bits() : random.below(300) - 150;
        const std::size_t width = std::size_t{1} << random.below(4);
        const auto at = static_cast<std::size_t>(random.below(content.size()));
        std::memcpy(content.data() + at, &value, std::min(width, content.size() - at));
      }
      if (random.below(4) == 0) content.resize(static_cast<std::size_t>(random.below(content.size())));
      const auto made = seal_index(record, content.size(), [&](IndexWriter& writer) { writer.column(content); });
      const bool refused = is_refused(made);
      if (round % 20 != 0) continue;
      write_file(folder / "made.index", text_of(made));
      CHECK(is_refused_on_disk(folder / "made.index") == refused);
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
  CHECK(contains(reason(older),
                 "an index of version 1, this Forebay reads version 12; delete it to have it built again"));
  auto damaged = sound_indexes()[2];
  damaged.back() ^= std::byte{1};
  CHECK(contains(reason(damaged), " to " + std::to_string(damaged.size() - 1) + " does not match; delete it"));
  auto header = sound_indexes().front();
  header[20] ^= std::byte{1};
  CHECK(contains(reason(header), "its header, bytes 0 to 71, does not match"));
}

TEST_CASE("saving replaces in one step and leaves nothing behind; errors name the file") {
  const TemporaryDirectory data;
  const TemporaryDirectory folder;
  const auto dataset = build_dataset(make_voc(data));
  const std::string file = (folder / "set.index").string();
  write_file(file, "");
  save_index(*dataset, file);
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
  // An archive, a list or an image under that name is not lost.
  CHECK(contains(error_of([&] { save_index(*dataset, file); }), file + ": the file that is there is no index"));
  CHECK(read_text(file) == "text");
}

TEST_CASE("an index replaces the file that a link leads to, and nothing but files") {
  const TemporaryDirectory data;
  const TemporaryDirectory folder;
  const auto dataset = build_dataset(make_voc(data));
  std::filesystem::create_symlink("there", folder / "link");
  save_index(*dataset, (folder / "link").string());
  CHECK(std::filesystem::is_symlink(folder / "link"));
  CHECK(describe_samples(*load_index((folder / "there").string())) == describe_samples(*dataset));

  const std::string fifo = (folder / "fifo").string();
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  CHECK(error_of([&] { save_index(*dataset, fifo); }) == "index " + fifo + ": it is a FIFO: choose another name");
  CHECK(std::filesystem::is_fifo(fifo));
  CHECK(contains(error_of([&] { save_index(*dataset, folder.path().string()); }), "it is a directory"));
}

TEST_CASE("open_dataset builds and saves once, then loads") {
  const TemporaryDirectory data;
  const TemporaryDirectory folder;
  DatasetOptions options = make_voc(data);
  options.index = (folder / "set.index").string();
  const auto built = open_dataset(options);
  REQUIRE(std::filesystem::exists(options.index));
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

TEST_CASE("an index file that cannot be looked at is not taken for a missing one") {
  const TemporaryDirectory data;
  DatasetOptions options = make_voc(data);
  options.index = (data / std::string(300, 'x')).string();
  CHECK(error_of([&] { (void)open_dataset(options); }) ==
        "index " + options.index + ": cannot open: File name too long");
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
  CHECK(contains(by_path, "dataset.index = \"" + options.index + "\" was built for path " + data.path().string() +
                              ", not " + other.path().string()));
  CHECK(contains(by_path, "delete it to have it built again"));
  CHECK(contains(refusal([](auto& changed) { changed.format = "folder"; }), "format voc, not folder"));
  CHECK(contains(refusal([](auto& changed) { changed.classes = {"dog"}; }), "other classes"));
  CHECK(contains(refusal([](auto& changed) { changed.difficult = false; }), "difficult = true"));
  CHECK(contains(refusal([](auto& changed) { changed.labels = "labels.txt"; }), "no labels file"));
}

TEST_CASE("numbers of a field that differ by next to nothing make another index") {
  const TemporaryDirectory folder;
  DatasetOptions options = make_list(folder);
  write_file(folder / "a.jpg", "jpeg");
  options.index = (folder / "set.index").string();
  FieldOptions field{.name = "again", .from = "{stem}.jpg"};
  field.kind = FieldKind::image;
  field.mean = {0.1, 0, 0};
  const auto open_with = [&](auto&& change) {
    DatasetOptions changed = options;
    changed.fields = {field};
    change(changed.fields[0]);
    return error_of([&] { (void)open_dataset(changed); });
  };
  CHECK(open_with([](FieldOptions&) {}).empty());
  CHECK(open_with([](FieldOptions&) {}).empty());
  const std::string other = "other sections [fields.NAME]";
  CHECK(contains(open_with([](FieldOptions& changed) { changed.mean[0] = 0.1000000001; }), other));
  CHECK(contains(open_with([](FieldOptions& changed) { changed.std[2] = 1.0000000001; }), other));
  CHECK(contains(open_with([](FieldOptions& changed) { changed.min_visible = 0.2500000001; }), other));
}

TEST_CASE("a list that changed makes its index stale") {
  const TemporaryDirectory folder;
  const Kept kept(make_list(folder));
  CHECK(contains(kept.error_with(folder / "list.txt", "a.jpg,1\nb.jpg,0\n"), "other contents of the list"));
}

TEST_CASE("files of records that changed make their index stale before the first sample") {
  const TemporaryDirectory data;
  const Kept kept(make_cifar(data));
  const auto file = data / "data_batch_2.bin";
  std::string changed = read_text(file);
  changed[5] = 'x';
  CHECK(contains(kept.error_with(file, changed), "data_batch_2.bin: is not the file that its index was made from"));
}

TEST_CASE("a file of labels is refused where the format has its own") {
  const FolderOf folder{{"in/cat/x.jpg", "jpeg"}};
  DatasetOptions options = options_for(folder / "in");
  options.labels = (folder / "labels.txt").string();
  const std::string problem = build_error(options);
  CHECK(contains(problem, "dataset.labels: the format \"folder\""));
  CHECK(contains(problem, "it is for filelist, "));
}

TEST_CASE("an index works from another working directory") {
  const FolderOf data{{"set/class/x.jpg", "jpeg"}};
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

// The registry of dataset formats, and what is generated from it.

TEST_CASE("every format is complete, and found by its name") {
  for (const auto& [name, help, format] : kFormats) {
    CAPTURE(name);
    CHECK(find_format(name) == format);
    CHECK_FALSE(help.empty());
    CHECK_FALSE(format->needs.empty());
    const bool has_functions = format->detect != nullptr && format->build != nullptr;
    CHECK(has_functions);
    const bool has_hash = format->hash != nullptr;
    CHECK(has_hash == !format->hashed.empty());
  }
  CHECK(find_format("auto") == nullptr);
  CHECK(find_format("") == nullptr);
  CHECK(kFormatChoices.size() == kFormats.size() + 1);
}

TEST_CASE("a configuration may name each format, and nothing else") {
  for (const auto name : kFormatChoices) {
    const std::string text = "[dataset]\nformat = \"" + std::string(name) + "\"\n";
    CHECK(parse_options(text, "test", {}).dataset.format == name);
  }
  const std::string message = error_of([] { (void)parse_options("[dataset]\nformat = \"parquet\"\n", "test", {}); });
  for (const auto name : kFormatChoices) CHECK(contains(message, "\"" + std::string(name) + "\""));
}

TEST_CASE("docs/configuration.md says of each format what the registry says") {
  const std::string page = read_text(source_dir() / "docs" / "configuration.md");
  for (const auto& [name, help, format] : kFormats) {
    CHECK(contains(page, "| `" + std::string(name) + "` | " + std::string(help) + " |"));
  }
}

}  // namespace
}  // namespace forebay::test_index
