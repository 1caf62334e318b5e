#pragma once

#include <png.h>
#include <forebay/dataset.hpp>

#include "memory_dataset.hpp"
#include "test.hpp"

namespace forebay::testing {

// A MemoryDataset with fields that identify their sample. `replace_field` may supply other bytes
// for a field; `before_field` is called on the reader's thread and may throw or wait.
class FieldDataset final : public LikeDataset {
 public:
  using Bytes = std::vector<std::byte>;
  // Returns whether it has replaced the bytes of the field.
  using Replace = std::function<bool(std::uint64_t id, const Field& field, Bytes& bytes)>;
  using Hook = std::function<void(std::uint64_t id, const Field& field)>;

  explicit FieldDataset(std::uint64_t size, std::vector<Field> fields = every_plain_field())
      : LikeDataset(std::make_shared<MemoryDataset>(size)), fields_(std::move(fields)) {}

  // One field of each kind that views do not change.
  static std::vector<Field> every_plain_field() {
    return {{.name = "species", .kind = FieldKind::class_number, .dtype = DType::int64, .classes = {"a", "b", "c"}},
            {.name = "findings", .kind = FieldKind::multilabel, .dtype = DType::float32, .shape = {3}},
            {.name = "age", .kind = FieldKind::numbers, .dtype = DType::float64},
            {.name = "grid", .kind = FieldKind::array, .dtype = DType::int32, .shape = {2, 3}},
            {.name = "note", .kind = FieldKind::bytes, .dtype = DType::uint8, .shape = {12}}};
  }
  static Field boxes(std::int64_t most) {
    return {
        .name = "boxes", .kind = FieldKind::boxes, .dtype = DType::float32, .shape = {most, 4}, .classes = {"x", "y"}};
  }

  template <typename T>
  static void add(Bytes& bytes, const T& value) {
    const auto* const from = reinterpret_cast<const std::byte*>(&value);
    bytes.insert(bytes.end(), from, from + sizeof(T));
  }
  static std::string note(std::uint64_t id) { return std::string(id % 13, static_cast<char>('a' + id % 26)); }

  // The bytes that read_field() gives if nothing replaces them.
  static Bytes field_bytes(std::uint64_t id, const Field& field) {
    Bytes bytes;
    switch (field.kind) {
      case FieldKind::class_number: add(bytes, static_cast<std::int64_t>(id % 4) - 1); break;
      case FieldKind::multilabel:
        for (std::uint64_t i = 0; i < 3; ++i) add(bytes, (id >> i & 1U) != 0 ? 1.0F : 0.0F);
        break;
      case FieldKind::numbers: add(bytes, 0.5 * static_cast<double>(id)); break;
      case FieldKind::array:
        for (std::int32_t i = 0; i < 6; ++i) add(bytes, static_cast<std::int32_t>(id) * 10 + i);
        break;
      case FieldKind::bytes:
        for (const char c : note(id)) add(bytes, c);
        break;
      case FieldKind::boxes:
        for (std::uint64_t i = 0; i < id % 3; ++i) add(bytes, LabelledBox{0, 1, 4, 3, static_cast<std::int32_t>(i)});
        break;
      case FieldKind::image:
      case FieldKind::mask: break;
    }
    return bytes;
  }

  void read(std::uint64_t id, ReadTarget& target) const override {
    if (before_read) before_read(id);
    LikeDataset::read(id, target);
  }
  [[nodiscard]] std::span<const Field> fields() const noexcept override { return fields_; }
  [[nodiscard]] std::string field_name(std::uint64_t id, std::size_t field) const override {
    return "memory/" + std::to_string(id) + "." + fields_[field].name;
  }
  void read_field(std::uint64_t id, std::size_t number, ReadTarget& target) const override {
    const Field& field = fields_[number];
    if (before_field) before_field(id, field);
    Bytes bytes;
    if (!replace_field || !replace_field(id, field, bytes)) bytes = field_bytes(id, field);
    std::ranges::copy(bytes, target.reserve(bytes.size()).begin());
  }

  Replace replace_field;
  Hook before_field;
  MemoryDataset::Hook before_read;

 private:
  std::vector<Field> fields_;
};

// Whether a batch's plain fields belong to its samples.
inline bool are_right(const Lease& batch) {
  const TensorView species = batch.field("species");
  const TensorView findings = batch.field("findings");
  const TensorView age = batch.field("age");
  const TensorView grid = batch.field("grid");
  const TensorView note = batch.field("note");
  const auto counts = batch.counts(6);
  const std::int64_t n = batch.size();
  bool right = species.shape == Shape{n} && findings.shape == Shape{n, 3} && age.shape == Shape{n} &&
               grid.shape == Shape{n, 2, 3} && note.shape == Shape{n, 12} && counts.shape == Shape{n};
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const std::uint64_t id = batch.ids()[i];
    right = right && species.as<std::int64_t>()[i] == static_cast<std::int64_t>(id % 4) - 1;
    right = right && age.as<double>()[i] == 0.5 * static_cast<double>(id);
    for (std::size_t j = 0; j < 3; ++j) {
      right = right && findings.as<float>()[3 * i + j] == ((id >> j & 1U) != 0 ? 1.0F : 0.0F);
    }
    for (std::size_t j = 0; j < 6; ++j) {
      right = right && grid.as<std::int32_t>()[6 * i + j] == static_cast<std::int32_t>(id * 10 + j);
    }
    const std::string text = FieldDataset::note(id) + std::string(12, '\0');
    right = right && counts.as<std::int32_t>()[i] == static_cast<std::int32_t>(id % 13);
    right = right && std::memcmp(note.as<char>() + 12 * i, text.data(), 12) == 0;
  }
  return right;
}

using Bytes = std::vector<std::byte>;

// A PNG file of 8 bits, one channel or three.
inline Bytes png_of(std::int32_t width, std::int32_t height, const std::vector<std::uint8_t>& pixels, bool is_grey) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(height);
  image.format = is_grey ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  png_alloc_size_t size = 0;
  REQUIRE(png_image_write_to_memory(&image, nullptr, &size, 0, pixels.data(), 0, nullptr) != 0);
  Bytes bytes(size);
  REQUIRE(png_image_write_to_memory(&image, bytes.data(), &size, 0, pixels.data(), 0, nullptr) != 0);
  bytes.resize(size);
  return bytes;
}

inline constexpr std::int32_t kWidth = 96;
inline constexpr std::int32_t kHeight = 64;

// A pixel's value follows from its position: twice x in red, twice y in green.
inline std::vector<std::uint8_t> ramp() {
  std::vector<std::uint8_t> pixels;
  for (std::int32_t y = 0; y < kHeight; ++y) {
    for (std::int32_t x = 0; x < kWidth; ++x) {
      pixels.push_back(static_cast<std::uint8_t>(2 * x));
      pixels.push_back(static_cast<std::uint8_t>(2 * y));
      pixels.push_back(0);
    }
  }
  return pixels;
}
inline std::uint8_t mask_value(std::int32_t x, std::int32_t y) {
  return static_cast<std::uint8_t>((x * 7 + y * 13) % 251);
}
inline std::vector<std::uint8_t> mask_values() {
  std::vector<std::uint8_t> values;
  for (std::int32_t y = 0; y < kHeight; ++y) {
    for (std::int32_t x = 0; x < kWidth; ++x) values.push_back(mask_value(x, y));
  }
  return values;
}
inline Bytes mask_png() { return png_of(kWidth, kHeight, mask_values(), true); }

// Options with views that differ between two epochs.
inline Options viewed_options() {
  Options options = memory_options(6);
  options.transform.crop = Crop::random_resized;
  options.transform.scale = {0.1, 1.0};
  options.transform.mirror = 0.5;
  options.transform.size = {20, 28};
  options.run.epochs = 2;
  return options;
}

// An npy file, version 1.
template <typename T>
Bytes npy_of(const std::string& type, const std::string& shape, const std::vector<T>& values) {
  const std::string text = "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }\n";
  const std::string file = std::string("\x93NUMPY\1\0", 8) + static_cast<char>(text.size()) + '\0' + text;
  const auto head = std::as_bytes(std::span(file));
  const auto body = std::as_bytes(std::span(values));
  Bytes bytes(head.begin(), head.end());
  bytes.insert(bytes.end(), body.begin(), body.end());
  return bytes;
}

// Samples that all show ramp(), with fields that views change.
class ViewedDataset final : public LikeDataset {
 public:
  static constexpr std::uint64_t kSamples = 24;

  explicit ViewedDataset(std::vector<Field> fields)
      : LikeDataset(std::make_shared<MemoryDataset>(kSamples)), fields_(std::move(fields)) {}
  static Field mask(DType dtype = DType::uint8) { return {.name = "mask", .kind = FieldKind::mask, .dtype = dtype}; }

  [[nodiscard]] Sample sample(std::uint64_t /*id*/) const override {
    Sample sample;
    sample.encoding = Encoding::raw;
    sample.width = kWidth;
    sample.height = kHeight;
    sample.channels = 3;
    sample.box = box;
    return sample;
  }
  void read(std::uint64_t /*id*/, ReadTarget& target) const override { copy(std::as_bytes(std::span(image_)), target); }
  [[nodiscard]] std::span<const Field> fields() const noexcept override { return fields_; }
  void read_field(std::uint64_t /*id*/, std::size_t field, ReadTarget& target) const override {
    copy(fields_[field].kind == FieldKind::mask ? std::span<const std::byte>(mask_) : std::as_bytes(std::span(boxes)),
         target);
  }

  std::vector<LabelledBox> boxes;
  std::optional<Box> box;

 private:
  static void copy(std::span<const std::byte> bytes, ReadTarget& target) {
    std::ranges::copy(bytes, target.reserve(bytes.size()).begin());
  }

  std::vector<Field> fields_;
  std::vector<std::uint8_t> image_ = ramp();
  Bytes mask_ = mask_png();
};

}  // namespace forebay::testing
