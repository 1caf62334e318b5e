// Computes where each field lies in a slot: once at the start of a run, alike on all ranks, from
// the dataset's fields and the transform. Refuses, by the field's name, combinations that would
// only fail later. Images come first in a slot. Then comes each field, for all samples of the
// batch, aligned to FieldLayout::kAlignment.

#include "field_layout.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>

#include <forebay/error.hpp>

#include "data/colour_table.hpp"

namespace forebay::make {
namespace {

// A limit for all fields of a slot together, so that no size overflows. Whether the memory exists
// shows when it is allocated.
constexpr std::size_t kMostBytes = std::size_t{1} << 40U;

[[noreturn]] void refuse(const Field& field, const std::string& problem) {
  throw ConfigError("field \"" + field.name + "\": " + problem);
}

// Fields are sections of a configuration, so a name must be a bare key of TOML.
bool is_name(std::string_view name) {
  const auto is_part = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  };
  return !name.empty() && std::ranges::all_of(name, is_part);
}

void check_name(const Field& field, std::span<const Field> all) {
  if (!is_name(field.name)) refuse(field, "a name has letters, digits, '_' and '-' only");
  if (field.name == "image" || field.name == "label") refuse(field, "every batch has a field of that name already");
  if (std::ranges::count(all, field.name, &Field::name) > 1) refuse(field, "there are two of that name");
}

bool is_whole(DType dtype) { return dtype == DType::uint8 || dtype == DType::int32 || dtype == DType::int64; }

// mean and std become the floats by which a pixel is scaled and shifted; a tiny std would make them
// infinite.
void check_numbers(const Field& field) {
  for (std::size_t channel = 0; channel < 3; ++channel) {
    const double scale = 1 / field.std[channel];
    const bool holds = field.std[channel] > 0 && std::isfinite(field.mean[channel]) &&
                       std::isfinite(static_cast<float>(scale)) &&
                       std::isfinite(static_cast<float>(field.mean[channel] * scale));
    if (!holds) refuse(field, "its mean must be finite, and its std more than 0 and not tiny");
  }
}

void check_colours(const Field& field) {
  if (field.colours.empty()) return;
  if (field.kind != FieldKind::mask) refuse(field, "only masks have colours");
  if (const std::string problem = data::ColourTable::problem_of(field.colours); !problem.empty())
    refuse(field, "colours: " + problem);
}

void check_type(const Field& field) {
  const auto require = [&](bool holds, const std::string& types) {
    if (!holds) refuse(field, "a field of kind " + std::string(to_string(field.kind)) + " is " + types);
  };
  switch (field.kind) {
    case FieldKind::image: return require(field.dtype <= DType::uint8, "float32, float16, bfloat16 or uint8");
    case FieldKind::mask: return require(is_whole(field.dtype), "uint8, int32 or int64");
    case FieldKind::class_number:
      return require(is_whole(field.dtype) && field.dtype != DType::uint8, "int32 or int64");
    case FieldKind::boxes: return require(field.dtype == DType::float32, "float32");
    case FieldKind::bytes: return require(field.dtype == DType::uint8, "uint8");
    case FieldKind::multilabel:
    case FieldKind::numbers:
    case FieldKind::array: return;
  }
}

// The shape of one sample in a batch.
Shape shape_of(const Field& field, const TransformOptions& options) {
  const auto require = [&](bool holds, const std::string& what) {
    if (!holds) refuse(field, what);
  };
  const Shape& given = field.shape;
  // A batch adds one dimension.
  require(given.size() < Shape::kMost, "a sample has at most 7 dimensions");
  require(std::ranges::all_of(given, [](std::int64_t extent) { return extent >= 1; }), "its extents must be 1 or more");
  double elements = 1;
  for (const std::int64_t extent : given) elements *= static_cast<double>(extent);
  require(elements <= static_cast<double>(kMostBytes), "it is larger than any memory");
  switch (field.kind) {
    case FieldKind::mask: {
      const Shape size{options.size[0], options.size[1]};
      require(given.empty() || given == size, "a mask has the size of its image, transform.size");
      return size;
    }
    case FieldKind::boxes: require(!given.empty(), "say how many boxes a sample has at most"); return {given[0], 4};
    case FieldKind::bytes: require(given.size() == 1, "say how many bytes a sample has at most"); return given;
    case FieldKind::multilabel:
      require(given.size() == 1 &&
                  (field.classes.empty() || given == Shape{static_cast<std::int64_t>(field.classes.size())}),
              "its shape is the number of its classes");
      return given;
    case FieldKind::class_number: require(given.empty(), "a class is a single number"); return given;
    case FieldKind::image: {
      require(given == Shape{1} || given == Shape{3},
              "a batch has one image of its own; of another its shape is [1] or [3], the channels");
      const bool planes = options.layout == Layout::nchw;
      return planes ? Shape{given[0], options.size[0], options.size[1]}
                    : Shape{options.size[0], options.size[1], given[0]};
    }
    case FieldKind::numbers:
    case FieldKind::array: break;
  }
  return given;
}

// With canvases a new view is cut out of the image at every use. Fields are made only once and
// would no longer match the view.
void check_view(const Field& field, const TransformOptions& options) {
  if (!follows_view(field.kind) || options.when == When::enqueue) return;
  const std::string_view what = field.kind == FieldKind::boxes  ? "boxes"
                                : field.kind == FieldKind::mask ? "masks"
                                                                : "further images";
  refuse(field, "transform.when = \"dequeue\" cuts a new view out of the images at every use, which " +
                    std::string(what) + " in memory cannot follow; set transform.when = \"enqueue\"");
}

class Placing {
 public:
  Placing(std::uint32_t rows, std::size_t begin) : rows_(rows) { layout_.bytes = begin; }

  void add(Field field, std::size_t source, bool has_counts) {
    FieldLayout::Entry entry{.field = std::move(field), .source = source};
    entry.sample_bytes = entry.field.sample_bytes();
    if (layout_.bytes > kMostBytes || entry.sample_bytes > (kMostBytes - layout_.bytes) / rows_) {
      refuse(entry.field, "a batch of it is larger than any memory");
    }
    entry.at = take(entry.sample_bytes * rows_);
    if (has_counts) entry.counts_at = take(sizeof(std::int32_t) * rows_);
    layout_.entries.push_back(std::move(entry));
  }
  [[nodiscard]] FieldLayout take_layout() { return std::move(layout_); }

 private:
  std::size_t take(std::size_t bytes) {
    constexpr std::size_t kAlignment = FieldLayout::kAlignment;
    const std::size_t at = (layout_.bytes + kAlignment - 1) / kAlignment * kAlignment;
    layout_.bytes = at + bytes;
    return at;
  }

  std::uint32_t rows_;
  FieldLayout layout_;
};

}  // namespace

FieldLayout field_layout(std::span<const Field> fields, const TransformOptions& options, std::uint32_t rows,
                         std::size_t begin) {
  Placing placing(rows, begin);
  for (std::size_t source = 0; source < fields.size(); ++source) {
    Field field = fields[source];
    check_name(field, fields);
    check_type(field);
    check_numbers(field);
    check_colours(field);
    check_view(field, options);
    field.shape = shape_of(field, options);
    const bool is_boxes = field.kind == FieldKind::boxes;
    // The classes of boxes are a field of their own, NAME.class.
    Field classes{.name = field.name + ".class", .kind = FieldKind::class_number, .dtype = DType::int64};
    classes.classes = field.classes;
    classes.shape = {is_boxes ? field.shape[0] : 1};
    const bool has_counts = is_ragged(field.kind);
    placing.add(std::move(field), source, has_counts);
    if (is_boxes) placing.add(std::move(classes), source, false);
  }
  FieldLayout layout = placing.take_layout();
  layout.height = options.size[0];
  layout.width = options.size[1];
  return layout;
}

}  // namespace forebay::make
