// Odd names, odd directory trees, and files that are not what they seem. Nothing here may hang:
// CTest has a limit.
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>
#include <new>

#include "base/file_io.hpp"
#include "data/build.hpp"
#include "data/guarded_dataset.hpp"
#include "data/record_checksum.hpp"
#include "dataset_support.hpp"
#include "reader_stage.hpp"
#include "test.hpp"

namespace forebay::test_dataset_odd {

using namespace forebay::data;

namespace {

using namespace forebay::testing;

// A dataset of the single file named in a list.
std::unique_ptr<Dataset> list_of(const TemporaryDirectory& folder, const std::string& path) {
  write_file(folder / "list.txt", "\"" + path + "\",0\n");
  return build_dataset(options_for(folder / "list.txt"));
}

struct ReadFailure {
  std::string reason;
  bool is_transient = false;
};

ReadFailure failure_of(const Dataset& dataset, std::uint64_t id = 0) {
  Reading reading;
  try {
    dataset.read(id, reading);
  } catch (const SampleError& error) {
    return {error.what(), error.is_transient()};
  }
  return {};
}

void make_socket(const std::filesystem::path& path) {
  const FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  REQUIRE(path.string().size() < sizeof address.sun_path);
  path.string().copy(address.sun_path, sizeof address.sun_path - 1);
  REQUIRE(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
}

TEST_CASE("reading what is no regular file says what it is, without waiting") {
  const TemporaryDirectory folder;
  std::filesystem::create_directory(folder / "folder.jpg");
  REQUIRE(::mkfifo((folder / "fifo.jpg").c_str(), 0600) == 0);
  make_socket(folder / "socket.jpg");
  std::filesystem::create_symlink("nowhere", folder / "dangling.jpg");
  std::filesystem::create_symlink("loop.jpg", folder / "loop.jpg");
  std::filesystem::create_symlink("folder.jpg", folder / "to-folder.jpg");
  write_file(folder / "empty.jpg", "");
  const std::array expected{
      std::pair{"folder.jpg", "is a directory"},
      std::pair{"fifo.jpg", "is a FIFO"},
      std::pair{"socket.jpg", "is a socket"},
      std::pair{"dangling.jpg", "cannot open: no such file"},
      std::pair{"absent.jpg", "cannot open: no such file"},
      std::pair{"to-folder.jpg", "is a directory"},
      std::pair{"empty.jpg", "is empty"},
      std::pair{"loop.jpg", "cannot open: Too many levels"},
      std::pair{"empty.jpg/x.jpg", "cannot open: Not a directory"},
  };
  for (const auto& [name, reason] : expected) {
    CAPTURE(name);
    const auto failure = failure_of(*list_of(folder, name));
    CHECK(failure.reason.starts_with(reason));
    CHECK_FALSE(failure.is_transient);
  }
  const auto device = failure_of(*list_of(folder, "/dev/zero"));
  CHECK(device.reason == "is a device");
  const auto long_name = failure_of(*list_of(folder, std::string(5000, 'x')));
  CHECK(contains(long_name.reason, "File name too long"));
}

TEST_CASE("a file that is too large is refused before memory is reserved") {
  const FolderOf folder{{"large.jpg", ""}};
  std::filesystem::resize_file(folder / "large.jpg", kLargestSampleFile + 1);
  const auto dataset = list_of(folder, "large.jpg");
  Reading reading;
  CHECK_THROWS_AS(dataset->read(0, reading), SampleError);
  CHECK(reading.reserves == 0);
}

TEST_CASE("errors of the store may pass, errors of the file do not") {
  for (const int error : {EIO, EAGAIN, ESTALE, ETIMEDOUT, ENOMEM, EMFILE, ENFILE, EBUSY, ECONNRESET}) {
    CAPTURE(error);
    CHECK(system_failure("cannot read", error).is_transient());
  }
  for (const int error : {ENOENT, EACCES, ELOOP, ENOTDIR, ENAMETOOLONG, EISDIR, EINVAL, EPERM}) {
    CAPTURE(error);
    CHECK_FALSE(system_failure("cannot open", error).is_transient());
  }
  CHECK(std::string(system_failure("cannot open", ENOENT).what()) == "cannot open: no such file");
  CHECK(problem_of_file("im\\0.png") == "cannot open: no such file; folders are divided by /, not by \\");
  CHECK(testing::error_of([] { (void)open_regular("/list/file:///im/0.png"); }) ==
        "cannot open: no such file; leave \"file://\" out of its path");
  CHECK(std::string(system_failure("cannot read", EIO).what()) == "cannot read: Input/output error");
}

TEST_CASE("a file that is shorter than its size promised is a transient failure") {
  const FolderOf folder{{"x.jpg", "12345"}};
  const OpenFile file = open_regular((folder / "x.jpg").string());
  std::array<std::byte, 9> bytes{};
  try {
    read_at(file.descriptor, 0, bytes);
    FAIL("nothing was thrown");
  } catch (const SampleError& error) {
    CHECK(error.is_transient());
    CHECK(std::string(error.what()) == "ended at byte 5 where 9 bytes were expected");
  }
}

TEST_CASE("voc: what stands where an image should be is reported once, as what it is") {
  const FolderOf folder{{"good.jpg", "jpeg"}, {"good.xml", annotation(object("dog"))}};
  std::filesystem::create_directory(folder / "folder.jpg");
  REQUIRE(::mkfifo((folder / "fifo.jpg").c_str(), 0600) == 0);
  REQUIRE(::mkfifo((folder / "fifo.xml").c_str(), 0600) == 0);
  write_file(folder / "folder.xml", annotation(object("dog")));
  const auto dataset = build_dataset(options_for(folder.path(), "voc"));
  CHECK(dataset->size() == 1);
  CHECK(count_bad(*dataset) == 2);
  CHECK(skip_reason(*dataset, "/folder.jpg") == "is a directory");
  CHECK(skip_reason(*dataset, "/fifo.jpg") == "is a FIFO");
}

TEST_CASE("a folder named like an image is a folder when it holds images") {
  const FolderOf folder{{"class.jpg/x.jpg", "jpeg"}};
  const auto dataset = build_dataset(options_for(folder.path()));
  CHECK(dataset->format() == "folder");
  CHECK(dataset->classes() == std::vector<std::string>{"class.jpg"});
  CHECK(dataset->size() == 1);
}

TEST_CASE("two annotations of one name: the first counts, the other is reported") {
  const FolderOf folder{{"x.jpg", "jpeg"}, {"x.XML", annotation(object("dog"))}, {"x.xml", annotation(object("cat"))}};
  const auto dataset = build_dataset(options_for(folder.path()));
  CHECK(dataset->size() == 1);
  CHECK(contains(skip_reason(*dataset, "/x.xml"), "another annotation has this name"));
}

TEST_CASE("links: loops end, folders behind links count, dangling links fail when read") {
  const FolderOf folder{{"a/x.jpg", "jpeg"}};
  std::filesystem::create_directory_symlink("..", folder / "a/up");
  std::filesystem::create_directory_symlink(".", folder / "a/self");
  std::filesystem::create_directory_symlink("a", folder / "b");
  std::filesystem::create_symlink("x.jpg", folder / "a/link.jpg");
  std::filesystem::create_symlink("nowhere.jpg", folder / "a/dangling.jpg");
  const auto dataset = build_dataset(options_for(folder.path()));
  CHECK(dataset->classes() == std::vector<std::string>{"a", "b"});
  REQUIRE(dataset->size() == 6);
  CHECK(failure_of(*dataset, 0).reason == "cannot open: no such file");
  CHECK(read_sample(*dataset, 1) == "jpeg");
  CHECK(count_bad(*dataset) == 0);
  CHECK(contains(skip_reason(*dataset, "/a/up"), "links back"));
}

TEST_CASE("folders of links to folders of links do not multiply a file beyond bounds") {
  const TemporaryDirectory folder;
  constexpr int kLevels = 18;  // 2^18 names
  for (int i = 0; i < kLevels; ++i) {
    const auto level = folder.path() / ("d" + std::to_string(i));
    std::filesystem::create_directory(level);
    for (const char* name : {"a", "b"}) {
      std::filesystem::create_directory_symlink("../d" + std::to_string(i + 1), level / name);
    }
  }
  write_file(folder / ("d" + std::to_string(kLevels) + "/x.jpg"), "jpeg");
  std::vector<std::string> names;
  for (const unsigned threads : {1U, 4U}) {
    const DatasetOptions options = options_for(folder.path(), "folder");
    const auto dataset = build_dataset_with({.options = options, .progress = {}, .threads = threads});
    CHECK(dataset->size() == 65);  // its own path, and 64 through links
    CHECK(count_bad(*dataset) > 0);
    std::vector<std::string> found;
    for (std::uint64_t id = 0; id < dataset->size(); ++id) found.push_back(dataset->name(id));
    if (!names.empty()) CHECK(found == names);
    names = found;
  }
}

TEST_CASE("nesting beyond reason is cut and reported") {
  const TemporaryDirectory folder;
  std::string path = "a";
  for (int i = 0; i < 100; ++i) path += "/d";
  write_file(folder / "a/x.jpg", "jpeg");
  write_file(folder / (path + "/y.jpg"), "jpeg");
  const auto dataset = build_dataset(options_for(folder.path()));
  CHECK(dataset->size() == 1);
  CHECK(count_bad(*dataset) == 1);
}

TEST_CASE("names are bytes: blanks, quotes, line breaks, globs, dashes, bytes that are not UTF-8") {
  const TemporaryDirectory folder;
  const std::array<std::string, 8> names{"sp ace.jpg", "new\nline.jpg", "quote\".jpg",     "it's.jpg",
                                         "-dash.jpg",  "*.jpg",         "bad\xFF\xFE.jpg", "\u65e5\u672c.jpg"};
  for (const auto& name : names) write_file(folder.path() / "class" / name, name);
  const auto dataset = build_dataset(options_for(folder.path()));
  REQUIRE(dataset->size() == names.size());
  const auto restored = restore_dataset(dataset->serialize(), "memory");
  for (std::uint64_t id = 0; id < dataset->size(); ++id) {
    CHECK(dataset->name(id).ends_with("/class/" + read_sample(*dataset, id)));
    CHECK(restored->name(id) == dataset->name(id));
  }
}

TEST_CASE("files under a wrong name are read as they are; decoding judges them") {
  const FolderOf folder{
      {"class/png.jpg", "\x89PNG\r\n\x1a\n"}, {"class/text.jpg", "hello"}, {"class/photo.png", "\xFF\xD8"}};
  const auto dataset = build_dataset(options_for(folder.path()));
  CHECK(dataset->size() == 3);
  CHECK(read_sample(*dataset, 0) == "\xFF\xD8");
  CHECK(read_sample(*dataset, 2) == "hello");
}

TEST_CASE("a folder that may not be listed is refused: the classes after it would have other numbers") {
  if (::geteuid() == 0) {
    MESSAGE("skipped: root may list every folder");
    return;
  }
  const FolderOf folder{{"a/x.jpg", "jpeg"}, {"b/y.jpg", "jpeg"}, {"c/z.jpg", "jpeg"}};
  std::filesystem::permissions(folder / "b", std::filesystem::perms::none);
  const std::string said = testing::error_of<ConfigError>([&] { (void)build_dataset(options_for(folder.path())); });
  std::filesystem::permissions(folder / "b", std::filesystem::perms::owner_all);
  CHECK(contains(said, (folder / "b").string() + ": cannot list the folder: Permission denied; "));
  CHECK(contains(said, "make it readable for this user"));
}

TEST_CASE("a link to no folder is refused among the classes, and damage elsewhere") {
  const FolderOf folder{{"a/x.jpg", "jpeg"}, {"c/z.jpg", "jpeg"}};
  // Files that nobody misses: with an extension, or not fetched by git-annex.
  std::filesystem::create_symlink("nowhere", folder / "notes.txt");
  std::filesystem::create_symlink("../.git/annex/objects/SHA256E-s1", folder / "README");
  CHECK(count_bad(*build_dataset(options_for(folder.path()))) == 0);
  for (const std::string name : {"b", "001.Albatross"}) {
    CAPTURE(name);
    std::filesystem::create_symlink("../disk7/b", folder / name);
    const std::string said = testing::error_of<ConfigError>([&] { (void)build_dataset(options_for(folder.path())); });
    CHECK(contains(said, (folder / name).string() + " stands where class folders stand"));
    CHECK(contains(said, "a disk that is not mounted; without it the classes would have other numbers"));
    DatasetOptions named = options_for(folder.path());
    named.classes = {"a", "c"};
    CHECK(build_dataset(named)->size() == 2);
    std::filesystem::remove(folder / name);
  }
  std::filesystem::create_symlink("../../disk7/more", folder / "c/more");
  const auto dataset = build_dataset(options_for(folder.path()));
  CHECK(dataset->size() == 2);
  CHECK(count_bad(*dataset) == 1);
}

TEST_CASE("a store that fails while it is listed leaves nothing out of an index") {
  if (testing::kSanitized) {
    MESSAGE("skipped: UBSan opens a pipe to look at an object's type, and takes what it cannot look at for damaged");
    return;
  }
  const TemporaryDirectory folder;
  std::filesystem::create_directories(folder / "classes/a");
  write_file(folder / "classes/a/x.jpg", "jpeg");
  std::filesystem::create_directory(folder / "flat");
  write_file(folder / "flat/x.jpg", "jpeg");
  write_file(folder / "flat/x.xml", annotation(object("cat")));
  for (const auto& [path, what] : {std::pair{"classes", "classes/a: cannot list the folder: Too many open files"},
                                   std::pair{"flat", "flat/x.xml: cannot open: Too many open files"}}) {
    CAPTURE(path);
    std::optional<NoMoreFiles> none;
    const auto fail = [&](std::uint64_t, std::uint64_t) {  // called after the folder itself was listed
      if (!none) none.emplace();
    };
    const std::string said =
        testing::error_of<ConfigError>([&] { (void)build_dataset(options_for(folder / path), fail); });
    none.reset();
    CHECK(contains(said, what));
    CHECK(contains(said, "build it again when the store is well"));
    CHECK(count_bad(*build_dataset(options_for(folder / path))) == 0);
  }
}

TEST_CASE("the tree of odd names") {
  const auto data = real_data();
  if (!data) return;
  const TemporaryDirectory folder;
  const std::string command =
      "tar -C '" + folder.path().string() + "' -xf '" + (*data / "made/names/tree.tar").string() + "' 2>/dev/null";
  if (std::system(command.c_str()) != 0) MESSAGE("tar complained");
  const auto dataset = build_dataset(options_for(folder.path()));
  CHECK(dataset->format() == "folder");
  CHECK(dataset->classes() == std::vector<std::string>{"n 04", "n01", "n02", "n03", "n05", "n06"});
  std::uint64_t readable = 0;
  for (std::uint64_t id = 0; id < dataset->size(); ++id) {
    const auto failure = failure_of(*dataset, id);
    readable += failure.reason.empty() ? 1 : 0;
    if (!failure.reason.empty()) CHECK(dataset->name(id).ends_with("dangling.jpg"));
  }
  CHECK(dataset->size() == readable + 2);  // the dangling link, and the same through the link n06
  CHECK(count_bad(*dataset) == 0);
}

// A program's dataset with its own read().
class OwnRead final : public testing::FakeDataset {
 public:
  explicit OwnRead(std::function<void(ReadTarget&)> read) : FakeDataset(1), read_(std::move(read)) {}
  void read(std::uint64_t /*id*/, ReadTarget& target) const override { read_(target); }

 private:
  std::function<void(ReadTarget&)> read_;
};

// Like a reader's target: what it throws for more than 100 bytes is not a std::exception, and must
// pass through the dataset.
struct Refusal {};
class SmallTarget final : public ReadTarget {
 public:
  std::span<std::byte> reserve(std::size_t bytes) override {
    if (bytes > 100) throw Refusal();
    memory_.resize(bytes);
    return memory_;
  }

 private:
  std::vector<std::byte> memory_;
};

TEST_CASE("no memory for a sample is a limit of the process, and no damage of the sample") {
  SmallTarget target;
  const auto dataset = guarded(std::make_shared<OwnRead>([](ReadTarget&) { throw std::bad_alloc(); }));
  try {
    dataset->read(0, target);
    FAIL("nothing was thrown");
  } catch (const SampleError& error) {
    FAIL(error.what());
  } catch (const Error& error) {
    CHECK(contains(error.what(), "no memory for read() of sample 0"));
  }
  if (testing::kSanitized) return;  // a sanitizer would end the process
  try {
    (void)memory_around_record(std::size_t{1} << 60U);
    FAIL("nothing was thrown");
  } catch (const SampleError& error) {
    FAIL(error.what());
  } catch (const Error& error) {
    CHECK(contains(error.what(), "bytes around a record"));
  }
}

TEST_CASE("what the reader's memory throws ends the read, whatever a program's dataset makes of it") {
  SmallTarget target;
  const auto read = [&](const std::function<void(ReadTarget&)>& own) {
    guarded(std::make_shared<OwnRead>(own))->read(0, target);
  };
  CHECK_THROWS_AS(read([](ReadTarget& to) { (void)to.reserve(101); }), Refusal);
  CHECK_THROWS_AS(read([](ReadTarget& to) {
                    try {
                      (void)to.reserve(101);
                    } catch (...) {
                      throw SampleError("could not be read");
                    }
                  }),
                  Refusal);
  CHECK_THROWS_AS(read([](ReadTarget& to) {
                    try {
                      (void)to.reserve(101);
                    } catch (...) {
                      throw std::runtime_error("no bytes");
                    }
                  }),
                  Refusal);
  CHECK_THROWS_AS(read([](ReadTarget& to) {
                    try {
                      (void)to.reserve(101);
                    } catch (...) {  // NOLINT(bugprone-empty-catch)
                    }
                  }),
                  Refusal);
  // If another reserve() succeeds, the read succeeds.
  CHECK_NOTHROW(read([](ReadTarget& to) {
    try {
      (void)to.reserve(101);
    } catch (...) {
      (void)to.reserve(100);
    }
  }));
  CHECK_THROWS_AS(read([](ReadTarget& to) {
                    (void)to.reserve(100);
                    throw std::runtime_error("torn");
                  }),
                  SampleError);
}

}  // namespace
}  // namespace forebay::test_dataset_odd
