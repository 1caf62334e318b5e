// Packs datasets and reads them: the samples are the same, the shards are the same however they
// were made, and the files are restored.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>
#include <csignal>
#include <random>

#include "archive/read_back.hpp"
#include "archive/shard_writer.hpp"
#include "archive/unpack.hpp"
#include "base/crc32c.hpp"
#include "detection_support.hpp"
#include "every_container.hpp"
#include "pack_support.hpp"
#include "ranks/lost_part.hpp"
#include "support.hpp"

namespace forebay::test_packing {

using namespace forebay::archive;
using namespace forebay::data;
using namespace forebay::order;

namespace {

using namespace forebay::testing;

namespace fs = std::filesystem;

// Images with mask files, arrays, and captions, of which some are missing.
DatasetOptions folder_with_fields(const TemporaryDirectory& dir) {
  for (int i = 0; i < 9; ++i) {
    const std::string stem = std::to_string(i);
    write_file(dir / "in/photos" / (stem + ".jpg"), "photo " + stem);
    write_file(dir / "in/masks" / (stem + ".png"), "mask " + stem + std::string(static_cast<std::size_t>(i), 'm'));
    if (i != 4) write_file(dir / "in/photos" / (stem + ".txt"), i == 5 ? "" : "a caption of " + stem);
  }
  DatasetOptions options = options_for(dir / "in/photos", "folder");
  options.fields = {field_options("mask", FieldKind::mask, "../masks/{stem}.png"),
                    field_options("caption", FieldKind::bytes, "{stem}.txt")};
  options.fields[1].most = 20;
  return options;
}

DatasetOptions voc(const TemporaryDirectory& dir, SampleUnit samples) {
  for (const char* name : {"a", "b", "c", "d"}) {
    write_file(dir / "in/JPEGImages" / (std::string(name) + ".jpg"), std::string("photo ") + name);
    write_file(dir / "in/SegmentationClass" / (std::string(name) + ".png"), std::string("mask ") + name);
    const std::string second = object("cat", bndbox("3", "4", "50", "60"), "<difficult>1</difficult>");
    write_file(dir / "in/Annotations" / (std::string(name) + ".xml"),
               annotation(object("dog") + (*name == 'b' ? "" : second)));
  }
  DatasetOptions options = options_for(dir / "in", "voc");
  options.samples = samples;
  options.fields = {field_options("mask", FieldKind::mask, "SegmentationClass/{stem}.png")};
  if (samples == SampleUnit::images) options.fields.push_back(boxes_field());
  return options;
}

void check_round_trip(const DatasetOptions& options, const fs::path& out) {
  const DatasetOptions packed = packed_options(options, out, 2);
  check_same_data(*build_dataset(options), *build_dataset(packed));
  const PackCheck check = check_pack(out, 2, {});
  CHECK(check.damaged.empty());
  CHECK(check.shards > 1);
}

TEST_CASE("a packed dataset has the samples, names, labels and fields of the one it was made from") {
  SUBCASE("class folders") {
    const TemporaryDirectory dir;
    check_round_trip(class_folder(dir), dir / "out");
  }
  SUBCASE("masks, captions, some of them missing") {
    const TemporaryDirectory dir;
    check_round_trip(folder_with_fields(dir), dir / "out");
  }
  SUBCASE("objects of Pascal VOC, cut out, with masks") {
    const TemporaryDirectory dir;
    check_round_trip(voc(dir, SampleUnit::objects), dir / "out");
  }
  SUBCASE("images of Pascal VOC with boxes and masks") {
    const TemporaryDirectory dir;
    check_round_trip(voc(dir, SampleUnit::images), dir / "out");
  }
  SUBCASE("every container") {
    for (const ContainerKind& kind : every_container()) {
      CAPTURE(kind.name);
      const TemporaryDirectory dir;
      for (const auto& [name, content] : kind.files_of(20)) write_file(dir / "in" / name, content);
      DatasetOptions options = options_for(dir / "in" / kind.path);
      Options all;
      add_fields(all, kind);
      options.fields = all.dataset.fields;
      check_round_trip(options, dir / "out");
    }
  }
}

TEST_CASE("objects of one image share its bytes in the shard") {
  const TemporaryDirectory dir;
  (void)packed_options(voc(dir, SampleUnit::objects), dir / "out", 1 << 20U);
  const ReadShard shard = read_shard_back(dir / "out", "00000-of-00001.fbpack");
  CHECK(shard.index.offset.size() == 7);
  CHECK(std::set(shard.index.offset.begin(), shard.index.offset.end()).size() == 4);
}

TEST_CASE("classes that are given decide the labels of a packed set, too") {
  const TemporaryDirectory dir;
  DatasetOptions packed = packed_options(class_folder(dir), dir / "out");
  packed.classes = {"dog", "cat"};
  const auto turned = build_dataset(packed);
  CHECK(turned->classes() == packed.classes);
  for (std::uint64_t id = 0; id < turned->size(); ++id) {
    CHECK(turned->sample(id).label == (SampleNames(*turned).of(id).starts_with("dog") ? 0 : 1));
  }
  packed.classes = {"dog"};
  const auto dogs = build_dataset(packed);
  CHECK(dogs->size() == 6);
  CHECK(count_bad(*dogs) == 0);  // as for the folder
}

TEST_CASE("a packed mask knows its colours") {
  const TemporaryDirectory dir;
  DatasetOptions options = folder_with_fields(dir);
  options.fields[0].colours = {"0,0,0", "255,0,0=7", "other=255"};
  DatasetOptions packed = packed_options(options, dir / "out");
  packed.fields[0].colours.clear();
  const auto colours = [&] { return build_dataset(packed)->fields()[0].colours; };
  CHECK(colours() == options.fields[0].colours);
  packed.fields[0].colours = {"9,9,9"};
  CHECK(colours() == packed.fields[0].colours);
}

TEST_CASE("sections that do not fit what was packed are refused") {
  const TemporaryDirectory dir;
  DatasetOptions packed = packed_options(voc(dir, SampleUnit::images), dir / "out");
  CHECK(build_dataset(packed)->fields().size() == 2);
  const auto refused = [&](auto&& change) {
    DatasetOptions options = packed;
    change(options);
    return build_error(options);
  };
  CHECK(contains(refused([](auto& options) { options.fields[0].kind = FieldKind::image; }), "fields.mask.kind"));
  CHECK(contains(refused([](auto& options) { options.fields[0].name = "other"; }), "boxes"));
  CHECK(contains(refused([](auto& options) { options.classes = {"dog", "cat"}; }), "fields.boxes"));
  const std::string renamed = refused([](auto& options) {
    options.fields = {field_options("seg", FieldKind::mask, "mask")};
    options.samples = SampleUnit::objects;
  });
  CHECK(renamed == "");
  const std::string chosen = refused([](auto& options) {
    for (const char* name : {"image", "label"}) options.fields.push_back({.name = name, .from = "x"});
  });
  CHECK(chosen == "");  // the section with which it was packed
  const auto tells = [](const DatasetOptions& options) {
    return std::ranges::any_of(build_dataset(options)->skipped(), &Skipped::told);
  };
  packed.difficult = false;
  CHECK(tells(packed));
  const TemporaryDirectory easy;
  DatasetOptions without = voc(easy, SampleUnit::images);
  without.difficult = false;
  CHECK_FALSE(tells(packed_options(without, easy / "out")));
  const TemporaryDirectory objects;
  DatasetOptions cut_out = packed_options(voc(objects, SampleUnit::objects), objects / "out");
  cut_out.samples = SampleUnit::images;
  CHECK(contains(build_error(cut_out), "dataset.samples"));
  cut_out.samples = SampleUnit::objects;
  cut_out.difficult = false;
  CHECK(build_dataset(cut_out)->size() == 4);
}

TEST_CASE("a set from which one image was left out serves the others") {
  const TemporaryDirectory dir;
  const DatasetOptions options = class_folder(dir, 60);
  write_file(dir / "in/cat/0.jpg", "");
  PackSettings settings = pack_settings(dir / "out", options);
  settings.shard_bytes = 300;
  CHECK(pack_dataset(*build_dataset(options), settings, {}).left_out.size() == 1);
  const auto packed = build_dataset(options_for(dir / "out"));
  CHECK(packed->size() == 59);
  CHECK(count_bad(*packed) == 1);
  CHECK(!ranks::LostParts(*packed).unreadable_file());
}

TEST_CASE("shards do not depend on threads, on parts, or on how often packing began anew") {
  const TemporaryDirectory dir;
  const DatasetOptions options = class_folder(dir, 60);
  const auto dataset = build_dataset(options);
  PackSettings settings = pack_settings(dir / "once", options);
  settings.shard_bytes = 300;
  settings.threads = 1;
  const PackReport once = pack_dataset(*dataset, settings, {});
  CHECK(once.shards > 4);
  const auto expected = shards_below(dir / "once");

  settings.out = dir / "threads";
  settings.threads = 7;
  (void)pack_dataset(*dataset, settings, {});
  CHECK(shards_below(dir / "threads") == expected);

  settings.out = dir / "parts";
  settings.parts = 3;
  for (const std::uint32_t part : {2U, 0U, 1U}) {
    settings.part = part;
    const PackReport report = pack_dataset(*dataset, settings, {});
    CHECK(report.written >= once.shards / 3);
    const bool is_whole = part == 1;
    CHECK((build_error(options_for(dir / "parts")) == "") == is_whole);
  }
  CHECK(shards_below(dir / "parts") == expected);

  // Some shards are missing, one is damaged, one is unfinished, and one belongs to another set.
  settings.parts = 1;
  settings.part = 0;
  const std::string last = pack_shard_name(once.shards - 1, once.shards);
  fs::remove(dir / "parts" / pack_shard_name(1, once.shards));
  fs::resize_file(dir / "parts" / pack_shard_name(2, once.shards), 5000);
  write_file(dir / "parts" / (pack_shard_name(1, once.shards) + ".part"), std::string(100'000, 'x'));
  write_file(dir / "parts" / last, read_text(dir / "once" / pack_shard_name(0, once.shards)));
  const PackReport again = pack_dataset(*dataset, settings, {});
  CHECK(again.written == 3);
  CHECK(again.kept == once.shards - 3);
  CHECK(shards_below(dir / "parts") == expected);
}

TEST_CASE("several processes at once make one set") {
  const TemporaryDirectory dir;
  const DatasetOptions options = class_folder(dir, 40);
  const auto dataset = build_dataset(options);
  PackSettings settings = pack_settings(dir / "out", options);
  settings.shard_bytes = 200;
  settings.threads = 1;
  settings.parts = 4;
  std::atomic<std::uint32_t> written{0};
  {
    std::vector<std::jthread> processes;
    for (std::uint32_t part = 0; part < 4; ++part) {
      processes.emplace_back([&, part] {
        PackSettings own = settings;
        own.part = part;
        written += pack_dataset(*dataset, own, {}).written;
      });
    }
  }
  settings.parts = 1;
  CHECK(pack_dataset(*dataset, settings, {}).kept == written);
  settings.out = dir / "alone";
  (void)pack_dataset(*dataset, settings, {});
  CHECK(shards_below(dir / "out") == shards_below(dir / "alone"));
}

TEST_CASE("a folder with anything else in it is left alone") {
  const TemporaryDirectory dir;
  const DatasetOptions options = class_folder(dir);
  const auto dataset = build_dataset(options);
  write_file(dir / "full/notes.txt", "notes");
  write_file(dir / "full/manifest.json.part", "a download");
  CHECK(contains(error_of([&] { return pack_dataset(*dataset, pack_settings(dir / "full", options), {}); }),
                 "is not empty"));
  CHECK(files_below(dir / "full").size() == 2);
  CHECK(read_text(dir / "full/manifest.json.part") == "a download");

  PackSettings settings = pack_settings(dir / "out", options);
  (void)pack_dataset(*dataset, settings, {});
  settings.shard_bytes /= 2;
  CHECK(contains(error_of([&] { return pack_dataset(*dataset, settings, {}); }), "other options"));
  settings.shard_bytes *= 2;
  const std::string sound = read_text(dir / "out/manifest.json");
  const auto with_samples = [&](const std::string& number) {
    std::string text = sound;
    return text.replace(text.find("\"samples\": 12,") + 11, 2, number);
  };
  for (const std::string& text : {std::string("{\"set\": 3"), with_samples("-12"), with_samples("1e300"),
                                  with_samples("12.5"), with_samples("13"), with_samples("18446744073709551616")}) {
    write_file(dir / "out/manifest.json", text);
    CHECK(contains(error_of([&] { return pack_dataset(*dataset, settings, {}); }), "manifest.json"));
  }
}

TEST_CASE("an image that cannot be read is left out, named, and counts as bad") {
  const TemporaryDirectory dir;
  const DatasetOptions options = class_folder(dir, 10);
  const auto dataset = build_dataset(options);
  fs::remove(dir / "in/cat/4.jpg");
  const PackReport report = pack_dataset(*dataset, pack_settings(dir / "out", options), {});
  REQUIRE(report.left_out.size() == 1);
  CHECK(report.left_out[0].path == "cat/4.jpg");
  const auto packed = build_dataset(options_for(dir / "out"));
  CHECK(packed->size() == 9);
  CHECK(find_skipped(*packed, "[cat/4.jpg]") != nullptr);
}

TEST_CASE("a saved index of a packed set says when the set is another") {
  const TemporaryDirectory dir;
  DatasetOptions packed = packed_options(class_folder(dir), dir / "out");
  packed.index = (dir / "saved.index").string();
  CHECK(open_dataset(packed)->size() == 12);
  fs::remove_all(dir / "out");
  write_file(dir / "in/cat/new.jpg", "other bytes");
  (void)packed_options(options_for(dir / "in"), dir / "out", 1 << 20U);
  CHECK(contains(error_of([&] { return open_dataset(packed); }), "was built from other data"));
}

TEST_CASE("images are stored as pixels, the longer side as long as asked for at most") {
  const FolderOf dir{{"in/a/wide.npy", grey_npy(40, 10, 90)},
                     {"in/a/high.npy", grey_npy(8, 32, 17)},
                     {"in/b/small.npy", grey_npy(5, 3, 200)},
                     {"in/b/damaged.npy", "\x93NUMPY"}};
  const DatasetOptions options = options_for(dir / "in");
  PackSettings settings = pack_settings(dir / "out", options);
  settings.pixels = 16;
  const PackReport report = pack_dataset(*build_dataset(options), settings, {});
  CHECK(report.tally.pixels == 3);
  CHECK(report.tally.as_is == 1);
  const auto packed = build_dataset(options_for(dir / "out"));
  std::map<std::string, std::string> shapes;
  for (std::uint64_t id = 0; id < packed->size(); ++id) {
    const Sample sample = packed->sample(id);
    shapes[SampleNames(*packed).of(id)] = std::to_string(sample.width) + "x" + std::to_string(sample.height);
    if (sample.encoding != Encoding::raw) continue;
    const std::string pixels = read_sample(*packed, id);
    CHECK(pixels.size() == static_cast<std::size_t>(3 * sample.width * sample.height));
    CHECK(pixels == std::string(pixels.size(), pixels[0]));
  }
  CHECK(shapes ==
        std::map<std::string, std::string>{
            {"a/wide.npy", "16x4"}, {"a/high.npy", "4x16"}, {"b/small.npy", "5x3"}, {"b/damaged.npy", "0x0"}});
  write_file(dir / "in/a/wide.npy", grey_npy(40, 10, 91));
  const PackReport changed = pack_dataset(*build_dataset(options), settings, {});
  REQUIRE(changed.changed.size() == 1);
  CHECK(changed.changed[0].path == "a/wide.npy");
  const UnpackReport unpacked = unpack(dir / "out", dir / "again", 2, {});
  CHECK(unpacked.pixels == 3);
  CHECK(unpacked.files == 1);

  const TemporaryDirectory other;
  const DatasetOptions masks = folder_with_fields(other);
  settings.out = other / "out";
  CHECK(
      contains(error_of([&] { return pack_dataset(*build_dataset(masks), settings, {}); }), "\"mask\" has their size"));
}

TEST_CASE("unpacking gives the files back, byte by byte, where they were") {
  SUBCASE("class folders") {
    const TemporaryDirectory dir;
    (void)packed_options(class_folder(dir), dir / "out");
    const UnpackReport report = unpack(dir / "out", dir / "again", 3, {});
    CHECK(report.files == 12);
    CHECK(report.failed.empty());
    CHECK(files_below(dir / "again") == files_below(dir / "in"));
    CHECK(contains(error_of([&] { return unpack(dir / "out", dir / "again", 1, {}); }), "is not empty"));
  }
  SUBCASE("images with annotations and masks") {
    const TemporaryDirectory dir;
    (void)packed_options(voc(dir, SampleUnit::objects), dir / "out");
    CHECK(unpack(dir / "out", dir / "again", 3, {}).files == 8);
    fs::remove_all(dir / "in/Annotations");
    CHECK(files_below(dir / "again") == files_below(dir / "in"));
  }
  SUBCASE("fields that lie beside the folder do not become classes beside others") {
    const TemporaryDirectory dir;
    (void)packed_options(folder_with_fields(dir), dir / "out");
    const UnpackReport report = unpack(dir / "out", dir / "again", 3, {});
    CHECK(report.renamed == 0);
    CHECK(report.fields == 9);
    CHECK(read_text(dir / "again/7.txt") == "a caption of 7");
    CHECK(read_text(dir / "again/fields/mask/masks/7.png") == read_text(dir / "in/masks/7.png"));
  }
  SUBCASE("records of a tar, CIFAR") {
    const TemporaryDirectory dir;
    write_file(dir / "in/x.tar",
               tar_sample("n01/a", "\xFF\xD8\xFF one", "3") + tar_sample("b", "\x89PNG two", "4") + tar_end());
    (void)packed_options(options_for(dir / "in/x.tar"), dir / "out");
    (void)unpack(dir / "out", dir / "again", 3, {});
    CHECK(files_below(dir / "again") ==
          std::map<std::string, std::string>{{"x.tar/n01/a.jpg", "\xFF\xD8\xFF one"}, {"x.tar/b.png", "\x89PNG two"}});
    const auto plane = [](char value) { return std::string(1024, value); };
    const std::string record = '\3' + plane('r') + plane('g') + plane('b');
    write_file(dir / "cifar/data_batch_1.bin", record + record);
    (void)packed_options(options_for(dir / "cifar"), dir / "packed");
    CHECK(unpack(dir / "packed", dir / "raw", 3, {}).labels == 2);
    const auto arrays = files_below(dir / "raw");
    REQUIRE(arrays.size() == 2);
    CHECK(arrays.contains("data_batch_1.bin/00000001.npy"));
    const std::string& array = arrays.begin()->second;
    CHECK(contains(array, "'descr': '|u1', 'fortran_order': False, 'shape': (32, 32, 3)"));
    CHECK(array.size() == 128 + 3072);
    CHECK(array.substr(128, 6) == "rgbrgb");
    CHECK(build_dataset(options_for(dir / "raw"))->size() == 2);
  }
}

TEST_CASE("a set may have 65,536 shapes of raw images, and no more") {
  const TemporaryDirectory dir;
  const auto dataset = build_dataset(class_folder(dir, 2));
  const PackSettings settings = pack_settings(dir / "out", {});
  fs::create_directories(settings.out);
  PackedSample packed;
  packed.image = {std::byte{1}};
  packed.stored = PackStored::pixels;
  packed.hash = hash128(packed.image);
  ShardWriter writer(*dataset, settings, {.set = {}, .firsts = {0, 65'536}}, 0, {});
  const auto add = [&](std::int32_t shape) {
    packed.kind = {.encoding = Encoding::raw, .width = 1 + shape % 1000, .height = 1 + shape / 1000, .channels = 3};
    writer.add(dataset->sample(0), std::to_string(shape), packed);
  };
  for (std::int32_t shape = 0; shape < 65'536; ++shape) add(shape);
  CHECK(contains(error_of([&] {
                   add(65'536);
                   return 0;
                 }),
                 "more than 65536 shapes"));
}

// Unpacks sets whose names are hostile, impossible or not unique: always below the folder, and with
// the same result for any number of threads.

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
  CHECK(report.renamed == 2);  // the one below a file, and the one with a NUL
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
    // The first file of each name is the longest, so it takes longest to write.
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
  CHECK(read_text(folder / "a.jpg") == "one");
  CHECK(read_text(folder / "c.jpg") == "three");
  CHECK(read_text(folder / "renamed/00000-of-00001.fbpack-1-0.bin") == "two");
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

}  // namespace
}  // namespace forebay::test_packing
