#include <sys/stat.h>
#include <unistd.h>

#include "archive/part_file.hpp"
#include "archive/read_back.hpp"
#include "detection_support.hpp"
#include "every_container.hpp"
#include "memory_dataset.hpp"
#include "order/selection.hpp"
#include "pack_support.hpp"
#include "support.hpp"
#include "zip_files.hpp"

// Packing while a store fails, and again once it works: nothing that becomes readable later stays
// missing.

namespace forebay::test_pack_resumed {

using namespace forebay::archive;
using namespace forebay::testing;

namespace {

namespace fs = std::filesystem;

// A class folder whose reads fail like those of a store.
class FailingDataset final : public testing::LikeDataset {
 public:
  using Fails = std::function<std::optional<SampleError::Kind>(std::uint64_t id)>;
  FailingDataset(std::unique_ptr<Dataset> dataset, Fails fails)
      : LikeDataset(std::move(dataset)), fails_(std::move(fails)) {}

  void read(std::uint64_t id, ReadTarget& target) const override {
    if (const auto kind = fails_(id)) throw SampleError("cannot open: the store fails", *kind);
    LikeDataset::read(id, target);
  }

 private:
  Fails fails_;
};

PackReport packed(const DatasetOptions& options, const PackSettings& settings) {
  return pack_dataset(*build_dataset(options), settings, {});
}

}  // namespace

TEST_CASE("an image that can be read again is packed by the next run, and one that cannot leaves its shard as it was") {
  const TemporaryDirectory dir;
  const DatasetOptions options = class_folder(dir, 20);
  const PackSettings settings = [&] {
    PackSettings some = pack_settings(dir / "out", options);
    some.shard_bytes = 100;
    return some;
  }();
  const auto dataset = build_dataset(options);  // before the file is removed
  fs::rename(dir / "in/cat/8.jpg", dir / "8.jpg");
  const PackReport first = pack_dataset(*dataset, settings, {});
  REQUIRE(first.left_out.size() == 1);
  CHECK(first.shards > 2);

  const PackReport same = pack_dataset(*dataset, settings, {});
  CHECK(same.kept == first.shards);
  CHECK(same.left_out.size() == 1);

  fs::rename(dir / "8.jpg", dir / "in/cat/8.jpg");
  const PackReport mended = pack_dataset(*dataset, settings, {});
  CHECK(mended.written == 1);
  CHECK(mended.left_out.empty());
  CHECK(contents_of(*build_dataset(options_for(dir / "out"))) == contents_of(*dataset));
}

TEST_CASE("a pack's names begin with the folder that all files share, those that packing left out as well") {
  const TemporaryDirectory dir;
  const std::string gone = (dir / "gone.jpg").string();
  write_file(dir / "in/deep/0.jpg", "photo");
  write_file(dir / "lists/all.txt", gone + "\n" + (dir / "in/deep/0.jpg").string() + "\n");
  DatasetOptions options = options_for(dir / "lists/all.txt");
  REQUIRE(packed(options, pack_settings(dir / "out", options)).left_out.size() == 1);
  for (const char* path : {"lists/all.txt", "out"}) {
    options = options_for(dir / path);
    options.split = {1};
    const auto all = Selection::make(*build_dataset(options), options, 17, false);
    CHECK(all->folder() == gone.substr(0, gone.rfind('/') + 1));
  }
}

TEST_CASE("fields that are missing or empty are absent, and those that cannot be read are reported, until they can") {
  const TemporaryDirectory dir;
  for (int i = 0; i < 5; ++i) {
    write_file(dir / "in/photos" / (std::to_string(i) + ".jpg"), "photo");
    if (i != 1) write_file(dir / "in/photos" / (std::to_string(i) + ".txt"), i == 2 ? "" : "caption");
  }
  // A folder is as unreadable as a file without permissions, even for root.
  fs::remove(dir / "in/photos/3.txt");
  fs::create_directories(dir / "in/photos/3.txt");
  DatasetOptions options = options_for(dir / "in/photos", "folder");
  options.fields = {field_options("caption", FieldKind::bytes, "{stem}.txt")};
  options.fields[0].most = 20;
  PackSettings settings = pack_settings(dir / "out", options);
  const PackReport first = packed(options, settings);
  REQUIRE(first.lost_fields.size() == 1);
  CHECK(first.lost_fields[0].path == "3.jpg, field caption");
  CHECK(contains(first.lost_fields[0].reason, "is a directory"));
  const PackReport same = packed(options, settings);
  CHECK(same.kept == 1);
  CHECK(same.lost_fields.size() == 1);
  settings.allowed_bad = [](std::uint64_t) -> std::uint64_t { return 0; };
  CHECK(contains(error_of([&] { return packed(options, settings); }), "3.jpg, field caption: "));

  fs::remove(dir / "in/photos/3.txt");
  write_file(dir / "in/photos/3.txt", "mended");
  const PackReport mended = packed(options, settings);
  CHECK(mended.written == 1);
  CHECK(mended.lost_fields.empty());
}

TEST_CASE("an image or a field that changed has its shard packed again; a copy that is the same has not") {
  const TemporaryDirectory dir;
  DatasetOptions options = class_folder(dir, 20);
  for (int i = 0; i < 20; i += 2) write_file(dir / "captions" / (std::to_string(i) + ".txt"), "caption");
  options.fields = {field_options("caption", FieldKind::bytes, "../captions/{stem}.txt")};
  options.fields[0].most = 20;
  PackSettings settings = pack_settings(dir / "out", options);
  settings.shard_bytes = 100;
  const PackReport first = packed(options, settings);
  REQUIRE(first.shards > 3);
  CHECK(first.lost_fields.empty());
  const auto change = [&](const std::string& name) {
    std::string bytes = read_text(dir / "in" / name);
    bytes.back() = '!';
    write_file(dir / "in" / name, bytes);
  };
  change("cat/6.jpg");
  change("dog/deep/13.jpg");
  // As in a copy of the set that has lost its times.
  fs::last_write_time(dir / "out/manifest.json", fs::file_time_type::clock::now() + std::chrono::hours(1));
  const auto dataset = build_dataset(options);
  const auto changed_names = [&] {
    const PackReport report = pack_dataset(*dataset, settings, {});
    CHECK(report.written == report.changed.size());
    std::vector<std::string> names;
    for (const Skipped& each : report.changed) names.push_back(each.path);
    return names;
  };
  CHECK(changed_names() == std::vector<std::string>{"cat/6.jpg", "dog/deep/13.jpg"});
  change("../captions/8.txt");
  CHECK(changed_names() == std::vector<std::string>{"cat/8.jpg"});
  DatasetOptions now = options_for(dir / "out");
  now.fields = options.fields;
  CHECK(contents_of(*build_dataset(now)) == contents_of(*dataset));

  fs::copy(dir / "in", dir / "copy", fs::copy_options::recursive);
  fs::remove_all(dir / "in");
  CHECK(changed_names().empty());  // they are gone
  fs::rename(dir / "copy", dir / "in");
  CHECK(changed_names().empty());
}

TEST_CASE(
    "what lies in another folder is compared whatever its times, and so is a container that was written in place") {
  const TemporaryDirectory dir;
  const auto write_tar = [&](const std::string& folder, char last) {
    const std::string first = tar_sample("0", std::string(10'000, '0'), "1");
    write_file(dir / folder / "x.tar", first + tar_sample("1", std::string("photo ") + last, "1") + tar_end());
    return options_for(dir / folder / "x.tar");
  };
  const PackSettings settings = pack_settings(dir / "out", write_tar("in", 'a'));
  CHECK(packed(write_tar("in", 'a'), settings).written == 1);
  CHECK(packed(write_tar("in", 'b'), settings).changed.size() == 1);
  std::string manifest = read_text(dir / "out/manifest.json");
  write_file(dir / "out/manifest.json", manifest.replace(manifest.find("begun\": ") + 8, 1, "9"));
  CHECK(packed(write_tar("in", 'c'), settings).kept == 1);
  CHECK(packed(write_tar("other", 'c'), settings).changed.size() == 1);
}

TEST_CASE("an array in an archive that changed is packed again") {
  const TemporaryDirectory dir;
  const auto write_depth = [&](const std::string& pixels) {
    write_file(dir / "in/photos/0.npz", zip_of({{"depth.npy", npy_of_bytes("(2, 2)", pixels)}}));
  };
  write_file(dir / "in/photos/0.jpg", "photo");
  write_depth("abcd");
  DatasetOptions options = options_for(dir / "in/photos", "folder");
  options.fields = {field_options("depth", FieldKind::array, "{stem}.npz:depth")};
  options.fields[0].shape = {2, 2};
  const PackSettings settings = pack_settings(dir / "out", options);
  (void)packed(options, settings);
  CHECK(packed(options, settings).kept == 1);
  write_depth("efgh");
  CHECK(packed(options, settings).changed.size() == 1);
  DatasetOptions now = options_for(dir / "out");
  now.fields = options.fields;
  CHECK(contents_of(*build_dataset(now)) == contents_of(*build_dataset(options)));
}

TEST_CASE("all samples of an image that cannot be read count as bad") {
  const TemporaryDirectory dir;
  for (const char* name : {"a", "b", "c"}) {
    write_file(dir / "in/JPEGImages" / (std::string(name) + ".jpg"), *name == 'b' ? "" : "photo");
    std::string objects;
    for (int i = 0; i < 4; ++i) objects += object("dog");
    write_file(dir / "in/Annotations" / (std::string(name) + ".xml"), annotation(objects));
  }
  DatasetOptions options = options_for(dir / "in", "voc");
  options.samples = SampleUnit::objects;
  PackSettings settings = pack_settings(dir / "out", options);
  settings.coefficients = false;
  settings.allowed_bad = [](std::uint64_t) -> std::uint64_t { return 3; };
  CHECK(contains(error_of([&] { return packed(options, settings); }), "4 of 12 samples"));
  settings.allowed_bad = [](std::uint64_t) -> std::uint64_t { return 4; };
  CHECK(packed(options, settings).left_out.size() == 4);
  CHECK(packed(options, settings).kept == 1);
}

TEST_CASE("what another process has still to write again is not held against the set") {
  const TemporaryDirectory dir;
  const DatasetOptions options = class_folder(dir, 20);
  std::atomic<bool> is_broken{true};
  const FailingDataset dataset(build_dataset(options), [&](std::uint64_t id) {
    return is_broken && (id == 16 || id == 17) ? std::optional(SampleError::Kind::permanent) : std::nullopt;
  });
  PackSettings settings = pack_settings(dir / "out", options);
  settings.coefficients = false;
  settings.shard_bytes = 350;
  REQUIRE(pack_dataset(dataset, settings, {}).shards == 2);
  settings.allowed_bad = [](std::uint64_t) -> std::uint64_t { return 1; };
  settings.parts = 2;
  CHECK(contains(error_of([&] { return pack_dataset(dataset, settings, {}); }), "2 of 20 samples"));
  is_broken = false;
  CHECK(pack_dataset(dataset, settings, {}).kept == 1);
  write_file(dir / "out/00001-of-00002.fbpack", "damaged");
  CHECK(pack_dataset(dataset, settings, {}).kept == 1);
  settings.part = 1;
  CHECK(pack_dataset(dataset, settings, {}).written == 1);
  CHECK(build_dataset(options_for(dir / "out"))->size() == 20);
}

TEST_CASE("of several processes, the one that ends last counts what is bad in all shards") {
  const TemporaryDirectory dir;
  const DatasetOptions options = class_folder(dir, 20);
  const FailingDataset dataset(build_dataset(options), [&](std::uint64_t id) {
    return id == 3 || id == 17 ? std::optional(SampleError::Kind::permanent) : std::nullopt;
  });
  PackSettings settings = pack_settings(dir / "out", options);
  settings.coefficients = false;
  settings.shard_bytes = 350;
  (void)pack_dataset(dataset, settings, {});
  const auto expected = files_below(dir / "out");
  REQUIRE(expected.size() == 3);
  for (const char* name : {"00000-of-00002.fbpack", "00001-of-00002.fbpack"}) fs::remove(dir / "out" / name);
  settings.allowed_bad = [](std::uint64_t) -> std::uint64_t { return 1; };
  settings.parts = 2;
  CHECK(pack_dataset(dataset, settings, {}).left_out.size() == 1);
  settings.part = 1;
  CHECK(contains(error_of([&] { return pack_dataset(dataset, settings, {}); }), "2 of 20 samples"));
  CHECK(files_below(dir / "out") == expected);
}

TEST_CASE("packing ends when more is bad than may be, before the shard is there or a plan is made of it") {
  const TemporaryDirectory dir;
  const DatasetOptions options = class_folder(dir, 20);
  std::atomic<bool> is_broken{true};
  const FailingDataset dataset(build_dataset(options), [&](std::uint64_t id) {
    return is_broken && id >= 4 && id < 8 ? std::optional(SampleError::Kind::permanent) : std::nullopt;
  });
  PackSettings settings = pack_settings(dir / "out", options);
  settings.shard_bytes = 60;
  settings.allowed_bad = [](std::uint64_t) -> std::uint64_t { return 3; };
  // During planning, which needs the sizes.
  const std::string problem = error_of([&] { return pack_dataset(dataset, settings, {}); });
  CHECK(contains(problem, "4 of 20 samples could not be read"));
  CHECK_FALSE(fs::exists(dir / "out/manifest.json"));

  is_broken = false;
  settings.coefficients = false;
  (void)pack_dataset(dataset, settings, {});
  const auto expected = files_below(dir / "out");
  for (const auto& [name, bytes] : expected) {
    if (name.ends_with(".fbpack")) fs::remove(dir / "out" / name);
  }
  // And during packing.
  is_broken = true;
  CHECK(contains(error_of([&] { return pack_dataset(dataset, settings, {}); }), "4 of 20 samples"));
  is_broken = false;
  (void)pack_dataset(dataset, settings, {});
  CHECK(files_below(dir / "out") == expected);
}

TEST_CASE("a store that fails for a moment is asked again, and one that goes on failing ends the plan and the tables") {
  const TemporaryDirectory dir;
  const DatasetOptions options = class_folder(dir, 6);
  PackSettings settings = pack_settings(dir / "expected", options);
  settings.shard_bytes = 60;
  settings.patience = kBriefly;
  std::atomic<int> failures{0};
  std::atomic<std::uint64_t> reads{0};
  const FailingDataset dataset(build_dataset(options), [&](std::uint64_t id) {
    ++reads;
    const bool fails = id == 3 && failures > 0;
    if (fails) --failures;
    return fails ? std::optional(SampleError::Kind::transient) : std::nullopt;
  });
  (void)pack_dataset(dataset, settings, {});
  const auto expected = shards_below(dir / "expected");

  settings.out = dir / "out";
  failures = 2;
  (void)pack_dataset(dataset, settings, {});
  CHECK(shards_below(dir / "out") == expected);

  settings.out = dir / "failed";
  failures = 4;  // for all attempts
  CHECK(contains(error_of([&] { return pack_dataset(dataset, settings, {}); }), ".jpg: cannot open: the store fails"));
  CHECK_FALSE(fs::exists(dir / "failed/manifest.json"));
  (void)pack_dataset(dataset, settings, {});
  fs::remove(dir / "failed/codec.tables");
  failures = 4;
  CHECK(error_of([&] { return pack_dataset(dataset, settings, {}); }) != "");
  CHECK_FALSE(fs::exists(dir / "failed/codec.tables"));
}

TEST_CASE("a record that the store does not give is no damage") {
  const TemporaryDirectory dir;
  (void)packed_options(class_folder(dir, 6), dir / "out", 1 << 20U);
  ReadShard shard = read_shard_back(dir / "out", "00000-of-00001.fbpack");
  shard.patience = kBriefly;
  REQUIRE(::truncate((dir / "out/00000-of-00001.fbpack").c_str(), 4096) == 0);  // while it is open
  bool is_damage = false;
  const std::string problem = error_of([&] {
    try {
      return RecordReader(shard).read(2);
    } catch (const SampleError&) {
      is_damage = true;
      throw;
    }
  });
  CHECK(contains(problem, "run the command again"));
  CHECK_FALSE(is_damage);
}

TEST_CASE("a file that several processes make is made once, has the first one's bytes, and leaves nothing beside it") {
  const TemporaryDirectory dir;
  const fs::path file = dir / "out/shared";
  fs::create_directories(dir / "out");
  write_file(dir / "out/shared.0123456789abcdef", "of one that was killed");
  write_file(dir / "out/shared.fedcba9876543210.aZ09bY", "");
  write_file(dir / "out/shared.part", "");
  write_file(dir / "out/shared.bak", "somebody's own");
  std::atomic<int> made{0};
  {
    std::vector<std::jthread> processes;
    for (int i = 0; i < 4; ++i) {
      processes.emplace_back([&] {
        make_shared_file(file, [&] {
          ++made;
          return std::vector<std::byte>(1000, std::byte{7});
        });
      });
    }
  }
  CHECK(made == 1);
  // Without locks: another process makes the file at the same time.
  fs::remove(file);
  make_shared_file(file, [&] {
    write_file(file, "the first one's");
    write_file(dir / "out/shared.fedcba9876543210", "of one that was killed then");
    return std::vector<std::byte>(1000, std::byte{8});
  });
  CHECK(files_below(dir / "out") ==
        std::map<std::string, std::string>{{"shared", "the first one's"}, {"shared.bak", "somebody's own"}});
}

}  // namespace forebay::test_pack_resumed
