#include "array_elements.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <forebay/error.hpp>

#include "data/npy.hpp"

namespace forebay::make {
namespace {

// Then elements are copied as they are; bool is stored as a byte of 0 or 1.
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

[[noreturn]] void refuse_type(const Field& field, const data::NpyArray& array) {
  throw SampleError("an array of " + array.dtype() + ", which " + std::string(to_string(field.dtype)) +
                    " does not hold");
}

// Whole numbers must fit exactly; real ones may lose precision but not become infinite.
template <typename From, typename To>
void convert_all(const Field& field, const data::NpyArray& array, std::span<const std::byte> from, std::byte* to) {
  for (std::size_t i = 0; i < array.count(); ++i) {
    From value{};
    std::memcpy(&value, from.data() + i * sizeof value, sizeof value);
    if constexpr (std::is_integral_v<To>) {
      if (!std::in_range<To>(value)) refuse_type(field, array);
    }
    const auto converted = static_cast<To>(value);  // NOLINT(bugprone-signed-char-misuse): int8 is a number here
    if constexpr (std::is_floating_point_v<From> && std::is_floating_point_v<To>) {
      if (std::isfinite(value) && !std::isfinite(converted)) refuse_type(field, array);
    }
    std::memcpy(to + i * sizeof converted, &converted, sizeof converted);
  }
}

// One instance per pair of types, so that the loop within has no branches.
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

void convert(const Field& field, const data::NpyArray& array, std::span<const std::byte> from, std::byte* to) {
  switch (field.dtype) {
    case DType::float32: return convert_from<float, true>(field, array, from, to);
    case DType::float64: return convert_from<double, true>(field, array, from, to);
    case DType::uint8: return convert_from<std::uint8_t, false>(field, array, from, to);
    case DType::int32: return convert_from<std::int32_t, false>(field, array, from, to);
    case DType::int64: return convert_from<std::int64_t, false>(field, array, from, to);
    case DType::float16:
    case DType::bfloat16: refuse_type(field, array);
  }
}

}  // namespace

// An .npy file states its type and shape; other bytes are taken as the elements themselves, in C
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

}  // namespace forebay::make
