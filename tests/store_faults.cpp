// Stores and credential sources that fail for a while, and a process that runs out of file
// descriptors: neither loses a sample.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#include <forebay/feeder.hpp>
#include <random>

#include "base/file_io.hpp"
#include "base/retry.hpp"
#include "data/source_files.hpp"
#include "detection_support.hpp"
#include "every_container.hpp"
#include "memory_dataset.hpp"
#include "pack_support.hpp"
#include "store/credentials.hpp"
#include "test.hpp"
#include "zip_files.hpp"

using namespace forebay::data;

namespace {

struct FileSystem {
  std::atomic<int> spared{0};    // reads that succeed
  std::atomic<int> failures{0};  // and then reads that fail
  std::atomic<int> stale{-1};    // a descriptor whose reads fail
  std::atomic<int> error{EIO};
  std::atomic<bool> skips_pauses{false};  // pauses take no time
};
FileSystem file_system;  // NOLINT: the functions below have no object of their own to keep it in

bool fails(int file) {
  if (file != file_system.stale && file_system.spared > 0 && file_system.spared.fetch_sub(1) > 0) return false;
  if (file != file_system.stale && (file_system.failures <= 0 || file_system.failures.fetch_sub(1) <= 0)) return false;
  errno = file_system.error;
  return true;
}

template <typename Function>
Function next_one(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

// Replaces the C library's function.
extern "C" ssize_t pread(int file, void* to, std::size_t bytes, off_t offset) {
  static const auto real = next_one<ssize_t (*)(int, void*, std::size_t, off_t)>("pread");
  return fails(file) ? -1 : real(file, to, bytes, offset);
}

extern "C" ssize_t preadv(int file, const iovec* pieces, int count, off_t offset) {
  static const auto real = next_one<ssize_t (*)(int, const iovec*, int, off_t)>("preadv");
  return fails(file) ? -1 : real(file, pieces, count, offset);
}

extern "C" int nanosleep(const timespec* time, timespec* left) {
  static const auto real = next_one<int (*)(const timespec*, timespec*)>("nanosleep");
  return file_system.skips_pauses ? 0 : real(time, left);
}

namespace forebay {
namespace {

using namespace testing;

// UndefinedBehaviorSanitizer inspects objects through a pipe; if it cannot open one, it reports
// damage.
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
constexpr bool kNeedsDescriptors = true;
#else
constexpr bool kNeedsDescriptors = false;
#endif
#else
constexpr bool kNeedsDescriptors = false;
#endif

constexpr std::array kPassing{ESTALE, EIO, ETIMEDOUT, ENOTCONN, EHOSTDOWN, ECONNRESET};

// Restores the file system's behaviour afterwards.
struct Situation {
  Situation() = default;
  ~Situation() {
    file_system.failures = 0;
    file_system.stale = -1;
    file_system.skips_pauses = false;
  }
  Situation(const Situation&) = delete;
  Situation& operator=(const Situation&) = delete;
};

// Files of records; each record holds its number.
class Shards {
 public:
  explicit Shards(std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::string path = (dir_ / std::to_string(i)).string();
      write_file(path, content(i));
      const OpenFile file = open_regular(path);
      known_.push_back({.path = path, .stamp = RecordTable::stamp_of(file)});
      modified_.push_back(RecordTable::modified_of(file));
    }
  }

  [[nodiscard]] static std::string content(std::uint64_t source) { return "source " + std::to_string(source); }
  [[nodiscard]] std::unique_ptr<SourceFiles> sources() const {
    return std::make_unique<SourceFiles>(known_.size(), modified_, [this](std::uint64_t i) { return known_[i]; });
  }

 private:
  TemporaryDirectory dir_;
  std::vector<SourceFiles::Known> known_;
  std::vector<std::int64_t> modified_;
};

std::string read_source(SourceFiles& files, std::uint64_t source, int* descriptor = nullptr) {
  std::string text;
  files.with(source, [&](const OpenFile& file) {
    if (descriptor != nullptr) *descriptor = file.descriptor.get();
    text.resize(file.size);
    files.read(file, 0, std::as_writable_bytes(std::span(text)));
  });
  return text;
}

// Limits the descriptors that the process can open, by occupying all but a few. At most as many may
// be open before as there are below 200.
class FewDescriptors {
 public:
  explicit FewDescriptors(std::size_t left) {
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &before_) == 0);
    const rlimit lower{.rlim_cur = std::min<rlim_t>(256, before_.rlim_max), .rlim_max = before_.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &lower) == 0);
    for (int file = 0; (file = ::open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) taken_.emplace_back(file);
    REQUIRE(errno == EMFILE);
    REQUIRE(taken_.size() > left);
    taken_.resize(taken_.size() - left);
  }
  ~FewDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;

 private:
  rlimit before_{};
  std::vector<FileDescriptor> taken_;
};

TEST_CASE("files that are kept open are given back to a process that has no descriptor left" *
          doctest::skip(kNeedsDescriptors)) {
  const Shards shards(100);
  const auto files = shards.sources();
  for (std::uint64_t i = 0; i < 50; ++i) CHECK(read_source(*files, i) == Shards::content(i));
  SUBCASE("by one thread") {
    const FewDescriptors few(0);
    for (std::uint64_t i = 0; i < 100; ++i) CHECK(read_source(*files, i) == Shards::content(i));
  }
  SUBCASE("by four, each of which has one open") {
    const FewDescriptors few(4);
    std::atomic<int> wrong{0};
    std::vector<std::jthread> threads;
    for (std::uint64_t thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&, thread] {
        std::mt19937_64 random(thread);
        for (int i = 0; i < 2000; ++i) {
          const std::uint64_t source = random() % 100;
          wrong += read_source(*files, source) == Shards::content(source) ? 0 : 1;
        }
      });
    }
    threads.clear();
    CHECK(wrong == 0);
  }
  SUBCASE("but one that has none to give back says what the limit is") {
    const auto others = shards.sources();
    const FewDescriptors few(0);
    CHECK_THROWS_WITH_AS(read_source(*others, 1), doctest::Contains("raise ulimit -n"), SampleError);
    CHECK(read_source(*files, 60) == Shards::content(60));
    CHECK(read_source(*others, 1) == Shards::content(1));
  }
}

TEST_CASE("a descriptor that fails is not asked again") {
  const Situation situation;
  const Shards shards(2);
  const auto files = shards.sources();
  file_system.error = ESTALE;
  int descriptor = -1;
  CHECK(read_source(*files, 0, &descriptor) == Shards::content(0));
  const FileDescriptor spare(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  file_system.stale = descriptor;
  files->with(0, [&](const OpenFile& first) {  // keeps its number from being reused for the next
    CHECK(first.descriptor.get() == descriptor);
    CHECK_THROWS_AS(read_source(*files, 0), SampleError);
    int next = -1;
    CHECK(read_source(*files, 0, &next) == Shards::content(0));
    CHECK(next != descriptor);
  });
}

// Options for 60 samples in class folders, or in a file of records.
Options options_of_data(const TemporaryDirectory& dir, bool has_records) {
  std::string pixels;
  for (int i = 0; i < 60; ++i) {
    const std::string image = std::string(32 * 32 * 3, static_cast<char>(i));
    pixels.append(1, static_cast<char>(i % 10)).append(image);
    if (has_records) continue;
    write_file(dir.path() / "data" / std::to_string(i % 3) / (std::to_string(i) + ".ppm"), "P6\n32 32\n255\n" + image);
  }
  if (has_records) write_file(dir.path() / "data" / "data_batch_1.bin", pixels);
  Options options = testing::memory_options(7);
  options.max_bad = 0;
  options.dataset.path = (dir / "data").string();
  return options;
}

TEST_CASE("an evaluation leaves out nothing while its store fails, whatever the error") {
  const Situation situation;
  const TemporaryDirectory dir;
  for (const bool has_records : {false, true}) {
    CAPTURE(has_records);
    Options options = options_of_data(dir, has_records);
    options.run.eval = true;
    for (const int error : kPassing) {
      CAPTURE(error);
      std::set<std::uint64_t> seen;
      std::size_t samples = 0;
      Feeder feeder(options, {.log = [](LogLevel, std::string_view) {}});
      file_system.error = error;
      file_system.failures = 8;
      while (const auto batch = feeder.next()) {
        samples += batch->ids().size();
        seen.insert(batch->ids().begin(), batch->ids().end());
      }
      CHECK(samples == 60);
      CHECK(seen.size() == 60);
      CHECK(file_system.failures.exchange(0) <= 0);
      CHECK(feeder.summary().bad_samples == 0);
    }
    std::filesystem::remove_all(dir / "data");
  }
}

// Datasets of all formats that read files while indexing, and the files that each index is built
// from.
std::vector<std::string> indexed_paths(const TemporaryDirectory& dir) {
  const std::string box = testing::annotation(testing::object("dog"));
  for (const char* name : {"voc/a", "voc/b", "yolo/a", "coco/a"})
    write_file(dir / (std::string(name) + ".jpg"), testing::grey_npy(8, 8, 1));
  write_file(dir / "voc/a.xml", box);
  write_file(dir / "voc/b.xml", box);
  write_file(dir / "yolo/a.txt", "0 0.5 0.5 1 1\n");
  write_file(dir / "yolo/classes.txt", "dog\n");
  write_file(dir / "list.txt", "voc/a.jpg\nvoc/b.jpg\n");
  write_file(dir / "table.csv", "image,label\nvoc/a.jpg,dog\nvoc/b.jpg,cat\n");
  write_file(dir / "coco/set.json",
             R"({"images":[{"id":1,"file_name":"a.jpg","width":8,"height":8}],"categories":[{"id":1,"name":"dog"}],)"
             R"("annotations":[{"id":1,"image_id":1,"category_id":1,"bbox":[0,0,4,4]}]})");
  std::vector<std::string> paths;
  for (const char* path : {"voc", "yolo", "list.txt", "table.csv", "coco/set.json"})
    paths.push_back((dir / path).string());
  for (const testing::ContainerKind& kind : testing::every_container()) {
    for (const auto& [name, contents] : kind.files_of(3)) write_file(dir / kind.name / name, contents);
    paths.push_back((dir / kind.name / kind.path).string());
  }
  write_file(dir / "cifar/batches.meta.txt", "plane\ncar\n");
  write_file(dir / "npz/set.npz",
             testing::zip_of({{"images.npy", testing::npy_of_bytes("(3, 1, 1)", "abc")},
                              {"labels.npy", testing::npy_of_bytes("(3,)", std::string("\0\1\2", 3))}}));
  paths.push_back((dir / "npz/set.npz").string());
  paths.push_back(testing::packed_options(testing::class_folder(dir), dir / "packed").path);
  return paths;
}

TEST_CASE("what is read before a run waits for a store that fails, and then names it") {
  const TemporaryDirectory dir;
  const Situation situation;
  for (const std::string& path : indexed_paths(dir)) {
    CAPTURE(path);
    const DatasetOptions options = testing::options_for(path);
    const std::vector<std::byte> expected = build_dataset(options)->serialize();
    file_system.skips_pauses = true;
    for (const int error : kPassing) {
      CAPTURE(error);
      file_system.error = error;
      file_system.failures = 40;
      CHECK(fingerprint(*build_dataset(options)) == fingerprint(*restore_dataset(expected, "expected")));
      CHECK(file_system.failures <= 0);
    }
    // Lets each read fail in turn.
    file_system.failures = 0;
    for (int spared = 0; file_system.failures <= 0; ++spared) {
      CAPTURE(spared);
      REQUIRE(spared < 2000);
      file_system.spared = spared;
      file_system.failures = 1;
      CHECK(fingerprint(*build_dataset(options)) == fingerprint(*restore_dataset(expected, "expected")));
    }
    file_system.spared = 0;
    file_system.error = ESTALE;
    file_system.failures = 1 << 20;
    const std::string message = testing::build_error(options);
    file_system.failures = 0;
    CHECK(contains(message, "Stale file handle (for 6"));
    CHECK(contains(message, dir.path().string()));
  }
}

std::vector<std::string> told;  // NOLINT: StorePatience::tell is a plain function

TEST_CASE("a store that fails is told of once, and what waiting cannot mend is not waited for") {
  const Situation situation;
  file_system.skips_pauses = true;
  const StorePatience patience{.limit = std::chrono::seconds(5),
                               .tell = [](const std::string& line) { told.push_back(line); }};
  int reads = 0;
  const auto error_after = [&](const SampleError& error) {
    reads = 0;
    told.clear();
    return testing::error_of([&] {
      read_patiently(
          "/data/x",
          [&]() -> int {
            ++reads;
            throw error;
          },
          patience);
    });
  };
  const auto transient = SampleError::Kind::transient;
  // The attempts take some of the time, too, but little unless the machine is busy.
  CHECK(error_after(SampleError("cannot read: gone", transient)).starts_with("cannot read: gone (for "));
  CHECK(reads > 4);
  CHECK(reads <= 12);
  REQUIRE(told.size() == 1);
  CHECK(told[0].starts_with("reads have failed for "));
  CHECK(told[0].ends_with(" s: /data/x: cannot read: gone; they are repeated until they succeed, for 5 s at most"));
  CHECK(error_after(SampleError("damaged")) == "damaged");
  CHECK(reads == 1);
  // Who waits around another who has waited does not wait again.
  int outer = 0;
  const std::string nested = testing::error_of([&] {
    read_patiently(
        "/data",
        [&]() -> int {
          ++outer;
          return read_patiently(
              "/data/x", []() -> int { throw SampleError("gone", SampleError::Kind::transient); }, patience);
        },
        patience);
  });
  CHECK(nested.starts_with("gone (for "));
  CHECK(outer == 1);
}

TEST_CASE("a store that fails for ever ends the run, and is named") {
  const Situation situation;
  const TemporaryDirectory dir;
  for (const bool has_records : {false, true}) {
    CAPTURE(has_records);
    Options options = options_of_data(dir, has_records);
    options.policy.watchdog_s = 1;  // the first batch arrives before that, even on a busy machine
    options.max_bad = 1;
    Feeder feeder(options, {.log = [](LogLevel, std::string_view) {}});
    REQUIRE(feeder.next());
    file_system.error = ESTALE;
    file_system.failures = 1'000'000;
    const std::string what = testing::error_of([&] {
      for (int step = 0; step < 1'000'000 && feeder.next(); ++step) {
      }
    });
    CAPTURE(what);
    CHECK(contains(what, has_records ? "data_batch_1.bin" : ".ppm"));
    CHECK(contains(what, "Stale file handle"));
    CHECK(contains(what, "policy.watchdog_s"));
    file_system.failures = 0;
    std::filesystem::remove_all(dir / "data");
  }
}

TEST_CASE("keys that are renewed late are used until they expire, and a program that hangs stops one thread alone") {
  using namespace std::chrono_literals;
  const TemporaryDirectory folder;
  const auto path = [&](const char* name) { return (folder.path() / name).string(); };
  for (const char* name : {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_NO_SIGN_REQUEST"}) {
    ::unsetenv(name);
  }
  ::setenv("AWS_SHARED_CREDENTIALS_FILE", path("credentials").c_str(), 1);
  ::setenv("AWS_CONFIG_FILE", path("config").c_str(), 1);
  std::ofstream(path("credentials")) << "[default]\ncredential_process = echo >> " << path("asked") << "; cat "
                                     << path("answer") << "\n";
  const auto asked = [&] {
    std::ifstream lines(path("asked"));
    return std::count(std::istreambuf_iterator<char>(lines), {}, '\n');
  };
  const auto give = [&](const std::string& token, store::Credentials::Clock::time_point until) {
    const std::time_t end = store::Credentials::Clock::to_time_t(until);
    std::tm parts{};
    std::array<char, 32> text{};
    ::gmtime_r(&end, &parts);
    std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
    std::ofstream(path("answer")) << R"({"AccessKeyId":"i","SecretAccessKey":"s","SessionToken":")" << token
                                  << R"(","Expiration":")" << text.data() << "\"}";
  };
  const auto now = store::Credentials::Clock::now();
  store::Credentials credentials;
  give("first", now + 1h);
  CHECK(credentials.keys(now).token == "first");
  CHECK(credentials.keys(now + 30min).token == "first");
  CHECK(asked() == 1);
  std::filesystem::remove(path("answer"));
  CHECK(credentials.keys(now + 50min).token == "first");
  CHECK(credentials.keys(now + 50min + 9s).token == "first");
  CHECK(asked() == 2);
  CHECK(credentials.keys(now + 50min + 11s).token == "first");
  CHECK(asked() == 3);
  CHECK_THROWS_WITH_AS((void)credentials.keys(now + 2h), doctest::Contains("gave no keys"), SampleError);
  CHECK_THROWS_AS((void)credentials.renew(credentials.keys(now + 51min)), SampleError);
  give("second", now + 3h);
  CHECK(credentials.keys(now + 2h).token == "second");
  // There are no other keys, which is reported; since they worked before, the run waits.
  CHECK_FALSE(credentials.renew({.id = "i", .secret = {}, .token = "second"}));
  credentials.have_worked();
  CHECK_THROWS_AS((void)credentials.renew({.id = "i", .secret = {}, .token = "second"}), SampleError);
  CHECK(credentials.renew({.id = "i", .secret = {}, .token = "first"}));

  std::filesystem::remove(path("answer"));
  REQUIRE(::mkfifo(path("answer").c_str(), 0600) == 0);
  const auto before = asked();
  std::string token;
  std::thread slow([&] { token = credentials.keys(now + 170min).token; });
  CHECK(eventually([&] { return asked() > before; }));
  CHECK(credentials.keys(now + 170min).token == "second");
  give("third", now + 9h);
  slow.join();
  CHECK(token == "third");
  ::unsetenv("AWS_SHARED_CREDENTIALS_FILE");
  ::unsetenv("AWS_CONFIG_FILE");
}

}  // namespace
}  // namespace forebay
