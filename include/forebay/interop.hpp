#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include <forebay/lease.hpp>

// Passes a lease's images to other libraries without a copy: by DLPack, which PyTorch, JAX, CuPy, NumPy and many others
// accept, and by __cuda_array_interface__ for those that need it (Numba). docs/integration.md shows both in use.
namespace forebay {

// DLPack's structures with its names and layout: a pointer to one of them can be converted to dlpack.h's type by
// reinterpret_cast or via void*. Declared here because users may not have that header, and older versions of it lack
// the versioned structure.
namespace dlpack {

constexpr std::int32_t kDLCPU = 1;
constexpr std::int32_t kDLCUDA = 2;
constexpr std::uint8_t kDLInt = 0;
constexpr std::uint8_t kDLUInt = 1;
constexpr std::uint8_t kDLFloat = 2;
constexpr std::uint8_t kDLBfloat = 4;
constexpr std::uint64_t kReadOnly = 1;  // in DLManagedTensorVersioned::flags
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
  void* data;  // null if there are no elements
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

// The form since DLPack 1.0; in Python a capsule named "dltensor_versioned".
struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned* self);
  std::uint64_t flags;
  DLTensor dl_tensor;
};

// The earlier form, for consumers that know no other; in Python a capsule named "dltensor". It cannot mark its memory
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

// Deletes a managed tensor that no consumer has taken.
struct CallDeleter {
  template <typename Managed>
  void operator()(Managed* tensor) const noexcept {
    tensor->deleter(tensor);
  }
};

// release() passes ownership to a consumer, which then calls the deleter, on any thread.
using ManagedTensorVersioned = std::unique_ptr<DLManagedTensorVersioned, CallDeleter>;
using ManagedTensor = std::unique_ptr<DLManagedTensor, CallDeleter>;

}  // namespace dlpack

// The lease's images as a tensor that shares ownership of the lease: nothing is copied, and the tensor is marked
// read-only, because a reuse serves the same bytes. Several tensors may share a lease.
//
// The lease ends with its last holder, on that holder's thread. A consumer lets go when nothing on the host refers to
// the tensor any more, not when its kernels are done. That is safe if all kernels are on the stream given to next() or
// on streams named to Lease::use_on() or order_consumer(): the lease ends after the work queued on them by then. XLA
// (JAX, TensorFlow) computes on streams of its own that it does not disclose: give it a copy, and keep the lease until
// the copy is made.
//
// Throws Error if the lease has ended.
[[nodiscard]] dlpack::ManagedTensorVersioned to_dlpack(std::shared_ptr<Lease> lease);
// The same for a field, by its number (Lease::field()). Throws Error if there is no such field.
[[nodiscard]] dlpack::ManagedTensorVersioned to_dlpack(std::shared_ptr<Lease> lease, std::size_t field);
// The same in the form before DLPack 1.0.
[[nodiscard]] dlpack::ManagedTensor to_dlpack_unversioned(std::shared_ptr<Lease> lease);
[[nodiscard]] dlpack::ManagedTensor to_dlpack_unversioned(std::shared_ptr<Lease> lease, std::size_t field);

// Orders a consumer's stream with the lease, as __dlpack__(stream=...) of the Python array API requires of a producer,
// by Lease::use_on(). `stream`, on a GPU: 1, 0 or no value is CUDA's legacy default stream, -1 asks for no ordering,
// and a number above 2 is a cudaStream_t. Ignored for host memory. Throws Error for 2, which is a different stream on
// each thread, for other numbers below 0, and whatever Lease::use_on() throws.
void order_consumer(Lease& lease, std::optional<std::intptr_t> stream);

// The entries of a __cuda_array_interface__ dictionary, version 3, by their names. `data` is the pair of the first two;
// `strides` is None (C order without gaps), and so are `mask` and `descr`.
struct CudaArrayInterface {
  std::uintptr_t data = 0;  // address; 0 if there are no elements
  bool read_only = true;
  Shape shape;
  std::string_view typestr;  // "<f4", "<f2", "|u1", "<i4", "<i8" or "<f8"
  // The stream given to next(), after which the consumer must order its work: a cudaStream_t as a number, 1 for CUDA's
  // default stream. It orders only the start of use; the owner orders the end of the lease, as with to_dlpack().
  std::uintptr_t stream = 0;
  int version = 3;
};

// Describes the lease's images. The Python object with this attribute must hold the lease for as long as it lives.
// Throws Error if the lease has ended, and for batches in host memory and of bfloat16, for which the interface has no
// typestr: use to_dlpack() for those.
[[nodiscard]] CudaArrayInterface cuda_array_interface(const Lease& lease);

}  // namespace forebay
