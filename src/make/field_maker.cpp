// Writes the fields of a sample other than its image: class numbers, boxes, masks, further images,
// raw bytes, arrays. Runs on a decoder thread after the view of the image is chosen, because masks,
// boxes and images are cropped, scaled and mirrored with it. Everything from a file is checked
// against the field's declaration: sizes, ranges of classes, finite numbers. Anything else is a
// SampleError that names the value, because a wrong label that nobody notices in training is the
// worst outcome.

#include "field_maker.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <forebay/error.hpp>

#include "base/text.hpp"
#include "data/npy.hpp"
#include "data/placed_samples.hpp"

namespace forebay::make {
namespace {

// Whether the elements can be copied as they are. bool is stored as a byte of 0 or 1.
bool is_type(const data::NpyArray& array, DType dtype) {
  const auto is = [&](char kind) { return array.kind == kind && array.element_bytes == size_of(dtype); };
  switch (dtype) {
    case DType::float16:
    case DType::float32:
    case DType::float64: return is('f');
    case DType::uint8: return is('u') || is('b');
    case DType::int32:
    case DType::int64: return is('i');
    case DType::bfloat16: break;
  }
  return false;
}

[[noreturn]] void refuse_type(const Field& field, const data::NpyArray& array, const std::string& value = "") {
  throw SampleError("an array of " + array.dtype() + (value.empty() ? "" : " with " + value) + ", which " +
                    std::string(to_string(field.dtype)) + " does not hold");
}

// Integers must be converted exactly; floating-point numbers may lose precision but not become
// infinite.
template <typename From, typename To>
void convert_all(const Field& field, const data::NpyArray& array, std::span<const std::byte> from, std::byte* to) {
  for (std::size_t i = 0; i < array.count(); ++i) {
    From value{};
    std::memcpy(&value, from.data() + i * sizeof value, sizeof value);
    if constexpr (std::is_integral_v<To>) {
      if (!std::in_range<To>(value)) refuse_type(field, array, std::to_string(value));
    }
    const auto converted = static_cast<To>(value);  // NOLINT(bugprone-signed-char-misuse): int8 is a number here
    if constexpr (std::is_floating_point_v<From> && std::is_floating_point_v<To>) {
      if (std::isfinite(value) && !std::isfinite(converted)) refuse_type(field, array, shortest(value));
    }
    std::memcpy(to + i * sizeof converted, &converted, sizeof converted);
  }
}

// One instance per pair of types, so that the inner loop has no branches on the type.
template <typename To, bool kFloats>
void convert_from(const Field& field, const data::NpyArray& array, std::span<const std::byte> from, std::byte* to) {
  const auto is = [&](char kind, std::size_t bytes) { return array.kind == kind && array.element_bytes == bytes; };
  if (is('u', 1) || is('b', 1)) return convert_all<std::uint8_t, To>(field, array, from, to);
  if (is('i', 1)) return convert_all<std::int8_t, To>(field, array, from, to);
  if (is('u', 2)) return convert_all<std::uint16_t, To>(field, array, from, to);
  if (is('i', 2)) return convert_all<std::int16_t, To>(field, array, from, to);
  if (is('u', 4)) return convert_all<std::uint32_t, To>(field, array, from, to);
  if (is('i', 4)) return convert_all<std::int32_t, To>(field, array, from, to);
  if (is('u', 8)) return convert_all<std::uint64_t, To>(field, array, from, to);
  if (is('i', 8)) return convert_all<std::int64_t, To>(field, array, from, to);
  if constexpr (kFloats) {
    if (is('f', 4)) return convert_all<float, To>(field, array, from, to);
    if (is('f', 8)) return convert_all<double, To>(field, array, from, to);
  }
  refuse_type(field, array);
}

// With 16 bits on one side, by way of double, which rounds none but whole numbers beyond 2^53. REQUIRES: the field has
// floating-point numbers.
void convert_half(const Field& field, data::NpyArray array, std::span<const std::byte> from, std::byte* to) {
  array.elements = from;
  array.big_endian = false;
  const std::size_t bytes = size_of(field.dtype);
  const std::uint32_t infinity = field.dtype == DType::float16    ? 0x7c00
                                 : field.dtype == DType::bfloat16 ? 0x7f80
                                                                  : 0x7f800000;
  for (std::size_t i = 0; i < array.count(); ++i) {
    const double value = array.real(i);
    if (field.dtype == DType::float64) {
      std::memcpy(to + i * bytes, &value, bytes);
      continue;
    }
    const std::uint32_t bits = encode(value, field.dtype);
    if (std::isfinite(value) && (bits & infinity) == infinity) refuse_type(field, array, shortest(value));
    std::memcpy(to + i * bytes, &bits, bytes);
  }
}

void convert(const Field& field, const data::NpyArray& array, std::span<const std::byte> from, std::byte* to) {
  const bool is_half = array.kind == 'f' && array.element_bytes == 2;
  switch (field.dtype) {
    case DType::float32:
      if (is_half) return convert_half(field, array, from, to);
      return convert_from<float, true>(field, array, from, to);
    case DType::float64:
      if (is_half) return convert_half(field, array, from, to);
      return convert_from<double, true>(field, array, from, to);
    case DType::uint8: return convert_from<std::uint8_t, false>(field, array, from, to);
    case DType::int32: return convert_from<std::int32_t, false>(field, array, from, to);
    case DType::int64: return convert_from<std::int64_t, false>(field, array, from, to);
    case DType::float16:
    case DType::bfloat16: return convert_half(field, array, from, to);
  }
}

}  // namespace

// An .npy file states its type and shape. Other bytes are taken as the elements themselves, in C
// order and the machine's byte order.
void write_array(const Field& field, std::span<const std::byte> bytes, std::span<std::byte> to) {
  if (!data::starts_as_npy(bytes)) {
    if (bytes.size() != to.size()) {
      throw SampleError(std::to_string(bytes.size()) + " bytes, neither an npy file nor the " +
                        std::to_string(to.size()) + " of its elements");
    }
    std::ranges::copy(bytes, to.begin());
    return;
  }
  const data::NpyArray array = data::parse_npy(bytes);
  if (!std::equal(field.shape.begin(), field.shape.end(), array.shape.begin(),
                  array.shape.begin() + static_cast<std::ptrdiff_t>(array.dimensions))) {
    throw SampleError("an array of shape " + array.shape_text() + " where another one is wanted (fields." + field.name +
                      ".shape)");
  }
  if (is_type(array, field.dtype)) return data::copy_in_c_order(array, to);
  std::vector<std::byte> ordered(array.elements.size());
  data::copy_in_c_order(array, ordered);
  convert(field, array, ordered, to.data());
}

namespace {

// Elements may be unaligned within a sample's bytes.
template <typename T>
T element(std::span<const std::byte> bytes, std::size_t i) noexcept {
  T value{};
  std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

// In IEEE formats an exponent of all ones means infinity or NaN.
template <typename Bits>
bool is_finite(Bits bits, Bits exponent) noexcept {
  return (bits & exponent) != exponent;
}

bool is_finite(std::span<const std::byte> bytes, std::size_t i, DType dtype) noexcept {
  switch (dtype) {
    case DType::float32: return std::isfinite(element<float>(bytes, i));
    case DType::float64: return std::isfinite(element<double>(bytes, i));
    case DType::float16: return is_finite<std::uint16_t>(element<std::uint16_t>(bytes, i), 0x7c00);
    case DType::bfloat16: return is_finite<std::uint16_t>(element<std::uint16_t>(bytes, i), 0x7f80);
    case DType::uint8:
    case DType::int32:
    case DType::int64: break;
  }
  return true;
}

bool is_bit(std::span<const std::byte> bytes, std::size_t i, DType dtype) noexcept {
  const auto is_among = [](auto value, auto one) { return value == 0 || value == one; };
  switch (dtype) {
    case DType::float32: return is_among(element<float>(bytes, i), 1.0F);
    case DType::float64: return is_among(element<double>(bytes, i), 1.0);
    case DType::float16: return is_among(element<std::uint16_t>(bytes, i), 0x3c00);
    case DType::bfloat16: return is_among(element<std::uint16_t>(bytes, i), 0x3f80);
    case DType::uint8: return is_among(element<std::uint8_t>(bytes, i), 1);
    case DType::int32: return is_among(element<std::int32_t>(bytes, i), 1);
    case DType::int64: return is_among(element<std::int64_t>(bytes, i), 1);
  }
  return false;
}

void require_size(const Field& field, std::span<const std::byte> bytes, std::size_t wanted) {
  if (bytes.size() == wanted) return;
  throw SampleError(counted(bytes.size(), "byte") + ", but [" + joined(field.shape, ", ") + "] of " +
                    std::string(to_string(field.dtype)) + " are " + counted(wanted, "byte"));
}

void require_finite(const Field& field, std::span<const std::byte> bytes) {
  const std::size_t elements = field.shape.elements();
  for (std::size_t i = 0; i < elements; ++i) {
    if (is_finite(bytes, i, field.dtype)) continue;
    throw SampleError("number " + std::to_string(i) + " of " + std::to_string(elements) + " is not finite");
  }
}

void require_bits(const Field& field, std::span<const std::byte> bytes) {
  const std::size_t elements = field.shape.elements();
  for (std::size_t i = 0; i < elements; ++i) {
    if (is_bit(bytes, i, field.dtype)) continue;
    throw SampleError("number " + std::to_string(i) + " of " + std::to_string(elements) +
                      " is neither 1, for a class that applies, nor 0; a field of kind \"numbers\" takes others");
  }
}

void require_class(const Field& field, std::int64_t number) {
  const auto classes = static_cast<std::int64_t>(field.classes.size());
  if (number >= -1 && (classes == 0 || number < classes)) return;
  throw SampleError("class " + std::to_string(number) + " is not between -1 and " +
                    (classes == 0 ? "the largest there is" : std::to_string(classes - 1)));
}

struct Extent {
  double left = 0;
  double top = 0;
  double right = 0;
  double bottom = 0;

  [[nodiscard]] double area() const noexcept {
    return right > left && bottom > top ? (right - left) * (bottom - top) : 0;
  }
  [[nodiscard]] Extent within(const Extent& other) const noexcept {
    return {std::max(left, other.left), std::max(top, other.top), std::min(right, other.right),
            std::min(bottom, other.bottom)};
  }
};

// Maps a box from the stored image to the displayed one.
LabelledBox displayed_labelled_box(LabelledBox box, const SampleView& view, int orientation) {
  const bool swaps = swaps_axes(orientation);
  const auto width = static_cast<float>(swaps ? view.height : view.width);
  const auto height = static_cast<float>(swaps ? view.width : view.height);
  if (flips_columns(orientation)) box.left = width - std::exchange(box.right, width - box.left);
  if (flips_rows(orientation)) box.top = height - std::exchange(box.bottom, height - box.top);
  if (!swaps) return box;
  return {.left = box.top, .top = box.left, .right = box.bottom, .bottom = box.right, .label = box.label};
}

// The part of the box that lies in the image. Annotation tools allow boxes that extend beyond the
// image; those are clipped. A box that lies wholly outside counts as damage.
Extent checked_box(const LabelledBox& box, const SampleView& view, std::size_t number) {
  const auto refuse = [&](const std::string& problem) {
    throw SampleError("box " + std::to_string(number) + " (" + std::to_string(box.left) + ", " +
                      std::to_string(box.top) + ", " + std::to_string(box.right) + ", " + std::to_string(box.bottom) +
                      ") " + problem);
  };
  const Extent extent{box.left, box.top, box.right, box.bottom};
  const bool is_finite =
      std::isfinite(box.left) && std::isfinite(box.top) && std::isfinite(box.right) && std::isfinite(box.bottom);
  if (!is_finite) refuse("is not finite");
  if (extent.area() <= 0) refuse("has no area");
  const Extent inside = extent.within({0, 0, static_cast<double>(view.width), static_cast<double>(view.height)});
  if (inside.area() <= 0) {
    refuse("lies outside the image " + std::to_string(view.width) + "x" + std::to_string(view.height));
  }
  return inside;
}

// The boxes of one sample and their classes, in pixels of the view. The field is ragged: the count
// says how many boxes there are, and the rest of the place is filled with zeros and class -1.
class BoxesInPlace {
 public:
  BoxesInPlace(const FieldLayout::Entry& boxes, const FieldLayout::Entry& classes, std::byte* slot, std::uint32_t index)
      : field_(boxes.field),
        boxes_(reinterpret_cast<float*>(FieldLayout::values(boxes, slot, index).data())),
        classes_(reinterpret_cast<std::int64_t*>(FieldLayout::values(classes, slot, index).data())),
        count_(FieldLayout::count(boxes, slot, index)) {}

  void make(std::span<const std::byte> bytes, const ShownPart& shown) {
    const auto& [view, axes, turn] = shown;
    const auto& [across, down] = axes;
    const auto most = static_cast<std::size_t>(field_.shape[0]);
    const std::size_t given = bytes.size() / sizeof(LabelledBox);
    if (bytes.size() % sizeof(LabelledBox) != 0) {
      throw SampleError(counted(bytes.size(), "byte") + " are no whole number of boxes of " +
                        counted(sizeof(LabelledBox), "byte"));
    }
    if (given > most) {
      throw SampleError(std::to_string(given) + " boxes, but a batch has room for " + std::to_string(most) +
                        " of each sample (most)");
    }
    // The part of the image that the view shows (its border excluded), in pixels of the image.
    const Extent seen{across.in_image(across.begin()), down.in_image(down.begin()), across.in_image(across.end()),
                      down.in_image(down.end())};
    std::ptrdiff_t kept = 0;
    for (std::size_t i = 0; i < given; ++i) {
      auto box = element<LabelledBox>(bytes, i);
      if (turn.is_annotated_as_stored) box = displayed_labelled_box(box, view, turn.orientation);
      require_class(field_, box.label);
      const Extent whole = checked_box(box, view, i);
      const Extent visible = whole.within(seen);
      // A box of which the view shows less than fields.NAME.min_visible is left out.
      if (visible.area() <= 0 || visible.area() < field_.min_visible * whole.area()) continue;
      const double left = across.in_view(visible.left);
      const double right = across.in_view(visible.right);
      float* const to = boxes_ + 4 * kept;
      to[0] = static_cast<float>(view.mirror ? across.count - right : left);
      to[1] = static_cast<float>(down.in_view(visible.top));
      to[2] = static_cast<float>(view.mirror ? across.count - left : right);
      to[3] = static_cast<float>(down.in_view(visible.bottom));
      classes_[kept++] = box.label;
    }
    count_ = static_cast<std::int32_t>(kept);
    std::fill(boxes_ + 4 * kept, boxes_ + 4 * most, 0.0F);
    std::fill(classes_ + kept, classes_ + most, -1);
  }

 private:
  const Field& field_;
  float* boxes_;
  std::int64_t* classes_;
  std::int32_t& count_;
};

void make_bytes(const FieldLayout::Entry& entry, std::span<const std::byte> bytes, std::byte* slot,
                std::uint32_t index) {
  const std::span<std::byte> place = FieldLayout::values(entry, slot, index);
  if (bytes.size() > place.size()) throw data::too_large_for_batch(entry.field, bytes.size());
  std::ranges::copy(bytes, place.begin());
  std::ranges::fill(place.subspan(bytes.size()), std::byte{0});
  FieldLayout::count(entry, slot, index) = static_cast<std::int32_t>(bytes.size());
}

// Checks values that are copied unchanged.
void check_values(const Field& field, std::span<const std::byte> bytes) {
  require_size(field, bytes, field.sample_bytes());
  if (field.kind == FieldKind::numbers) require_finite(field, bytes);
  if (field.kind == FieldKind::multilabel) require_bits(field, bytes);
  if (field.kind != FieldKind::class_number) return;
  require_class(field, field.dtype == DType::int32 ? element<std::int32_t>(bytes, 0) : element<std::int64_t>(bytes, 0));
}

}  // namespace

FieldMaker::FieldMaker(const FieldLayout& layout, const TransformOptions& options) : layout_(&layout) {
  for (const FieldLayout::Entry& entry : layout.entries) {
    const bool is_picture = entry.field.kind == FieldKind::image;
    pictures_.push_back(is_picture ? std::optional(PictureField(entry.field, options)) : std::nullopt);
    const bool is_mask = entry.field.kind == FieldKind::mask;
    masks_.push_back(is_mask ? std::optional(MaskField(entry.field, options)) : std::nullopt);
  }
}

void FieldMaker::make(std::size_t source, std::span<const std::byte> bytes, const Target& target, ImageDecoder& decoder,
                      Workspace& workspace) const {
  const auto entry = std::ranges::find(layout_->entries, source, &FieldLayout::Entry::source);
  const auto number = static_cast<std::size_t>(entry - layout_->entries.begin());
  const auto& [slot, index, view] = target;
  const ShownPart shown{view, workspace.axes, workspace.turn};
  switch (entry->field.kind) {
    case FieldKind::mask:
      return masks_[number]->make(bytes, shown, decoder, workspace.mask, FieldLayout::values(*entry, slot, index));
    case FieldKind::image:
      return pictures_[number]->make(bytes, shown, decoder, workspace.picture,
                                     FieldLayout::values(*entry, slot, index));
    case FieldKind::boxes: return BoxesInPlace(*entry, *(entry + 1), slot, index).make(bytes, shown);
    case FieldKind::bytes: return make_bytes(*entry, bytes, slot, index);
    case FieldKind::array: return write_array(entry->field, bytes, FieldLayout::values(*entry, slot, index));
    default: break;
  }
  check_values(entry->field, bytes);
  std::ranges::copy(bytes, FieldLayout::values(*entry, slot, index).begin());
}

}  // namespace forebay::make
