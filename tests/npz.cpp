// Datasets of NumPy arrays, and arrays in .npz archives as files of samples and fields.
#include <forebay/feeder.hpp>

#include "container_files.hpp"
#include "data/npy.hpp"
#include "dataset_support.hpp"
#include "sha256.hpp"
#include "test.hpp"
#include "zip_files.hpp"

namespace forebay::test_npz {

using namespace forebay::data;

namespace {

using namespace testing;

std::string values(std::size_t count) {
  std::string bytes(count, '\0');
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<char>(i * 7);
  return bytes;
}

// Three images of 2 x 4, with labels 2, 0 and 1.
const std::string kImages = npy_of("|u1", "(3, 2, 4)", values(24));
const std::string kLabels = npy_of("<i8", "(3,)", little(2, 8) + little(0, 8) + little(1, 8));

void check_is_sound(const std::filesystem::path& path, const DatasetOptions& more = {}) {
  DatasetOptions options = more;
  options.path = path.string();
  const auto dataset = build_dataset(options);
  CHECK(dataset->format() == "npy");
  REQUIRE(dataset->size() == 3);
  CHECK(dataset->classes() == std::vector<std::string>{"0", "1", "2"});
  for (std::uint64_t id = 0; id < 3; ++id) {
    CHECK(read_sample(*dataset, id) == values(24).substr(id * 8, 8));
    CHECK(dataset->sample(id).label == std::array{2, 0, 1}[id]);
  }
  const Sample sample = dataset->sample(0);
  CHECK(sample.height == 2);
  CHECK(sample.width == 4);
  CHECK(sample.channels == 1);
  const auto restored = restore_dataset(dataset->serialize(), "test");
  CHECK(read_sample(*restored, 2) == values(24).substr(16, 8));
}

std::string refusal(const TemporaryDirectory& folder, const std::string& content, const DatasetOptions& more = {}) {
  write_file(folder / "refused.npz", content);
  DatasetOptions options = more;
  options.path = (folder / "refused.npz").string();
  options.format = "npy";
  return build_error(options);
}

FieldOptions place(const std::string& name, const std::string& from) { return {.name = name, .from = from}; }

TEST_CASE("an archive or a file of images is a dataset, with the labels that go with it") {
  const TemporaryDirectory folder;
  const std::vector<testing::ZipMember> members{{"x_train.npy", kImages}, {"y_train.npy", kLabels}};
  for (const bool deflate : {false, true}) {
    for (const bool wide : {false, true}) {
      CAPTURES(deflate, wide);
      write_file(folder / "data.npz", zip_of(members, {.deflate = deflate, .wide = wide, .comment = "PK\5\6 hello"}));
      check_is_sound(folder / "data.npz");
    }
  }
  write_file(folder / "images.npy", kImages);
  write_file(folder / "labels.npy", kLabels);
  check_is_sound(folder / "images.npy");
  write_file(folder / "pixels.npy", kImages);
  DatasetOptions options;
  options.labels = (folder / "labels.npy").string();
  check_is_sound(folder / "pixels.npy", options);
  options.labels = (folder / "data.npz:y_train").string();
  check_is_sound(folder / "pixels.npy", options);
  options.labels.clear();
  options.fields = {place("image", "b"), place("label", "c")};
  write_file(folder / "odd.npz", zip_of({{"a.npy", kLabels}, {"b.npy", kImages}, {"c.npy", kLabels}}));
  check_is_sound(folder / "odd.npz", options);
}

TEST_CASE("images may have channels last or first, and labels any whole numbers") {
  const TemporaryDirectory folder;
  const auto sample_of = [&](const std::string& shape) {
    write_file(folder / "x.npy", npy_of("|u1", shape, values(24)));
    write_file(folder / "y.npy", npy_of(">f4", "(2, 1)", std::string("\x3f\x80\0\0\xbf\x80\0\0", 8)));
    const auto dataset = build_dataset(options_for(folder / "x.npy"));
    CHECK(dataset->sample(0).label == 1);
    CHECK(dataset->sample(1).label == -1);
    CHECK(read_sample(*dataset, 1) == values(24).substr(12));
    return dataset->sample(1);
  };
  const Sample last = sample_of("(2, 2, 2, 3)");
  CHECK(last.channels == 3);
  CHECK_FALSE(last.planar);
  const Sample first = sample_of("(2, 3, 1, 4)");
  CHECK(first.channels == 3);
  CHECK(first.planar);
  CHECK(first.width == 4);
  CHECK(sample_of("(2, 1, 3, 4)").channels == 1);
  CHECK(sample_of("(2, 4, 3)").width == 3);
}

TEST_CASE("other arrays are fields") {
  const TemporaryDirectory folder;
  std::string masks;
  for (int i = 0; i < 24; ++i) masks += static_cast<char>(i % 5);
  const std::string ages =
      npy_of("<f8", "(3,)",
             std::string("\0\0\0\0\0\0\xf0\x3f", 8) + std::string(8, '\0') + std::string("\0\0\0\0\0\0\0\x40", 8));
  const std::vector<testing::ZipMember> members{
      {"x.npy", kImages},
      {"y.npy", kLabels},
      {"age.npy", ages},
      {"mask.npy", npy_of("|u1", "(3, 2, 4)", masks)},
      {"hot.npy", npy_of("|b1", "(3, 2)", std::string("\1\0\0\1\1\1", 6))},
      {"grid.npy", npy_of(">i2", "(3, 2)", std::string("\0\1\0\2\0\3\0\4\0\5\0\6", 12))},
      {"far.npy", npy_of("<f4", "(2,)", values(8))}};
  write_file(folder / "data.npz", zip_of(members, {.deflate = true}));
  Options options;
  options.device = "host";
  options.dataset.path = (folder / "data.npz").string();
  options.dataset.index = (folder / "index").string();
  options.dataset.batch_size = 3;
  options.dataset.shuffle = false;
  options.dataset.fields = {
      {.name = "age", .kind = FieldKind::numbers},
      {.name = "mask", .kind = FieldKind::mask},
      {.name = "hot", .kind = FieldKind::multilabel, .classes = {"a", "b"}},
      {.name = "cells", .from = "grid", .kind = FieldKind::array, .dtype = DType::int32, .shape = {2}},
      {.name = "again", .from = "x", .kind = FieldKind::image, .dtype = DType::uint8, .channels = 1},
      {.name = "site", .from = "y", .kind = FieldKind::class_number}};
  options.transform.crop = Crop::none;
  options.transform.mirror = 0;
  options.transform.size = {2, 4};
  options.transform.dtype = DType::uint8;
  options.transform.channels = 1;
  options.telemetry.dir = "";
  for (int time = 0; time < 2; ++time) {
    Feeder feeder(options);
    const auto batch = feeder.next();
    REQUIRE(batch);
    REQUIRE(batch->images().shape == Shape{3, 1, 2, 4});
    for (std::size_t i = 0; i < 3; ++i) {
      const std::size_t id = batch->ids()[i];
      const auto is = [&](const char* name, std::size_t bytes, const std::string& expected) {
        return std::string(batch->field(name).as<char>() + i * bytes, bytes) == expected;
      };
      CHECK(is("image", 8, values(24).substr(8 * id, 8)));
      CHECK(is("again", 8, values(24).substr(8 * id, 8)));
      CHECK(is("mask", 8, masks.substr(8 * id, 8)));
      CHECK(batch->field("age").as<float>()[i] == std::array{1.0F, 0.0F, 2.0F}[id]);
      CHECK(batch->field("hot").as<float>()[2 * i] == std::array{1.0F, 0.0F, 1.0F}[id]);
      CHECK(batch->field("cells").as<std::int32_t>()[2 * i] == static_cast<std::int32_t>(2 * id + 1));
      CHECK(batch->field("site").as<std::int64_t>()[i] == batch->labels()[i]);
    }
    CHECK_FALSE(feeder.next());
  }
  // An archive with a changed label is a different one.
  std::vector<testing::ZipMember> changed = members;
  changed[1].contents.back() = '\0';
  changed[1].contents[changed[1].contents.size() - 8] = '\2';
  write_file(folder / "data.npz", zip_of(changed, {.deflate = true}));
  CHECK(contains(error_of([&] { Feeder feeder(options); }), "other contents of the arrays"));
  options.dataset.index.clear();
  options.dataset.fields = {{.name = "far", .kind = FieldKind::array, .shape = {1}}};
  CHECK(contains(error_of([&] { Feeder feeder(options); }), "array \"far\" of shape (2,) for 3 images"));
  options.dataset.fields = {{.name = "near", .kind = FieldKind::mask}};
  CHECK(contains(error_of([&] { Feeder feeder(options); }), "has no \"near\"; it has \"x\", \"y\""));
}

TEST_CASE("an array of an archive may be the file of a field, or an image") {
  const TemporaryDirectory folder;
  for (const std::string name : {"a", "b"}) {
    const bool deflate = name == "a";
    write_file(folder / (name + ".npz"), zip_of({{"rgb.npy", npy_of("|u1", "(2, 4)", values(8))},
                                                 {"depth.npy", npy_of("<f4", "(2, 4)", values(32))}},
                                                {.deflate = deflate}));
    write_file(folder / (name + "1.npz"), zip_of({{"only.npy", npy_of("<i4", "(1,)", little(7, 4))}}));
  }
  write_file(folder / "list.txt", "a.npz:rgb 0\nb.npz:rgb 1\n");
  DatasetOptions options = options_for(folder / "list.txt", "filelist");
  options.fields = {
      {.name = "depth", .from = "{stem}.npz:depth", .kind = FieldKind::array, .shape = {2, 4}},
      {.name = "one", .from = "{stem}1.npz:", .kind = FieldKind::array, .dtype = DType::int32, .shape = {1}}};
  const auto dataset = build_dataset(options);
  REQUIRE(dataset->size() == 2);
  for (std::uint64_t id = 0; id < 2; ++id) {
    CHECK(read_sample(*dataset, id) == npy_of("|u1", "(2, 4)", values(8)));
    Reading field;
    dataset->read_field(id, 0, field);
    CHECK(field.text() == npy_of("<f4", "(2, 4)", values(32)));
    dataset->read_field(id, 1, field);
    CHECK(field.text() == npy_of("<i4", "(1,)", little(7, 4)));
  }
  options.fields = {{.name = "depth", .from = "{stem}.npz:", .kind = FieldKind::array, .shape = {2, 4}}};
  const auto unclear = build_dataset(options);
  Reading field;
  CHECK(contains(error_of([&] { unclear->read_field(0, 0, field); }), "say which of its arrays is meant"));
  options.fields[0].from = "{stem}.npz:deep";
  const auto missing = build_dataset(options);
  CHECK(contains(error_of([&] { missing->read_field(0, 0, field); }), "no array \"deep\" in it; it has rgb, depth"));
}

TEST_CASE("an archive that is not sound is refused, with the member and the byte") {
  const TemporaryDirectory folder;
  const std::vector<testing::ZipMember> members{{"x.npy", kImages}, {"y.npy", kLabels}};
  CHECK(contains(refusal(folder, zip_of(members, {.flags = 1})), "member \"x.npy\" at byte 0: it is encrypted"));
  CHECK(contains(refusal(folder, zip_of(members, {.method = 14})), "compressed by method 14"));
  CHECK(contains(refusal(folder, zip_of(members, {.overlap = true})), "overlap another member"));
  CHECK(contains(refusal(folder, zip_of(members, {.claims = 1000})), "stored bytes are to be 1000"));
  CHECK(contains(refusal(folder, zip_of(members, {.deflate = true, .wide = true, .claims = 1'000'000'000'000})),
                 "cannot be 1000000000000"));
  CHECK(contains(refusal(folder, zip_of(members, {.deflate = true, .claims = 60})), "damaged: it is longer than"));
  CHECK(contains(refusal(folder, zip_of(members, {.deflate = true, .claims = 5000})), "can be inflated"));
  const std::string whole = zip_of(members);
  CHECK(contains(refusal(folder, whole.substr(0, whole.size() - 1)), "ends without its directory"));
  std::string flipped = zip_of(members, {.deflate = false});
  flipped[flipped.find("PK\1\2") - 1] ^= 1;  // the last byte of the last label
  CHECK(contains(refusal(folder, flipped), "its checksum is wrong"));
  CHECK(contains(refusal(folder, zip_of({{"x.npy", npy_of("|O", "(1,)", "x")}})), "pickled Python objects"));
  CHECK(contains(refusal(folder, zip_of({{"p.npy", kImages}, {"q.npy", kLabels}})),
                 "which of its arrays has the images"));
  CHECK(contains(refusal(folder, zip_of({{"x.npy", npy_of("<f4", "(1, 2, 2)", values(16))}})), "images are uint8"));
  CHECK(contains(refusal(folder, zip_of({{"x.npy", npy_of("|u1", "(2, 2, 2)", values(8), true)}})),
                 "save it in C order"));
  CHECK(
      contains(refusal(folder, zip_of({{"x.npy", npy_of("|u1", "(2, 2)", values(4))}})), "images are (number, height"));
  CHECK(contains(refusal(folder, zip_of({{"x.npy", npy_of("|u1", "(0, 2, 2)", "")}})), "1 to 2^32 - 1 images"));
  CHECK(contains(refusal(folder, zip_of({{"x.npy", npy_of("|u1", "(9, 2, 2)", values(4))}})),
                 "it ends early: 4 of the 36"));
  const auto with_labels = [&](const std::string& labels) { return zip_of({{"x.npy", kImages}, {"y.npy", labels}}); };
  DatasetOptions wanted;
  wanted.fields = {place("label", "y")};
  const auto labels_refusal = [&](const std::string& labels) { return refusal(folder, with_labels(labels), wanted); };
  CHECK(contains(labels_refusal(npy_of("|u1", "(2,)", values(2))), "of shape (2,) for 3 images"));
  CHECK(contains(labels_refusal(npy_of("|u1", "(3, 2)", values(6))), "of kind \"multilabel\""));
  CHECK(contains(labels_refusal(npy_of("|u1", "(3, 2)", std::string("\1\0\1\1\0\1", 6))), "or one-hot rows"));
  CHECK(contains(labels_refusal(npy_of("<i4", "(3,)", values(12))), "is no class from 0 to 65535"));
  CHECK(contains(labels_refusal(npy_of("<u8", "(3,)", std::string(24, '\xff'))),
                 "label 18446744073709551615 is no class from 0 to 65535"));
  CHECK(contains(labels_refusal(npy_of(">U1", "(3,)", values(12))), "elements of type \">U1\""));
  CHECK(contains(labels_refusal(npy_of("|S3", "(3,)",
                                       "0.5"
                                       "1.5"
                                       "2.5")),
                 "a number with a fraction"));
  DatasetOptions named;
  named.classes = {"a", "b"};
  CHECK(contains(refusal(folder, with_labels(kLabels), named), "label 2 is no class from 0 to 1 (image 0)"));
}

TEST_CASE("an array that only its name makes labels is left alone where it is a field, or no class numbers") {
  const TemporaryDirectory folder;
  const std::string path = (folder / "set.npz").string();
  for (const std::string& labels :
       {npy_of("|u1", "(3, 2)", std::string("\1\0\1\1\0\1", 6)), npy_of("<f4", "(3,)", values(12)),
        npy_of("|u1", "(3, 2, 4)", values(24)), npy_of(">U1", "(3,)", values(12)), npy_of("|u1", "(2,)", values(2))}) {
    write_file(path, zip_of({{"arr_0.npy", kImages}, {"arr_1.npy", labels}}));
    const auto dataset = build_dataset(options_for(path));
    REQUIRE(dataset->size() == 3);
    CHECK(dataset->sample(0).label == -1);
    CHECK(dataset->sample(2).label == -1);
    CHECK(dataset->classes().empty());
    REQUIRE(dataset->skipped().size() == 1);
    CHECK_FALSE(dataset->skipped()[0].bad);
    CHECK(dataset->skipped()[0].told);
    CHECK(contains(dataset->skipped()[0].reason, "no sample has a label, all are -1: array \"arr_1\""));
  }
  // An array named as a field is nothing else, even if its numbers could be classes.
  write_file(path, zip_of({{"x.npy", kImages}, {"y.npy", kLabels}}));
  DatasetOptions options = options_for(path);
  options.fields = {{.name = "age", .from = "y", .kind = FieldKind::numbers}};
  const auto dataset = build_dataset(options);
  CHECK(dataset->sample(0).label == -1);
  CHECK(dataset->classes().empty());
  // A damaged array is never taken for another kind of array.
  std::string flipped = zip_of({{"x.npy", kImages}, {"y.npy", kLabels}});
  flipped[flipped.find("PK\1\2") - 1] ^= 1;
  CHECK(contains(refusal(folder, flipped), "its checksum is wrong"));
}

TEST_CASE("what is wrong with the labels of a file names that file and its key") {
  const FolderOf folder{{"pixels.npy", kImages}, {"labels.npy", npy_of("|u1", "(2,)", values(2))}};
  DatasetOptions options = options_for(folder / "pixels.npy");
  options.labels = (folder / "labels.npy").string();
  CHECK(build_error(options) ==
        "dataset.labels = \"" + options.labels + "\": array \"labels\" of shape (2,) for 3 images");
}

TEST_CASE("numbers from 2^63 on are refused, not served as negative ones") {
  const TemporaryDirectory folder;
  const std::string numbers = little(1, 8) + little(UINT64_MAX, 8) + little(2, 8);
  DatasetOptions options;
  options.fields = {{.name = "n", .kind = FieldKind::numbers, .dtype = DType::int64}};
  const std::string archive = zip_of({{"x.npy", kImages}, {"n.npy", npy_of("<u8", "(3,)", numbers)}});
  CHECK(contains(refusal(folder, archive, options), "array \"n\": entry 1 has 18446744073709551615"));
}

TEST_CASE("an archive takes no memory for what its members claim") {
  const TemporaryDirectory folder;
  // The lie concerns an array that is not served, and then a sample.
  constexpr std::int64_t kClaims = std::int64_t{1} << 30;
  const std::vector<testing::ZipMember> members{{"big.npy", kLabels}, {"x.npy", kImages}};
  for (const bool deflate : {false, true}) {
    CAPTURE(deflate);
    const std::string archive = zip_of(members, {.deflate = deflate, .claims = kClaims});
    CHECK(contains(refusal(folder, archive), deflate ? "cannot be 1073741824" : "stored bytes are to be 1073741824"));
    write_file(folder / "a.npz", archive);
    write_file(folder / "list.txt", "a.npz:big 0\n");
    const auto dataset = build_dataset(options_for(folder / "list.txt", "filelist"));
    Reading reading;
    CHECK(contains(error_of([&] { dataset->read(0, reading); }), "1073741824"));
    CHECK(reading.text().empty());
  }
  for (const ZipRecipe& recipe :
       {ZipRecipe{.flags = 1, .claims = kClaims}, ZipRecipe{.method = 14, .claims = kClaims}}) {
    write_file(folder / "a.npz", zip_of(members, recipe));
    const auto dataset = build_dataset(options_for(folder / "list.txt", "filelist"));
    Reading reading;
    CHECK(contains(error_of([&] { dataset->read(0, reading); }), "member \"big.npy\""));
    CHECK(reading.text().empty());
  }
}

TEST_CASE("archives that other programs wrote are read") {
  const auto data = real_data();
  if (!data) return;
  const TemporaryDirectory folder;
  for (const std::string name : {"stored", "deflated"}) {
    CAPTURE(name);
    DatasetOptions options = options_for(folder / (name + ".txt"), "filelist");
    write_file(options.path, (*data / "made/npy" / (name + ".npz:x")).string() + "\n" +
                                 (*data / "made/npy" / (name + ".npz:y")).string() + "\n");
    const auto dataset = build_dataset(options);
    REQUIRE(dataset->size() == 2);
    CHECK(read_sample(*dataset, 0).starts_with("\x93NUMPY"));
    CHECK(read_sample(*dataset, 0).size() == 296);
    CHECK(read_sample(*dataset, 1).size() == 168);
  }
}

// Arrays in NumPy's format: what is read, what is refused and why.

namespace fs = std::filesystem;

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

// A file with this header and `count` bytes of elements: 0, 1, 2, ...
std::string file_of(const std::string& header, std::size_t count, int version = 1) {
  std::string file = "\x93NUMPY";
  file += static_cast<char>(version);
  file += '\0';
  for (unsigned i = 0; i < (version == 1 ? 2U : 4U); ++i) file += static_cast<char>(header.size() >> (8 * i) & 0xffU);
  file += header;
  for (std::size_t i = 0; i < count; ++i) file += static_cast<char>(i);
  return file;
}

std::string refusal(const std::string& file) {
  return error_of([&] { (void)parse_npy(bytes_of(file)); });
}

std::string in_c_order(const NpyArray& array) {
  std::string copy(array.elements.size(), '\0');
  forebay::data::copy_in_c_order(array, std::as_writable_bytes(std::span(copy)));
  return copy;
}

TEST_CASE("an array is copied in C order and this machine's byte order") {
  const std::string plain = file_of("{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3), }", 12);
  CHECK(parse_npy(bytes_of(plain)).dtype() == "int16");
  CHECK(parse_npy(bytes_of(plain)).shape_text() == "(2, 3)");
  CHECK(in_c_order(parse_npy(bytes_of(plain))) == std::string("\0\1\2\3\4\5\6\7\x08\x09\x0a\x0b", 12));
  const std::string fortran = file_of("{'descr': '<i2', 'fortran_order': True, 'shape': (2, 3), }", 12);
  CHECK(in_c_order(parse_npy(bytes_of(fortran))) == std::string("\0\1\4\5\x08\x09\2\3\6\7\x0a\x0b", 12));
  const std::string big = file_of("{'descr': '>i2', 'fortran_order': True, 'shape': (2, 3), }", 12);
  CHECK(in_c_order(parse_npy(bytes_of(big))) == std::string("\1\0\5\4\x09\x08\3\2\7\6\x0b\x0a", 12));
}

TEST_CASE("headers that Python may write are read in all versions") {
  for (const int version : {1, 2, 3}) {
    const std::string file = file_of("{ \"shape\" :(3L,), 'fortran_order':False,'descr':'|u1'}   \n", 5, version);
    const NpyArray array = parse_npy(bytes_of(file));
    CHECK(array.dimensions == 1);
    CHECK(array.count() == 3);
    CHECK(array.shape_text() == "(3,)");
  }
  CHECK(parse_npy(bytes_of(file_of("{'descr': '<f4', 'fortran_order': False, 'shape': (), }", 4))).count() == 1);
  CHECK(parse_npy(bytes_of(file_of("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 5), }", 0))).count() == 0);
}

TEST_CASE("what is refused says why") {
  const auto header = [](const std::string& type, const std::string& shape) {
    return "{'descr': " + type + ", 'fortran_order': False, 'shape': " + shape + ", }";
  };
  CHECK(contains(refusal(file_of(header("'|O'", "(2,)"), 16)), "pickled Python objects, which are never loaded"));
  CHECK(contains(refusal(file_of(header("[('a', '<i4')]", "(2,)"), 16)), "array of records"));
  CHECK(contains(refusal(file_of(header("'<U5'", "(2,)"), 40)), "elements of type \"<U5\""));
  CHECK(contains(refusal(file_of(header("'<c8'", "(2,)"), 16)), "elements of type \"<c8\""));
  CHECK(contains(refusal(file_of(header("'<i3'", "(2,)"), 6)), "elements of type \"<i3\""));
  CHECK(contains(refusal(file_of(header("'<i4'", "(2, 2)"), 15)), "the file ends early: 15 of the 16 bytes"));
  CHECK(contains(refusal(file_of(header("'<i4'", "(-1, 2)"), 8)), "damaged header: the shape"));
  CHECK(contains(refusal(file_of(header("'<i4'", "(99999999999999999999,)"), 8)), "damaged header: the shape"));
  CHECK(contains(refusal(file_of(header("'<i4'", "(4294967296, 4294967296)"), 8)), "larger than any file"));
  CHECK(contains(refusal(file_of(header("'<i4'", "(1,1,1,1,1,1,1,1,1)"), 8)), "more than 8 dimensions"));
  CHECK(contains(refusal(file_of("{'descr': '<i4'}", 8)), "must be there once each"));
  CHECK(contains(refusal(file_of("{'descr': '<i4', 'descr': '<i4', 'shape': (1,)}", 8)), "must be there once each"));
  CHECK(contains(refusal(file_of("__import__('os')", 8)), "damaged header"));
  CHECK(contains(refusal(file_of(header("'<i4'", "(1,)"), 8, 9)), "version 9"));
  CHECK(contains(refusal("\x93NUMPY\1"), "ends in its header"));
  CHECK(contains(refusal("hello"), "does not begin as an array"));
  std::string long_header = file_of(header("'<i4'", "(1,)"), 4);
  long_header[9] = '\x7f';
  CHECK(contains(refusal(long_header), "ends in its header"));
}

TEST_CASE("arrays that other programs wrote are what truth says") {
  const auto data = forebay::testing::real_data();
  if (!data) return;
  std::ifstream table(*data / "truth/made.tsv");
  std::size_t read = 0;
  std::size_t refused = 0;
  for (std::string line; std::getline(table, line);) {
    if (!line.starts_with("made/npy/")) continue;
    const std::string path = line.substr(0, line.find('\t'));
    CAPTURE(path);
    const std::string content = read_text(*data / path);
    const std::string reason = refusal(content);
    CAPTURE(reason);
    const bool must_fail = contains(line, "\tcorrupt\t") || contains(line, "\trefuse\t");
    if (must_fail) CHECK(reason != "");
    if (contains(line, "\tvalid\t")) CHECK(reason == "");
    (reason.empty() ? read : refused) += 1;
    const auto sum = line.find("sha256 ");
    if (!reason.empty() || sum == std::string::npos) continue;
    const NpyArray array = parse_npy(bytes_of(content));
    // The sum is of the elements as stored; Fortran order is first converted to C order.
    const std::string stored(reinterpret_cast<const char*>(array.elements.data()), array.elements.size());
    CHECK(forebay::testing::sha256(array.fortran_order ? in_c_order(array) : stored) == line.substr(sum + 7, 64));
  }
  CHECK(read > 0);
  CHECK(refused > 0);
}

}  // namespace
}  // namespace forebay::test_npz
