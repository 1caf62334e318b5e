// Text tables with a header (CSV, TSV): what their columns become, and which rows are left out.
#include <forebay/dataset.hpp>

#include "data/csv.hpp"
#include "dataset_support.hpp"
#include "detection_support.hpp"
#include "fuzz/kept.hpp"
#include "index_support.hpp"
#include "test.hpp"

namespace forebay::test_table {

using namespace forebay::data;

namespace {

namespace fs = std::filesystem;
using namespace testing;
using Rows = std::vector<std::vector<std::string>>;
using Lines = std::vector<std::string>;

Rows rows_of(std::string_view text, char separator = ',') {
  Rows rows;
  CsvRows csv(text, "t.csv", separator);
  for (std::vector<std::string_view> fields; csv.next(fields);) rows.emplace_back(fields.begin(), fields.end());
  return rows;
}

// The bytes of a field.
std::vector<std::byte> field_of_sample(const Dataset& dataset, std::uint64_t id, std::size_t field) {
  Reading target;
  dataset.read_field(id, field, target);
  return std::move(target.bytes);
}

template <typename T>
std::vector<T> numbers_of_sample(const Dataset& dataset, std::uint64_t id, std::size_t field) {
  const std::vector<std::byte> bytes = field_of_sample(dataset, id, field);
  std::vector<T> numbers(bytes.size() / sizeof(T));
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

constexpr std::string_view kTable =
    "file,species,findings,age,x,y,z,note,extra\r\n"
    "a.jpg,cat,Mass|Edema,30,1,2,3,\"a, \"\"b\"\"\",0.5 1.5\r\n"
    "\"b,c.jpg\",dog,,41.5,4,5,6,,2 3\n"
    "\n"
    "c.jpg,,Edema,+7,7,8,9,two\twords,4  5\n"
    "d.jpg,dog,Mass,nan,1,1,1,,1 1\n"
    "e.jpg,dog,Mass,1,1,1\n"
    ",dog,Mass,1,1,1,1,,1 1\n"
    "f.jpg,dog,Mass,1,1,one,1,,1 1\n"
    "g.jpg,dog,Mass,1,1,1,1,,1\n";

DatasetOptions table_options(const TemporaryDirectory& folder, std::string_view text = kTable,
                             const std::string& name = "t.csv") {
  write_file(folder / name, text);
  DatasetOptions options;
  options.format = "table";
  options.path = (folder / name).string();
  return options;
}

FieldOptions field(std::string name, FieldKind kind, std::string from = "") {
  FieldOptions options{.name = std::move(name)};
  options.kind = kind;
  options.from = std::move(from);
  return options;
}

TEST_CASE("rows are divided as Python's csv module divides them") {
  CHECK(rows_of("a,b\nc,d") == Rows{{"a", "b"}, {"c", "d"}});
  CHECK(rows_of("a,b\r\nc,\r") == Rows{{"a", "b"}, {"c", ""}});
  CHECK(rows_of("a\rb\r\n\r\n\nc") == Rows{{"a"}, {"b"}, {"c"}});
  CHECK(rows_of("\"a,b\",\"c\"\"d\",\"e\nf\"\n") == Rows{{"a,b", "c\"d", "e\nf"}});
  CHECK(rows_of("a \"b\" c, d\n") == Rows{{"a \"b\" c", " d"}});
  CHECK(rows_of("\"a\"b,c") == Rows{{"ab", "c"}});
  CHECK(rows_of("\"\",") == Rows{{"", ""}});
  CHECK(rows_of("a,b\tc,d\n", '\t') == Rows{{"a,b", "c,d"}});
  CHECK(rows_of("\xEF\xBB\xBFx,y") == Rows{{"x", "y"}});
  CHECK(rows_of("").empty());
  CHECK(rows_of("\n\r\n").empty());
  CHECK(contains(error_of([] { (void)rows_of("a\nb,\"c\nd\n"); }), "t.csv:2: a double quote is opened"));
  CHECK(contains(error_of([] { (void)rows_of("\xFF\xFE"); }), "UTF-16"));
  CHECK(contains(error_of([] { (void)rows_of(std::string_view("a\0b", 3)); }), "a NUL byte"));
}

TEST_CASE("columns become label and fields, and rows that cannot be samples are named") {
  const TemporaryDirectory folder;
  DatasetOptions options = table_options(folder);
  options.fields = {field("label", FieldKind::class_number, "species"),
                    field("findings", FieldKind::multilabel),
                    field("age", FieldKind::numbers),
                    field("at", FieldKind::numbers, "x, y,z"),
                    field("two", FieldKind::numbers, "extra"),
                    field("note", FieldKind::bytes)};
  options.fields[0].kind.reset();
  options.fields[2].dtype = DType::float64;
  options.fields[3].dtype = DType::int32;
  options.fields[3].shape = {3};
  options.fields[4].shape = {2, 1};
  options.fields[5].most = 9;
  const auto built = build_dataset(options);
  const auto restored = restore_dataset(built->serialize(), "memory");
  CHECK(fingerprint(*built) == fingerprint(*restored));
  for (const Dataset* dataset : {built.get(), restored.get()}) {
    REQUIRE(dataset->size() == 3);
    CHECK(dataset->name(1) == (folder / "b,c.jpg").string());
    CHECK(dataset->classes() == std::vector<std::string>{"cat", "dog"});
    CHECK(dataset->sample(0).label == 0);
    CHECK(dataset->sample(1).label == 1);
    CHECK(dataset->sample(2).label == -1);
    REQUIRE(dataset->fields().size() == 5);
    CHECK(dataset->fields()[0].name == "findings");
    CHECK(dataset->fields()[0].classes == std::vector<std::string>{"Edema", "Mass"});
    CHECK(dataset->fields()[0].shape == Shape{2});
    CHECK(dataset->fields()[3].shape == Shape{2, 1});
    CHECK(numbers_of_sample<float>(*dataset, 0, 0) == std::vector<float>{1, 1});
    CHECK(numbers_of_sample<float>(*dataset, 1, 0) == std::vector<float>{0, 0});
    CHECK(numbers_of_sample<float>(*dataset, 2, 0) == std::vector<float>{1, 0});
    CHECK(numbers_of_sample<double>(*dataset, 1, 1) == std::vector<double>{41.5});
    CHECK(numbers_of_sample<double>(*dataset, 2, 1) == std::vector<double>{7});
    CHECK(numbers_of_sample<std::int32_t>(*dataset, 1, 2) == std::vector<std::int32_t>{4, 5, 6});
    CHECK(numbers_of_sample<float>(*dataset, 2, 3) == std::vector<float>{4, 5});
    const auto note = field_of_sample(*dataset, 0, 4);
    CHECK(std::string(reinterpret_cast<const char*>(note.data()), note.size()) == "a, \"b\"");
    std::string skipped;
    for (const Skipped& entry : dataset->skipped()) skipped += entry.path + ": " + entry.reason + "\n";
    CHECK(contains(skipped, "t.csv:6: field \"age\": \"nan\" is no finite number"));
    CHECK(contains(skipped, "t.csv:7: 6 fields, but the header has 9"));
    CHECK(contains(skipped, "t.csv:8: the path is empty"));
    CHECK(contains(skipped, "t.csv:9: field \"at\": \"one\" is no finite number"));
    CHECK(contains(skipped, "t.csv:10: field \"two\": 1 numbers where 2 are wanted"));
  }
}

TEST_CASE("a row that is left out leaves no class behind") {
  const TemporaryDirectory folder;
  DatasetOptions options = table_options(folder,
                                         "image,label,site,findings,age\n"
                                         "a.jpg,cat,hill,Mass,1\n"
                                         "b.jpg,ape,sea,Edema,old\n"
                                         "c.jpg,dog,lake,Mass|Node,3\n");
  options.fields = {field("site", FieldKind::class_number), field("findings", FieldKind::multilabel),
                    field("age", FieldKind::numbers)};
  const auto dataset = build_dataset(options);
  REQUIRE(dataset->size() == 2);
  CHECK(dataset->classes() == std::vector<std::string>{"cat", "dog"});
  CHECK(dataset->sample(1).label == 1);
  CHECK(dataset->fields()[0].classes == std::vector<std::string>{"hill", "lake"});
  CHECK(numbers_of_sample<std::int64_t>(*dataset, 1, 0) == std::vector<std::int64_t>{1});
  CHECK(dataset->fields()[1].classes == std::vector<std::string>{"Mass", "Node"});
  CHECK(numbers_of_sample<float>(*dataset, 1, 1) == std::vector<float>{1, 1});
}

TEST_CASE("a column for each class, whole numbers as classes, and columns of paths") {
  const TemporaryDirectory folder;
  DatasetOptions options = table_options(folder,
                                         "image\tclass\tmass\tedema\tmask\n"
                                         "a.png\t2\t1\t0\tm/a.png\n"
                                         "b.png\t10\t0\t\tm/b.png\n"
                                         "c.png\t-1\t1\t2\tm/c.png\n",
                                         "t.tsv");
  options.fields = {field("findings", FieldKind::multilabel), field("grade", FieldKind::class_number, "class"),
                    field("mask", FieldKind::mask)};
  options.fields[0].classes = {"edema", "mass"};
  options.format = "auto";
  const auto dataset = build_dataset(options);
  CHECK(dataset->format() == "table");
  REQUIRE(dataset->size() == 2);
  CHECK(dataset->classes().size() == 11);
  CHECK(dataset->sample(1).label == 10);
  CHECK(numbers_of_sample<float>(*dataset, 0, 0) == std::vector<float>{0, 1});
  CHECK(numbers_of_sample<float>(*dataset, 1, 0) == std::vector<float>{0, 0});
  CHECK(numbers_of_sample<std::int64_t>(*dataset, 0, 1) == std::vector<std::int64_t>{2});
  CHECK(dataset->field_name(1, 2) == (folder / "m/b.png").string());
  CHECK(contains(dataset->skipped()[0].reason, "\"2\" is neither 0 nor 1"));
  CHECK(contains(error_of([&] { (void)field_of_sample(*dataset, 1, 2); }), "no such file"));
}

TEST_CASE("one odd label among class numbers is a bad row in every column of classes") {
  const TemporaryDirectory folder;
  for (const char* odd : {"-5", "1000000", "nan", "\"1,000\"", "?", "unknown", "0.5", "1|2"}) {
    CAPTURE(odd);
    std::string text = "image,label,site\n";
    for (int i = 0; i < 12; ++i)
      text.append("a.jpg,").append(std::to_string(i)).append(".0,").append(std::to_string(i)) += '\n';
    DatasetOptions options = table_options(folder, text + "a.jpg," + odd + ",1\na.jpg,1,1\n");
    options.fields = {field("site", FieldKind::class_number)};
    const auto dataset = build_dataset(options);
    REQUIRE(dataset->size() == 13);
    CHECK(dataset->classes().size() == 12);
    for (std::uint64_t id = 0; id < 12; ++id) {
      CHECK(dataset->sample(id).label == static_cast<std::int64_t>(id));
      CHECK(numbers_of_sample<std::int64_t>(*dataset, id, 0)[0] == static_cast<std::int64_t>(id));
    }
    REQUIRE(dataset->skipped().size() == 1);
    CHECK(contains(dataset->skipped()[0].path, "t.csv:14"));
    options = table_options(folder, text + "a.jpg,1," + odd + "\na.jpg,1,1\n");
    options.fields = {field("site", FieldKind::class_number)};
    CHECK(build_dataset(options)->size() == 13);
  }
  // They are numbers of the given classes, as in a list.
  DatasetOptions options = table_options(folder, "image,label\na.jpg,0\nb.jpg,1.0\nc.jpg,2\n");
  options.classes = {"cat", "dog"};
  CHECK(build_dataset(options)->size() == 2);
  CHECK(build_dataset(options)->sample(1).label == 1);
}

TEST_CASE("booleans are 1 and 0, and one cell may be a list in brackets") {
  const TemporaryDirectory folder;
  DatasetOptions options = table_options(folder,
                                         "image,a,b,v,w\na.jpg,True,False,\"[0.5, 2]\",true\nb.jpg,FALSE,True,1;2,0\n"
                                         "c.jpg,True,True,\"1,,2\",1\nd.jpg,Yes,True,1 2,1\n");
  options.fields = {field("tags", FieldKind::multilabel), field("v", FieldKind::numbers),
                    field("w", FieldKind::numbers)};
  options.fields[0].classes = {"a", "b"};
  options.fields[1].shape = {2};
  options.fields[2].dtype = DType::uint8;
  const auto dataset = build_dataset(options);
  REQUIRE(dataset->size() == 2);
  CHECK(numbers_of_sample<float>(*dataset, 0, 0) == std::vector<float>{1, 0});
  CHECK(numbers_of_sample<float>(*dataset, 1, 0) == std::vector<float>{0, 1});
  CHECK(numbers_of_sample<float>(*dataset, 0, 1) == std::vector<float>{0.5F, 2});
  CHECK(numbers_of_sample<float>(*dataset, 1, 1) == std::vector<float>{1, 2});
  CHECK(numbers_of_sample<std::uint8_t>(*dataset, 0, 2) == std::vector<std::uint8_t>{1});
  CHECK(contains(skip_reason(*dataset, "t.csv:4"), "\"\" is no finite number"));
  CHECK(contains(skip_reason(*dataset, "t.csv:5"), "\"Yes\" is no finite number"));
}

TEST_CASE("a word for missing values that becomes a class is warned of in every column of classes") {
  const TemporaryDirectory folder;
  DatasetOptions options = table_options(folder, "image,label,tags\na.jpg,owl,x|y\nb.jpg,NA,NaN\nc.jpg,cat,x\n");
  options.fields = {field("tags", FieldKind::multilabel)};
  const auto dataset = build_dataset(options);
  REQUIRE(dataset->skipped().size() == 2);
  CHECK(dataset->skipped()[0].told);
  CHECK(contains(dataset->skipped()[0].reason, "\"NA\" is served as a class, and often stands for a missing value"));
  CHECK(contains(dataset->skipped()[1].reason, "field \"tags\": \"NaN\" is served as a class"));
  options.classes = {"NA", "cat", "owl"};
  options.fields[0].classes = {"NaN", "x", "y"};
  CHECK(build_dataset(options)->skipped().empty());
}

TEST_CASE("one number among names of given classes is a bad row in every column of classes") {
  const TemporaryDirectory folder;
  for (const char* odd : {"7", "-1", "3"}) {
    std::string text = "image,label,site,tags\n";
    for (int i = 0; i < 40; ++i) text += i % 2 == 0 ? "a.jpg,cat,cat,cat|dog\n" : "a.jpg,ant,ant,\n";
    for (const std::string& row :
         {odd + std::string(",cat,cat"), std::string("cat,") + odd + ",cat", std::string("cat,cat,") + odd}) {
      CAPTURE(row);
      DatasetOptions options = table_options(folder, text + "a.jpg," + row + "\na.jpg,dog,dog,dog\n");
      options.fields = {field("site", FieldKind::class_number), field("tags", FieldKind::multilabel)};
      options.classes = options.fields[0].classes = options.fields[1].classes = {"cat", "dog", "ant"};
      const auto dataset = build_dataset(options);
      REQUIRE(dataset->size() == 41);
      REQUIRE(dataset->skipped().size() == 1);
      CHECK(contains(dataset->skipped()[0].path, "t.csv:42"));
      CHECK(contains(dataset->skipped()[0].reason, "class \"" + std::string(odd) + "\" is not in the given classes"));
      CHECK(dataset->sample(40).label == 1);
      CHECK(numbers_of_sample<float>(*dataset, 40, 1) == std::vector<float>{0, 1, 0});
    }
  }
}

TEST_CASE("whole numbers are exact, and those that a type does not hold make bad rows") {
  const TemporaryDirectory folder;
  DatasetOptions options = table_options(folder,
                                         "image,uid\n0.jpg,1e-330\na.jpg,9007199254740993\nb.jpg,9223372036854775807\n"
                                         "c.jpg,-9223372036854775808\nd.jpg,9223372036854775808\ne.jpg,1.5\n"
                                         "f.jpg,1700000000123456789.0\ng.jpg,1e3\n");
  options.fields = {field("uid", FieldKind::numbers)};
  options.fields[0].dtype = DType::int64;
  const auto dataset = build_dataset(options);
  REQUIRE(dataset->size() == 6);
  const std::vector<std::int64_t> expected{0, 9007199254740993, INT64_MAX, INT64_MIN, 1700000000123456789, 1000};
  for (std::uint64_t id = 0; id < 6; ++id) CHECK(numbers_of_sample<std::int64_t>(*dataset, id, 0)[0] == expected[id]);
  CHECK(contains(dataset->skipped()[0].reason, "9223372036854775808 is no number of the field's type"));
}

TEST_CASE("a field of files beside the images changes neither labels nor the first row") {
  const FolderOf folder{{"m/0.png", "png"}};
  for (const char* header : {"", "id_code,diagnosis\n", "image,target\n", "IMAGE,LABEL\n", "image, label\n",
                             "image,category\n", "id,anything\n"}) {
    CAPTURE(header);
    DatasetOptions options = table_options(folder, std::string(header) + "0.jpg,0\n0.jpg,1\n0.jpg,2\n");
    options.format = "auto";
    const auto check = [&] {
      const auto dataset = build_dataset(options);
      REQUIRE(dataset->size() == 3);
      for (std::uint64_t id = 0; id < 3; ++id) CHECK(dataset->sample(id).label == static_cast<std::int64_t>(id));
    };
    check();
    options.fields = {field("mask", FieldKind::mask, "m/{stem}.png")};
    check();
    options.format = "table";
    if (*header != '\0') {
      check();
    } else {
      CHECK(contains(error_of(check), "the first row of a table names its columns, and here it has the path"));
    }
  }
}

TEST_CASE("an image's path is made of columns") {
  const TemporaryDirectory folder;
  DatasetOptions options = table_options(folder, "id , breed\n7,cat\n8,dog\n");
  options.format = "auto";
  options.fields = {{.name = "image", .from = "train/{id}.png"}};
  const auto dataset = build_dataset(options);
  CHECK(dataset->name(1) == (folder / "train/8.png").string());
  CHECK(dataset->classes() == std::vector<std::string>{"cat", "dog"});
  options.fields[0].from = "train/{name}.png";
  CHECK(contains(build_error(options), "fields.image.from = \"name\": the table"));
}

TEST_CASE("semicolons are named, and a tab or a comma where the name says the other is taken") {
  const TemporaryDirectory folder;
  const auto refusal = [&] { (void)build_dataset(table_options(folder, "image;label\na.jpg;1\n")); };
  CHECK(contains(error_of(refusal), "separated by semicolons"));
  CHECK(build_dataset(table_options(folder, "image\tlabel\na.jpg\t1\n"))->sample(0).label == 1);
}

TEST_CASE("what a table does not have is refused with its columns") {
  const TemporaryDirectory folder;
  const auto refusal = [&](FieldOptions wanted, std::string_view text = "image,label,x,x\na.png,0,1,2\n") {
    DatasetOptions options = table_options(folder, text);
    options.fields = {std::move(wanted)};
    return build_error(options);
  };
  CHECK(contains(refusal(field("age", FieldKind::numbers)),
                 "fields.age.from = \"age\": the table " + (folder / "t.csv").string() +
                     " has no such column; it has \"image\", \"label\", \"x\", \"x\""));
  CHECK(contains(refusal(field("x", FieldKind::numbers)), "two columns are called \"x\""));
  CHECK(contains(refusal({.name = "image", .from = "photo"}), "fields.image.from = \"photo\""));
  CHECK(contains(refusal(field("b", FieldKind::multilabel)), "fields.b.from = \"b\""));
  FieldOptions boxes = field("label2", FieldKind::boxes, "label");
  boxes.most = 3;
  CHECK(contains(refusal(boxes), "fields.label2.kind: each row has one box and is a sample of its own here"));
  FieldOptions half = field("y", FieldKind::numbers, "label");
  half.dtype = DType::float16;
  CHECK(contains(refusal(half), "fields.y.dtype: a table gives float32"));
  FieldOptions narrow = field("y", FieldKind::class_number, "label");
  narrow.dtype = DType::uint8;
  CHECK(contains(refusal(narrow), "a class is int32 or int64"));
  CHECK(contains(refusal(field("y", FieldKind::numbers, "label"), "image,label\n"), "0 rows below its header"));
  CHECK(contains(refusal(field("y", FieldKind::numbers, "label"), ""), "the table is empty"));
  CHECK(contains(refusal(field("y", FieldKind::numbers, "label"), "# made\nimage,label\n"), "begin with '#'"));
}

TEST_CASE("classes of a row that something else than | separates are refused, unless they are listed") {
  const TemporaryDirectory folder;
  DatasetOptions options = table_options(folder, "image,tags\na.jpg,haze primary\nb.jpg,clear primary\n");
  options.fields = {field("tags", FieldKind::multilabel)};
  CHECK(
      contains(build_error(options), "no row of " + options.path + " has more than one class, and \"clear primary\""));
  options.fields[0].classes = {"haze primary", "clear primary"};
  CHECK(build_dataset(options)->size() == 2);
  options = table_options(folder, "image,tags\na.jpg,hot dog|bun\nb.jpg,bun\n");
  options.fields = {field("tags", FieldKind::multilabel)};
  CHECK(build_dataset(options)->fields()[0].classes == std::vector<std::string>{"bun", "hot dog"});
  options = table_options(folder, "image,tags\na.jpg,1|0|1\nb.jpg,0|1\n");
  options.fields = {field("tags", FieldKind::multilabel)};
  CHECK(contains(skip_reason(*build_dataset(options), "t.csv:2"), "\"1|0|1\" names a class twice"));
}

TEST_CASE("a column of splits that nobody uses is warned of, in tables and in lists") {
  const TemporaryDirectory folder;
  const std::string text = "image,label,Data Split,age\na.jpg,cat,train,3\nb.jpg,dog,test,4\n";
  DatasetOptions table = table_options(folder, text);
  table.fields = {field("age", FieldKind::numbers)};
  const auto warning_of = [](const DatasetOptions& options) {
    const auto dataset = build_dataset(options);
    CHECK(dataset->size() == 2);
    return dataset->skipped().empty() ? "" : dataset->skipped().back().reason;
  };
  CHECK(contains(warning_of(table), "all of its rows are served, whatever the column \"Data Split\" says"));
  DatasetOptions list = table_options(folder, text);
  list.format = "filelist";
  CHECK(contains(warning_of(list), "all of its rows are served, whatever the column \"Data Split\" says"));
  table.fields.push_back(field("which", FieldKind::class_number, "Data Split"));
  CHECK(warning_of(table).empty());
}

TEST_CASE("a table that has changed makes its saved index stale") {
  const TemporaryDirectory folder;
  DatasetOptions options = table_options(folder, "image,age\na.png,1\n");
  options.fields = {field("age", FieldKind::numbers)};
  const Kept kept(options);
  CHECK(contains(kept.error_with(folder / "t.csv", "image,age\na.png,2\n"), "other contents of the table"));
}

// Tables with a row for each box: the rows of an image are one sample.

struct Table {
  TemporaryDirectory folder;
  DatasetOptions options;

  explicit Table(const std::string& text, const std::string& from = "") {
    write_file(folder / "boxes.csv", text);
    options = images_options(folder / "boxes.csv");
    options.fields[0].from = from;
  }
  [[nodiscard]] std::unique_ptr<Dataset> build() const { return build_dataset(options); }
  [[nodiscard]] std::string error() const {
    return error_of([&] { (void)build(); });
  }
};

TEST_CASE("the rows of an image are one sample, in the order in which images first appear") {
  const Table table(
      "filename,width,height,class,xmin,ymin,xmax,ymax\n"
      "b.jpg,90,80,dog,1,2,30.5,40\n"
      "a.jpg,90,80,cat,5,6,7,8\n"
      "c.jpg,90,80,,,,,\n"
      "b.jpg,90,80,cat,0,0,9,9\n"
      "a.jpg,90,80,cat,-1,-1,1,1\n");
  const auto built = table.build();
  const auto restored = restore_dataset(built->serialize(), "memory");
  for (const Dataset* dataset : {built.get(), restored.get()}) {
    CHECK(dataset->format() == "table");
    CHECK(dataset->classes() == Lines{"cat", "dog"});
    CHECK(dataset->fields()[0].classes == Lines{"cat", "dog"});
    CHECK(describe_boxes(*dataset) ==
          Lines{"b.jpg -1: 1 1 2 30.5 40; 0 0 0 9 9;", "a.jpg 0: 0 5 6 7 8; 0 -1 -1 1 1;", "c.jpg -1:"});
    CHECK(dataset->counts().images == 3);
    CHECK(dataset->counts().objects == 5);
    CHECK(dataset->skipped().empty());
  }
}

TEST_CASE("columns have any names, a side may be a sum, and classes a list of their own") {
  Table table("Image Index,Finding Label,Bbox [x,y,w,h],,,\na.png,Mass,1,2,3.5,4\n\"b.png\",Edema,5,6,7,8,\n",
              "Bbox [x, y, Bbox [x + w, y+h], Finding Label");
  table.options.fields[0].classes = {"Mass", "Edema"};
  const auto dataset = table.build();
  CHECK(dataset->classes().empty());
  CHECK(dataset->fields()[0].classes == Lines{"Mass", "Edema"});
  CHECK(describe_boxes(*dataset) == Lines{"a.png -1: 0 1 2 4.5 6;", "b.png -1: 1 5 6 12 14;"});

  Table plain("image,x,y,a+b,c\ni.jpg,1,2,3,4\n", "x, y, a+b, c");
  CHECK(describe_boxes(*plain.build()) == Lines{"i.jpg -1: -1 1 2 3 4;"});
  Table given("image,label,xmin,ymin,xmax,ymax\ni.jpg,ant,1,2,3,4\ni.jpg,bee,1,2,3,4\n");
  given.options.classes = {"fly", "bee"};
  CHECK(describe_boxes(*given.build()) == Lines{"i.jpg 1: 1 1 2 3 4;"});
}

TEST_CASE("a bad box is left out by its line, and its image stays") {
  const Table table(
      "image,xmin,ymin,xmax,ymax,class,age\n"
      "a.jpg,5,6,5,8,dog,1\n"
      "a.jpg,5,6,7,8,cat,2\n"
      "b.jpg,1,,3,4,cat,3\n"
      "c.jpg,1,nan,3,4,cat,4\n"
      "d.jpg,1,2,3e10,4,cat,5\n"
      "e.jpg,-5,2,0,4,cat,6\n"
      "f.jpg,1,2,3,4,cat,old\n"
      "f.jpg,1,2,3,4,cat,7,8\n"
      "f.jpg,1,2,3,4,cat\n");
  DatasetOptions options = table.options;
  options.fields.push_back(field_options("age", FieldKind::numbers));
  const auto dataset = build_dataset(options);
  CHECK(describe_boxes(*dataset) == Lines{"a.jpg 0: 0 5 6 7 8;", "b.jpg -1:", "c.jpg -1:", "d.jpg -1:", "e.jpg -1:"});
  CHECK(field_elements<float>(*dataset, 0, 1) == std::vector<float>{1});
  const auto reason = [&](int line) { return skip_reason(*dataset, ".csv:" + std::to_string(line)); };
  CHECK(reason(2) == "field \"boxes\": the box has no area");
  CHECK(reason(4) == "field \"boxes\": \"\" is no finite number");
  CHECK(reason(5) == "field \"boxes\": \"nan\" is no finite number");
  CHECK(reason(6) == "field \"boxes\": the box is beyond any image");
  CHECK(reason(7) == "field \"boxes\": the box lies outside its image");
  CHECK(contains(reason(8), "field \"age\": \"old\""));
  CHECK(reason(9) == "8 fields, but the header has 7");
  CHECK(reason(10) == "6 fields, but the header has 7");
}

TEST_CASE("a row that is left out leaves no class of its box behind") {
  const Table table(
      "image,xmin,ymin,xmax,ymax,class,age\n"
      "a.jpg,5,6,7,8,ant,old\n"
      "a.jpg,5,6,7,8,cat,2\n"
      "a.jpg,1,2,3,4,dog,2\n");
  DatasetOptions options = table.options;
  options.fields.push_back(field_options("age", FieldKind::numbers));
  const auto dataset = build_dataset(options);
  CHECK(dataset->fields()[0].classes == Lines{"cat", "dog"});
  CHECK(describe_boxes(*dataset) == Lines{"a.jpg -1: 0 5 6 7 8; 1 1 2 3 4;"});
}

TEST_CASE("columns that are not there, or too few of them, are refused with the key") {
  const std::string text = "image,xmin,ymin,xmax,ymax\ni.jpg,1,2,3,4\n";
  CHECK(
      contains(Table(text, "xmin, ymin, xmax").error(), "fields.boxes.from = \"xmin, ymin, xmax\": name the columns"));
  CHECK(contains(Table(text, "xmin, ymin, w, ymax").error(), "fields.boxes.from = \"w\": the table "));
  CHECK(contains(Table(text, "xmin, ymin, xmin + w, ymax").error(), "fields.boxes.from = \"w\": the table "));
  CHECK(contains(Table("image,x\ni.jpg,1\n").error(), "fields.boxes.from = \"xmin\": the table "));
  CHECK(contains(Table("image,xmin,ymin,xmax,ymax\n").error(), "the table has 0 rows below its header"));
}

TEST_CASE("real tables of boxes") {
  const auto data = real_data();
  if (!data) return;
  const auto boxes_in = [](const Dataset& dataset) {
    std::size_t boxes = 0;
    for (std::uint64_t id = 0; id < dataset.size(); ++id) boxes += field_elements<LabelledBox>(dataset, id).size();
    return boxes;
  };
  DatasetOptions xray = images_options(*data / "xray/BBox_List_2017.csv");
  xray.fields[0].from = "Bbox [x, y, Bbox [x + w, y + h], Finding Label";
  const auto findings = build_dataset(xray);
  CHECK(findings->size() == 880);
  CHECK(boxes_in(*findings) == 984);
  CHECK(findings->fields()[0].classes.size() == 8);
  CHECK(findings->skipped().empty());
  CHECK(field_elements<LabelledBox>(*findings, 0)[0].left == doctest::Approx(225.084745762712));
  const auto raccoons = build_dataset(images_options(*data / "voc/raccoon/data/train_labels.csv"));
  CHECK(boxes_in(*raccoons) == 173);
  CHECK(raccoons->classes() == Lines{"raccoon"});
}

// Compares rows of CSV with Python's csv module, if there is a Python.

namespace beside_python {

// The rows in the form that csv_rows.py writes; "refused" where Forebay reports an error and Python
// does not: a quote that is never closed, or bytes that are not text.
std::string rows_of(std::string_view table) {
  std::string all;
  try {
    CsvRows rows(table.substr(1), "table", std::string_view(",;\t|")[static_cast<unsigned char>(table.front()) % 4]);
    for (std::vector<std::string_view> fields; rows.next(fields);) {
      all += '(';
      for (const std::string_view field : fields) all += std::to_string(field.size()) + ":" + std::string(field);
      all += ')';
    }
  } catch (const ConfigError&) {
    return "refused";
  }
  return all;
}

std::vector<std::string> tables() {
  std::vector<std::string> all{"0path,label\na.jpg,1\r\nb.jpg,2\n", "1a;\"b \"\"c\"\";d\n\n\"x\ny\"z;\n",
                               "2a\tb\rc\td"};
  Random random(17);
  constexpr std::string_view kLetters = "ab,;|\t\"\"\"\n\r \xC3\xA9";
  for (int i = 0; i < 5000; ++i) {
    std::string table(1, static_cast<char>('0' + random.below(4)));
    for (std::uint64_t k = random.below(30); k > 0; --k) table += kLetters[random.below(kLetters.size())];
    all.push_back(table);
  }
  const std::vector<fuzz::KeptInput> kept = fuzz::kept_inputs(fuzz::corpus() / "csv.tar");
  CHECK(kept.size() >= 16);
  for (const fuzz::KeptInput& input : kept) all.push_back(input.bytes);
  std::erase_if(all, [](const std::string& table) { return table.empty(); });
  return all;
}

TEST_CASE("rows are those of Python's csv module") {
  if (std::system("python3 -c 'import csv, io, struct' 2> /dev/null") != 0) {
    MESSAGE("no Python with its csv module here");
    return;
  }
  const testing::TemporaryDirectory folder;
  const std::vector<std::string> all = tables();
  {
    std::ofstream file(folder / "tables", std::ios::binary);
    for (const std::string& table : all) {
      const auto length = static_cast<std::uint32_t>(table.size());
      file.write(reinterpret_cast<const char*>(&length), sizeof length) << table;
    }
  }
  const fs::path script = testing::source_dir() / "tests" / "csv_rows.py";
  const std::string command =
      "python3 '" + script.string() + "' '" + (folder / "tables").string() + "' '" + (folder / "rows").string() + "'";
  REQUIRE(std::system(command.c_str()) == 0);
  const std::string rows = testing::read_text(folder / "rows");
  std::size_t at = 0;
  std::size_t compared = 0;
  for (const std::string& table : all) {
    CAPTURE(table);
    std::uint32_t length = 0;
    REQUIRE(rows.size() - at >= sizeof length);
    std::memcpy(&length, rows.data() + at, sizeof length);
    const std::string expected = rows.substr(at + sizeof length, length);
    at += sizeof length + length;
    const std::string found = rows_of(table);
    if (found == "refused") continue;
    CHECK(found == expected);
    ++compared;
  }
  CHECK(compared > 2000);
  MESSAGE(compared << " tables");
}

}  // namespace beside_python

}  // namespace
}  // namespace forebay::test_table
