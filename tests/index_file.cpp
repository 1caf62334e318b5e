#include <sys/syscall.h>
#include <unistd.h>

#include "data/index_image.hpp"
#include "data/saved_index.hpp"
#include "dataset_support.hpp"
#include "index_support.hpp"
#include "test.hpp"

// Saved indexes that are damaged, overwritten or shortened before and while they are used, and
// indexes of data that changed.

using namespace forebay;
using namespace forebay::data;
using namespace forebay::testing;

namespace {

// A saved index of many chunks, whose bytes can be damaged.
struct LargeIndex {
  explicit LargeIndex(std::uint64_t images) {
    std::string list;
    for (std::uint64_t i = 0; i < images; ++i) list += "folder/image" + std::to_string(i) + ".jpg,0\n";
    write_file(folder / "list.txt", list);
    save_index(*build_dataset(options_for(folder / "list.txt", "filelist")), file());
    bytes = read_text(file());
  }
  [[nodiscard]] std::string file() const { return (folder / "large.index").string(); }

  TemporaryDirectory folder;
  std::string bytes;
};

// Opens the index so that none of it is kept in memory.
std::unique_ptr<Dataset> open_on_disk(const std::string& file) { return restore_index(open_index_file(file, 0)); }

// How many of the next reads fail, and with which errno.
std::atomic<int> failing{0};  // NOLINT
std::atomic<int> failure{EIO};
constexpr int kForEver = 1 << 20;
// Whether pauses take no time.
std::atomic<bool> skips_pauses{false};  // NOLINT

// Looks up every sample; throws at the first that the index fails to deliver.
void look_up_all(const Dataset& dataset) {
  int wrong = 0;
  for (std::uint64_t id = 0; id < dataset.size(); ++id) {
    const bool is_right = dataset.name(id).ends_with("/folder/image" + std::to_string(id) + ".jpg");
    wrong += is_right && dataset.sample(id).label == 0 ? 0 : 1;
  }
  CHECK(wrong == 0);
}

// Overwrites the file in place, as cp and rsync --inplace do.
void overwrite(const std::string& file, const std::string& bytes, bool truncate) {
  std::fstream out(file, std::ios::binary | std::ios::in | std::ios::out | (truncate ? std::ios::trunc : std::ios::in));
  out << bytes;
  REQUIRE(out.flush().good());
}

}  // namespace

// Replaces the C library's function.
extern "C" int nanosleep(const timespec* time, timespec* left) {
  return skips_pauses ? 0 : static_cast<int>(::syscall(SYS_nanosleep, time, left));
}

extern "C" ssize_t pread(int file, void* bytes, std::size_t count, off_t offset) {
  if (failing.load() > 0 && failing.fetch_sub(1) > 0) {
    errno = failure;
    return -1;
  }
  return ::syscall(SYS_pread64, file, bytes, count, offset);
}

TEST_CASE("what is not used of an index is not checked, and damage is found where it is used") {
  const LargeIndex large(50'000);
  REQUIRE(content_of(bytes_of(large.bytes)).size() > 10 * kIndexChunk);
  // Paths are stored last, so this is the last sample's.
  std::string damaged = large.bytes;
  damaged.back() = 'x';
  write_file(large.file(), damaged);
  for (const bool on_disk : {false, true}) {
    const auto dataset = on_disk ? open_on_disk(large.file()) : load_index(large.file());
    const IndexImage* image = image_of(*dataset);
    REQUIRE(image != nullptr);
    CHECK(image->is_on_disk() == on_disk);
    CHECK(dataset->size() == 50'000);
    CHECK(dataset->name(0).ends_with("/folder/image0.jpg"));
    CHECK(dataset->sample(49'999).label == 0);

    const std::string message = error_of([&] { (void)dataset->name(49'999); });
    CHECK(contains(message, "index " + large.file() + ": a damaged index: the checksum of bytes "));
    CHECK(contains(message, " to " + std::to_string(damaged.size() - 1) + " does not match"));
    CHECK(contains(message, "delete it to have it built again"));
    // The same error again, and from a check of the whole index.
    CHECK(error_of([&] { (void)dataset->name(49'999); }) == message);
    CHECK(error_of([&] { image->check(); }) == message);
  }
}

TEST_CASE("an index on disk is the one that was saved") {
  const LargeIndex large(20'000);
  const auto in_memory = load_index(large.file());
  const auto on_disk = open_on_disk(large.file());
  CHECK(describe_samples(*on_disk) == describe_samples(*in_memory));
  CHECK(fingerprint(*on_disk) == fingerprint(*in_memory));
  CHECK(text_of(on_disk->serialize()) == large.bytes);
  CHECK_NOTHROW(image_of(*on_disk)->check());
  const std::string copy = (large.folder / "copy.index").string();
  save_index(*on_disk, copy);
  CHECK(read_text(copy) == large.bytes);
}

TEST_CASE("an index keeps its bytes when the file is replaced or removed") {
  const LargeIndex large(20'000);
  const auto dataset = open_on_disk(large.file());
  save_index(*build_dataset(options_for(large.folder / "list.txt", "filelist")), large.file());
  std::filesystem::remove(large.file());
  CHECK_NOTHROW(image_of(*dataset)->check());
  CHECK(dataset->name(19'999).ends_with("/folder/image19999.jpg"));
}

TEST_CASE("an index on disk that is written into ends in an error, also where it was used before") {
  const LargeIndex large(15'000);   // so many that their labels take two chunks
  std::string other = large.bytes;  // a label of the last sample before the paths
  const auto at = other.find("folder/image0.jpg");
  REQUIRE(at != std::string::npos);
  other[at - 1] = 1;
  for (const bool used : {false, true}) {
    write_file(large.file(), large.bytes);
    const auto dataset = open_on_disk(large.file());
    if (used) look_up_all(*dataset);
    // An old time, so that the next change has a different one however coarse the file system's
    // clock is.
    std::filesystem::last_write_time(large.file(),
                                     std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
    overwrite(large.file(), other, false);
    CHECK(dataset->sample(0).label == 0);
    const std::string message = error_of([&] { (void)dataset->sample(14'999); });
    CHECK(contains(message, "index " + large.file() + ": was written into or shortened while it was in use"));
    CHECK(contains(message, "write a new file and rename it"));
    CHECK_FALSE(contains(message, "it had"));
    // Asked again, the error is the same; once the bytes are restored, reading works.
    CHECK(error_of([&] { (void)dataset->sample(14'999); }) == message);
    overwrite(large.file(), large.bytes, false);
    CHECK(dataset->sample(14'999).label == 0);
  }
}

TEST_CASE("an index on disk that is overwritten by another index, or shortened, ends in an error") {
  const LargeIndex large(6'000);
  const LargeIndex other(5'000);
  for (const bool used : {false, true}) {
    for (const std::string& bytes : {other.bytes, std::string(), large.bytes.substr(0, large.bytes.size() - 10'000)}) {
      write_file(large.file(), large.bytes);
      const auto dataset = open_on_disk(large.file());
      if (used) look_up_all(*dataset);
      overwrite(large.file(), bytes, true);
      const std::string message = error_of([&] { look_up_all(*dataset); });
      CHECK(contains(message, "index " + large.file() + ": was written into or shortened while it was in use"));
      CHECK(contains(message, "(it had " + std::to_string(large.bytes.size()) + " bytes and has " +
                                  std::to_string(bytes.size()) + ")"));
    }
  }
}

TEST_CASE("a failed read of an index is retried, and one that keeps failing ends in an error") {
  const LargeIndex large(6'000);
  const std::string place = "index " + large.file() + ": cannot read: Input/output error (for 6";
  skips_pauses = true;
  for (const bool on_disk : {false, true}) {
    CAPTURE(on_disk);
    const auto open = [&] { return on_disk ? open_on_disk(large.file()) : load_index(large.file()); };
    failing = 12;
    const auto dataset = open();
    CHECK(failing == 0);
    failing = kForEver;
    CHECK(error_of([&] { (void)open(); }).starts_with(place));
    if (!on_disk) continue;
    for (int round = 0; round < 3; ++round) {  // for pages read before, and others
      failing = 12;
      look_up_all(*dataset);
      CHECK(failing == 0);
    }
    failing = kForEver;
    try {
      (void)dataset->sample(0);
      FAIL("it failed for a minute");
    } catch (const SampleError&) {
      FAIL("a damaged index is no bad sample");
    } catch (const Error& error) {
      CHECK(std::string(error.what()).starts_with(place));
    }
    failure = EINVAL;  // permanent
    failing = 1;
    CHECK(error_of([&] { (void)dataset->sample(0); }) == "index " + large.file() + ": cannot read: Invalid argument");
    failure = EIO;
    overwrite(large.file(), std::string(large.bytes.size() + 1, 'x'), true);
    failing = 1;
    CHECK(contains(error_of([&] { (void)dataset->sample(0); }), "was written into or shortened while it was in use"));
    CHECK(failing == 0);
  }
  skips_pauses = false;
}

TEST_CASE("an index on disk that is only touched is as good as before") {
  const LargeIndex large(6'000);
  const auto dataset = open_on_disk(large.file());
  (void)dataset->name(0);
  std::filesystem::last_write_time(large.file(), std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  look_up_all(*dataset);
  overwrite(large.file(), large.bytes, false);
  look_up_all(*dataset);
}

TEST_CASE("a small index is in memory: nothing that happens to the file reaches it") {
  const LargeIndex large(6'000);
  const auto dataset = load_index(large.file());
  CHECK_FALSE(image_of(*dataset)->is_on_disk());
  overwrite(large.file(), std::string(large.bytes.size(), 'x'), true);
  look_up_all(*dataset);
  overwrite(large.file(), "", true);
  look_up_all(*dataset);
  CHECK_NOTHROW(image_of(*dataset)->check());
}

TEST_CASE("an index larger than 64 MiB stays on disk") {
  const LargeIndex small(100);
  const IndexRecord record = record_of(bytes_of(small.bytes));
  const TemporaryDirectory folder;
  if (kSanitized) return;  // takes a checksum of 64 MiB
  const std::string file = (folder / "large.index").string();
  write_file(file, text_of(seal_index(record, kMostInMemory,
                                      [](IndexWriter& writer) { writer.column(std::vector<char>(kMostInMemory)); })));
  CHECK(open_index_file(file)->is_on_disk());
  CHECK_FALSE(open_index_file(small.file())->is_on_disk());
}

TEST_CASE("threads that use an index at the same time see the same") {
  const LargeIndex large(20'000);
  for (const bool on_disk : {false, true}) {
    const auto dataset = on_disk ? open_on_disk(large.file()) : load_index(large.file());
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
}

namespace {

// Images with an annotation each.
DatasetOptions make_annotated(const TemporaryDirectory& folder) {
  for (int i = 0; i < 3; ++i) {
    const std::string name = "img" + std::to_string(i);
    write_file(folder / (name + ".jpg"), "jpeg");
    write_file(folder / (name + ".xml"), annotation(object("dog") + object("cat")));
  }
  return options_for(folder.path(), "voc");
}

DatasetOptions make_classes(const TemporaryDirectory& data) {
  for (const char* name : {"b/0.jpg", "b/1.jpg", "c/0.jpg", "c/1.jpg"}) write_file(data / name, "jpeg");
  return options_for(data.path());
}

// A list of the images of make_annotated().
DatasetOptions make_annotated_list(const TemporaryDirectory& data) {
  (void)make_annotated(data);
  write_file(data / "list.txt", "img0.jpg\nimg2.jpg\n");
  return options_for(data / "list.txt");
}

}  // namespace

TEST_CASE("class folders that changed make their index stale") {
  namespace fs = std::filesystem;
  const TemporaryDirectory data;
  const Kept kept(make_classes(data));
  const std::string stale = "\" was built from other data: the folder " + data.path().string();

  write_file(data / "a/0.jpg", "jpeg");
  CHECK(contains(kept.error(), stale + " has other images, annotations and folders (2 then, 3 now)"));
  CHECK(contains(kept.error(), "delete it to have it built again"));
  fs::remove_all(data / "a");
  CHECK(kept.error().empty());

  CHECK(contains(kept.error_with(data / "b/new.jpg", "jpeg"), stale + "/b has other images"));
  fs::rename(data / "b/1.jpg", data / "b/2.jpg");
  CHECK(contains(kept.error(), stale + "/b has other images"));
  fs::rename(data / "b/2.jpg", data / "b/1.jpg");

  fs::rename(data / "b", data / "x");
  fs::rename(data / "c", data / "b");
  fs::rename(data / "x", data / "c");
  CHECK(kept.error().empty());  // the same names
  write_file(data / "b/2.jpg", "jpeg");
  kept.rebuild();
  fs::rename(data / "b", data / "x");
  fs::rename(data / "c", data / "b");
  fs::rename(data / "x", data / "c");
  CHECK(contains(kept.error(), "(and 1 more difference)"));

  fs::remove_all(data / "c");
  CHECK(contains(kept.error(), stale + " has other"));
}

TEST_CASE("what an index does not hold may change") {
  namespace fs = std::filesystem;
  const TemporaryDirectory data;
  DatasetOptions options = make_classes(data);
  options.index = (data / "set.index").string();  // next to the class folders
  (void)open_dataset(options);
  write_file(data / "b/notes.txt", "text");
  write_file(data / ".cache/x.jpg", "jpeg");
  write_file(data / "b/0.jpg", "other pixels");
  CHECK(open_dataset(options)->size() == 4);

  // A copy takes its place, with all times different.
  const TemporaryDirectory elsewhere;
  fs::copy(data.path(), elsewhere / "copy", fs::copy_options::recursive);
  fs::remove_all(data / "b");
  fs::remove_all(data / "c");
  fs::copy(elsewhere / "copy", data.path(), fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  CHECK(open_dataset(options)->size() == 4);
}

TEST_CASE("annotations that changed make the index of their folder or list stale") {
  const auto check = [](const TemporaryDirectory& data, const DatasetOptions& options) {
    const Kept kept(options);
    const std::string path = (data / "img0.xml").string();
    CHECK(contains(kept.error_after(path, [&] { change_in_place(path, "dog", "eel"); }),
                   "the annotation " + path + " has other contents"));
    const std::string stale = "was built from other data: the folder " + data.path().string() + " has other";
    CHECK(contains(kept.error_without(path), stale));
    write_file(data / "Annotations/img0.xml", read_text(path));
    CHECK(contains(kept.error(), stale));
  };
  const TemporaryDirectory tree;
  check(tree, make_annotated(tree));
  const TemporaryDirectory list;
  check(list, make_annotated_list(list));
}

TEST_CASE("an index that another machine made compares contents where times differ, and says so") {
  const TemporaryDirectory data;
  const Kept kept(make_annotated(data));
  const auto opened = open_with_remark(kept.options, {});
  CHECK(contains(opened.remark.text, "as its data, compared 1 folder and 3 annotations in "));
  CHECK(contains(opened.remark.text, " 4 of them by what they hold"));  // they were too recent for times to tell
}
