#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include <forebay/lease.hpp>

// A lease's images for other libraries, without a copy: DLPack, which PyTorch, JAX, CuPy, NumPy and many others accept,
// and __cuda_array_interface__ for those that need that (Numba). docs/integration.md shows both in use.
namespace forebay {

// DLPack's structures with its names and layout, so that a pointer to one of these is a pointer to one of dlpack.h's,
// by reinterpret_cast or void*. Declared here because users need not have that header, and older versions of it lack
// the versioned structure.
namespace dlpack {

constexpr std::int32_t kDLCPU = 1;
constexpr std::int32_t kDLCUDA = 2;
constexpr std::uint8_t kDLInt = 0;
constexpr std::uint8_t kDLUInt = 1;
constexpr std::uint8_t kDLFloat = 2;
constexpr std::uint8_t kDLBfloat = 4;
constexpr std::uint64_t kReadOnly = 1;  // of DLManagedTensorVersioned::flags
constexpr std::uint32_t kMajorVersion = 1;
constexpr std::uint32_t kMinorVersion = 0;

struct DLDevice {
  std::int32_t device_type;  // kDLCPU or kDLCUDA
  std::int32_t device_id;    // TensorView::device_index
};

struct DLDataType {
  std::uint8_t code;  // kDLInt, kDLUInt, kDLFloat or kDLBfloat
  std::uint8_t bits;
  std::uint16_t lanes;  // 1
};

struct DLTensor {
  void* data;  // null when there are no elements
  DLDevice device;
  std::int32_t ndim;
  DLDataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  // in elements; never null
  std::uint64_t byte_offset;
};

struct DLPackVersion {
  std::uint32_t major;
  std::uint32_t minor;
};

// DLPack's form since 1.0; in Python a capsule called "dltensor_versioned".
struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned* self);
  std::uint64_t flags;
  DLTensor dl_tensor;
};

// The earlier form, for consumers that know no other; in Python a capsule called "dltensor". It cannot mark its memory
// as read-only.
struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor* self);
};

static_assert(sizeof(void*) == 8, "the numbers below are those of 64-bit machines");
static_assert(sizeof(DLDevice) == 8 && sizeof(DLDataType) == 4 && sizeof(DLTensor) == 48);
static_assert(offsetof(DLTensor, device) == 8 && offsetof(DLTensor, ndim) == 16 && offsetof(DLTensor, dtype) == 20);
static_assert(offsetof(DLTensor, shape) == 24 && offsetof(DLTensor, strides) == 32);
static_assert(offsetof(DLTensor, byte_offset) == 40);
static_assert(sizeof(DLManagedTensorVersioned) == 80 && offsetof(DLManagedTensorVersioned, manager_ctx) == 8);
static_assert(offsetof(DLManagedTensorVersioned, deleter) == 16 && offsetof(DLManagedTensorVersioned, flags) == 24);
static_assert(offsetof(DLManagedTensorVersioned, dl_tensor) == 32);
static_assert(sizeof(DLManagedTensor) == 64 && offsetof(DLManagedTensor, manager_ctx) == 48);
static_assert(offsetof(DLManagedTensor, deleter) == 56);

// Ends a managed tensor that no consumer has taken.
struct CallDeleter {
  template <typename Managed>
  void operator()(Managed* tensor) const noexcept {
    tensor->deleter(tensor);
  }
};

// release() hands it to a consumer, which then calls its deleter, on any thread.
using ManagedTensorVersioned = std::unique_ptr<DLManagedTensorVersioned, CallDeleter>;
using ManagedTensor = std::unique_ptr<DLManagedTensor, CallDeleter>;

}  // namespace dlpack

// The lease's images as a tensor that shares the lease: nothing is copied, and it is marked read-only, because a reuse
// serves the same bytes. Several tensors may share a lease.
//
// The lease ends with its last holder, on that thread. A consumer lets go when nothing on the host refers to the tensor
// any more, not when its kernels are done. That is right as long as all kernels are on the stream given to next() or on
// those of which Lease::use_on() or order_consumer() was told: the lease ends after what is on them by then. XLA (JAX,
// TensorFlow) computes on streams that it tells nobody: give it a copy, and keep the lease until that is made.
//
// Throws Error if the lease has ended.
[[nodiscard]] dlpack::ManagedTensorVersioned to_dlpack(std::shared_ptr<Lease> lease);
// A field by its number (Lease::field()) in place of the images. Throws Error if there is no such field.
[[nodiscard]] dlpack::ManagedTensorVersioned to_dlpack(std::shared_ptr<Lease> lease, std::size_t field);
// The same as the first in the form before DLPack 1.0.
[[nodiscard]] dlpack::ManagedTensor to_dlpack_unversioned(std::shared_ptr<Lease> lease);
[[nodiscard]] dlpack::ManagedTensor to_dlpack_unversioned(std::shared_ptr<Lease> lease, std::size_t field);

// Orders a consumer with the lease, as __dlpack__(stream=...) of the Python array API asks a producer to, by
// Lease::use_on(). `stream`, on a GPU: 1, 0 and nothing at all are CUDA's legacy default stream, -1 asks for no order,
// and what is above 2 is a cudaStream_t. In memory of the host it has no meaning. Throws Error for 2, which is another
// stream on each thread, for other numbers below 0, and as Lease::use_on() does.
void order_consumer(Lease& lease, std::optional<std::intptr_t> stream);

// The entries of a __cuda_array_interface__ dictionary, version 3, under their names there. `data` is the pair of the
// first two; `strides` is None (rows follow each other in C order), and so are `mask` and `descr`.
struct CudaArrayInterface {
  std::uintptr_t data = 0;  // address; 0 when there are no elements
  bool read_only = true;
  Shape shape;
  std::string_view typestr;  // "<f4", "<f2", "|u1", "<i4", "<i8" or "<f8"
  // The stream given to next(), after which the consumer must order its work: a cudaStream_t as a number, 1 for CUDA's
  // default stream. It orders the beginning; the owner orders the end of the lease, as with to_dlpack().
  std::uintptr_t stream = 0;
  int version = 3;
};

// Describes the lease's images. The object with this attribute must hold the lease for as long as it lives. Throws
// Error if the lease has ended, if the batch is in host memory, and for bfloat16, for which the interface has no
// typestr: use to_dlpack() for those.
[[nodiscard]] CudaArrayInterface cuda_array_interface(const Lease& lease);

}  // namespace forebay
