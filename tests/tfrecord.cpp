// TFRecord files: what is read from them, and what happens with broken ones.
#include <zlib.h>

#include "container_files.hpp"
#include "dataset_support.hpp"
#include "test.hpp"

namespace forebay::test_tfrecord {
namespace {

using namespace forebay::testing;

std::string records(const std::vector<std::string>& examples) {
  std::string file;
  for (const auto& each : examples) file += tf_record(each);
  return file;
}

// A dataset from a file with these examples.
std::unique_ptr<Dataset> dataset_of(const TemporaryDirectory& folder, const std::vector<std::string>& examples) {
  write_file(folder / "x.tfrecord", records(examples));
  return build_dataset(options_for(folder / "x.tfrecord"));
}

TEST_CASE("shards of a folder, of a pattern and alone; plain and compressed ones side by side") {
  const TemporaryDirectory folder;
  std::vector<std::string> examples;
  for (int i = 0; i < 6; ++i) examples.push_back(image_example(kJpeg + std::to_string(i), i % 3));
  write_file(folder / "train-00000-of-00002", records({examples[0], examples[1]}));
  write_gzip(folder / "train-00001-of-00002.gz", records({examples[2], examples[3], examples[4]}));
  write_file(folder / "validation-00000-of-00001", records({examples[5]}));

  const auto train = build_dataset(options_for(folder.path()));
  CHECK(train->format() == "tfrecord");
  CHECK(labels_of(*train) == std::vector<std::int64_t>{0, 1, 2, 0, 1});
  CHECK(train->classes() == std::vector<std::string>{"0", "1", "2"});
  for (std::uint64_t id = 0; id < train->size(); ++id) CHECK(read_sample(*train, id) == kJpeg + std::to_string(id));
  CHECK(train->name(1) == (folder / "train-00000-of-00002").string() + "[record 1]");
  CHECK(train->name(4) == (folder / "train-00001-of-00002.gz").string() + "[record 2]");
  REQUIRE(train->skipped().size() == 1);
  CHECK_FALSE(train->skipped()[0].bad);
  CHECK(contains(train->skipped()[0].reason, "not read: names of others in the folder say \"train\""));

  const auto one = build_dataset(options_for(folder / "validation-00000-of-00001"));
  CHECK(read_sample(*one, 0) == kJpeg + "5");
  CHECK(build_dataset(options_for(folder / "*-of-*"))->size() == 6);
}

TEST_CASE("a folder of shards that are all for training or none is taken whole") {
  const FolderOf folder{{"a.tfrecord", records({image_example(kJpeg, 0)})},
                        {"b.record", records({image_example(kJpeg, 1)})},
                        {"notes.txt", "text"}};
  CHECK(labels_of(*build_dataset(options_for(folder.path()))) == std::vector<std::int64_t>{0, 1});
}

TEST_CASE("what the image and the class are called is known, else the one picture is the image") {
  const TemporaryDirectory folder;
  const auto image = bytes_feature({kJpeg});
  for (const char* name : {"image/encoded", "image", "image_raw", "jpeg", "encoded"}) {
    CHECK(read_sample(*dataset_of(folder, {example({{"id", bytes_feature({"7"})}, {name, image}})}), 0) == kJpeg);
  }
  for (const char* name : {"image/class/label", "label", "class", "target"}) {
    CHECK(labels_of(*dataset_of(folder, {example({{name, int64_feature({3})}, {"image", image}})})) ==
          std::vector<std::int64_t>{3});
  }
  CHECK(read_sample(*dataset_of(folder, {example({{"note", bytes_feature({"x"})}, {"my picture", image}})}), 0) ==
        kJpeg);
  const auto two = [&] { (void)dataset_of(folder, {example({{"left", image}, {"right", image}})}); };
  CHECK(contains(error_of(two), "no image among its features (left, right)"));
  const auto sequence = [&] { (void)dataset_of(folder, {wire_bytes(1, "") + wire_bytes(2, "")}); };
  CHECK(contains(error_of(sequence), "a tf.train.SequenceExample, where a tf.train.Example is expected"));
}

TEST_CASE("a feature with several pictures is refused, and none is taken for the image") {
  const TemporaryDirectory folder;
  const std::string good = example({{"image", bytes_feature({kJpeg})}});
  for (const char* name : {"image/encoded", "my frames"}) {
    const auto dataset = dataset_of(folder, {good, example({{name, bytes_feature({kJpeg, kJpeg})}})});
    CHECK(contains(skip_reason(*dataset, "[record 1]"),
                   "has several byte strings in the feature \"" + std::string(name) + "\""));
  }
}

TEST_CASE("raw pixels have the shape that height, width and channels say, where that is as many bytes") {
  const TemporaryDirectory folder;
  const auto raw = [](std::int64_t height, std::int64_t width, std::int64_t depth) {
    return example({{"image_raw", bytes_feature({"0123456789AB"})},
                    {"height", int64_feature({height})},
                    {"width", int64_feature({width})},
                    {"depth", int64_feature({depth})}});
  };
  const auto dataset = dataset_of(folder, {raw(2, 2, 3), raw(3, 4, 1), raw(3, 3, 1), raw(-3, -4, 1)});
  REQUIRE(dataset->size() == 4);
  CHECK(describe_samples(*dataset)[0].ends_with("raw 2x2x3"));
  CHECK(describe_samples(*dataset)[1].ends_with("raw 4x3x1"));
  CHECK(dataset->sample(2).encoding == Encoding::jpeg);
  CHECK(dataset->sample(3).encoding == Encoding::jpeg);
}

TEST_CASE("classes are numbers with the names that records give them, or names alone") {
  const TemporaryDirectory folder;
  const auto named = [](std::int64_t number, const std::string& name) {
    return example({{"image/encoded", bytes_feature({kJpeg})},
                    {"image/class/label", int64_feature({number})},
                    {"image/class/text", bytes_feature({name})}});
  };
  CHECK(dataset_of(folder, {named(2, "cat"), named(0, "dog"), named(2, "cat")})->classes() ==
        std::vector<std::string>{"dog", "1", "cat"});
  CHECK(dataset_of(folder, {named(1, "cat"), named(1, "lion")})->classes() == std::vector<std::string>{"0", "1"});
  CHECK(dataset_of(folder, {named(0, "cat"), named(1, "cat")})->classes() == std::vector<std::string>{"0", "1"});

  const auto by_name = [](const std::string& name) {
    return example({{"image", bytes_feature({kJpeg})}, {"label", bytes_feature({name})}});
  };
  const auto dataset = dataset_of(folder, {by_name("dog"), by_name("cat"), by_name("dog")});
  CHECK(dataset->classes() == std::vector<std::string>{"cat", "dog"});
  CHECK(labels_of(*dataset) == std::vector<std::int64_t>{1, 0, 1});
  DatasetOptions options = options_for(folder / "x.tfrecord");
  options.classes = {"dog"};
  const auto given = build_dataset(options);
  CHECK(labels_of(*given) == std::vector<std::int64_t>{0, 0});
  CHECK(contains(skip_reason(*given, "[record 1]"), "class \"cat\" is not in dataset.classes"));
}

TEST_CASE("a class that is no number, too large, missing or not the only one") {
  const TemporaryDirectory folder;
  const auto with = [](const std::string& label) {
    return example({{"image", bytes_feature({kJpeg})}, {"label", label}});
  };
  std::vector<std::string> examples{with(int64_feature({4})),     with(int64_feature({-1})),
                                    with(int64_feature({})),      with(int64_feature({1, 2})),
                                    with(float_feature({2.0F})),  with(float_feature({2.5F})),
                                    with(bytes_feature({"cat"})), with(int64_feature({std::int64_t{1} << 40})),
                                    with(int64_feature({-5})),    example({{"image", bytes_feature({kJpeg})}}),
                                    with(bytes_feature({"3.0"})), with("")};
  CHECK(contains(error_of([&] { (void)dataset_of(folder, examples); }),
                 "label \"cat\" is no class number, as 3 of the 4 labels are"));
  std::vector<std::int64_t> expected{4, -1, -1, 2, 3};
  for (int i = 0; i < 20; ++i) {
    examples.push_back(with(int64_feature({i})));
    expected.push_back(i);
  }
  const auto dataset = dataset_of(folder, examples);
  CHECK(labels_of(*dataset) == expected);
  const auto reason = [&](int record) { return skip_reason(*dataset, "[record " + std::to_string(record) + "]"); };
  CHECK(count_bad(*dataset) == 7);
  CHECK(contains(reason(3), "its label is no class: it has 2 numbers"));
  CHECK(contains(reason(5), "its label is no class: it is 2.5"));
  CHECK(contains(reason(6), "label \"cat\" is no class number, as nearly all others are"));
  CHECK(contains(reason(7), "its class number is 1099511627776"));
  CHECK(contains(reason(8), "its class number is -5"));
  CHECK(contains(reason(9), "has no class, where others have one"));
  CHECK(contains(reason(11), "has no class, where others have one"));
}

TEST_CASE("labels that are one-hot are classes; other lists are none, which is said") {
  const TemporaryDirectory folder;
  const auto with = [](const std::string& label) {
    return example({{"image", bytes_feature({kJpeg})}, {"label", label}});
  };
  const auto hot = dataset_of(folder, {with(int64_feature({0, 0, 1})), with(float_feature({1, 0, 0}))});
  CHECK(labels_of(*hot) == std::vector<std::int64_t>{2, 0});
  CHECK(hot->classes() == std::vector<std::string>{"0", "1", "2"});
  CHECK(hot->skipped().empty());
  DatasetOptions options = options_for(folder / "x.tfrecord");
  options.classes = {"a", "b", "c"};
  CHECK(build_dataset(options)->classes() == options.classes);
  options.classes = {"a", "b"};
  CHECK(contains(build_error(options), "one-hot, of 3 classes, but dataset.classes has 2"));
  const auto sets = dataset_of(folder, {with(int64_feature({0, 0, 1})), with(int64_feature({1, 0, 1}))});
  CHECK(labels_of(*sets) == std::vector<std::int64_t>{-1, -1});
  REQUIRE(sets->skipped().size() == 1);
  CHECK(sets->skipped()[0].told);
  CHECK(contains(sets->skipped()[0].reason, "all are -1: labels are there and are no classes (the first: "));
  const auto without =
      dataset_of(folder, {example({{"image", bytes_feature({kJpeg})}, {"animal", int64_feature({1})}})});
  CHECK(without->skipped().at(0).told);
  CHECK(
      contains(without->skipped()[0].reason, "the first Example has the features image, animal; [fields.label] from"));
  const auto pairs = dataset_of(folder, {with(int64_feature({-1})), with(int64_feature({1}))});
  CHECK(contains(pairs->skipped().at(0).reason, "all labels are -1 or 1, and -1 means no class"));
}

TEST_CASE("a TFRecord file that zlib compressed is refused by that name") {
  const FolderOf folder{{"x.tfrecord", "\x78\x9c some compressed data"}};
  CHECK(contains(build_error(options_for(folder / "x.tfrecord")), "it seems to be compressed by zlib"));
}

TEST_CASE("a changed bit of a record is noticed when it is read, wherever it is") {
  const TemporaryDirectory folder;
  const std::string first = tf_record(image_example(kJpeg + std::string(8192, 'x'), 0));
  const std::string record = tf_record(image_example(kJpeg, 1));
  const std::string saved = [&] {
    write_file(folder / "x.tfrecord", first + record);
    const auto bytes = build_dataset(options_for(folder / "x.tfrecord"))->serialize();
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }();
  for (std::size_t at = 12; at < record.size(); ++at) {
    std::string damaged = first + record;
    damaged[first.size() + at] = static_cast<char>(damaged[first.size() + at] ^ 1);
    write_file(folder / "x.tfrecord", damaged);
    const auto restored = restore_dataset(bytes_of(saved), "memory");
    CHECK(read_sample(*restored, 0).size() == 8192 + kJpeg.size());
    const std::string error = error_of([&] { (void)read_sample(*restored, 1); });
    CHECK(contains(error, "byte " + std::to_string(first.size() + 12) + ": the "));
    CHECK(contains(error, "do not match the CRC-32C that follows them"));
  }
  // In a compressed file, it is noticed when the file is indexed.
  std::string damaged = first + record;
  damaged[first.size() + 12 + 30] = 'X';
  write_gzip(folder / "y.tfrecord.gz", damaged);
  const auto dataset = build_dataset(options_for(folder / "y.tfrecord.gz"));
  CHECK(dataset->size() == 1);
  CHECK(contains(skip_reason(*dataset, "[record 1]"), "are damaged"));
}

TEST_CASE("a file that ends early, or whose lengths are damaged, keeps what stands before that") {
  const TemporaryDirectory folder;
  const std::string good = tf_record(image_example(kJpeg, 0));
  const std::string length = little_endian(std::uint64_t{1} << 60U);
  for (const auto& [tail, reason] : std::vector<std::pair<std::string, std::string>>{
           {good.substr(0, 5), "it ends within the header of a record"},
           {good.substr(0, good.size() - 1), "it ends within a record of"},
           {length + masked_sum(length), "it ends within a record of 1152921504606846976 bytes"},
           {little_endian(~std::uint64_t{7}) + masked_sum(little_endian(~std::uint64_t{7})), "it ends within a record"},
           {length + "sums" + good, "the checksum of a record's length is wrong"},
           {"abc", "it ends within the header of a record"}}) {
    write_file(folder / "x.tfrecord", good + good + tail);
    const auto dataset = build_dataset(options_for(folder / "x.tfrecord"));
    CHECK(dataset->size() == 2);
    REQUIRE(count_bad(*dataset) == 1);
    CHECK(contains(dataset->skipped()[0].reason, "byte " + std::to_string(2 * good.size()) + ": " + reason));
    CHECK(dataset->skipped()[0].path == (folder / "x.tfrecord").string());
  }
}

TEST_CASE("a compressed file that is damaged keeps what was decompressed before; a changed one is noticed") {
  const TemporaryDirectory folder;
  std::string noise;
  for (std::uint32_t i = 0; i < 300'000; ++i) noise += static_cast<char>((i * 2654435761U) >> 13U);
  write_gzip(folder / "x.tfrecord.gz", records({image_example(kJpeg, 0), image_example(kJpeg + noise, 1)}));
  DatasetOptions options = options_for(folder / "x.tfrecord.gz");
  options.index = (folder / "saved.index").string();
  CHECK(open_dataset(options)->size() == 2);
  CHECK(open_dataset(options)->size() == 2);

  const std::string whole = read_text(folder / "x.tfrecord.gz");
  write_file(folder / "x.tfrecord.gz", whole.substr(0, whole.size() - 100));
  const auto cut = build_dataset(options_for(folder / "x.tfrecord.gz"));
  CHECK(cut->size() == 1);
  CHECK(contains(cut->skipped()[0].reason, "it ends within a record"));
  CHECK(contains(cut->skipped()[1].reason, "the compressed data is cut off"));
  CHECK(contains(error_of([&] { (void)open_dataset(options); }), "other contents of the compressed files"));
}

TEST_CASE("a file without one usable record is an error that says why") {
  const TemporaryDirectory folder;
  const auto error = [&](const std::vector<std::string>& examples) {
    return error_of([&] { (void)dataset_of(folder, examples); });
  };
  CHECK(contains(error({}), "no record of a tf.train.Example with an image"));
  CHECK(contains(error({""}), "[record 0]: byte 0: an Example without features"));
  CHECK(contains(error({example({{"x", int64_feature({1})}})}), "no image among its features (x)"));
  CHECK(contains(error({image_example("", 1)}), "[record 0]: byte 0: its image has no bytes"));
  CHECK(contains(error({wire_bytes(1, varint(10) + varint(1000))}), "[record 0]: byte "));
  std::filesystem::create_directory(folder / "empty");
  const auto empty = [&] { (void)build_dataset(options_for(folder / "empty", "tfrecord")); };
  CHECK(contains(error_of(empty), "no record of a tf.train.Example with an image"));
}

TEST_CASE("Protocol Buffers as their definition allows them") {
  const TemporaryDirectory folder;
  const std::string image = wire_bytes(1, "image/encoded");
  const std::string value = wire_bytes(2, bytes_feature({kJpeg}));
  const auto map = [](const std::string& entry) { return wire_bytes(1, wire_bytes(1, entry)); };
  const std::string label = wire_bytes(1, wire_bytes(1, wire_bytes(1, "label") + wire_bytes(2, int64_feature({5}))));
  const std::string group = varint((9U << 3U) | 3U) + wire_number(1, 7) + varint((9U << 3U) | 4U);
  for (const std::string& text : {map(value + image) + label, label + map(image + value),
                                  wire_number(9, 5) + map(image + value) + label + wire_bytes(15, "zz"),
                                  group + map(image + group + value) + label}) {
    const auto dataset = dataset_of(folder, {text});
    CHECK(read_sample(*dataset, 0) == kJpeg);
    CHECK(labels_of(*dataset) == std::vector<std::int64_t>{5});
  }
  const std::string unpacked = wire_bytes(3, wire_number(1, 6));
  CHECK(labels_of(*dataset_of(folder, {example({{"image", bytes_feature({kJpeg})}, {"label", unpacked}})})) ==
        std::vector<std::int64_t>{6});
  CHECK(labels_of(*dataset_of(folder, {example({{"image", bytes_feature({kJpeg})},
                                                {"label", int64_feature({1})},
                                                {"label", int64_feature({2})}})})) == std::vector<std::int64_t>{2});
}

TEST_CASE("whatever is behind correct checksums of a TFRecord file ends in samples or in errors") {
  const TemporaryDirectory folder;
  const std::string good = image_example(kJpeg, 3);
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (const char byte : {'\0', '\x7F', '\xFF', static_cast<char>(good[at] + 1)}) {
      std::string broken = good;
      broken[at] = byte;
      write_file(folder / "x.tfrecord", records({broken}));
      use_file(folder / "x.tfrecord", "tfrecord");
    }
  }
}

TEST_CASE("a pattern of the path stands for files, as in a shell") {
  const TemporaryDirectory folder;
  for (int i = 8; i < 12; ++i) {
    const std::string name = "part-" + std::string(i < 10 ? "0" : "") + std::to_string(i) + ".tfrecord";
    write_file(folder / name, records({image_example(kJpeg, i)}));
  }
  const auto labels = [&](const std::string& pattern) {
    return labels_of(*build_dataset(options_for(folder / pattern)));
  };
  CHECK(labels("part-{08..11}.tfrecord") == std::vector<std::int64_t>{8, 9, 10, 11});
  CHECK(labels("part-{10,08}.tfrecord") == std::vector<std::int64_t>{10, 8});
  CHECK(labels("part-{0..0}{8,9}.tfrecord") == std::vector<std::int64_t>{8, 9});
  CHECK(labels("*-1?.tfrecord") == std::vector<std::int64_t>{10, 11});

  const auto error = [&](const std::string& pattern, const std::string& format = "auto") {
    return build_error(options_for(folder / pattern, format));
  };
  CHECK(contains(error("part-{08..12}.tfrecord"), "there is no file " + (folder / "part-12.tfrecord").string()));
  CHECK(contains(error("part-{11..08}.tfrecord"), "{11..08} is no range of numbers that rises"));
  CHECK(contains(error("part-{00..99999999999}.tfrecord"), "is no range of numbers"));
  CHECK(contains(error("{0..999}{0..999}{0..999}"), "it stands for more than a million names"));
  CHECK(contains(error("part-{08.tfrecord"), "a { is not closed"));
  CHECK(contains(error("none-*"), "no file matches it"));
  CHECK(contains(error("part-*", "cifar"), "stands for 4 files, but format = \"cifar\" reads one"));
  // A file whose name looks like a pattern is that file.
  write_file(folder / "odd{1,2}.tfrecord", records({image_example(kJpeg, 5)}));
  CHECK(labels("odd{1,2}.tfrecord") == std::vector<std::int64_t>{5});
}

// MXNet's RecordIO: records in one part and in several, labels in the header and after it, broken
// files.

namespace recordio {

const std::string kMagic = little_endian(std::uint32_t{0xCED7230A});

std::unique_ptr<Dataset> dataset_of(const TemporaryDirectory& folder, const std::string& records) {
  write_file(folder / "x.rec", records);
  return build_dataset(options_for(folder / "x.rec"));
}

TEST_CASE("records of each length, with one label or several") {
  const TemporaryDirectory folder;
  std::string records;
  for (int i = 0; i < 5; ++i)
    records += record_part(image_record(kJpeg + std::string(static_cast<std::size_t>(i), 'x'), static_cast<float>(i)));
  records += record_part(image_record(kJpeg, 2.5F)) + record_part(image_record(kJpeg, -1.0F)) +
             record_part(image_record(kJpeg, std::vector<float>{3.0F})) +
             record_part(image_record(kJpeg + "end", std::vector<float>{3.0F, 1.0F, 2.0F}));
  const auto dataset = dataset_of(folder, records);
  CHECK(dataset->format() == "recordio");
  CHECK(labels_of(*dataset) == std::vector<std::int64_t>{0, 1, 2, 3, 4, -1, -1, 3, -1});
  CHECK(dataset->classes() == std::vector<std::string>{"0", "1", "2", "3", "4"});
  for (std::uint64_t i = 0; i < 5; ++i) CHECK(read_sample(*dataset, i) == kJpeg + std::string(i, 'x'));
  CHECK(read_sample(*dataset, 7) == kJpeg);
  CHECK(read_sample(*dataset, 8) == kJpeg + "end");
  CHECK(dataset->name(3) == (folder / "x.rec").string() + "[record 3]");
  REQUIRE(dataset->skipped().size() == 1);
  CHECK(dataset->skipped()[0].told);
  CHECK(contains(dataset->skipped()[0].reason, "2 of 9 samples are served with label -1: theirs is no class"));
  CHECK(contains(dataset->skipped()[0].reason, "the first: it is 2.5"));
  // The padding of the last record need not be there.
  CHECK(dataset_of(folder, record_part(image_record(kJpeg, 0.0F)).substr(0, 8 + 24 + kJpeg.size()))->size() == 1);
}

TEST_CASE("a record in several parts is put together again with the magic number between them") {
  const TemporaryDirectory folder;
  const std::string first = image_record(kJpeg + "abc", 1.0F);
  const std::string records = record_part(image_record(kJpeg, 0.0F)) + record_part(first, 1) +
                              record_part("middle", 2) + record_part("", 2) + record_part("end", 3) +
                              record_part(image_record(kJpeg + "z", 2.0F));
  const auto dataset = dataset_of(folder, records);
  CHECK(labels_of(*dataset) == std::vector<std::int64_t>{0, 1, 2});
  CHECK(read_sample(*dataset, 0) == kJpeg);
  CHECK(read_sample(*dataset, 1) == kJpeg + "abc" + kMagic + "middle" + kMagic + kMagic + "end");
  CHECK(read_sample(*dataset, 2) == kJpeg + "z");
  CHECK(dataset->name(1) == (folder / "x.rec").string() + "[record 1]");
  CHECK(dataset->name(2) == (folder / "x.rec").string() + "[record 2]");
  const auto restored = restore_dataset(dataset->serialize(), "memory");
  CHECK(read_sample(*restored, 1) == read_sample(*dataset, 1));
  // Even if the split is within the header.
  const auto cut = dataset_of(folder, record_part(first.substr(0, 8), 1) + record_part(first.substr(12), 3));
  CHECK(read_sample(*cut, 0) == kJpeg + "abc");
}

TEST_CASE("parts without their others, and records that are none, are left out by name") {
  const TemporaryDirectory folder;
  const std::string good = record_part(image_record(kJpeg, 0.0F));
  const auto dataset =
      dataset_of(folder, record_part("orphan!!", 2) + good + record_part("begun", 1) + good + record_part("short") +
                             record_part(little_endian(std::uint32_t{1U << 31U}) + std::string(40, 'x')) +
                             record_part(image_record("", 1.0F)) + record_part("begun", 1) + record_part("again", 1));
  CHECK(dataset->size() == 2);
  CHECK(count_bad(*dataset) == 7);
  const auto reason = [&](int record) { return skip_reason(*dataset, "[record " + std::to_string(record) + "]"); };
  CHECK(reason(0) == "byte 0: the continuation of a record that does not begin");
  CHECK(reason(2) == "byte " + std::to_string(16 + good.size()) + ": the beginning of a record that does not end");
  const std::size_t third = 16 + good.size() + 16 + good.size();  // where the short record begins
  CHECK(reason(4) == "byte " + std::to_string(third) + ": has 5 bytes, less than the header of an image record");
  CHECK(reason(5) ==
        "byte " + std::to_string(third + 16) + ": has not the 2147483648 labels that its header announces");
  CHECK(reason(6) == "byte " + std::to_string(third + 16 + 52) + ": its image has no bytes");
  CHECK(contains(reason(7), "the beginning of a record that does not end"));
  CHECK(contains(reason(8), "the beginning of a record that does not end"));
}

TEST_CASE("a file that is damaged keeps what stands before that") {
  const TemporaryDirectory folder;
  const std::string good = record_part(image_record(kJpeg, 0.0F));
  for (const auto& [tail, reason] : std::vector<std::pair<std::string, std::string>>{
           {"xxxx" + good.substr(4), "no record: it does not begin with RecordIO's magic number"},
           {good.substr(0, 7), "it ends within the header of a record"},
           {good.substr(0, 30), "it ends within a record of 41 bytes"},
           {kMagic + little_endian(std::uint32_t{(1U << 29U) - 1}), "it ends within a record of 536870911 bytes"},
           {kMagic + little_endian(std::uint32_t{7U << 29U}), "a record of a kind that there is not"}}) {
    const auto dataset = dataset_of(folder, good + good + tail);
    CHECK(dataset->size() == 2);
    REQUIRE(count_bad(*dataset) == 1);
    CHECK(contains(dataset->skipped()[0].reason, "byte " + std::to_string(2 * good.size()) + ": " + reason));
  }
  CHECK(contains(error_of([&] { (void)dataset_of(folder, ""); }), "no image record of RecordIO"));
}

}  // namespace recordio

}  // namespace
}  // namespace forebay::test_tfrecord
