#include <forebay/field.hpp>

#include "container_files.hpp"
#include "dataset_support.hpp"
#include "test.hpp"

// Features, members and labels of containers as fields of a batch.

namespace forebay::test_container_fields {

using namespace forebay::testing;

namespace {

FieldOptions field(const std::string& name, FieldKind kind, const std::string& from = "") {
  FieldOptions options;
  options.name = name;
  options.from = from;
  options.kind = kind;
  return options;
}

std::string read_field(const Dataset& dataset, std::uint64_t id, std::size_t number) {
  Reading reading;
  dataset.read_field(id, number, reading);
  return reading.text();
}

// A section that only tells where the image or the label is.
FieldOptions place(const std::string& name, const std::string& from) {
  FieldOptions options;
  options.name = name;
  options.from = from;
  return options;
}

template <typename Element>
std::vector<Element> elements(const Dataset& dataset, std::uint64_t id, std::size_t number) {
  const std::string bytes = read_field(dataset, id, number);
  std::vector<Element> values(bytes.size() / sizeof(Element));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

struct Made {
  TemporaryDirectory folder;
  DatasetOptions options;

  Made(const std::string& name, const std::string& content, std::vector<FieldOptions> fields) {
    write_file(folder / name, content);
    options = options_for(folder / name);
    options.fields = std::move(fields);
  }
  [[nodiscard]] std::unique_ptr<Dataset> build() const {
    return restore_dataset(build_dataset(options)->serialize(), "memory");
  }
};

}  // namespace

TEST_CASE("features of an Example are fields by name") {
  const std::string one = example({{"image/encoded", bytes_feature({kJpeg})},
                                   {"image/class/label", int64_feature({1})},
                                   {"image/height", int64_feature({100})},
                                   {"image/width", int64_feature({200})},
                                   {"age", float_feature({7.5F})},
                                   {"scores", float_feature({1, 2, 3})},
                                   {"kind", bytes_feature({"cat"})},
                                   {"tags", bytes_feature({"cat", "dog"})},
                                   {"hot", int64_feature({0, 1, 1})},
                                   {"mask.png", bytes_feature({"a mask"})},
                                   {"image/object/bbox/xmin", float_feature({0.1F, 0})},
                                   {"image/object/bbox/ymin", float_feature({0.2F, 0})},
                                   {"image/object/bbox/xmax", float_feature({0.5F, 1})},
                                   {"image/object/bbox/ymax", float_feature({0.5F, 1})},
                                   {"image/object/class/label", int64_feature({3, 1})}});
  FieldOptions scores = field("scores", FieldKind::numbers);
  scores.shape = {3};
  scores.dtype = DType::float64;
  FieldOptions kind = field("kind", FieldKind::class_number);
  kind.classes = {"dog", "cat"};
  FieldOptions tags = field("tags", FieldKind::multilabel);
  FieldOptions hot = field("hot", FieldKind::multilabel);
  tags.classes = hot.classes = {"dog", "bird", "cat"};
  FieldOptions boxes = field("boxes", FieldKind::boxes, "image/object/bbox");
  boxes.most = 8;
  const Made made(
      "x.tfrecord", tf_record(one) + tf_record(image_example(kJpeg, 0)),
      {field("age", FieldKind::numbers), scores, kind, tags, hot, field("mask", FieldKind::mask, "mask.png"), boxes});
  const auto dataset = made.build();
  REQUIRE(dataset->size() == 1);
  CHECK(contains(skip_reason(*dataset, "[record 1]"), "field \"age\" is no feature \"age\" of the Example"));
  CHECK(dataset->fields().size() == 7);
  CHECK(elements<float>(*dataset, 0, 0) == std::vector<float>{7.5F});
  CHECK(elements<double>(*dataset, 0, 1) == std::vector<double>{1, 2, 3});
  CHECK(elements<std::int64_t>(*dataset, 0, 2) == std::vector<std::int64_t>{1});
  CHECK(elements<float>(*dataset, 0, 3) == std::vector<float>{1, 0, 1});
  CHECK(elements<float>(*dataset, 0, 4) == std::vector<float>{0, 1, 1});
  CHECK(read_field(*dataset, 0, 5) == "a mask");
  const auto found = elements<LabelledBox>(*dataset, 0, 6);
  REQUIRE(found.size() == 2);
  CHECK(found[0].left == doctest::Approx(20));
  CHECK(found[0].bottom == doctest::Approx(50));
  CHECK(found[0].label == 3);
  CHECK(found[1] == LabelledBox{.left = 0, .top = 0, .right = 200, .bottom = 100, .label = 1});
}

TEST_CASE("all samples together say whether a list of zeros and ones has class numbers or a bit for each class") {
  using Sets = std::vector<std::vector<std::int64_t>>;
  const auto read = [](const Sets& lists, std::vector<std::string> classes, bool warns = false) {
    std::string records;
    for (const auto& list : lists) {
      records += tf_record(example({{"image/encoded", bytes_feature({kJpeg})},
                                    {"image/class/label", int64_feature({0})},
                                    {"tags", int64_feature(list)}}));
    }
    FieldOptions tags = field("tags", FieldKind::multilabel);
    tags.classes = std::move(classes);
    const Made made("x.tfrecord", records, {tags});
    const auto dataset = made.build();
    Sets found;
    for (std::uint64_t id = 0; id < dataset->size(); ++id) {
      const auto bits = elements<float>(*dataset, id, 0);
      found.emplace_back(bits.begin(), bits.end());
    }
    const auto is_of_two_kinds = [](const Skipped& entry) {
      return contains(entry.reason, "are taken for class numbers");
    };
    CHECK(std::ranges::any_of(dataset->skipped(), is_of_two_kinds) == warns);
    if (found.size() < lists.size()) {
      CHECK(
          contains(skip_reason(*dataset, "[record 1]"), "field \"tags\" has class numbers, where others have a zero"));
    }
    return found;
  };
  CHECK(read({{0}, {1}, {0, 1}, {1, 0}, {}}, {"a", "b"}) == Sets{{1, 0}, {0, 1}, {1, 1}, {1, 1}, {0, 0}});
  CHECK(read({{0, 0}, {0, 1}, {1, 0}, {}}, {"a", "b"}) == Sets{{0, 0}, {0, 1}, {1, 0}, {0, 0}});
  CHECK(read({{0}, {1}, {}}, {"a"}) == Sets{{0}, {1}, {0}});
  CHECK(read({{0, 0, 1}, {2, 0}, {1, 1, 1}}, {"a", "b", "c"}, true) == Sets{{1, 1, 0}, {1, 0, 1}, {0, 1, 0}});
  Sets damaged(20, {0, 1, 1});
  damaged[1] = {1, 0};
  CHECK(read(damaged, {"a", "b", "c"}) == Sets(19, {0, 1, 1}));
  damaged[2] = damaged[3] = {0, 1};
  CHECK(read(damaged, {"a", "b", "c"}, true) == Sets(20, {1, 1, 0}));
}

TEST_CASE("a configuration says which feature or member is the image and which the label") {
  const std::string images = example({{"image/encoded", bytes_feature({kJpeg})},
                                      {"right", bytes_feature({kJpeg + "right"})},
                                      {"label", int64_feature({1})},
                                      {"coarse", int64_feature({2})}});
  const Made record("x.tfrecord", tf_record(images), {place("image", "right"), place("label", "coarse")});
  CHECK(read_sample(*record.build(), 0) == kJpeg + "right");
  CHECK(record.build()->sample(0).label == 2);
  const Made archive(
      "x.tar", tar_member("a.jpg", kJpeg) + tar_member("a.depth.png", "depth") + tar_member("a.json", R"({"age": 4})"),
      {place("image", "depth.png"), place("label", "json.age")});
  CHECK(read_sample(*archive.build(), 0) == "depth");
  CHECK(archive.build()->sample(0).label == 4);
}

TEST_CASE("members of a tar's samples are fields by what stands behind the dot") {
  const std::string json = R"({"age": 3, "size": [1, 2.5], "boxes": [[0, 1, 10, 11, 2], [5, 5, 6, 6]], "tag": "cat"})";
  FieldOptions size = field("size", FieldKind::numbers, "json.size");
  size.shape = {2};
  FieldOptions boxes = field("boxes", FieldKind::boxes, "json.boxes");
  boxes.most = 4;
  FieldOptions tag = field("tag", FieldKind::class_number, "json.tag");
  tag.classes = {"dog", "cat"};
  FieldOptions words = field("words", FieldKind::bytes, "txt");
  words.most = 100;
  FieldOptions findings = field("findings", FieldKind::multilabel, "findings");
  findings.classes = {"a", "b", "c"};
  FieldOptions gaze = field("gaze", FieldKind::numbers, "gaze.txt");
  gaze.shape = {3};
  const Made made("x.tar",
                  tar_member("s.jpg", kJpeg) + tar_member("s.json", json) + tar_member("s.seg.png", "mask") +
                      tar_member("s.txt", "a caption") + tar_member("s.findings", "c|a\n") +
                      tar_member("s.gaze.txt", "1 2.5,3\n") + tar_member("t.jpg", kJpeg) + tar_member("t.json", json),
                  {field("mask", FieldKind::mask, "seg.png"), field("age", FieldKind::numbers, "json.age"), size, boxes,
                   tag, words, findings, gaze});
  const auto dataset = made.build();
  REQUIRE(dataset->size() == 1);
  CHECK(contains(skip_reason(*dataset, "[record 1, t]"),
                 "field \"mask\" is no member .seg.png of the sample (it has .jpg, .json)"));
  CHECK(read_field(*dataset, 0, 0) == "mask");
  CHECK(elements<float>(*dataset, 0, 1) == std::vector<float>{3});
  CHECK(elements<float>(*dataset, 0, 2) == std::vector<float>{1, 2.5F});
  CHECK(elements<LabelledBox>(*dataset, 0, 3) == std::vector<LabelledBox>{{0, 1, 10, 11, 2}, {5, 5, 6, 6, -1}});
  CHECK(elements<std::int64_t>(*dataset, 0, 4) == std::vector<std::int64_t>{1});
  CHECK(read_field(*dataset, 0, 5) == "a caption");
  CHECK(elements<float>(*dataset, 0, 6) == std::vector<float>{1, 0, 1});
  CHECK(elements<float>(*dataset, 0, 7) == std::vector<float>{1, 2.5F, 3});
}

TEST_CASE("a second picture is a feature of an Example, a member of a tar, or a column of a table") {
  FieldOptions right = field("right", FieldKind::image, "right.png");
  right.channels = 1;
  right.std = {9, 9, 9};
  const auto check = [](const Dataset& dataset) {
    REQUIRE(dataset.size() == 1);
    CHECK(read_field(dataset, 0, 0) == "another");
    CHECK(dataset.fields()[0].kind == FieldKind::image);
    CHECK(dataset.fields()[0].shape == Shape{1});
    CHECK(dataset.fields()[0].std[0] == 9);
  };
  const std::string one = example({{"image/encoded", bytes_feature({kJpeg})},
                                   {"image/class/label", int64_feature({1})},
                                   {"right.png", bytes_feature({"another"})}});
  check(*Made("x.tfrecord", tf_record(one), {right}).build());
  check(*Made("x.tar", tar_member("s.jpg", kJpeg) + tar_member("s.right.png", "another"), {right}).build());
  const Made table("x.csv", "image,right.png\na.jpg,b.png\n", {right});
  const std::filesystem::path folder = std::filesystem::path(table.options.path).parent_path();
  write_file(folder / "a.jpg", kJpeg);
  write_file(folder / "b.png", "another");
  check(*table.build());
}

TEST_CASE("labels of a RecordIO record are numbers; other fields are refused with the name that there is") {
  FieldOptions labels = field("angles", FieldKind::numbers, "label");
  labels.shape = {3};
  const std::string records =
      record_part(image_record(kJpeg, std::vector<float>{1, 2.5F, -1})) + record_part(image_record(kJpeg, 4.0F));
  const Made made("x.rec", records, {labels});
  const auto dataset = made.build();
  REQUIRE(dataset->size() == 1);
  CHECK(elements<float>(*dataset, 0, 0) == std::vector<float>{1, 2.5F, -1});
  CHECK(contains(skip_reason(*dataset, "[record 1]"), "field \"angles\" has 1 numbers where 3 are expected"));
  const Made other("x.rec", records, {field("mask", FieldKind::mask, "mask.png")});
  CHECK(contains(error_of([&] { (void)other.build(); }),
                 "the format \"recordio\" has no \"mask.png\"; it has \"label\""));
  const Made lmdb("data.mdb", LmdbFile::of({{"a", encoded_datum(kJpeg, 0)}}), {field("age", FieldKind::numbers)});
  CHECK(contains(error_of([&] { (void)lmdb.build(); }), "fields.age.from: the format \"lmdb\" has no \"age\""));
}

TEST_CASE("whole numbers are exact in every container, or their sample is bad") {
  const std::vector<std::int64_t> wholes{std::numeric_limits<std::int64_t>::max(),
                                         std::numeric_limits<std::int64_t>::min(), 9007199254740993, -9007199254740993};
  FieldOptions uid = field("uid", FieldKind::numbers);
  uid.dtype = DType::int64;
  std::string records;
  std::string members;
  std::string objects;
  for (std::size_t i = 0; i < wholes.size(); ++i) {
    const std::string number = std::to_string(wholes[i]);
    const std::string image = tar_member(std::to_string(i) + ".jpg", kJpeg);
    records += tf_record(example({{"image", bytes_feature({kJpeg})}, {"uid", int64_feature({wholes[i]})}}));
    members += image + tar_member(std::to_string(i) + ".uid", number + "\n");
    objects += image + tar_member(std::to_string(i) + ".json", R"({"uid": )" + number + "}");
  }
  FieldOptions in_json = uid;
  in_json.from = "json.uid";
  for (const Made& made : {Made("x.tfrecord", records, {uid}), Made("x.tar", members + tar_end(), {uid}),
                           Made("y.tar", objects + tar_end(), {in_json})}) {
    const auto dataset = made.build();
    REQUIRE(dataset->size() == wholes.size());
    for (std::size_t i = 0; i < wholes.size(); ++i) CHECK(elements<std::int64_t>(*dataset, i, 0).front() == wholes[i]);
  }
  const auto reason = [&](const std::string& json, const FieldOptions& options) {
    const std::string good = tar_member("g.jpg", kJpeg) + tar_member("g.json", R"({"uid": 1})");
    const Made made("z.tar",
                    tar_member("b.jpg", kJpeg) + tar_member("b.json", R"({"uid": )" + json + "}") + good + tar_end(),
                    {options});
    const auto dataset = made.build();
    return skip_reason(*dataset, "[record 0, b]");
  };
  CHECK(contains(reason("18446744073709551615", in_json), "which a signed number of 64 bits does not hold"));
  CHECK(contains(reason("1e17", in_json), "has a number that its type does not hold: 1e+17"));
  FieldOptions pair = in_json;
  pair.dtype = DType::float64;
  CHECK(contains(reason("18446744073709551615", pair), "which a signed number of 64 bits does not hold"));
  CHECK(contains(reason("[9007199254740993, 0.5]", pair), "beyond 2^53 beside others that are fractions"));
}

TEST_CASE("a text in a list of numbers is no number, and the others are not served without it") {
  const std::string good = tar_member("g.jpg", kJpeg) + tar_member("g.json", R"({"a": 1})");
  const Made made("x.tar", tar_member("b.jpg", kJpeg) + tar_member("b.json", R"({"a": [1, "cat"]})") + good + tar_end(),
                  {field("a", FieldKind::numbers, "json.a")});
  CHECK(contains(skip_reason(*made.build(), "[record 0, b]"), R"(has "cat" where a number is expected)"));
}

TEST_CASE("boxes of containers are in pixels where they should be, of whole classes, and rows of a list") {
  FieldOptions boxes = field("boxes", FieldKind::boxes, "json.boxes");
  boxes.most = 4;
  const auto reason = [&](const std::string& json) {
    const std::string good = tar_member("g.jpg", kJpeg) + tar_member("g.json", R"({"boxes": [1, 2, 3, 4, 5]})");
    const Made made("x.tar",
                    tar_member("b.jpg", kJpeg) + tar_member("b.json", R"({"boxes": )" + json + "}") + good + tar_end(),
                    {boxes});
    const auto dataset = made.build();
    return skip_reason(*dataset, "[record 0, b]");
  };
  CHECK(reason("[[1, 2, 3, 4, 5.0], [1, 2, 3, 4]]").empty());
  CHECK(contains(reason("[[1, 2, 3, 4, 1.9]]"), "has a box whose class is 1.9, no class number"));
  CHECK(contains(reason("[[1, 2, 3, 4, \"cat\"]]"), "has a box whose class is \"cat\", no class number"));
  boxes.classes = {"dog", "cat"};
  CHECK(reason("[[1, 2, 3, 4, \"cat\"], [1, 2, 3, 4, 0]]").empty());
  CHECK(contains(reason("[[1, 2, 3, 4, \"owl\"]]"), "is \"owl\", no class number and not in its `classes`"));
  CHECK(contains(reason(R"({"a": [1, 2, 3, 4]})"), "is no list of rows of left, top, right, bottom, class"));
  CHECK(contains(reason(R"([{"a": 1, "b": 2, "c": 3, "d": 4}])"), "has a row that is no list"));
  CHECK(contains(reason("[[0.1, 0.2, 0.5, 0.6, 1]]"), "does not reach beyond 1, as if its sides were shares"));
  const auto side = [](float right) {
    return tf_record(example({{"image", bytes_feature({kJpeg})},
                              {"image/height", int64_feature({100})},
                              {"image/width", int64_feature({200})},
                              {"boxes/xmin", float_feature({0})},
                              {"boxes/ymin", float_feature({0})},
                              {"boxes/xmax", float_feature({right})},
                              {"boxes/ymax", float_feature({1})}}));
  };
  FieldOptions shares = field("boxes", FieldKind::boxes);
  shares.most = 4;
  const Made made("x.tfrecord", side(1) + side(120), {shares});
  CHECK(contains(skip_reason(*made.build(), "[record 1]"), "has xmax 120, where sides are shares of the image"));
}

TEST_CASE("a field of bytes has one byte string of an Example") {
  for (const FieldKind kind : {FieldKind::mask, FieldKind::bytes}) {
    FieldOptions options = field("x", kind);
    if (kind == FieldKind::bytes) options.most = 8;
    std::string records;
    for (const std::string& feature :
         {bytes_feature({"good"}), bytes_feature({"one", "two"}), bytes_feature({}), int64_feature({1})}) {
      records += tf_record(example({{"image", bytes_feature({kJpeg})}, {"x", feature}}));
    }
    const Made made("x.tfrecord", records, {options});
    const auto dataset = made.build();
    REQUIRE(dataset->size() == 1);
    CHECK(read_field(*dataset, 0, 0) == "good");
    CHECK(contains(skip_reason(*dataset, "[record 1]"), R"(field "x" has several byte strings in the feature "x")"));
    CHECK(contains(skip_reason(*dataset, "[record 2]"), "has an empty list of bytes"));
    CHECK(contains(skip_reason(*dataset, "[record 3]"), "has numbers, no bytes"));
  }
}

TEST_CASE("values that a field cannot take leave the sample out, and say why") {
  const auto reason = [](const std::string& feature, const FieldOptions& options) {
    const std::string good = example({{"image", bytes_feature({kJpeg})}, {"x", int64_feature({0})}});
    const std::string bad = example({{"image", bytes_feature({kJpeg})}, {"x", feature}});
    const Made made("x.tfrecord", tf_record(bad) + tf_record(good), {options});
    const auto dataset = made.build();
    return skip_reason(*dataset, "[record 0]");
  };
  FieldOptions small = field("x", FieldKind::numbers);
  small.dtype = DType::uint8;
  CHECK(contains(reason(int64_feature({256}), small), "field \"x\" has a number that its type does not hold: 256"));
  CHECK(contains(reason(int64_feature({-1}), small), "has a number that its type does not hold: -1"));
  CHECK(contains(reason(float_feature({0.5F}), small), "has a number that its type does not hold"));
  CHECK(contains(reason(int64_feature({1, 2}), small), "has 2 or more numbers where 1 are expected"));
  CHECK(contains(reason(bytes_feature({"text"}), small), R"(has "text" where a number is expected)"));
  FieldOptions named = field("x", FieldKind::class_number);
  named.classes = {"a", "b"};
  CHECK(contains(reason(int64_feature({2}), named), "has class 2 of 2"));
  CHECK(contains(reason(bytes_feature({"c"}), named), "has the class \"c\", which is not listed"));
  CHECK(contains(reason(int64_feature({0, 1}), named), "has 2 classes where one is expected"));
}

}  // namespace forebay::test_container_fields
