#include "coco_masks.hpp"

#include <algorithm>
#include <forebay/error.hpp>
#include <iterator>
#include <string_view>

#include "coco_segmentation.hpp"
#include "fields.hpp"

namespace forebay::data {
namespace {

// The name for the masks of objects in [fields.NAME].
constexpr std::string_view kSegmentation = "segmentation";
// Values of a mask of all objects: 0 is background, and class c is c + 1.
// 255 as in the masks of VOC and Cityscapes: pixels that no loss should count.
constexpr std::uint8_t kCrowdValue = 255;
constexpr std::size_t kMostMaskClasses = 254;
// In a mask of one object.
constexpr std::uint8_t kInside = 1;

}  // namespace

bool CocoMaskFields::is_one(const FieldOptions& field) noexcept {
  return !is_image_or_label(field.name) && place_of(field) == kSegmentation;
}

// Classes and colours of the section would contradict those of the objects.
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

// Only an RLE says its image's size; polygons may be of any, and what lies outside is cut off when
// they are drawn.
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

// Later shapes are drawn over earlier ones. The drawing is stored, not its pixels: it is far
// smaller, and is drawn by the thread that decodes the sample.
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
  // Crowds first: what lies in them keeps its class.
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

}  // namespace forebay::data
