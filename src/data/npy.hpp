#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <forebay/dataset.hpp>
#include <forebay/error.hpp>

#include "zip_file.hpp"

namespace forebay::data {

// The array is intact but does not have the required type, shape or values.
class UnfitArray final : public SampleError {
 public:
  using SampleError::SampleError;
};

// An array in NumPy's file format (versions 1 to 3). A view of the file's bytes, which must outlive it.
struct NpyArray {
  static constexpr std::size_t kMostDimensions = 8;

  char kind = 'u';  // b (bool), u, i, f; U (UTF-32), S (bytes) for texts
  std::size_t element_bytes = 1;
  bool big_endian = false;
  bool fortran_order = false;  // the first index runs fastest
  std::size_t dimensions = 0;
  std::array<std::int64_t, kMostDimensions> shape{};
  std::span<const std::byte> elements;

  [[nodiscard]] bool has_texts() const noexcept { return kind == 'U' || kind == 'S'; }
  [[nodiscard]] std::size_t count() const noexcept { return elements.size() / element_bytes; }
  // The stride of each dimension, in elements.
  [[nodiscard]] std::array<std::int64_t, kMostDimensions> steps() const noexcept;
  // The i-th element in storage order, rounded to a double, or exactly as an integer (with values from 2^63 on as
  // negative). REQUIRES: i < count(), !has_texts().
  [[nodiscard]] double real(std::size_t i) const noexcept;
  [[nodiscard]] std::int64_t whole(std::size_t i) const noexcept;
  // The i-th element as UTF-8, without its padding NULs. REQUIRES: i < count(), has_texts().
  [[nodiscard]] std::string text(std::size_t i) const;
  // In NumPy's notation: "uint8", "(3, 224, 224)".
  [[nodiscard]] std::string dtype() const;
  [[nodiscard]] std::string shape_text() const;
};

// Whether arrays of texts are accepted.
enum class NpyTexts : std::uint8_t { refused, read };

[[nodiscard]] bool starts_as_npy(std::span<const std::byte> bytes) noexcept;

// Throws SampleError for bytes that are not such an array, end early, or have a damaged header; UnfitArray for pickled
// objects, which are never loaded, and for elements that are not plain numbers. Bytes after the last element are
// ignored. Any thread may call.
[[nodiscard]] NpyArray parse_npy(std::span<const std::byte> bytes, NpyTexts texts = NpyTexts::refused);

// Parses only the header: `head` contains it and perhaps some elements. Sets `begin` to the offset of the first
// element, and leaves array.elements empty. Throws SampleError likewise, and if `head` does not contain the whole
// header.
[[nodiscard]] NpyArray parse_npy_header(std::span<const std::byte> head, std::size_t& begin,
                                        NpyTexts texts = NpyTexts::refused);
// The size of all elements in bytes. Throws SampleError if no file can be that large.
[[nodiscard]] std::uint64_t element_bytes_of(const NpyArray& array);
// An npy header (version 1) for one entry of the array, without the first dimension; followed by the entry's elements
// it is an npy file. REQUIRES: at least one dimension.
[[nodiscard]] std::string header_of_entry(const NpyArray& array);

// Copies the elements in C order (the last index runs fastest) and this machine's byte order.
// REQUIRES: to.size() == array.elements.size(). Any thread may call.
void copy_in_c_order(const NpyArray& array, std::span<std::byte> to) noexcept;

// Arrays in .npz archives. A path of a sample or a field may name one: "depth/a.npz:depth" is the array "depth" (the
// member "depth.npy") of the archive "depth/a.npz", and "a.npz:" the only one in it. Any thread may call.

struct ArrayPlace {
  std::string archive;
  std::string array;  // "": the only one
};
// Nothing if the path names a file.
[[nodiscard]] std::optional<ArrayPlace> array_place(std::string_view path);

// The member that holds this array. Throws SampleError listing the existing arrays.
[[nodiscard]] const ZipMember& find_array(const ZipFile& archive, std::string_view array);

// Reads the array of an archive into the target, as an npy file. Throws SampleError.
void read_array(const OpenFile& file, std::string_view array, ReadTarget& target);

// problem_of_file() for paths that may name an array.
[[nodiscard]] std::string problem_of_source(const std::string& path);

}  // namespace forebay::data
