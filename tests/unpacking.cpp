#include "pack_support.hpp"

#include <sys/resource.h>

#include <array>
#include <csignal>
#include <functional>

#include <forebay/error.hpp>

#include "archive/shard_writer.hpp"
#include "archive/unpack_names.hpp"
#include "support.hpp"

// Unpacking sets whose names are hostile, impossible, or not unique: below the folder, and the same whoever does it.

using namespace forebay;
using namespace forebay::testing;

namespace {

namespace fs = std::filesystem;

// Packs images with these names and bytes into DIR/out, in one shard.
void pack_named(const TemporaryDirectory& dir, const std::vector<std::pair<std::string, std::string>>& images) {
  for (std::size_t i = 0; i < images.size(); ++i) {
    write_file(dir / "in/cat" / (std::to_string(1'000'000 + i) + ".jpg"), images[i].second);
  }
  const DatasetOptions options = options_for(dir / "in");
  const auto dataset = build_dataset(options);
  const PackSettings settings = pack_settings(dir / "out", options);
  fs::create_directories(dir / "out");
  ShardWriter writer(*dataset, settings, {.set = {}, .firsts = {0, images.size()}}, 0, {});
  SamplePacker packer(*dataset, settings, {});
  for (std::uint64_t id = 0; id < images.size(); ++id) {
    writer.add(dataset->sample(id), images[id].first, packer.pack(id, false));
  }
  writer.finish();
}

}  // namespace

TEST_CASE("no name leads out of the folder") {
  for (const char* name : {"a", "a/b.jpg", "..a/b..", "...", ".hidden"}) CHECK(safe_name(name) == name);
  for (const char* name : {"", "/", "..", "../..", "./."}) CHECK(safe_name(name) == "");
  CHECK(safe_name("/etc/x") == "etc/x");
  CHECK(safe_name("../../x/../y//z/") == "x/y/z");
  CHECK(safe_name(std::string_view("a\0b", 3)) == "");
  CHECK(safe_name(std::string(300, 'x')) == "");
  CHECK(unpacked_name("cat/a.jpg", ".jpg") == "cat/a.jpg");
  CHECK(unpacked_name("cat/a.jpg#object 12", ".jpg") == "cat/a.jpg");
  CHECK(unpacked_name("cat/a #object x.jpg", ".jpg") == "cat/a #object x.jpg");
  CHECK(unpacked_name("x.tar[record 5, n01/a]", ".jpg") == "x.tar/n01/a.jpg");
  CHECK(unpacked_name("x.rec[record 5]", ".png") == "x.rec/00000005.png");
}

TEST_CASE("a set with hostile names is unpacked below the folder") {
  const TemporaryDirectory dir;
  std::vector<std::pair<std::string, std::string>> images;
  for (const std::string& name :
       {std::string("../../evil.jpg"), std::string("/tmp/forebay-evil.jpg"), std::string("b/../b.jpg"),
        std::string("a"), std::string("a/b.jpg"), std::string("x\0y", 3)}) {
    images.emplace_back(name, "bytes of " + name);
  }
  pack_named(dir, images);
  const UnpackReport report = unpack(dir / "out", dir / "below/again", 1, {});
  CHECK(report.files == 6);
  CHECK(report.failed.empty());
  CHECK(report.renamed == 2);  // what is below a file, and the one with a NUL
  CHECK(fs::exists(dir / "below/again/evil.jpg"));
  CHECK(fs::exists(dir / "below/again/tmp/forebay-evil.jpg"));
  CHECK_FALSE(fs::exists("/tmp/forebay-evil.jpg"));
  CHECK_FALSE(fs::exists(dir / "evil.jpg"));
  for (const auto& entry : fs::directory_iterator(dir / "below")) CHECK(entry.path().filename() == "again");
}

TEST_CASE("a file cannot take the place of the folder for files whose names are taken") {
  const TemporaryDirectory dir;
  pack_named(dir, {{"renamed", "one"}, {"a.jpg", "two"}, {"a.jpg", "three"}, {"renamed/x.jpg", "four"}});
  const UnpackReport report = unpack(dir / "out", dir / "again", 2, {});
  CHECK(report.files == 4);
  CHECK(report.renamed == 2);
  CHECK(files_below(dir / "again") ==
        std::map<std::string, std::string>{{"a.jpg", "two"},
                                           {"renamed/00000-of-00001.fbpack-0-0.bin", "one"},
                                           {"renamed/00000-of-00001.fbpack-2-0.bin", "three"},
                                           {"renamed/x.jpg", "four"}});
}

TEST_CASE("of files with one name the first gets it, whichever thread is faster; the same file is written once") {
  const TemporaryDirectory dir;
  std::vector<std::pair<std::string, std::string>> images;
  for (int i = 0; i < 60; ++i) {
    // The first of each is the longest, and takes longest to write.
    const std::string bytes = "image " + std::to_string(i % 6) + std::string(i < 6 ? 400'000 : 10, 'x');
    images.emplace_back(std::to_string(i % 3) + ".jpg", bytes);
    images.emplace_back("same.jpg", std::string(400'000, 's'));
  }
  pack_named(dir, images);
  const UnpackReport alone = unpack(dir / "out", dir / "alone", 1, {});
  CHECK(alone.files == 3 + 57 + 1);
  CHECK(alone.renamed == 57);
  const auto expected = files_below(dir / "alone");
  CHECK(expected.at("2.jpg").starts_with("image 2xxx"));
  for (int round = 0; round < 5; ++round) {
    CHECK(unpack(dir / "out", dir / "again", 8, {}).renamed == 57);
    CHECK(files_below(dir / "again") == expected);
    fs::remove_all(dir / "again");
  }
}

TEST_CASE("a name that the file system refuses costs the file its name, and no other file anything") {
  const TemporaryDirectory dir;
  std::string longest;
  for (int i = 0; i < 11; ++i) longest += std::string(250, static_cast<char>('a' + i)) + "/";
  pack_named(dir, {{"a.jpg", "one"}, {longest + "b.jpg", "two"}, {"c.jpg", "three"}});
  fs::path folder = dir / "again";
  for (int i = 0; i < 6; ++i) folder /= std::string(230, static_cast<char>('A' + i));
  const UnpackReport report = unpack(dir / "out", folder, 2, {});
  CHECK(report.failed.empty());
  CHECK(report.renamed == 1);
  CHECK(read_file(folder / "a.jpg") == "one");
  CHECK(read_file(folder / "c.jpg") == "three");
  CHECK(read_file(folder / "renamed/00000-of-00001.fbpack-1-0.bin") == "two");
}

TEST_CASE("a file that could not be written whole is not there") {
  const TemporaryDirectory dir;
  pack_named(dir, {{"a.jpg", std::string(100'000, 'x')}});
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto old = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 50'000;
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  const std::string problem = error_of([&] { return unpack(dir / "out", dir / "again", 1, {}); });
  CHECK(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  std::signal(SIGXFSZ, old);
  CHECK(contains(problem, "a.jpg: cannot write it"));
  CHECK(files_below(dir / "again").empty());
}
