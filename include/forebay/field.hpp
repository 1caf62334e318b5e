#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <forebay/tensor.hpp>

// A batch is a set of named fields. Every batch has "image" and "label" as its first two: Lease::images() and
// Lease::labels(). docs/data.md shows how the others are read from files.
namespace forebay {

// The kind of a field, which decides how a view (crop, mirror) changes it: an image is resampled, a mask takes the
// nearest pixel, boxes are moved and clipped; all others stay as they are.
enum class FieldKind : std::uint8_t {
  image,         // the field "image" of the sample itself, or another picture of its size, such as a depth map
  mask,          // [H, W] class numbers of pixels, with the size of the image in the batch
  class_number,  // "class": [] an index into Field::classes, or -1
  multilabel,    // [classes] 1 for each class that applies, else 0
  numbers,       // any shape, as in the dataset; all are finite
  boxes,         // [most, 4] left, top, right, bottom in pixels of the image in the batch; ragged
  array,         // any shape, as in the dataset
  bytes,         // [most] bytes as they are; ragged
};

// "class" for class_number; else the name of the enumerator.
[[nodiscard]] constexpr std::string_view to_string(FieldKind kind) noexcept {
  switch (kind) {
    case FieldKind::image: return "image";
    case FieldKind::mask: return "mask";
    case FieldKind::class_number: return "class";
    case FieldKind::multilabel: return "multilabel";
    case FieldKind::numbers: return "numbers";
    case FieldKind::boxes: return "boxes";
    case FieldKind::array: return "array";
    case FieldKind::bytes: return "bytes";
  }
  return "?";
}

// Whether the number of rows differs between samples; Lease::counts() has the numbers.
[[nodiscard]] constexpr bool is_ragged(FieldKind kind) noexcept {
  return kind == FieldKind::boxes || kind == FieldKind::bytes;
}
// Whether a view changes the field. For fields other than the image itself, this requires transform.when = "enqueue".
[[nodiscard]] constexpr bool follows_view(FieldKind kind) noexcept {
  return kind == FieldKind::image || kind == FieldKind::mask || kind == FieldKind::boxes;
}

// The share of a box's area that must be visible in a view, unless the field says otherwise.
inline constexpr double kMinVisible = 0.25;

// One field of every batch.
struct Field {
  std::string name;  // letters, digits, '_' and '-'
  FieldKind kind = FieldKind::numbers;
  DType dtype = DType::float32;
  // The shape of one sample. Datasets leave a mask's shape empty (it is transform.size) and give [1] or [3], the
  // channels, for an image; in a batch an image has [channels, H, W] or [H, W, channels], according to
  // transform.layout. Ragged fields have [most, ...].
  Shape shape = {};
  std::vector<std::string> classes = {};  // class, multilabel, boxes, mask: the names of the classes, if known
  double min_visible = kMinVisible;       // boxes: one with a smaller share of its area visible is left out
  // Images: (value - mean) / std per channel, unless they are uint8. With one channel the first number is used.
  std::array<double, 3> mean{0, 0, 0};
  std::array<double, 3> std{1, 1, 1};
  // Masks: the class of each colour, in the form of FieldOptions::colours; empty: the values are the classes.
  std::vector<std::string> colours = {};

  [[nodiscard]] std::size_t sample_bytes() const noexcept { return shape.elements() * size_of(dtype); }
};

// One row of a field of boxes, as a dataset provides it: in (possibly fractional) pixels of the whole image as
// displayed; left and top inside the box, right and bottom just past it.
struct LabelledBox {
  float left = 0;
  float top = 0;
  float right = 0;
  float bottom = 0;
  std::int32_t label = -1;  // index into Field::classes; -1 = unlabelled

  friend bool operator==(const LabelledBox&, const LabelledBox&) = default;
};
static_assert(sizeof(LabelledBox) == 20);

}  // namespace forebay
