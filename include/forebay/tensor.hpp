#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include <forebay/error.hpp>

namespace forebay {

// transform.dtype is one of the first four; a field (forebay/field.hpp) may have any.
enum class DType : std::uint8_t { float32, float16, bfloat16, uint8, int32, int64, float64 };
enum class Layout : std::uint8_t { nchw, nhwc };
enum class DeviceKind : std::uint8_t { host, cuda };

// Bytes per element.
[[nodiscard]] constexpr std::size_t size_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::float64:
    case DType::int64: return 8;
    case DType::float32:
    case DType::int32: return 4;
    case DType::float16:
    case DType::bfloat16: return 2;
    case DType::uint8: return 1;
  }
  return 0;
}

[[nodiscard]] constexpr std::string_view to_string(DType dtype) noexcept {
  switch (dtype) {
    case DType::float32: return "float32";
    case DType::float16: return "float16";
    case DType::bfloat16: return "bfloat16";
    case DType::uint8: return "uint8";
    case DType::int32: return "int32";
    case DType::int64: return "int64";
    case DType::float64: return "float64";
  }
  return "?";
}

// The extents of a tensor, outermost first; empty for a scalar. Never allocates.
class Shape {
 public:
  static constexpr std::size_t kMost = 8;

  constexpr Shape() noexcept = default;
  // Throws Error for more than kMost.
  constexpr Shape(std::initializer_list<std::int64_t> extents) {  // NOLINT(google-explicit-constructor)
    for (const std::int64_t extent : extents) push_back(extent);
  }

  // Adds an inner dimension. Throws Error for more than kMost.
  constexpr void push_back(std::int64_t extent) {
    if (size_ == kMost) throw Error("a tensor has at most 8 dimensions");
    extents_[size_++] = extent;
  }

  [[nodiscard]] constexpr std::size_t size() const noexcept { return size_; }
  [[nodiscard]] constexpr bool empty() const noexcept { return size_ == 0; }
  // REQUIRES: i < size().
  [[nodiscard]] constexpr std::int64_t operator[](std::size_t i) const noexcept { return extents_[i]; }
  [[nodiscard]] constexpr std::int64_t& operator[](std::size_t i) noexcept { return extents_[i]; }
  [[nodiscard]] constexpr const std::int64_t* data() const noexcept { return extents_.data(); }
  [[nodiscard]] constexpr std::int64_t* data() noexcept { return extents_.data(); }
  [[nodiscard]] constexpr const std::int64_t* begin() const noexcept { return extents_.data(); }
  [[nodiscard]] constexpr const std::int64_t* end() const noexcept { return extents_.data() + size_; }
  // The product of all extents; 1 for a scalar. REQUIRES: it is less than 2^64.
  [[nodiscard]] constexpr std::size_t elements() const noexcept {
    std::size_t product = 1;
    for (const std::int64_t extent : *this) product *= static_cast<std::size_t>(extent);
    return product;
  }

  friend constexpr bool operator==(const Shape& a, const Shape& b) noexcept {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }
  template <std::size_t N>
  friend constexpr bool operator==(const Shape& a, const std::array<std::int64_t, N>& b) noexcept {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  std::array<std::int64_t, kMost> extents_{};
  std::size_t size_ = 0;
};

// A non-owning view of a contiguous tensor in a batch: its images or another field. Valid while the lease is held.
// Read-only, because a reuse serves the same bytes.
struct TensorView {
  const void* data = nullptr;  // first element; fixed for the life of the feeder
  Shape shape;                 // images: [N, C, H, W] or [N, H, W, C] according to `layout`; N = lease.rows()
  DType dtype = DType::float32;
  Layout layout = Layout::nchw;  // of images, and of fields of kind "image"
  DeviceKind device = DeviceKind::host;
  std::int32_t device_index = 0;  // N of cuda:N, as this process counts its GPUs; 0 on the host

  [[nodiscard]] std::size_t elements() const noexcept { return shape.elements(); }
  [[nodiscard]] std::size_t bytes() const noexcept { return elements() * size_of(dtype); }

  // The elements as values of T, or as bytes if T has one byte. Throws Error if T is of another size than the elements:
  // float16 cannot be read as float.
  template <typename T>
  [[nodiscard]] const T* as() const {
    if (sizeof(T) != size_of(dtype) && sizeof(T) != 1) {
      throw Error("TensorView::as(): the elements are " + std::string(to_string(dtype)) + " of " +
                  std::to_string(size_of(dtype)) + " bytes each and cannot be read as a type of " +
                  std::to_string(sizeof(T)) + "; look at TensorView::dtype, or set transform.dtype");
    }
    return static_cast<const T*>(data);
  }
};

// The stream that orders a lease. Empty on the host, which has no streams. With CUDA it wraps a cudaStream_t that the
// trainer owns; an empty view is the default stream of the GPU that holds the batches. cudaStreamPerThread depends on
// the calling thread, so next() refuses it; release() takes it to mean the caller's.
struct StreamView {
  void* handle = nullptr;
};

}  // namespace forebay
