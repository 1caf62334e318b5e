#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <forebay/error.hpp>

namespace forebay {

enum class DType : std::uint8_t { float32, float16, bfloat16, uint8 };
enum class Layout : std::uint8_t { nchw, nhwc };
enum class DeviceKind : std::uint8_t { host, cuda };

// Bytes of one element.
[[nodiscard]] constexpr std::size_t size_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::float32: return 4;
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
  }
  return "?";
}

// A dense, contiguous batch of images. A view: it owns nothing and is valid while its lease is held. Read-only, because
// a reuse serves the same bytes.
struct TensorView {
  const void* data = nullptr;           // first element; fixed for the life of the feeder
  std::array<std::int64_t, 4> shape{};  // [N, 3, H, W] or [N, H, W, 3], as `layout` says; N = lease.size()
  DType dtype = DType::float32;
  Layout layout = Layout::nchw;
  DeviceKind device = DeviceKind::host;
  std::int32_t device_index = 0;  // N of cuda:N, as this process counts its GPUs; 0 on the host

  [[nodiscard]] std::size_t elements() const noexcept {
    std::size_t n = 1;
    for (const auto extent : shape) n *= static_cast<std::size_t>(extent);
    return n;
  }
  [[nodiscard]] std::size_t bytes() const noexcept { return elements() * size_of(dtype); }

  // The elements as values of T, or as bytes if T has one byte. Throws Error if the size of T differs from that of the
  // elements: float16 cannot be read as float.
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

// The stream on which a lease is ordered. On the host there are none and the view stays empty. With CUDA it wraps a
// cudaStream_t that the trainer owns; an empty view is the default stream of the GPU that holds the batches.
// cudaStreamPerThread depends on the calling thread, so next() refuses it; release() takes it as the caller's.
struct StreamView {
  void* handle = nullptr;
};

}  // namespace forebay
