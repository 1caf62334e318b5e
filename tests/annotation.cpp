#include "data/annotation.hpp"
#include "dataset_support.hpp"
#include "test.hpp"

// Reading Pascal VOC annotations: boxes, names and encodings, documents that are refused, and
// agreement with expat.
namespace forebay::test_annotation {

using namespace forebay::data;
using namespace forebay::testing;

namespace {

Annotation parse(const std::string& xml) { return parse_annotation(bytes_of(xml)); }

// The object of an annotation that contains only this one.
AnnotatedObject parse_object(const std::string& xml) {
  const Annotation parsed = parse(annotation(xml));
  REQUIRE(parsed.objects.size() == 1);
  return parsed.objects.front();
}

Box box_of(const std::string& bndbox) {
  const AnnotatedObject parsed = parse_object(object("dog", bndbox));
  REQUIRE(parsed.problem == "");
  return parsed.box;
}

std::string problem_of(const std::string& bndbox) { return parse_object(object("dog", bndbox)).problem; }

std::string refusal_of(const std::string& xml) {
  return error_of([&] { (void)parse(xml); });
}

}  // namespace

TEST_CASE("a VOC annotation gives its objects in order") {
  const Annotation parsed =
      parse(annotation(object("dog", bndbox("48", "240", "195", "371")) +
                       object("person", bndbox("8", "12", "352", "498"), "<difficult>1</difficult>")));
  CHECK(parsed.filename == "x.jpg");
  REQUIRE(parsed.objects.size() == 2);
  CHECK(parsed.objects[0].name == "dog");
  CHECK(parsed.objects[0].box == Box{47, 239, 195, 371});
  CHECK_FALSE(parsed.objects[0].difficult);
  CHECK(parsed.objects[1].name == "person");
  CHECK(parsed.objects[1].difficult);
}

TEST_CASE("VOC's 1-based inclusive corners become half open, clamped at 0, fractions rounded outward") {
  CHECK(box_of(bndbox("1", "1", "500", "375")) == Box{0, 0, 500, 375});
  CHECK(box_of(bndbox("0", "0", "500", "375")) == Box{0, 0, 500, 375});
  CHECK(box_of(bndbox("-5", "-7", "50", "60")) == Box{0, 0, 50, 60});
  CHECK(box_of(bndbox("12.0", "13.0", "50.0", "61.0")) == Box{11, 12, 50, 61});
  CHECK(box_of(bndbox("12.5", "13.2", "50.5", "61.9")) == Box{11, 12, 51, 62});
  CHECK(box_of(bndbox("1e1", "2E1", "1e2", "2.5e2")) == Box{9, 19, 100, 250});
  CHECK(box_of(bndbox(" +12 ", "\n13", "50\t", "61")) == Box{11, 12, 50, 61});
}

TEST_CASE("a field of boxes keeps VOC's fractions") {
  const BoxSides sides = parse_object(object("dog", bndbox("10.5", "0.25", "20.5", "30.75"))).sides;
  CHECK(sides == BoxSides{9.5, 0, 20.5, 30.75});
}

TEST_CASE("an object that cannot be used says why, the others stay") {
  CHECK(problem_of(bndbox("40", "1", "20", "9")) == "xmin 40 > xmax 20");
  CHECK(problem_of(bndbox("1", "9", "20", "9")) == "ymin 9 = ymax 9, a box without area");
  CHECK(problem_of(bndbox("-9", "1", "0", "9")) == "xmax 0 is outside the image");
  CHECK(problem_of("") == "no <bndbox>");
  CHECK(problem_of("<bndbox></bndbox>") == "<bndbox> without <xmin>");
  CHECK(problem_of(bndbox("1", "1", "9", "")) == "ymax \"\" is not a number");
  CHECK(problem_of(bndbox("0x10", "1", "9", "9")) == "xmin \"0x10\" is not a number");
  CHECK(problem_of(bndbox("1,5", "1", "9", "9")) == "xmin \"1,5\" is not a number");
  CHECK(problem_of(bndbox("12px", "1", "90", "9")) == "xmin \"12px\" is not a number");
  CHECK(problem_of(bndbox("nan", "1", "9", "9")) == "xmin \"nan\" is not a number");
  CHECK(problem_of(bndbox("1", "1", "inf", "9")) == "xmax \"inf\" is not a number");
  CHECK(problem_of(bndbox("99999999999999999999", "1", "9", "9")) == "xmin 99999999999999999999 is beyond any image");
  CHECK(problem_of(bndbox("1", "1", "9", "9") + bndbox("1", "1", "9", "9")) == "more than one <bndbox>");
  CHECK(parse_object("<object>" + bndbox("1", "1", "9", "9") + "</object>").problem == "no <name>");
  CHECK(parse_object(object(" ")).problem == "no <name>");
  CHECK(parse_object(object(std::string(1000, 'x'))).problem == "a <name> of 1000 bytes");

  const Annotation mixed = parse(annotation(object("cat", "") + object("dog")));
  REQUIRE(mixed.objects.size() == 2);
  CHECK(mixed.objects[0].problem != "");
  CHECK(mixed.objects[1].problem == "");
}

TEST_CASE("only <object> elements directly below the root count") {
  const std::string parts = "<part><name>head</name>" + bndbox("5", "5", "6", "6") + "</part>";
  const AnnotatedObject person = parse_object(object("person", bndbox("10", "10", "300", "300"), parts));
  CHECK(person.name == "person");
  CHECK(person.box == Box{9, 9, 300, 300});
  CHECK(parse(annotation("<extra>" + object("dog") + "</extra>")).objects.empty());
  CHECK(parse(annotation("<!-- " + object("dog") + " -->" + object("cat"))).objects.size() == 1);
}

TEST_CASE("names keep what XML says: entities, CDATA, comments, UTF-8, other encodings") {
  CHECK(parse_object(object("R&amp;D &lt;x&gt; &#233;")).name == "R&D <x> \u00e9");
  CHECK(parse_object(object("<![CDATA[a<b]]>")).name == "a<b");
  CHECK(parse_object(object("do<!-- c -->g")).name == "dog");
  CHECK(parse_object(object("\n  dog\t")).name == "dog");
  CHECK(parse("\xEF\xBB\xBF" + annotation(object("\u72d7"))).objects.at(0).name == "\u72d7");
  CHECK(parse("<?xml version=\"1.0\" encoding='ISO-8859-1'?>" + annotation(object("caf\xE9"))).objects.at(0).name ==
        "caf\u00e9");
  CHECK(parse("<?xml version=\"1.0\" encoding=\"us-ascii\"?>" + annotation(object("dog"))).objects.size() == 1);
}

TEST_CASE("a document that is not a usable annotation is refused with its line") {
  CHECK(refusal_of("") == "line 1: the document is empty");
  CHECK(refusal_of(" \n\t ") == "line 1: the document is empty");
  CHECK(refusal_of("<annotations/>") == "line 1: the root element is <annotations>, not <annotation>");
  CHECK(contains(refusal_of("<annotation>\n<object>\n</annotation>"), "line "));
  CHECK(contains(refusal_of("<annotation/>\n<annotation/>"), "line 2: a second root element"));
  CHECK(contains(refusal_of("<annotation/>\nhello"), "line 2"));
  CHECK(contains(refusal_of("<!DOCTYPE annotation>\n<annotation/>"), "line 1: a DOCTYPE, ENTITY"));
  CHECK(contains(refusal_of("<annotation>\n<!ENTITY a 'b'></annotation>"), "line 2: a DOCTYPE, ENTITY"));
  CHECK(contains(refusal_of(annotation("\n" + object("R&D"))), "line 4: '&'"));
  CHECK(contains(refusal_of(annotation(object("&lol;"))), "'&'"));
  CHECK(contains(refusal_of(annotation(object("&#0;"))), "'&'"));
  CHECK(contains(refusal_of(annotation(object("&#xD800;"))), "'&'"));
  CHECK(contains(refusal_of(annotation(object("caf\xE9"))), "byte 0xe9"));
  CHECK(contains(refusal_of(annotation(object("\xC0\x80"))), "is not UTF-8"));
  CHECK(contains(refusal_of(annotation(object("\xED\xA0\x80"))), "not"));
  CHECK(contains(refusal_of(annotation(object(std::string("a\0b", 3)))), "U+0000"));
  CHECK(contains(refusal_of("\xFF\xFE<\0"), "UTF-16"));
  CHECK(contains(refusal_of("<?xml version='1.0' encoding='GBK'?>" + annotation(object("\xB9\xB7"))), "gbk"));
  CHECK(contains(refusal_of("<annotation><!-- "), "never closed"));
  // The same characters are harmless if they are not markup.
  CHECK(parse(annotation("<!-- <!DOCTYPE a> & -->" + object("<![CDATA[&<!ENTITY]]>"))).objects.size() == 1);
}

TEST_CASE("processing instructions are passed over") {
  const std::string document = "<!-- head -->\n<?pi x?>\n" + annotation("<?another < & ?>" + object("dog"));
  CHECK(parse(document).objects.size() == 1);
  CHECK(contains(refusal_of("\n<?xml version='1.0'?><annotation/>"), "line 2: an XML declaration"));
}

TEST_CASE("nesting and attributes are bounded") {
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "<a>";
  CHECK(contains(refusal_of("<annotation>" + deep), "nested too deep"));
  const auto with_attributes = [](int count) {
    std::string tag = "<annotation";
    for (int i = 0; i < count; ++i) tag += " a" + std::to_string(i) + "='>'";
    return tag + "/>";
  };
  CHECK(refusal_of(with_attributes(256)) == "");
  CHECK(contains(refusal_of(with_attributes(257)), "line 1: an element has more than 256 attributes"));
}

namespace {

struct TruthRow {
  std::string path;
  bool well_formed = false;
  std::string root;
  std::vector<std::string> boxes;  // "name:xmin,ymin,xmax,ymax"
  std::size_t objects = 0;
};

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

std::vector<TruthRow> load_truth(const std::filesystem::path& data) {
  std::vector<TruthRow> rows;
  std::ifstream file(data / "truth" / "xml.tsv");
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    auto fields = split(line, '\t');
    fields.resize(13);
    TruthRow row{fields[0], fields[3] == "yes", fields[5], {}, 0};
    if (row.well_formed) {
      row.objects = fields[10].empty() ? 0 : std::stoul(fields[10]);
      row.boxes = split(fields[12], ';');
    }
    rows.push_back(row);
  }
  return rows;
}

// "name:xmin,ymin,xmax,ymax" from this parser, for boxes of whole numbers.
std::string as_truth(const AnnotatedObject& object) {
  return object.name + ":" + std::to_string(object.box.left + 1) + "," + std::to_string(object.box.top + 1) + "," +
         std::to_string(object.box.right) + "," + std::to_string(object.box.bottom);
}

// The expected result for a box of the truth: corners left of or above the image are clamped to its
// first pixel.
std::string clamped(const std::string& box) {
  const auto colon = box.rfind(':');
  auto corners = split(box.substr(colon + 1), ',');
  REQUIRE(corners.size() == 4);
  for (auto* low : {&corners[0], &corners[1]}) *low = std::to_string(std::max(std::stoi(*low), 1));
  return box.substr(0, colon + 1) + corners[0] + "," + corners[1] + "," + corners[2] + "," + corners[3];
}

// Well-formed annotations that are deliberately refused: DOCTYPE and ENTITY, UTF-16, nesting,
// attributes.
const std::set<std::string> kRefused{"made/xml/doctype.xml",   "made/xml/entity_ok.xml", "made/xml/xxe_dtd.xml",
                                     "made/xml/utf16be.xml",   "made/xml/utf16le.xml",   "made/xml/deep.xml",
                                     "made/xml/many_attrs.xml"};

}  // namespace

TEST_CASE("real annotations agree with expat") {
  const auto data = real_data();
  if (!data) return;
  std::size_t objects = 0;
  std::size_t compared = 0;
  for (const auto& row : load_truth(*data)) {
    CAPTURE(row.path);
    const std::string xml = read_text(*data / row.path);
    const bool is_annotation = row.well_formed && row.root == "annotation";
    if (!is_annotation) {
      // ns_default.xml: tinyxml2 does not support namespaces, and reads it as written.
      if (row.root != "{http://x/y}annotation") CHECK_THROWS_AS((void)parse(xml), SampleError);
      continue;
    }
    if (kRefused.contains(row.path)) {
      CHECK_THROWS_AS((void)parse(xml), SampleError);
      continue;
    }
    const Annotation parsed = parse(xml);
    CHECK(parsed.objects.size() == row.objects);
    objects += parsed.objects.size();
    if (!row.path.starts_with("voc/") && !row.path.starts_with("made/ilsvrc")) continue;
    REQUIRE(parsed.objects.size() == row.boxes.size());
    for (std::size_t i = 0; i < row.boxes.size(); ++i) {
      if (!parsed.objects[i].problem.empty()) continue;
      CHECK(as_truth(parsed.objects[i]) == clamped(row.boxes[i]));
      ++compared;
    }
  }
  CHECK(objects >= 217 + 4888);
  CHECK(compared >= 217 + 4886);
}

TEST_CASE("annotations made on purpose: good boxes, bad boxes") {
  const auto data = real_data();
  if (!data) return;
  const auto only_object = [&](const std::string& file) {
    const Annotation parsed = parse(read_text(*data / "made" / "xml" / (file + ".xml")));
    REQUIRE(parsed.objects.size() == 1);
    return parsed.objects.front();
  };
  for (const char* file :
       {"arabic_digits", "comma_decimal", "empty_num", "hex", "nan", "overflow", "text", "trailing", "xmin_gt_xmax",
        "zero_area", "no_name", "empty_name", "no_xmax", "polygon", "robndbox", "two_bndbox", "long_name"}) {
    CAPTURE(file);
    CHECK(only_object(file).problem != "");
  }
  for (const char* file : {"float_frac",  "float_int",   "latin1_declared", "name_cdata",  "name_comment",
                           "name_entity", "name_spaces", "negative",        "no_optional", "one_based_full",
                           "order_vid",   "outside",     "parts",           "parts_first", "plus",
                           "point",       "sci",         "spaces",          "utf8_name",   "zero_based"}) {
    CAPTURE(file);
    CHECK(only_object(file).problem == "");
  }
  CHECK(only_object("parts_first").box == Box{9, 9, 300, 300});
  CHECK(only_object("sci").box == Box{9, 19, 100, 250});
}

}  // namespace forebay::test_annotation
