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
  // The i-th element as it is stored, to the nearest double; and of whole numbers exactly, those from 2^63 on as
  // negative ones. REQUIRES: i < count().
  [[nodiscard]] double real(std::size_t i) const noexcept;
  [[nodiscard]] std::int64_t whole(std::size_t i) const noexcept;
  // As NumPy writes them: "uint8", "(3, 224, 224)".
  [[nodiscard]] std::string dtype() const;
  [[nodiscard]] std::string shape_text() const;
};

[[nodiscard]] bool starts_as_npy(std::span<const std::byte> bytes) noexcept;

// Throws SampleError for bytes that are no such array, that end early, or whose header is damaged; for pickled objects,
// which are never loaded; and for elements that are no plain numbers. Bytes behind the last element are ignored. Any
// thread may call.
[[nodiscard]] NpyArray parse_npy(std::span<const std::byte> bytes);

// The same of an array whose elements stand elsewhere: `head` has the header and perhaps some of them. `begin` becomes
// the place of the first, behind the header, and array.elements stays empty. Throws SampleError likewise, and for a
// header that the head does not hold whole.
[[nodiscard]] NpyArray parse_npy_header(std::span<const std::byte> head, std::size_t& begin);
// Bytes of all elements. Throws SampleError where no file holds so many.
[[nodiscard]] std::uint64_t element_bytes_of(const NpyArray& array);
// An npy header (version 1) for such an array without the first of its dimensions: with the elements of one entry
// behind it, it makes an npy file of that entry.
[[nodiscard]] std::string header_of_entry(const NpyArray& array);

// Copies the elements in C order (the last index runs fastest) and this machine's byte order.
// REQUIRES: to.size() == array.elements.size(). Any thread may call.
void copy_in_c_order(const NpyArray& array, std::span<std::byte> to) noexcept;

}  // namespace forebay
