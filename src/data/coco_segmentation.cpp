// The "segmentation" of a COCO object: a list of polygons [[x, y, x, y, ...], ...], or an RLE
// {"counts": ..., "size": [height, width]}, whose counts are a list of numbers or a text.
//
// coco_file.cpp passes on its parser's events from the opening to the closing bracket of a
// segmentation. The result is bytes, which the index stores and make/mask_drawer.cpp draws. The
// rules are those of pycocotools (maskApi.c), to the pixel: coordinates are rounded to fifths of a
// pixel, and runs go down the columns and begin with background.

#include "coco_segmentation.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <string_view>
#include <utility>

#include <forebay/error.hpp>

#include "fields.hpp"

namespace forebay::data {
namespace {

// The `from` of a section [fields.NAME] that requests the masks of objects.
constexpr std::string_view kSegmentation = "segmentation";
// Pixel values in a mask of all objects: 0 is background, class c is c + 1, and a crowd is 255, as
// in VOC and Cityscapes, where a loss ignores such pixels.
constexpr std::uint8_t kCrowdValue = 255;
constexpr std::size_t kMostMaskClasses = 254;
// The value of the object's pixels in a mask of one object.
constexpr std::uint8_t kInside = 1;

}  // namespace

bool CocoMaskFields::is_one(const FieldOptions& field) noexcept {
  return !is_image_or_label(field.name) && place_of(field) == kSegmentation;
}

// Classes or colours in the section would contradict those of the objects.
void CocoMaskFields::require_mask(const FieldOptions& field) {
  const std::string key = "fields." + field.name;
  if (field.kind != FieldKind::mask) {
    throw ConfigError(key + R"(.kind: the polygons and RLE of COCO ("segmentation") are served as a "mask")");
  }
  if (!field.classes.empty() || !field.colours.empty()) {
    throw ConfigError(key + (field.classes.empty() ? ".colours" : ".classes") +
                      ": the objects have the classes of the dataset; name them in dataset.classes");
  }
}

CocoMasks CocoMaskFields::wanted(const DatasetOptions& options) noexcept {
  return std::ranges::any_of(options.fields, is_one) ? CocoMasks::all : CocoMasks::none;
}

CocoMaskFields::CocoMaskFields(const DatasetOptions& options, const std::vector<std::string>& classes)
    : are_images_(options.samples == SampleUnit::images) {
  for (const FieldOptions& each : options.fields) {
    if (!is_one(each)) continue;
    if (are_images_ && classes.size() > kMostMaskClasses) {
      throw ConfigError("fields." + each.name + ": a pixel is 0, 255 or a class from 1 to 254, and there are " +
                        std::to_string(classes.size()) + " classes; choose some in dataset.classes");
    }
    Field field = field_of(each);
    if (are_images_) {
      field.classes = {"background"};
      field.classes.insert(field.classes.end(), classes.begin(), classes.end());
    }
    columns_.push_back({.field = std::move(field)});
  }
}

// Only an RLE states its image's size. Polygons fit an image of any size: what lies outside is
// clipped when they are drawn.
std::string CocoMaskFields::problem_of(std::span<const std::byte> shapes, const CocoFile::Image& image) {
  const RunsSize size = size_of_runs(shapes);
  const bool fits = size.width == 0 || (size.width == image.width && size.height == image.height);
  if (fits) return {};
  return "segmentation: its RLE is for an image of " + std::to_string(size.width) + "x" + std::to_string(size.height) +
         ", and this is one of " + std::to_string(image.width) + "x" + std::to_string(image.height);
}

void CocoMaskFields::begin_image(const CocoFile::Image& image) {
  image_ = image;
  crowds_.clear();
  objects_.clear();
}

// Later shapes cover earlier ones. The index stores the shapes rather than the pixels, because they
// are far smaller; the thread that decodes the sample draws them.
void CocoMaskFields::end_image() {
  if (columns_.empty()) return;
  if (!are_images_) {
    for (const auto& [label, shapes] : objects_) {
      MaskDrawing alone(image_.width, image_.height);
      alone.add(kInside, shapes);
      add_values(alone);
    }
    return;
  }
  MaskDrawing drawing(image_.width, image_.height);
  // Crowds come first, so that objects within them keep their class.
  for (const auto shapes : crowds_) drawing.add(kCrowdValue, shapes);
  for (const auto& [label, shapes] : objects_) drawing.add(static_cast<std::uint8_t>(label + 1), shapes);
  add_values(drawing);
}

void CocoMaskFields::add_values(const MaskDrawing& drawing) {
  for (auto& column : columns_) column.add_values(drawing.bytes());
}

void CocoMaskFields::finish(RecordTable& table) {
  std::ranges::move(columns_, std::back_inserter(table.fields));
  table.field_names.emplace_back(kSegmentation);
}

namespace {

constexpr std::size_t kFewestCorners = 3;
constexpr double kMostOfRun = std::numeric_limits<std::uint32_t>::max();

// Converts a coordinate to fifths of a pixel, truncating towards zero as pycocotools does
// (maskApi.c: (int)(5 * x + .5)). False if it is too far away. The negated comparison also refuses
// NaN.
bool to_fine(double place, std::int32_t& fine) {
  const double scaled = MaskShape::kFine * place + 0.5;
  if (!(std::fabs(scaled) <= MaskShape::kFarthest)) return false;
  fine = static_cast<std::int32_t>(scaled);
  return true;
}

}  // namespace

std::vector<std::uint32_t> runs_in_text(std::string_view text) {
  // A number is written in groups of five bits, the lowest first, each as a character from '0' on.
  // The sixth bit says that another group follows; the fifth bit of the last group is the sign.
  // From the fourth run on, a number is the difference from the run two before.
  constexpr unsigned kBits = 5;
  // 40 bits. A run of 32 bits with its sign needs seven groups.
  constexpr unsigned kMostGroups = 8;
  std::vector<std::uint32_t> runs;
  for (std::size_t at = 0; at < text.size();) {
    std::int64_t value = 0;
    unsigned group = 0;
    for (bool is_last = false; !is_last; ++group, ++at) {
      const unsigned code = at < text.size() ? static_cast<unsigned char>(text[at]) - unsigned{'0'} : 64U;
      if (code >= 64 || group == kMostGroups) throw SampleError("counts are no RLE text");
      value |= std::int64_t{code & 31U} << (kBits * group);
      is_last = (code & 32U) == 0;
      if (is_last && (code & 16U) != 0) value -= std::int64_t{1} << (kBits * (group + 1));
    }
    if (runs.size() > 2) value += runs[runs.size() - 2];
    if (value < 0 || value > std::numeric_limits<std::uint32_t>::max()) throw SampleError("counts are no RLE text");
    runs.push_back(static_cast<std::uint32_t>(value));
  }
  return runs;
}

// Only the first shape is looked at: an object has polygons or one RLE, never both.
RunsSize size_of_runs(std::span<const std::byte> shapes) {
  MaskShape::Kind kind{};
  RunsSize size;
  PackReader reader(shapes);
  reader(kind);
  if (kind == MaskShape::Kind::runs) reader(size.width, size.height);
  return size;
}

void CocoSegmentation::begin() {
  shapes_.clear();
  problem_.clear();
  depth_ = 0;
  member_ = Member::none;
  numbers_.clear();
  size_.clear();
  shape_ = {};
  polygons_ = 0;
  is_read_ = false;
}

// Only an object's first problem is reported, because the others mostly follow from it.
void CocoSegmentation::fail(std::string problem) {
  if (problem_.empty()) problem_ = std::move(problem);
}

// Depth 1 is the list of polygons or the object of an RLE; depth 2 is a polygon or one of the RLE's
// lists.
void CocoSegmentation::open(bool is_list) {
  ++depth_;
  if (depth_ == 1) {
    is_list_ = is_list;
    is_read_ = true;
  } else if (depth_ == 2 && is_list_ && is_list) {
    numbers_.clear();
    ++polygons_;
  } else if (depth_ > 2 || !is_list) {
    fail("it is neither a list of polygons nor an RLE");
  }
}

void CocoSegmentation::close() {
  if (depth_ == 2 && is_list_) end_polygon();
  if (depth_ == 1 && !is_list_) end_runs();
  --depth_;
}

void CocoSegmentation::key(std::string_view name) {
  if (depth_ != 1) return;
  member_ = name == "counts" ? Member::counts : name == "size" ? Member::size : Member::none;
}

void CocoSegmentation::number(bool is_whole, double value) {
  if (depth_ == 1 && is_list_) return fail("it is a list of numbers, not of polygons: [[x, y, x, y, x, y]]");
  if (depth_ != 2) return other();
  if (is_list_) return numbers_.push_back(value);
  if (member_ == Member::none) return;
  const bool is_count = is_whole && value >= 0 && value <= kMostOfRun;
  if (!is_count) return fail("its RLE has a number that is no count");
  (member_ == Member::counts ? numbers_ : size_).push_back(value);
}

void CocoSegmentation::text(std::string_view text) {
  if (depth_ != 1 || is_list_ || member_ != Member::counts) return other();
  try {
    shape_.runs = runs_in_text(text);
  } catch (const SampleError& error) {
    fail(error.what());
  }
}

void CocoSegmentation::other() {
  if (depth_ == 0 || is_list_ || member_ != Member::none) fail("it is neither a list of polygons nor an RLE");
}

void CocoSegmentation::end_shape() {
  PackWriter writer;
  code_shape(writer, std::as_const(shape_));
  shapes_.insert(shapes_.end(), writer.bytes().begin(), writer.bytes().end());
}

// Some exporters write polygons with fewer than three corners. They have no area, and the object
// may have others, so they are skipped.
void CocoSegmentation::end_polygon() {
  const std::string name = "polygon " + std::to_string(polygons_);
  if (numbers_.size() % 2 != 0) {
    return fail(name + " has " + std::to_string(numbers_.size()) + " numbers, which are no pairs of x and y");
  }
  const std::size_t corners = numbers_.size() / 2;
  if (corners < kFewestCorners) {
    ++slivers_;
    return;
  }
  shape_.kind = MaskShape::Kind::polygon;
  shape_.x.resize(corners);
  shape_.y.resize(corners);
  for (std::size_t i = 0; i < corners; ++i) {
    if (!to_fine(numbers_[2 * i], shape_.x[i]) || !to_fine(numbers_[2 * i + 1], shape_.y[i])) {
      return fail(name + " is beyond any image");
    }
  }
  if (shape_.outline() > MaskShape::kLongest) return fail(name + " is longer than any outline");
  end_shape();
}

// Sides of at most 2^24 keep their product within 64 bits. The counts must cover the image exactly;
// otherwise the mask would be shifted.
void CocoSegmentation::end_runs() {
  constexpr double kMostSide = 1 << 24;
  const bool is_size =
      size_.size() == 2 && size_[0] >= 1 && size_[1] >= 1 && size_[0] <= kMostSide && size_[1] <= kMostSide;
  if (!is_size) return fail("its RLE has no size [height, width]");
  shape_.kind = MaskShape::Kind::runs;
  shape_.height = static_cast<std::int32_t>(size_[0]);
  shape_.width = static_cast<std::int32_t>(size_[1]);
  for (const double run : numbers_) shape_.runs.push_back(static_cast<std::uint32_t>(run));
  std::uint64_t pixels = 0;
  for (const std::uint32_t run : shape_.runs) pixels += run;
  const std::uint64_t wanted = static_cast<std::uint64_t>(shape_.height) * static_cast<std::uint64_t>(shape_.width);
  if (pixels != wanted) {
    return fail("the counts of its RLE are " + std::to_string(pixels) + " pixels, and its size has " +
                std::to_string(wanted));
  }
  end_shape();
}

std::string CocoSegmentation::problem() {
  if (problem_.empty() && is_read_ && shapes_.empty()) fail("it has no polygon of three corners");
  if (problem_.empty() && !is_read_) return "it has no segmentation, which a mask needs";
  return problem_.empty() ? "" : "segmentation: " + problem_;
}

}  // namespace forebay::data
