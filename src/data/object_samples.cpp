// Makes samples of images with objects, for all formats that have boxes: one sample per object, or
// one per image, with its objects in fields.
//
// A format calls add() for each image in the order of the index, with the objects to be served, and
// finish() at the end. All of it runs on one thread. Each box is stored twice: in whole pixels, for
// cutting the object out (Region), and in floats, for the field.

#include "object_samples.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <forebay/error.hpp>

#include "sample_fields.hpp"

namespace forebay::data {

// Each stated size makes a kind of its own, and there are only 65536 kind numbers. When they run
// out, further sizes are dropped (such an image is not compared with its stated size); a few
// numbers are reserved for kinds without a size.
std::optional<std::uint16_t> number_of_kind(RecordTable::Kind kind, std::vector<RecordTable::Kind>& kinds,
                                            std::map<RecordTable::Kind, std::uint16_t>& numbers) {
  constexpr std::size_t kOthers = 64;  // room for kinds without a stated size
  if (const auto known = numbers.find(kind); known != numbers.end()) return known->second;
  const bool has_size = kind.encoding != Encoding::raw && kind.width > 0;
  if (kinds.size() < RecordTable::kMostKinds - (has_size ? kOthers : 0)) {
    const auto number = static_cast<std::uint16_t>(kinds.size());
    kinds.push_back(kind);
    return numbers[kind] = number;
  }
  if (!has_size) return std::nullopt;
  kind.width = kind.height = 0;
  return number_of_kind(kind, kinds, numbers);
}

RecordTable::Kind kind_of_size(std::int64_t width, std::int64_t height) noexcept {
  constexpr std::int64_t kLargest = 1'000'000'000;
  if (width <= 0 || height <= 0 || width > kLargest || height > kLargest) return {};
  return {.width = static_cast<std::int32_t>(width), .height = static_cast<std::int32_t>(height)};
}

Sample sample_of(const RecordTable::Kind& kind) noexcept {
  Sample sample;
  sample.encoding = kind.encoding;
  sample.width = kind.width;
  sample.height = kind.height;
  sample.channels = kind.channels;
  sample.planar = kind.planar;
  sample.bgr = kind.bgr;
  return sample;
}

// The column of kinds is created with the first stated size: a dataset without sizes needs none.
void StatedSizes::note(ImageExtent size, std::size_t first, RecordTable& table) {
  const std::uint16_t kind = size.is_known() ? kind_of(size, table) : std::uint16_t{0};
  if (kind == 0 && table.kind.empty()) return;
  table.kind.resize(first, 0);
  table.kind.resize(table.source.size(), kind);
}

std::uint16_t StatedSizes::kind_of(ImageExtent size, RecordTable& table) {
  RecordTable::Kind kind = table.kinds.front();
  kind.width = size.width;
  kind.height = size.height;
  const std::uint16_t number = number_of_kind(kind, table.kinds, numbers_).value_or(0);
  if (table.kinds[number] != kind) ++left_out_;
  return number;
}

std::string sizes_left_out_note(std::uint64_t samples) {
  return "the sizes that " + std::to_string(samples) + " annotations state are not compared with their images: there " +
         "are more than " + std::to_string(RecordTable::kMostKinds) + " different ones";
}

namespace {

// Whether the section asks for the objects of an image. Throws ConfigError if objects cannot be served that way.
bool wants_objects(const FieldOptions& wanted, bool are_images) {
  const bool is_from_objects = wanted.from.empty() || wanted.from == kObjects;
  const std::string key = "fields." + wanted.name;
  if (is_image_or_label(wanted.name) || !is_from_objects) return false;
  if (wanted.kind != FieldKind::boxes && wanted.kind != FieldKind::multilabel) return false;
  if (!are_images) {
    throw ConfigError(key + ".kind: each sample is one object here, and its class the label; dataset.samples = " +
                      "\"images\" serves images with all of their objects");
  }
  if (!wanted.classes.empty()) {
    throw ConfigError(key + ".classes: the objects have the classes of the dataset; name them in dataset.classes");
  }
  const DType dtype = field_of(wanted).dtype;
  if (dtype == DType::float16 || dtype == DType::bfloat16) {
    throw ConfigError(key + ".dtype: use float32; an index keeps numbers so");
  }
  return true;
}

}  // namespace

// A box given in fractions where pixels are expected would lie within the image's first pixel. If
// all sides are 0 or 1, though, it could be a box of one pixel.
bool seems_to_be_shares(const BoxSides& sides) noexcept {
  const auto is_share = [](double side) { return side >= 0 && side <= 1; };
  const auto is_fraction = [](double side) { return std::floor(side) != side; };
  return std::ranges::all_of(sides, is_share) && std::ranges::any_of(sides, is_fraction);
}

// Checks the floats that will be stored, so that no box becomes empty by rounding. The form of the
// comparisons also refuses NaN.
std::string problem_of_box(const BoxSides& sides) {
  // Far larger than any image, far below the limit of std::int32_t.
  constexpr double kFarthest = 1e9;
  const auto is_far = [](double side) { return !(std::fabs(side) <= kFarthest); };
  if (std::ranges::any_of(sides, is_far)) return "is beyond any image";
  const LabelledBox box = labelled_box(sides, -1);
  if (!(box.left < box.right && box.top < box.bottom)) return "has no area";
  if (seems_to_be_shares(sides)) {
    return "does not reach beyond 1, as if its sides were shares of the image; multiply them by its width and height";
  }
  return box.right > 0 && box.bottom > 0 ? "" : "lies outside its image";
}

LabelledBox labelled_box(const BoxSides& sides, std::int32_t label) noexcept {
  const auto [left, top, right, bottom] = sides;
  return {.left = static_cast<float>(left),
          .top = static_cast<float>(top),
          .right = static_cast<float>(right),
          .bottom = static_cast<float>(bottom),
          .label = label};
}

// Rounds outward, so that the box keeps every pixel that it touches.
Box pixels_of(const BoxSides& sides) noexcept {
  const auto low = [](double side) { return static_cast<std::int32_t>(std::max(std::floor(side), 0.0)); };
  const auto high = [](double side) { return static_cast<std::int32_t>(std::ceil(side)); };
  return {.left = low(sides[0]), .top = low(sides[1]), .right = high(sides[2]), .bottom = high(sides[3])};
}

std::int32_t common_class(std::span<const FoundObject> objects) noexcept {
  if (objects.empty()) return -1;
  const std::int32_t first = objects.front().box.label;
  const bool is_common = std::ranges::all_of(objects, [&](const auto& object) { return object.box.label == first; });
  return is_common ? first : -1;
}

ObjectSamples::ObjectSamples(const DatasetOptions& options, std::vector<std::string> classes)
    : are_images_(options.samples == SampleUnit::images), classes_(std::move(classes)) {
  for (const FieldOptions& wanted : options.fields) {
    if (!wants_objects(wanted, are_images_)) continue;
    Field field = field_of(wanted);
    field.classes = classes_;
    if (field.kind == FieldKind::multilabel) field.shape = {static_cast<std::int64_t>(classes_.size())};
    fields_.push_back({.field = std::move(field)});
  }
}

bool ObjectSamples::has_boxes() const noexcept {
  return !are_images_ ||
         std::ranges::any_of(fields_, [](const auto& column) { return column.field.kind == FieldKind::boxes; });
}

// An image without objects is a sample only if samples are images: it then shows background.
void ObjectSamples::add(std::string_view image, std::span<const FoundObject> objects, ImageExtent size,
                        RecordTable& table) {
  if (objects.empty() && !are_images_) return;
  const std::size_t first = table.source.size();
  const std::uint32_t file = table.add_source(image);
  if (are_images_) {
    table.add(file, common_class(objects));
    for (auto& column : fields_) add_values(column, objects);
  } else {
    for (const FoundObject& object : objects) {
      table.add(file, object.box.label);
      table.region.push_back(object.region);
    }
  }
  // Only boxes depend on the stated size.
  if (has_boxes()) sizes_.note(size, first, table);
}

void ObjectSamples::add_values(RecordTable::FieldColumn& column, std::span<const FoundObject> objects) const {
  FieldValue value;
  if (column.field.kind == FieldKind::boxes) {
    for (const FoundObject& object : objects) value.boxes.push_back(object.box);
  } else {
    value.integers.resize(classes_.size());
    for (const FoundObject& object : objects) {
      if (object.box.label >= 0) value.integers[static_cast<std::size_t>(object.box.label)] = 1;
    }
  }
  column.add_values(elements_of({.field = column.field, .from = {}}, value));
}

void ObjectSamples::finish(RecordTable& table) {
  for (const auto& column : fields_) {
    if (column.field.kind != FieldKind::multilabel || !classes_.empty()) continue;
    throw ConfigError("fields." + column.field.name + ".kind: no class was found that a label could stand for; " +
                      "a field of kind \"multilabel\" needs one");
  }
  table.classes = std::move(classes_);
  table.fields = std::move(fields_);
  if (are_images_) table.field_names = {std::string(kObjects)};
}

}  // namespace forebay::data
