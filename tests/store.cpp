// The node cache over a store that counts requests.
#include "test.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <random>

#include "base/file_io.hpp"
#include "data/memory_target.hpp"
#include "data/source_files.hpp"
#include "store/cache.hpp"
#include "store/objects.hpp"
#include "store/url.hpp"

namespace forebay::test_store {

using namespace forebay::store;
using forebay::testing::contains;
using forebay::testing::error_of;
using forebay::testing::TemporaryDirectory;

namespace {

constexpr std::size_t kBlock = CacheEntry::kBlock;

// An object of a store, which counts requests and bytes.
class Counted final : public RemoteFile {
 public:
  Counted(std::string name, std::size_t bytes, std::uint64_t identity)
      : name_(std::move(name)), bytes_(bytes), identity_(identity) {
    Random random(identity);
    for (auto& byte : bytes_) byte = static_cast<std::byte>(random.below(256));
  }
  void read(std::size_t offset, std::span<const std::span<std::byte>> pieces) const override {
    ++requests;
    for (const auto piece : pieces) {
      if (offset > bytes_.size() || piece.size() > bytes_.size() - offset) throw ended_early(bytes_.size(), offset);
      std::ranges::copy(std::span(bytes_).subspan(offset, piece.size()), piece.begin());
      offset += piece.size();
      read_bytes += piece.size();
      traffic().from_store += piece.size();
    }
  }
  [[nodiscard]] const std::string& name() const noexcept override { return name_; }
  [[nodiscard]] std::uint64_t identity() const noexcept override { return identity_; }
  [[nodiscard]] const std::vector<std::byte>& bytes() const noexcept { return bytes_; }

  mutable std::atomic<std::size_t> requests{0};
  mutable std::atomic<std::size_t> read_bytes{0};

 private:
  std::string name_;
  std::vector<std::byte> bytes_;
  std::uint64_t identity_;
};

std::shared_ptr<Counted> object(std::size_t bytes, std::uint64_t identity = 1, const std::string& name = "s3://b/o") {
  return std::make_shared<Counted>(name, bytes, identity);
}

OpenFile through(const std::shared_ptr<NodeCache>& cache, const std::shared_ptr<Counted>& source) {
  OpenFile file;
  file.size = source->bytes().size();
  file.remote = source;
  return cache->through(std::move(file), source->name());
}

std::shared_ptr<NodeCache> cache_in(const std::filesystem::path& dir, std::int64_t bytes = 1 << 30,
                                    const std::string& data = "s3://b/data") {
  return std::make_shared<NodeCache>(CacheOptions{.dir = dir.string(), .bytes = bytes}, data);
}

void check_read(const OpenFile& file, const Counted& source, std::size_t offset, std::size_t length) {
  std::vector<std::byte> got(length);
  read_at(file, offset, got);
  CHECK(std::ranges::equal(got, std::span(source.bytes()).subspan(offset, length)));
}

std::vector<std::filesystem::path> entries_in(const std::filesystem::path& dir) {
  std::vector<std::filesystem::path> files;
  for (const auto& each : std::filesystem::recursive_directory_iterator(dir)) {
    if (each.is_regular_file() && each.path().parent_path().filename().string().size() == 2) files.push_back(each);
  }
  return files;
}

void flip(const std::filesystem::path& file, std::size_t at) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekg(static_cast<std::streamoff>(at));
  const int byte = stream.get();
  stream.seekp(static_cast<std::streamoff>(at));
  stream.put(static_cast<char>(byte ^ 1));
}

// Reads a whole object through the cache; returns whether all of it was cached already.
bool read_all(const std::shared_ptr<NodeCache>& cache, const std::string& name = "s3://b/o", std::size_t blocks = 8) {
  const auto source = object(blocks * kBlock, 1, name);
  check_read(through(cache, source), *source, 0, blocks * kBlock);
  return source->requests == 0;
}

std::uint64_t on_disk(const std::filesystem::path& dir) {
  std::uint64_t bytes = 0;
  for (const auto& file : entries_in(dir)) {
    struct stat status {};
    REQUIRE(::stat(file.c_str(), &status) == 0);
    bytes += static_cast<std::uint64_t>(status.st_blocks) * 512;
  }
  return bytes;
}

// A forked process, which inherits all open files, calls a function and is killed when this object
// is destroyed.
class Child {
 public:
  template <typename Work>
  explicit Child(Work&& work) {
    std::array<int, 2> done{};
    std::array<int, 2> end{};
    REQUIRE((::pipe(done.data()) == 0 && ::pipe(end.data()) == 0));
    pid_ = ::fork();
    REQUIRE(pid_ >= 0);
    char byte = 0;
    if (pid_ == 0) {
      ::close(end[1]);
      work();
      (void)!::write(done[1], &byte, 1);
      (void)!::read(end[0], &byte, 1);
      ::_exit(0);
    }
    end_ = FileDescriptor(end[1]);
    ::close(done[1]), ::close(end[0]);
    CHECK(::read(done[0], &byte, 1) == 1);
    ::close(done[0]);
  }
  ~Child() {
    end_.reset();
    (void)::waitpid(pid_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

 private:
  FileDescriptor end_;
  pid_t pid_ = -1;
};

}  // namespace

TEST_CASE("bytes of memory in pieces") {
  std::vector<std::byte> memory(10);
  const Spans pieces{std::span(memory).first(3), {}, std::span(memory).subspan(3, 4), std::span(memory).last(3)};
  const auto lengths = [&](std::size_t begin, std::size_t end) {
    std::vector<std::size_t> out;
    for (const auto piece : cut(pieces, begin, end)) out.push_back(piece.size());
    return out;
  };
  CHECK(lengths(0, 10) == std::vector<std::size_t>{3, 4, 3});
  CHECK(lengths(2, 8) == std::vector<std::size_t>{1, 4, 1});
  CHECK(lengths(3, 7) == std::vector<std::size_t>{4});
  CHECK(lengths(9, 20) == std::vector<std::size_t>{1});
  CHECK(lengths(4, 4).empty());
  CHECK(cut(pieces, 4, 5).front().data() == memory.data() + 4);
}

TEST_CASE("what was read is not asked for again, by this process or the next") {
  const TemporaryDirectory folder;
  const auto source = object(20 * kBlock + 77);
  (void)take_traffic();
  for (int round = 0; round < 2; ++round) {
    const OpenFile file = through(cache_in(folder.path() / "cache"), source);
    CHECK(file.size == source->bytes().size());
    check_read(file, *source, 3 * kBlock + 5, 2 * kBlock);
    check_read(file, *source, 20 * kBlock + 10, 67);
    check_read(file, *source, 4 * kBlock, 1);
  }
  CHECK(source->requests == 2);
  CHECK(source->read_bytes == 3 * kBlock + 77);
  const Traffic traffic = take_traffic();
  CHECK(traffic.from_store == 3 * kBlock + 77);
  CHECK(traffic.from_cache == 3 * kBlock + 77 + 2 * kBlock);
  CHECK(traffic.room == 2 * (3 * kBlock + 77 + kBlock));
}

TEST_CASE("small objects take as much of a cache as is said, with and without room for them") {
  const TemporaryDirectory folder;
  const auto room_in = [](const std::shared_ptr<NodeCache>& cache) {
    (void)take_traffic();
    for (int i = 0; i < 5; ++i) {
      const auto source = object(1000, 1, "s3://b/o" + std::to_string(i));
      check_read(through(cache, source), *source, 0, 1000);
    }
    return take_traffic().room;
  };
  const auto cache = cache_in(folder.path() / "cache");
  CHECK(room_in(cache) == 5 * 3 * kBlock);
  CHECK(cache->held() == 5 * 3 * kBlock);
  CHECK(room_in(cache) == 5 * 3 * kBlock);
  CHECK(room_in(cache_in(folder.path() / "full", 1)) == 5 * 3 * kBlock);
}

TEST_CASE("only what is missing is read, near pieces by one request") {
  const TemporaryDirectory folder;
  const auto source = object(200 * kBlock);
  const OpenFile file = through(cache_in(folder.path() / "cache"), source);
  for (const std::size_t block : {10U, 12U, 100U}) check_read(file, *source, block * kBlock, kBlock);
  source->requests = source->read_bytes = 0;
  check_read(file, *source, 9 * kBlock, 5 * kBlock);  // 9, 11 and 13 are missing, close to each other
  CHECK(source->requests == 1);
  CHECK(source->read_bytes == 5 * kBlock);
  for (std::size_t block = 60; block < 140; ++block) check_read(file, *source, block * kBlock, kBlock);
  source->requests = source->read_bytes = 0;
  check_read(file, *source, 59 * kBlock, 82 * kBlock);  // the first and the last
  CHECK(source->requests == 2);
  CHECK(source->read_bytes == 2 * kBlock);
}

TEST_CASE("reads past the end are the store's to refuse") {
  const TemporaryDirectory folder;
  const auto source = object(100);
  const OpenFile file = through(cache_in(folder.path() / "cache"), source);
  std::vector<std::byte> bytes(101);
  CHECK_THROWS_AS(read_at(file, 0, bytes), SampleError);
  CHECK_THROWS_AS(read_at(file, SIZE_MAX - 1, bytes), SampleError);
  read_at(file, 100, std::span<std::byte>());
}

TEST_CASE("another version of an object is another object") {
  const TemporaryDirectory folder;
  const auto cache = cache_in(folder.path() / "cache");
  const auto old = object(5 * kBlock, 1);
  const auto now = object(5 * kBlock, 2);
  const auto longer = object(6 * kBlock, 2);
  for (const auto& source : {old, now, longer, now, old}) {
    check_read(through(cache, source), *source, 0, 5 * kBlock);
  }
  CHECK(now->requests == 2);
  CHECK(entries_in(folder.path()).size() == 1);
  CHECK(cache->held() == 7 * kBlock);
}

TEST_CASE("the bound holds, and what fits stays") {
  const TemporaryDirectory folder;
  const auto source = object(100 * kBlock);
  const auto cache = cache_in(folder.path() / "cache", 52 * kBlock);
  for (int epoch = 0; epoch < 3; ++epoch) {
    const OpenFile file = through(cache, source);
    source->requests = source->read_bytes = 0;
    for (std::size_t block = 0; block < 100; ++block) check_read(file, *source, (block * 37 % 100) * kBlock, kBlock);
    CHECK(cache->held() == 52 * kBlock);
    if (epoch > 0) CHECK(source->requests == 50);  // the header, and the checksums of 100 blocks
  }
  const auto none = cache_in(folder.path() / "none", 1);
  check_read(through(none, source), *source, 0, kBlock);
  CHECK(none->held() == 0);
}

TEST_CASE("data that nobody uses make room, the longest unused first") {
  const TemporaryDirectory folder;
  const auto dir = folder.path() / "cache";
  const auto read = [&](const std::shared_ptr<NodeCache>& cache, const std::string& name) {
    const auto source = object(8 * kBlock, 1, name);
    check_read(through(cache, source), *source, 0, 8 * kBlock);
    return source->requests == 0;
  };
  (void)read(cache_in(dir, 30 * kBlock, "first"), "a");
  (void)read(cache_in(dir, 30 * kBlock, "second"), "b");
  const std::filesystem::path about = dir / data_folder_name("second") / "about";
  std::filesystem::last_write_time(about, std::filesystem::last_write_time(about) - std::chrono::hours(1));
  const auto used = cache_in(dir, 30 * kBlock, "first");
  const auto third = cache_in(dir, 30 * kBlock, "third");
  (void)read(third, "c");
  CHECK(look_into_cache(dir.string(), false).size() == 3);
  (void)read(third, "d");
  CHECK(look_into_cache(dir.string(), false).size() == 2);
  CHECK(read(used, "a"));
  CHECK(third->held() == 30 * kBlock);
  (void)read(third, "e");  // "first" is in use
  CHECK(read(used, "a"));
  CHECK(third->held() == 30 * kBlock);
}

TEST_CASE("nothing is removed where that makes no room") {
  const TemporaryDirectory folder;
  const auto dir = folder.path() / "cache";
  (void)read_all(cache_in(dir, 100 * kBlock, "unused"));
  const auto unused = [&] { return std::filesystem::exists(dir / data_folder_name("unused") / "about"); };
  const auto used = cache_in(dir, 100 * kBlock, "used");
  (void)read_all(used, "a", 20);
  SUBCASE("since what is in use is more than this job may have") {
    (void)read_all(cache_in(dir, 12 * kBlock, "small"), "b", 2);
  }
  SUBCASE("since the count cannot be had") {
    std::filesystem::remove(dir / "used");
    std::filesystem::create_directory(dir / "used");
    (void)read_all(used, "b");
  }
  CHECK(unused());
}

TEST_CASE("a forked process locks nothing") {
  const TemporaryDirectory folder;
  const auto dir = folder.path() / "cache";
  auto cache = cache_in(dir);
  (void)read_all(cache);
  const Child child([] {});
  cache.reset();
  CHECK(try_lock(open_in(AT_FDCWD, dir / "lock"), Lock::sole));
  CHECK(clear_cache(dir.string()) == 10 * kBlock);
}

TEST_CASE("a forked process takes no lock from its parent") {
  const TemporaryDirectory folder;
  const auto dir = folder.path() / "cache";
  auto cache = cache_in(dir);
  (void)read_all(cache);
  const Child child([&] { cache.reset(); });
  CHECK(clear_cache(dir.string()) == 0);
}

TEST_CASE("a folder that cannot be looked into is not said to be no cache") {
  const TemporaryDirectory folder;
  std::filesystem::create_symlink("loop", folder / "loop");  // root may look into all others
  const auto error_with = [&](const std::string& name) {
    return error_of([&] { (void)look_into_cache((folder / name).string(), false); });
  };
  CHECK(contains(error_with("loop"), "loop cannot be looked into: Too many levels of symbolic links"));
  CHECK(contains(error_with("none"), "none is no cache of Forebay"));
}

TEST_CASE("what killed processes left is removed and counted") {
  const TemporaryDirectory folder;
  const auto dir = folder.path() / "cache";
  const auto data = dir / data_folder_name("s3://b/data");
  (void)read_all(cache_in(dir));
  SUBCASE("a removal") {
    std::filesystem::rename(data, dir / "gone-1-1");
    CHECK(cache_in(dir)->held() == 0);
    CHECK_FALSE(std::filesystem::exists(dir / "gone-1-1"));
  }
  SUBCASE("an entry without a name, and a wrong count, though another process went on") {
    {
      const auto cache = cache_in(dir);
      static std::optional<CacheUse> killed;  // left for the system to clean up
      {
        const Child child([&] { killed.emplace(dir.string()); });
      }
      std::filesystem::copy_file(entries_in(dir).front(), entries_in(dir).front().parent_path() / "new-1-1");
      flip(dir / "used", 10);
    }
    CHECK(cache_in(dir)->held() == 10 * kBlock);
    CHECK(on_disk(dir) == 10 * kBlock);
  }
  SUBCASE("a count that was lost") {
    {
      const auto cache = cache_in(dir);
      std::filesystem::remove(dir / "used");
      (void)read_all(cache, "s3://b/other");
    }
    CHECK(cache_in(dir)->held() == on_disk(dir));
  }
}

TEST_CASE("a process without descriptors keeps what there is") {
  const TemporaryDirectory folder;
  const auto dir = folder.path() / "cache";
  const auto cache = cache_in(dir);
  (void)read_all(cache);
  rlimit old{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &old) == 0);
  rlimit none = old;
  none.rlim_cur = 0;
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  const bool was_there = read_all(cache);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &old) == 0);
  CHECK_FALSE(was_there);
  CHECK(read_all(cache));
}

TEST_CASE("what others can write is not used") {
  const TemporaryDirectory folder;
  const auto dir = folder.path() / "cache";
  const auto data = dir / data_folder_name("s3://b/data");
  (void)read_all(cache_in(dir));
  SUBCASE("the directory") {
    std::filesystem::permissions(dir, std::filesystem::perms::all);
    CHECK(contains(error_of([&] { (void)cache_in(dir); }), "may write there"));
  }
  SUBCASE("a dataset's folder") {
    std::filesystem::permissions(data, std::filesystem::perms::all);
    CHECK_FALSE(error_of([&] { (void)cache_in(dir); }).empty());
  }
  SUBCASE("a link") {
    std::filesystem::rename(data, folder.path() / "elsewhere");
    std::filesystem::create_directory_symlink(folder.path() / "elsewhere", data);
    CHECK_FALSE(error_of([&] { (void)cache_in(dir); }).empty());
  }
  SUBCASE("an entry") {
    std::filesystem::permissions(entries_in(dir).front(), std::filesystem::perms::all);
    CHECK_FALSE(read_all(cache_in(dir)));
    CHECK(read_all(cache_in(dir)));
  }
}

TEST_CASE("a damaged block that is forgotten takes nothing") {
  const TemporaryDirectory folder;
  const auto dir = folder.path() / "cache";
  (void)read_all(cache_in(dir));
  flip(entries_in(dir).front(), 5 * kBlock);
  CHECK(look_into_cache(dir.string(), true).front().damaged == 1);
  const auto cache = cache_in(dir);
  CHECK(cache->held() == 9 * kBlock);
  CHECK(on_disk(dir) == 9 * kBlock);
  CHECK_FALSE(read_all(cache));
  CHECK(cache->held() == 10 * kBlock);
}

TEST_CASE("a file whose head is damaged is removed when the blocks are checked, one that is being made is not") {
  for (const bool is_cut : {false, true}) {
    CAPTURE(is_cut);
    const TemporaryDirectory folder;
    const auto dir = folder.path() / "cache";
    for (const char* object : {"s3://b/o", "s3://b/other"}) (void)read_all(cache_in(dir), object);
    const auto file = entries_in(dir).front();
    const auto made = file.parent_path() / "new-1-1";
    std::ofstream(made) << "its head is still to come";
    is_cut ? std::filesystem::resize_file(file, 10) : flip(file, 20);
    const CachedData found = look_into_cache(dir.string(), true).front();
    CHECK((found.damaged_files == 1 && found.damaged == 0 && found.blocks == 8));
    CHECK(std::filesystem::exists(made));
    CHECK_FALSE(std::filesystem::exists(file));
    std::filesystem::remove(made);
    CHECK(look_into_cache(dir.string(), true).front().damaged_files == 0);
    if (!is_cut) CHECK(cache_in(dir)->held() == on_disk(dir));
  }
}

TEST_CASE("the head of a large object") {
  const TemporaryDirectory folder;
  const KeptObject large{.name = "n", .version = "v", .identity = 1, .bytes = std::uint64_t{3} << 30U};
  const auto file = folder.path() / "large";
  (void)CacheEntry::make(AT_FDCWD, file, large);
  const auto entry = CacheEntry::open(AT_FDCWD, file);
  REQUIRE(entry);
  CHECK(entry->object().bytes == large.bytes);
  CHECK(entry->sums(entry->blocks() - 1, 1).front() == 0);
  struct stat status {};
  REQUIRE(::stat(file.c_str(), &status) == 0);
  CHECK(static_cast<std::uint64_t>(status.st_blocks) * 512 >= CacheEntry::overhead(large));
}

TEST_CASE("data were used until they were left") {
  const TemporaryDirectory folder;
  const auto dir = folder.path() / "cache";
  {
    const auto cache = cache_in(dir);
    const auto about = dir / data_folder_name("s3://b/data") / "about";
    std::filesystem::last_write_time(about, std::filesystem::last_write_time(about) - std::chrono::hours(1));
    cache->leave();
    CHECK(cache->has_left());
  }
  CHECK(look_into_cache(dir.string(), false).front().used_s > std::time(nullptr) - 600);
}

TEST_CASE("a run without a cache uses none, and one that was left is let go") {
  const TemporaryDirectory folder;
  const auto path = folder.path() / "file";
  std::ofstream(path) << "bytes";
  using forebay::data::SourceFiles;
  SourceFiles files(0, {}, [](std::uint64_t) { return SourceFiles::Known{}; });
  std::shared_ptr<const NodeCache> cache = cache_in(folder.path() / "cache");
  const std::weak_ptr<const NodeCache> seen = cache;
  files.use_cache(cache);
  cache->leave();
  cache.reset();
  forebay::data::MemoryTarget target;
  files.read_whole(path, target);
  CHECK(target.bytes.size() == 5);
  CHECK(seen.expired());
}

TEST_CASE("nothing but its own is removed") {
  const TemporaryDirectory folder;
  const auto dir = folder.path() / "cache";
  { const auto cache = cache_in(dir); }
  for (const char* name : {"0123456789abcdef", "photos"}) {
    std::filesystem::create_directories(dir / name / "ab");
    std::ofstream(dir / name / "ab" / "file") << "mine";
    std::ofstream(dir / name / "about") << "A cache of Forebay: s3://b/data\n";
  }
  CHECK(clear_cache(dir.string()) == 0);
  CHECK(std::filesystem::exists(dir / "0123456789abcdef" / "ab" / "file"));
  CHECK(std::filesystem::exists(dir / "photos" / "ab" / "file"));
}

TEST_CASE("a name that is too long is read from the store") {
  const TemporaryDirectory folder;
  const auto cache = cache_in(folder.path() / "cache");
  const auto source = object(kBlock, 1, "s3://b/" + std::string(5000, 'x'));
  for (int i = 0; i < 2; ++i) check_read(through(cache, source), *source, 0, kBlock);
  CHECK(source->requests == 2);
}

TEST_CASE("random reads over a directory that random faults befall") {
  Random random = testing::random_from(std::random_device{}());
  const TemporaryDirectory folder;
  const auto dir = folder.path() / "cache";
  std::vector<std::shared_ptr<Counted>> sources;
  for (std::uint64_t i = 0; i < 4; ++i) {
    sources.push_back(object(1 + random.below(40 * kBlock), 100 + i, "s3://b/" + std::to_string(i)));
  }
  auto cache = cache_in(dir, 90 * kBlock);
  for (int round = 0; round < (testing::kSanitized ? 300 : 2000); ++round) {
    const auto& source = sources[random.below(sources.size())];
    const std::size_t size = source->bytes().size();
    const std::size_t offset = random.below(size);
    std::vector<std::byte> got(random.below(size - offset + 1));
    Spans pieces;
    for (std::size_t at = 0; at < got.size();) {
      const std::size_t length = std::min<std::size_t>(got.size() - at, random.below(3 * kBlock));
      pieces.push_back(std::span(got).subspan(at, length));
      at += length;
    }
    read_at(through(cache, source), offset, pieces);
    REQUIRE(std::ranges::equal(got, std::span(source->bytes()).subspan(offset, got.size())));
    const auto files = entries_in(dir);
    if (files.empty()) continue;
    const auto& file = files[random.below(files.size())];
    const std::uintmax_t bytes = std::filesystem::file_size(file);
    switch (random.below(30)) {
      case 0: std::filesystem::remove(file); break;
      case 1: std::filesystem::resize_file(file, random.below(bytes + 1)); break;
      case 2: std::filesystem::remove_all(file.parent_path().parent_path()); break;
      case 3: cache = cache_in(dir, 90 * kBlock); break;
      case 4: std::filesystem::remove(dir / "used"); break;
      case 5:
        if (file != files.front()) {
          std::filesystem::copy_file(file, files.front(), std::filesystem::copy_options::overwrite_existing);
        }
        break;
      default:
        if (bytes > 0) flip(file, random.below(bytes));
    }
  }
}

TEST_CASE("threads of two caches on one directory") {
  const TemporaryDirectory folder;
  const auto dir = folder.path() / "cache";
  const auto source = object(64 * kBlock - 5);
  const std::array caches{cache_in(dir, 40 * kBlock), cache_in(dir, 40 * kBlock)};
  std::vector<std::thread> threads;
  std::atomic<std::size_t> wrong{0};
  for (std::size_t i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      Random random(i);
      for (int round = 0; round < 200; ++round) {
        const std::size_t offset = random.below(source->bytes().size());
        std::vector<std::byte> got(1 +
                                   random.below(std::min<std::size_t>(source->bytes().size() - offset, 3 * kBlock)));
        read_at(through(caches[i % 2], source), offset, got);
        if (!std::ranges::equal(got, std::span(source->bytes()).subspan(offset, got.size()))) ++wrong;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(caches[0]->held() <= 40 * kBlock);
}

}  // namespace forebay::test_store
