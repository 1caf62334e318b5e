// Masks drawn from COCO's polygons and RLE, masks whose colours are classes, and values that are
// not classes.
#include <forebay/feeder.hpp>

#include "base/file_io.hpp"
#include "data/coco_segmentation.hpp"
#include "data/colour_table.hpp"
#include "detection_support.hpp"
#include "field_dataset.hpp"
#include "make/mask_drawer.hpp"
#include "test.hpp"

namespace forebay::test_masks {

using namespace forebay::data;
using namespace forebay::make;

namespace {

using namespace testing;

using Lines = std::vector<std::string>;
using Values = std::vector<std::uint8_t>;

Mask drawn(std::int32_t width, std::int32_t height, std::span<const std::byte> shapes, std::uint8_t value = 1) {
  MaskDrawing drawing(width, height);
  drawing.add(value, shapes);
  MaskDrawer drawer;
  Mask mask;
  drawer.draw(drawing.bytes(), {}, mask);
  return mask;
}

// Expands run lengths to pixels, row by row.
Values pixels_of_runs(std::int32_t width, std::int32_t height, const std::vector<std::uint32_t>& runs) {
  Values pixels(static_cast<std::size_t>(width) * static_cast<std::size_t>(height));
  std::size_t at = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    for (std::uint32_t k = 0; k < runs[i]; ++k, ++at) {
      const auto rows = static_cast<std::size_t>(height);
      pixels[at % rows * static_cast<std::size_t>(width) + at / rows] = i % 2;
    }
  }
  CHECK(at == pixels.size());
  return pixels;
}

std::string text_of(const Bytes& bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

Options whole_options(std::int64_t height, std::int64_t width) {
  Options options;
  options.transform.crop = Crop::none;
  options.transform.size = {height, width};
  options.transform.mirror = 0;
  options.transform.dtype = DType::uint8;
  options.run.eval = true;
  options.dataset.batch_size = 1;
  return options;
}

// The mask of each sample, in order.
std::vector<Values> masks_of(const Options& options) {
  Feeder feeder(options);
  std::vector<Values> masks;
  while (const auto batch = feeder.next()) {
    const TensorView view = batch->field(feeder.field_number("mask"));
    CHECK(view.shape == Shape{1, options.transform.size[0], options.transform.size[1]});
    const auto* const first = view.as<std::uint8_t>();
    masks.emplace_back(first, first + view.shape.elements());
  }
  return masks;
}

// Two images of 6 x 4 pixels with masks of objects: overlapping polygons, a crowd, and RLE of both forms.
class CocoFolder {
 public:
  static constexpr std::int32_t kImageWidth = 6;
  static constexpr std::int32_t kImageHeight = 4;

  explicit CocoFolder(const Lines& annotations, const std::string& size = R"("width": 6, "height": 4, )") {
    std::string list;
    for (const std::string& annotation : annotations) list += (list.empty() ? "" : ",\n") + annotation;
    const Bytes image = png_of(kImageWidth, kImageHeight, Values(3UL * kImageWidth * kImageHeight, 7), false);
    for (const char* name : {"a.png", "b.png"}) write_file(folder_ / name, text_of(image));
    write_file(folder_ / "coco.json", R"({"images": [{)" + size + R"("id": 1, "file_name": "a.png"}, {)" + size +
                                          R"("id": 2, "file_name": "b.png"}], "annotations": [)" + list +
                                          R"(], "categories": [{"id": 5, "name": "cat"}, {"id": 3, "name": "ant"}]})");
  }
  static std::string annotation(int image, int category, const std::string& segmentation, bool is_crowd = false) {
    return R"({"image_id": )" + std::to_string(image) + R"(, "category_id": )" + std::to_string(category) +
           R"(, "bbox": [0, 0, 6, 4], "iscrowd": )" + (is_crowd ? "1" : "0") + R"(, "segmentation": )" + segmentation +
           "}";
  }
  [[nodiscard]] Options options(SampleUnit samples = SampleUnit::images) const {
    Options options = whole_options(kImageHeight, kImageWidth);
    options.dataset = options_for(path());
    options.dataset.batch_size = 1;
    options.dataset.samples = samples;
    options.dataset.fields = {field_options("mask", FieldKind::mask, "segmentation")};
    return options;
  }
  [[nodiscard]] std::string path() const { return (folder_ / "coco.json").string(); }
  [[nodiscard]] const TemporaryDirectory& folder() const { return folder_; }

 private:
  TemporaryDirectory folder_;
};

const std::string kLeftHalf = "[[0, 0, 3, 0, 3, 4, 0, 4]]";
const std::string kTopHalf = R"({"size": [4, 6], "counts": [0, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2]})";
const std::string kLastPixel = R"({"counts": "g01", "size": [4, 6]})";

// The reason why an annotation with this segmentation was left out; a valid one stands next to it.
std::string reason_of(const std::string& segmentation) {
  const CocoFolder coco({CocoFolder::annotation(1, 3, kLeftHalf), CocoFolder::annotation(2, 5, segmentation)});
  const auto dataset = build_dataset(coco.options().dataset);
  return skip_reason(*dataset, coco.path() + "#annotations[1]");
}

// Two images with mask files of 2 x 2 pixels; the second mask is given.
class MaskFolder {
 public:
  explicit MaskFolder(const Bytes& second) {
    for (const char* name : {"in/a.png", "in/b.png"})
      write_file(folder_ / name, text_of(png_of(2, 2, Values(12), false)));
    write_file(folder_ / "masks/a.png", text_of(png_of(2, 2, {0, 1, 1, 0}, true)));
    write_file(folder_ / "masks/b.png", text_of(second));
    options_ = whole_options(2, 2);
    options_.dataset.path = (folder_ / "in").string();
    options_.dataset.format = "folder";
    options_.dataset.fields = {field_options("mask", FieldKind::mask, "../masks/{stem}.png")};
    options_.on_bad = OnBad::fail;
  }
  FieldOptions& field() { return options_.dataset.fields[0]; }
  std::vector<Values> masks() { return masks_of(options_); }
  std::string error() {
    return error_of([&] { (void)masks_of(options_); });
  }

 private:
  TemporaryDirectory folder_;
  Options options_;
};

Bytes colours_png(const Values& rgb) { return png_of(2, 2, rgb, false); }

}  // namespace

TEST_CASE("masks: polygons have the pixels that pycocotools gives them") {
  std::ifstream file(source_dir() / "tests" / "mask_truth.txt");
  for (std::string line; file.peek() == '#';) std::getline(file, line);
  std::int32_t height = 0;
  std::int32_t width = 0;
  std::string counts;
  std::string corners;
  std::size_t polygons = 0;
  while (file >> height >> width >> counts >> corners) {
    CAPTURE(counts);
    CAPTURE(corners);
    CocoSegmentation segmentation;
    segmentation.begin();
    segmentation.open(true);
    segmentation.open(true);
    std::istringstream numbers(corners);
    for (std::string number; std::getline(numbers, number, ',');) segmentation.number(false, std::stod(number));
    segmentation.close();
    segmentation.close();
    REQUIRE(segmentation.problem().empty());
    const Mask mask = drawn(width, height, segmentation.shapes());
    CHECK(mask.values == pixels_of_runs(width, height, runs_in_text(counts)));
    ++polygons;
  }
  CHECK(polygons == 330);
}

TEST_CASE("masks: of all objects of a COCO image, later over earlier, crowds below, from a saved index too") {
  const CocoFolder coco({CocoFolder::annotation(1, 5, kLeftHalf), CocoFolder::annotation(1, 3, kTopHalf),
                         CocoFolder::annotation(1, 3, R"({"size": [4, 6], "counts": [12, 12]})", true),
                         CocoFolder::annotation(2, 5, kLastPixel)});
  Options options = coco.options();
  options.dataset.index = (coco.folder() / "index").string();
  const std::vector<Values> expected{
      {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 255, 255, 255, 2, 2, 2, 255, 255, 255},
      {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}};
  CHECK(masks_of(options) == expected);
  CHECK(masks_of(options) == expected);
  const auto dataset = open_dataset(options.dataset);
  CHECK(dataset->fields()[0].classes == Lines{"background", "ant", "cat"});
  CHECK(std::ranges::none_of(dataset->skipped(), &Skipped::bad));

  // Masks are mirrored like their images.
  Options mirrored = options;
  mirrored.run = {};
  mirrored.transform.mirror = 1;
  mirrored.dataset.shuffle = false;
  CHECK(masks_of(mirrored)[0] ==
        Values{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 255, 255, 255, 2, 2, 2, 255, 255, 255, 2, 2, 2});

  // Classes that dataset.classes omits are background, including their crowds.
  options.dataset.index.clear();
  options.dataset.classes = {"cat"};
  CHECK(masks_of(options)[0] == Values{1, 1, 1, 0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1, 0, 0, 0});
}

TEST_CASE("masks: a sample that is one object has the mask of it alone") {
  const CocoFolder coco({CocoFolder::annotation(1, 5, kLeftHalf), CocoFolder::annotation(1, 3, kTopHalf)});
  const std::vector<Values> expected{{1, 1, 1, 0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1, 0, 0, 0},
                                     {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}};
  CHECK(masks_of(coco.options(SampleUnit::objects)) == expected);
}

TEST_CASE("masks: a segmentation that is none leaves its annotation out, by name") {
  CHECK(reason_of(kTopHalf).empty());
  CHECK(reason_of("[[0, 0, 1, 1], [0, 0, 3, 0, 3, 3]]").empty());  // a polygon of two corners has no area
  CHECK(contains(reason_of("[]"), "segmentation: it has no polygon of three corners"));
  CHECK(contains(reason_of("[[0, 0, 1, 1]]"), "it has no polygon of three corners"));
  CHECK(contains(reason_of("null"), "it has no segmentation, which a mask needs"));
  CHECK(contains(reason_of("[0, 0, 3, 0, 3, 3]"), "it is a list of numbers, not of polygons"));
  CHECK(contains(reason_of("[[0, 0, 3, 0, 3, 3, 1]]"), "polygon 1 has 7 numbers"));
  CHECK(contains(reason_of("[[0, 0, 3, 0, 3, 1e7]]"), "polygon 1 is beyond any image"));
  CHECK(contains(reason_of("[[0, 0, 3, 0, 3, true]]"), "neither a list of polygons nor an RLE"));
  CHECK(contains(reason_of("[[[0, 0, 3, 0, 3, 3]]]"), "neither a list of polygons nor an RLE"));
  CHECK(contains(reason_of(R"([{"x": 1}])"), "neither a list of polygons nor an RLE"));
  CHECK(contains(reason_of(R"({"counts": [1, 2], "size": [4, 6]})"), "are 3 pixels, and its size has 24"));
  CHECK(contains(reason_of(R"({"counts": [25, -1], "size": [4, 6]})"), "a number that is no count"));
  CHECK(contains(reason_of(R"({"counts": [20, 4]})"), "its RLE has no size"));
  CHECK(contains(reason_of(R"({"counts": "~", "size": [4, 6]})"), "counts are no RLE text"));
  CHECK(contains(reason_of(R"({"counts": "gggggggggggg", "size": [4, 6]})"), "counts are no RLE text"));
  CHECK(contains(reason_of(R"({"counts": [20, 4], "size": [6, 4]})"),
                 "its RLE is for an image of 4x6, and this is one of 6x4"));
}

TEST_CASE("masks: what COCO's masks cannot be is refused by name") {
  const CocoFolder coco({CocoFolder::annotation(1, 5, kLeftHalf)});
  const auto refusal = [&](auto&& change) {
    DatasetOptions options = coco.options().dataset;
    change(options.fields[0]);
    return build_error(options);
  };
  CHECK(contains(refusal([](FieldOptions& field) { field.kind = FieldKind::image; }), R"(are served as a "mask")"));
  CHECK(contains(refusal([](FieldOptions& field) { field.classes = {"a"}; }), "fields.mask.classes: the objects have"));
  CHECK(contains(refusal([](FieldOptions& field) { field.from = ""; }), R"(it has "objects", "segmentation")"));
  const CocoFolder unsized({CocoFolder::annotation(1, 5, kLeftHalf)}, "");
  CHECK(contains(build_error(unsized.options().dataset), "it has no width and height, which its mask needs: a.png"));
  // An image whose size differs from its mask's.
  const CocoFolder turned({CocoFolder::annotation(1, 5, kLeftHalf)}, R"("width": 4, "height": 6, )");
  Options options = turned.options();
  options.on_bad = OnBad::fail;
  CHECK(contains(error_of([&] { (void)masks_of(options); }), "a mask of 4x6 pixels for an image of 6x4"));
  const CocoFolder panoptic({R"({"image_id": 1, "file_name": "a.png", "segments_info": [{"id": 1}]})"});
  CHECK(contains(build_error(panoptic.options().dataset), "COCO's panoptic task"));
}

TEST_CASE("masks: damaged bytes of a drawn mask are refused") {
  CocoSegmentation segmentation;
  segmentation.begin();
  segmentation.open(true);
  segmentation.open(true);
  for (const double number : {0.0, 0.0, 9.0, 0.0, 9.0, 9.0}) segmentation.number(false, number);
  segmentation.close();
  segmentation.close();
  REQUIRE(segmentation.problem().empty());
  MaskDrawing drawing(10, 10);
  drawing.add(3, segmentation.shapes());
  const Bytes whole(drawing.bytes().begin(), drawing.bytes().end());
  MaskDrawer drawer;
  Mask mask;
  // None of these may access memory out of bounds; most are refused.
  std::size_t refused = 0;
  for (std::size_t at = drawn_mask_signature().size(); at < whole.size(); ++at) {
    Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(at));
    refused += error_of([&] { drawer.draw(cut, {}, mask); }).empty() ? 0 : 1;
    for (unsigned bit = 0; bit < 8; ++bit) {
      Bytes changed = whole;
      changed[at] ^= static_cast<std::byte>(1U << bit);
      refused += error_of([&] { drawer.draw(changed, {.max_pixels = 100'000}, mask); }).empty() ? 0 : 1;
    }
  }
  CHECK(refused > 20);
}

TEST_CASE("masks: the colours of an image are classes by a table") {
  MaskFolder folder(colours_png({128, 0, 0, 0, 128, 0, 0, 0, 0, 0, 128, 0}));
  folder.field().colours = {"0,0,0", "128,0,0", " 0, 128 ,0 = 7", "1,1,1"};
  CHECK(folder.masks() == std::vector<Values>{{0, 3, 3, 0}, {1, 7, 0, 7}});
  folder.field().dtype = DType::int64;
  CHECK(folder.error().empty());
  folder.field().dtype.reset();
  folder.field().colours.erase(folder.field().colours.begin() + 2);
  CHECK(contains(folder.error(), "field \"mask\""));
  CHECK(contains(folder.error(), "the pixel at x 1, y 0 has the colour 0,128,0, which is not in fields.mask.colours"));
  folder.field().colours.emplace_back("other=255");
  CHECK(folder.masks()[1] == Values{1, 255, 0, 255});
  folder.field().classes = {"a"};
  CHECK(contains(folder.error(), " of 1 (fields.mask.classes)"));
  folder.field().classes.clear();
  folder.field().colours.clear();
  CHECK(contains(folder.error(), "this PNG has 3 of 8; where its colours are classes, list them"));
}

TEST_CASE("masks: a table of colours that is none is refused by its entry") {
  const auto problem = [](const Lines& entries) { return ColourTable::problem_of(entries); };
  CHECK(problem({"0,0,0", "255,255,255=255", "other=0"}).empty());
  CHECK(contains(problem({"0,0"}), R"("0,0" is none of "R,G,B")"));
  CHECK(contains(problem({"0,0,0,0"}), "is none of"));
  CHECK(contains(problem({"0,0,256"}), "is none of"));
  CHECK(contains(problem({"0,0,-1"}), "is none of"));
  CHECK(contains(problem({""}), "is none of"));
  CHECK(contains(problem({"0,0,0=256"}), "a class is a whole number from 0 to 255"));
  CHECK(contains(problem({"0,0,0="}), "a class is a whole number from 0 to 255"));
  CHECK(contains(problem({"other"}), "say which class it is"));
  CHECK(contains(problem({"other=1", "other=2"}), "is there twice"));
  CHECK(contains(problem({"1,2,3", "0,0,0", "1,2,3=0"}), R"(the colour "1,2,3" is there twice)"));
  Lines many;
  for (int i = 0; i <= 256; ++i) many.push_back("0," + std::to_string(i / 256) + "," + std::to_string(i % 256));
  CHECK(contains(problem(many), "its place in the list is no class below 256"));
  many.back() += "=0";
  CHECK(problem(many).empty());

  MaskFolder folder(colours_png(Values(12)));
  folder.field().colours = {"red"};
  CHECK(contains(folder.error(), R"(fields.mask.colours: "red" is none of)"));
  folder.field().kind = FieldKind::image;
  CHECK(contains(folder.error(), "fields.mask.colours: only masks have them"));
}

TEST_CASE("masks: a value that is none of the field's classes makes a bad sample") {
  MaskFolder folder(png_of(2, 2, {0, 255, 2, 1}, true));
  folder.field().classes = {"a", "b", "c"};
  CHECK(folder.masks()[1] == Values{0, 255, 2, 1});
  folder.field().classes.pop_back();
  CHECK(contains(folder.error(), "the pixel at x 0, y 1 has class 2 of 2 (fields.mask.classes)"));
  folder.field().classes.clear();
  CHECK(folder.error().empty());
}

}  // namespace forebay::test_masks
