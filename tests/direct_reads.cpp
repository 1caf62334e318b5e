#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cstdarg>
#include <forebay/feeder.hpp>
#include <random>

#include "base/direct_reads.hpp"
#include "container_files.hpp"
#include "data/placed_samples.hpp"
#include "data/source_files.hpp"
#include "dataset_support.hpp"
#include "memory_dataset.hpp"
#include "test.hpp"

using namespace forebay::data;

// Reads past the page cache, simulated on any file system: files are "direct" if they have the flag
// O_APPEND, which has no other effect without writers. Their reads must be of whole blocks into
// aligned memory.
namespace {

struct FileSystem {
  std::atomic<bool> refuses_flag{false};
  std::atomic<bool> refuses_reads{false};
  std::atomic<std::uint32_t> block{4096};
  std::atomic<bool> tells_block{true};
  std::atomic<int> direct_reads{0};
};
FileSystem file_system;  // NOLINT: the functions below have no object of their own to keep it in

template <typename Function>
Function next_one(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

int real_fcntl(int file, int command, long argument) {
  static const auto real = next_one<int (*)(int, int, ...)>("fcntl");
  return real(file, command, argument);
}

bool is_direct(int file) { return (real_fcntl(file, F_GETFL, 0) & O_APPEND) != 0; }

}  // namespace

// Replaces the C library's function.
extern "C" int fcntl(int file, int command, ...) {
  std::va_list list;
  va_start(list, command);
  const long argument = va_arg(list, long);
  va_end(list);
  if (command == F_GETFL) {
    const int flags = real_fcntl(file, command, 0);
    return (flags & O_APPEND) != 0 ? flags | O_DIRECT : flags;
  }
  if (command != F_SETFL) return real_fcntl(file, command, argument);
  if ((argument & O_DIRECT) != 0 && file_system.refuses_flag) {
    errno = EINVAL;
    return -1;
  }
  const long others = argument & ~static_cast<long>(O_DIRECT | O_APPEND);
  return real_fcntl(file, command, (argument & O_DIRECT) != 0 ? others | O_APPEND : others);
}

extern "C" ssize_t pread(int file, void* to, std::size_t bytes, off_t offset) {
  static const auto real = next_one<ssize_t (*)(int, void*, std::size_t, off_t)>("pread");
  if (!is_direct(file)) return real(file, to, bytes, offset);
  ++file_system.direct_reads;
  const std::uint64_t places = reinterpret_cast<std::uintptr_t>(to) | bytes | static_cast<std::uint64_t>(offset);
  if (file_system.refuses_reads || places % file_system.block != 0) {
    errno = EINVAL;
    return -1;
  }
  return real(file, to, bytes, offset);
}

extern "C" int statx(int folder, const char* path, int flags, unsigned mask, struct statx* status) noexcept {
#ifdef STATX_DIOALIGN
  if ((mask & STATX_DIOALIGN) != 0) {
    *status = {};
    if (!file_system.tells_block) return 0;
    status->stx_mask = STATX_DIOALIGN;
    status->stx_dio_mem_align = 512;
    status->stx_dio_offset_align = file_system.block;
    return 0;
  }
#endif
  static const auto real = next_one<int (*)(int, const char*, int, unsigned, struct statx*)>("statx");
  return real(folder, path, flags, mask, status);
}

namespace forebay {
namespace {

using namespace testing;

// Restores everything afterwards.
struct Situation {
  Situation() = default;
  ~Situation() {
    file_system.refuses_flag = false;
    file_system.refuses_reads = false;
    file_system.block = 4096;
    file_system.tells_block = true;
  }
  Situation(const Situation&) = delete;
  Situation& operator=(const Situation&) = delete;
};

std::string random_text(std::size_t bytes) {
  std::mt19937_64 random(bytes);
  std::string text(bytes, '\0');
  for (char& byte : text) byte = static_cast<char>(random());
  return text;
}

std::string read_direct(DirectReads& reads, const OpenFile& file, std::size_t offset, std::size_t length,
                        std::size_t pieces = 1) {
  std::string text(length, '?');
  std::vector<std::span<std::byte>> spans;
  std::span<std::byte> rest = std::as_writable_bytes(std::span(text));
  for (std::size_t i = 0; i < pieces; ++i) {
    const std::size_t size = i + 1 == pieces ? rest.size() : rest.size() / (pieces - i) * (i % 2 == 0 ? 1 : 0);
    spans.push_back(rest.first(size));
    rest = rest.subspan(size);
  }
  reads.read(file, offset, spans);
  return text;
}

OpenFile open_direct(const std::filesystem::path& path) {
  OpenFile file = open_regular(path.string());
  REQUIRE(bypass_page_cache(file).empty());
  return file;
}

TEST_CASE("any bytes of a file are read in whole blocks, a record by one request") {
  const Situation situation;
  const TemporaryDirectory folder;
  SUBCASE("blocks of 4096 bytes, as the file system says") {}
  SUBCASE("smaller ones are put together") { file_system.block = 512; }
  SUBCASE("larger ones") { file_system.block = 65536; }
  SUBCASE("the file system does not say") { file_system.tells_block = false; }
  for (const std::size_t size : {1UL, 511UL, 4095UL, 4096UL, 4097UL, 5UL * 4096, 300'001UL}) {
    CAPTURE(size);
    const std::string text = random_text(size);
    testing::write_file(folder / "x", text);
    const OpenFile file = open_direct(folder / "x");
    DirectReads reads;
    std::mt19937_64 random(size);
    for (int i = 0; i < 50; ++i) {
      const std::size_t offset = random() % (size + 1);
      const std::size_t length = i == 0 ? size - offset : random() % (size - offset + 1);
      CAPTURES(offset, length);
      file_system.direct_reads = 0;
      CHECK(read_direct(reads, file, offset, length, 1 + random() % 5) == text.substr(offset, length));
      CHECK(file_system.direct_reads == (length == 0 ? 0 : 1));
    }
    CHECK_THROWS_WITH_AS(
        read_direct(reads, file, size - 1, 2),
        ("ended at byte " + std::to_string(size) + " where " + std::to_string(size + 1) + " bytes were expected")
            .c_str(),
        SampleError);
    CHECK_THROWS_AS(read_direct(reads, file, 3 * size, 5000), SampleError);
  }
}

TEST_CASE("what is larger than a piece is read piece by piece") {
  const TemporaryDirectory folder;
  const std::string text = random_text(2 * DirectReads::kPiece + 10'001);
  testing::write_file(folder / "x", text);
  const OpenFile file = open_direct(folder / "x");
  DirectReads reads;
  file_system.direct_reads = 0;
  CHECK((read_direct(reads, file, 0, text.size(), 7) == text));
  CHECK((read_direct(reads, file, 4095, text.size() - 4097, 3) == text.substr(4095, text.size() - 4097)));
  CHECK(file_system.direct_reads == 6);
}

TEST_CASE("threads read at the same time") {
  const TemporaryDirectory folder;
  const std::string text = random_text(200'000);
  testing::write_file(folder / "x", text);
  const OpenFile file = open_direct(folder / "x");
  DirectReads reads;
  std::atomic<int> wrong{0};
  std::vector<std::jthread> threads;
  for (std::uint64_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      std::mt19937_64 random(thread);
      for (int i = 0; i < 200; ++i) {
        const std::size_t offset = random() % text.size();
        const std::size_t length = random() % (text.size() - offset);
        wrong += read_direct(reads, file, offset, length, 2) == text.substr(offset, length) ? 0 : 1;
      }
    });
  }
  threads.clear();
  CHECK(wrong == 0);
}

TEST_CASE("a file system that refuses") {
  const Situation situation;
  const TemporaryDirectory folder;
  const std::string text = random_text(10'000);
  testing::write_file(folder / "x", text);
  OpenFile file = open_regular((folder / "x").string());
  std::string read(1000, '?');
  SUBCASE("at once: nothing has changed") {
    file_system.refuses_flag = true;
    CHECK(bypass_page_cache(file) == "its file system refuses it: Invalid argument");
    CHECK(file.block == 0);
    read_at(file.descriptor, 123, std::as_writable_bytes(std::span(read)));
    CHECK(read == text.substr(123, 1000));
  }
  SUBCASE("by saying that it reads this file through the page cache all the same") {
    file_system.block = 0;
    CHECK(bypass_page_cache(file) == "its file system reads this file through the page cache only");
    CHECK(file.block == 0);
  }
  SUBCASE("only when the file is read: from then on it is read through the page cache") {
    file_system.refuses_reads = true;
    REQUIRE(bypass_page_cache(file).empty());
    DirectReads reads;
    file_system.direct_reads = 0;
    for (int i = 0; i < 3; ++i) CHECK(read_direct(reads, file, 123, 1000) == text.substr(123, 1000));
    CHECK(file_system.direct_reads == 1);
  }
}

std::string cifar_file(int samples) {
  std::string file;
  for (int i = 0; i < samples; ++i) {
    file.append(1, static_cast<char>(i % 10)).append(random_text(3072 + static_cast<std::size_t>(i)).substr(0, 3072));
  }
  return file;
}

std::string tfrecord_file(int samples) {
  std::string file;
  for (int i = 0; i < samples; ++i) {
    file += testing::tf_record(
        testing::image_example("\xFF\xD8\xFF\xE0" + random_text(static_cast<std::size_t>(1 + 997 * i)), i % 3));
  }
  return file;
}

TEST_CASE("every sample of a dataset is the same, also of several that are read together") {
  const Situation situation;
  const TemporaryDirectory folder;
  std::filesystem::path path = folder.path();
  SUBCASE("whole files, some shorter than a block") {
    for (std::size_t i = 1; i < 9; ++i) {
      testing::write_file(folder.path() / "a" / (std::to_string(i) + ".jpg"), random_text(i * i * i * 40));
    }
  }
  SUBCASE("records") { testing::write_file(folder / "data_batch_1.bin", cifar_file(20)); }
  SUBCASE("records with a checksum") {
    path = folder / "x.tfrecord";
    testing::write_file(path, tfrecord_file(20));
  }
  SUBCASE("of which the file system refuses to bypass its cache") {
    testing::write_file(folder / "data_batch_1.bin", cifar_file(20));
    file_system.refuses_flag = true;
  }
  const auto buffered = build_dataset(testing::options_for(path));
  const auto direct = build_dataset(testing::options_for(path));
  const std::string problem = data::bypass_page_cache(*direct);
  CHECK(problem.empty() != file_system.refuses_flag);
  if (!problem.empty()) {
    CHECK(testing::contains(problem, "data_batch_1.bin: its file system refuses it: Invalid argument"));
  }
  file_system.direct_reads = 0;
  for (std::uint64_t id = 0; id < direct->size(); ++id) CHECK((read_sample(*direct, id) == read_sample(*buffered, id)));
  CHECK(file_system.direct_reads == (problem.empty() ? static_cast<int>(direct->size()) : 0));
  const PlacedSamples* const placed = placed_samples(*direct);
  if (placed == nullptr) return;
  const std::vector<std::uint64_t> ids{2, 3, 7, 11};
  std::vector<std::vector<std::byte>> bytes;
  for (const std::uint64_t id : ids) bytes.emplace_back(placed->placement(id).value().length);
  const std::vector<std::span<std::byte>> spans(bytes.begin(), bytes.end());
  placed->read_together(ids, spans);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto text = read_sample(*buffered, ids[i]);
    CHECK((std::string_view(reinterpret_cast<const char*>(bytes[i].data()), bytes[i].size()) == text));
  }
}

TEST_CASE("a file that changed after it was indexed is noticed, and damage within it") {
  const TemporaryDirectory folder;
  std::string file = tfrecord_file(5);
  testing::write_file(folder / "x.tfrecord", file);
  const auto dataset = build_dataset(testing::options_for(folder / "x.tfrecord"));
  REQUIRE(data::bypass_page_cache(*dataset).empty());
  SUBCASE("before it was opened") {
    testing::write_file(folder / "x.tfrecord", tfrecord_file(6));
    CHECK_THROWS_WITH_AS(read_sample(*dataset, 1), doctest::Contains("is not the file that its index was made from"),
                         SampleError);
  }
  SUBCASE("damage") {
    (void)read_sample(*dataset, 4);
    file[file.size() - 30] = static_cast<char>(file[file.size() - 30] ^ 1);
    testing::write_file(folder / "x.tfrecord", file);
    CHECK_THROWS_WITH_AS(read_sample(*dataset, 4), doctest::Contains("damaged"), SampleError);
    CHECK(read_sample(*dataset, 0).size() == 5);
  }
  SUBCASE("it was shortened") {
    (void)read_sample(*dataset, 4);
    std::filesystem::resize_file(folder / "x.tfrecord", file.size() - 30);
    CHECK_THROWS_WITH_AS(read_sample(*dataset, 4), doctest::Contains("ended at byte"), SampleError);
  }
}

struct Served {
  std::vector<std::vector<std::uint64_t>> ids;
  std::string pixels;
  std::vector<std::string> lines;
};

Served serve(const Options& options, std::shared_ptr<const Dataset> dataset = nullptr) {
  Served served;
  const auto log = [&lines = served.lines](LogLevel, std::string_view text) { lines.emplace_back(text); };
  Feeder feeder(options, {.dataset = std::move(dataset), .log = log});
  while (const auto batch = feeder.next()) {
    served.ids.emplace_back(batch->ids().begin(), batch->ids().end());
    const TensorView images = batch->images();
    served.pixels.append(images.as<char>(), images.bytes());
  }
  return served;
}

auto lines_about_it(const Served& served) {
  return std::ranges::count_if(served.lines,
                               [](const auto& line) { return testing::contains(line, "workers.direct"); });
}

TEST_CASE("a feeder serves the same batches, and says it once where the file system refuses") {
  const Situation situation;
  const TemporaryDirectory folder;
  testing::write_file(folder / "data_batch_1.bin", cifar_file(100));
  Options options = testing::memory_options(16);
  options.dataset.path = folder.path().string();
  options.transform.size = {8, 8};
  options.policy.name = "block";
  SUBCASE("one read per sample") {}
  SUBCASE("neighbours together") {
    options.dataset.order = SampleOrder::shards;
    options.dataset.window = 50;
    options.dataset.run = 10;
  }
  const Served buffered = serve(options);
  options.workers.direct = true;
  file_system.direct_reads = 0;
  const Served direct = serve(options);
  CHECK(file_system.direct_reads > 0);
  CHECK(lines_about_it(direct) == 0);
  file_system.refuses_flag = true;
  const Served refused = serve(options);
  CHECK(lines_about_it(refused) == 1);
  for (const Served* const each : {&direct, &refused}) {
    CHECK(each->ids == buffered.ids);
    CHECK((each->pixels == buffered.pixels));
  }
}

TEST_CASE("a dataset of the program's own is read by the program") {
  Options options = testing::memory_options(4);
  options.workers.direct = true;
  const Served served = serve(options, std::make_shared<testing::MemoryDataset>(8));
  CHECK(lines_about_it(served) == 1);
}

}  // namespace
}  // namespace forebay
