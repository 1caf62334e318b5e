#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace forebay {

// An array of numbers in NumPy's file format (versions 1 to 3), as it stands in the file's bytes. A view: the bytes
// must stay.
struct NpyArray {
  static constexpr std::size_t kMostDimensions = 8;

  char kind = 'u';  // b (bool), u, i, f
  std::size_t element_bytes = 1;
  bool big_endian = false;
  bool fortran_order = false;  // the first index runs fastest
  std::size_t dimensions = 0;
  std::array<std::int64_t, kMostDimensions> shape{};
  std::span<const std::byte> elements;

  [[nodiscard]] std::size_t count() const noexcept { return elements.size() / element_bytes; }
  // How far the next element along each dimension is, in elements.
  [[nodiscard]] std::array<std::int64_t, kMostDimensions> steps() const noexcept;
  // As NumPy writes them: "uint8", "(3, 224, 224)".
  [[nodiscard]] std::string dtype() const;
  [[nodiscard]] std::string shape_text() const;
};

[[nodiscard]] bool starts_as_npy(std::span<const std::byte> bytes) noexcept;

// Throws SampleError for bytes that are no such array, that end early, or whose header is damaged; for pickled objects,
// which are never loaded; and for elements that are no plain numbers. Bytes behind the last element are ignored. Any
// thread may call.
[[nodiscard]] NpyArray parse_npy(std::span<const std::byte> bytes);

// Copies the elements in C order (the last index runs fastest) and this machine's byte order.
// REQUIRES: to.size() == array.elements.size(). Any thread may call.
void copy_in_c_order(const NpyArray& array, std::span<std::byte> to) noexcept;

}  // namespace forebay
