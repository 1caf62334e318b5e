#pragma once

#include <doctest/doctest.h>

#include <png.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <forebay/dataset.hpp>

namespace forebay::testing {

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

// Where a pixel is tells its value: twice x in red, twice y in green.
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

// Images of that ramp, with fields that views change.
class ViewedDataset final : public Dataset {
 public:
  static constexpr std::uint64_t kSamples = 24;

  explicit ViewedDataset(std::vector<Field> fields) : fields_(std::move(fields)) {}
  static Field mask(DType dtype = DType::uint8) { return {.name = "mask", .kind = FieldKind::mask, .dtype = dtype}; }

  [[nodiscard]] std::string_view format() const noexcept override { return "viewed"; }
  [[nodiscard]] std::uint64_t size() const noexcept override { return kSamples; }
  [[nodiscard]] const std::vector<std::string>& classes() const noexcept override { return classes_; }
  [[nodiscard]] Sample sample(std::uint64_t /*id*/) const override {
    Sample sample;
    sample.encoding = Encoding::raw;
    sample.width = kWidth;
    sample.height = kHeight;
    sample.channels = 3;
    sample.box = box;
    return sample;
  }
  [[nodiscard]] std::string name(std::uint64_t id) const override { return "viewed/" + std::to_string(id); }
  void read(std::uint64_t /*id*/, ReadTarget& target) const override { copy(std::as_bytes(std::span(image_)), target); }
  [[nodiscard]] std::span<const Field> fields() const noexcept override { return fields_; }
  void read_field(std::uint64_t /*id*/, std::size_t field, ReadTarget& target) const override {
    copy(fields_[field].kind == FieldKind::mask ? std::span<const std::byte>(mask_) : std::as_bytes(std::span(boxes)),
         target);
  }
  [[nodiscard]] const std::vector<Skipped>& skipped() const noexcept override { return skipped_; }
  [[nodiscard]] IndexCounts counts() const noexcept override { return {.images = kSamples}; }
  [[nodiscard]] std::vector<std::byte> serialize() const override { return Bytes(8); }

  std::vector<LabelledBox> boxes;
  std::optional<Box> box;

 private:
  static void copy(std::span<const std::byte> bytes, ReadTarget& target) {
    std::ranges::copy(bytes, target.reserve(bytes.size()).begin());
  }

  std::vector<Field> fields_;
  std::vector<std::uint8_t> image_ = ramp();
  Bytes mask_ = mask_png();
  std::vector<std::string> classes_;
  std::vector<Skipped> skipped_;
};

}  // namespace forebay::testing
