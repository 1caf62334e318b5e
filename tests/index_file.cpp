#include <doctest/doctest.h>

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <forebay/error.hpp>

#include "data/index_image.hpp"
#include "dataset_support.hpp"
#include "index_support.hpp"
#include "support.hpp"

// Saved indexes whose files are damaged, written into or shortened, before and while they are used.

using namespace forebay;
using namespace forebay::testing;

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

// The index in a file, none of it kept in memory.
std::unique_ptr<Dataset> open_on_disk(const std::string& file) { return restore_index(open_index_file(file, 0)); }

// How many of the next reads fail, and with which errno.
std::atomic<int> failing{0};  // NOLINT
std::atomic<int> failure{EIO};

// Looks up every sample; throws at the first that the index does not give.
void look_up_all(const Dataset& dataset) {
  int wrong = 0;
  for (std::uint64_t id = 0; id < dataset.size(); ++id) {
    const bool is_right = dataset.name(id).ends_with("/folder/image" + std::to_string(id) + ".jpg");
    wrong += is_right && dataset.sample(id).label == 0 ? 0 : 1;
  }
  CHECK(wrong == 0);
}

// Writes over the file as cp and rsync --inplace do: the file stays the same one.
void overwrite(const std::string& file, const std::string& bytes, bool truncate) {
  std::fstream out(file, std::ios::binary | std::ios::in | std::ios::out | (truncate ? std::ios::trunc : std::ios::in));
  out << bytes;
  REQUIRE(out.flush().good());
}

}  // namespace

// Replaces the C library's.
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
  // The paths come last: this is the path of the last sample.
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
    // Again, and by the check of everything.
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
  CHECK(read_file(copy) == large.bytes);
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
  const LargeIndex large(15'000);   // so many that their labels stand in two chunks
  std::string other = large.bytes;  // a label of the last sample before the paths
  const auto at = other.find("folder/image0.jpg");
  REQUIRE(at != std::string::npos);
  other[at - 1] = 1;
  for (const bool used : {false, true}) {
    write_file(large.file(), large.bytes);
    const auto dataset = open_on_disk(large.file());
    if (used) look_up_all(*dataset);
    // Long ago, so that the next change is another time whatever the file system's clock.
    std::filesystem::last_write_time(large.file(),
                                     std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
    overwrite(large.file(), other, false);
    CHECK(dataset->sample(0).label == 0);
    const std::string message = error_of([&] { (void)dataset->sample(14'999); });
    CHECK(contains(message, "index " + large.file() + ": was written into or shortened while it was in use"));
    CHECK(contains(message, "write a new file and rename it"));
    CHECK_FALSE(contains(message, "it had"));
    // Nothing else comes out when it is asked again, and the right bytes do once they are back.
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
  const std::string place = "index " + large.file() + ": cannot read: Input/output error";
  for (const bool on_disk : {false, true}) {
    CAPTURE(on_disk);
    const auto open = [&] { return on_disk ? open_on_disk(large.file()) : load_index(large.file()); };
    failing = 3;
    const auto dataset = open();
    CHECK(failing == 0);
    failing = 4;
    CHECK(error_of([&] { (void)open(); }) == place + " (read 4 times)");
    if (!on_disk) continue;
    for (int round = 0; round < 3; ++round) {  // for pages read before, and not
      failing = 3;
      look_up_all(*dataset);
      CHECK(failing == 0);
    }
    failing = 4;
    try {
      (void)dataset->sample(0);
      FAIL("it failed four times");
    } catch (const SampleError&) {
      FAIL("a damaged index is no bad sample");
    } catch (const Error& error) {
      CHECK(error.what() == place + " (read 4 times)");
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
  if (kSanitized) return;  // a checksum of 64 MiB
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
