// Passes a batch to other libraries without copying it: as a DLPack tensor, whose owner keeps the
// lease until its deleter is called, and by the CUDA array interface, which owns nothing. Called on
// the thread that holds the lease; the deleter may run on any, and then releases the lease there.
// The layouts of the structures are those of DLPack 1.0 and of version 3 of the CUDA array
// interface.

#include <forebay/interop.hpp>

#include <string>
#include <utility>

#include <forebay/error.hpp>

namespace forebay {
namespace {

using dlpack::DLDataType;
using dlpack::DLManagedTensor;
using dlpack::DLManagedTensorVersioned;

// One lane: batches have no vector types such as float4.
DLDataType dlpack_type(DType dtype) noexcept {
  const auto bits = static_cast<std::uint8_t>(8 * size_of(dtype));
  switch (dtype) {
    case DType::uint8: return {dlpack::kDLUInt, bits, 1};
    case DType::bfloat16: return {dlpack::kDLBfloat, bits, 1};
    case DType::int32:
    case DType::int64: return {dlpack::kDLInt, bits, 1};
    case DType::float16:
    case DType::float32:
    case DType::float64: break;
  }
  return {dlpack::kDLFloat, bits, 1};
}

void must_be_held(const Lease& lease, const char* caller) {
  if (lease.memory() != nullptr) return;
  throw Error(std::string(caller) + ": the lease has ended, so there is no batch to hand over; call it before " +
              "release() and before the lease is moved from");
}

// A managed tensor, the data that it points to, and the owners that it keeps alive. Freed by the
// tensor's deleter.
template <typename Managed>
struct Export {
  Managed managed{};
  Shape shape;
  Shape strides;
  std::shared_ptr<const void> memory;  // keeps the consumer's address valid after the lease is released
  std::shared_ptr<Lease> lease;

  Export(std::shared_ptr<Lease> shared, std::size_t field) : memory(shared->memory()), lease(std::move(shared)) {
    const TensorView images = lease->field(field);
    shape = strides = images.shape;
    std::int64_t stride = 1;
    // Strides count elements, not bytes.
    for (std::size_t i = shape.size(); i-- > 0; stride *= shape[i]) strides[i] = stride;
    managed.dl_tensor = {
        // DLPack has no const pointer: a flag marks the memory as read-only, in versions that have flags.
        .data = images.elements() == 0 ? nullptr : const_cast<void*>(images.data),
        .device = {images.device == DeviceKind::cuda ? dlpack::kDLCUDA : dlpack::kDLCPU, images.device_index},
        .ndim = static_cast<std::int32_t>(shape.size()),
        .dtype = dlpack_type(images.dtype),
        .shape = shape.data(),
        .strides = strides.data(),
        .byte_offset = 0};
    managed.manager_ctx = this;
    managed.deleter = [](Managed* self) { delete static_cast<Export*>(self->manager_ctx); };
  }
};

template <typename Managed>
std::unique_ptr<Managed, dlpack::CallDeleter> exported(std::shared_ptr<Lease> lease, const char* caller,
                                                       std::size_t field) {
  if (!lease) throw Error(std::string(caller) + ": there is no lease; next() has returned none");
  must_be_held(*lease, caller);
  // Its own deleter frees the export, so one pointer owns both.
  return std::unique_ptr<Managed, dlpack::CallDeleter>(&(new Export<Managed>(std::move(lease), field))->managed);
}

}  // namespace

dlpack::ManagedTensorVersioned to_dlpack(std::shared_ptr<Lease> lease) { return to_dlpack(std::move(lease), 0); }

dlpack::ManagedTensorVersioned to_dlpack(std::shared_ptr<Lease> lease, std::size_t field) {
  auto tensor = exported<DLManagedTensorVersioned>(std::move(lease), "to_dlpack()", field);
  tensor->version = {dlpack::kMajorVersion, dlpack::kMinorVersion};
  tensor->flags = dlpack::kReadOnly;
  return tensor;
}

dlpack::ManagedTensor to_dlpack_unversioned(std::shared_ptr<Lease> lease) {
  return to_dlpack_unversioned(std::move(lease), 0);
}

dlpack::ManagedTensor to_dlpack_unversioned(std::shared_ptr<Lease> lease, std::size_t field) {
  return exported<DLManagedTensor>(std::move(lease), "to_dlpack_unversioned()", field);
}

// The numbers of streams that the Python array API's `__dlpack__(stream=...)` gives to CUDA: -1
// asks for no ordering, 1 is the legacy default stream, 2 the per-thread default one, and None
// means 1.
void order_consumer(Lease& lease, std::optional<std::intptr_t> stream) {
  must_be_held(lease, "order_consumer()");
  constexpr std::intptr_t kUnordered = -1;
  constexpr std::intptr_t kLegacyDefault = 1;
  constexpr std::intptr_t kPerThread = 2;
  if (lease.images().device != DeviceKind::cuda || stream == kUnordered) return;
  const std::intptr_t number = stream.value_or(kLegacyDefault);
  if (number < 0 || number == kPerThread) {
    throw Error("DLPack: stream " + std::to_string(number) +
                (number < 0 ? " is none"
                            : " is another one on each thread, and the last to use the batch may let go of it on any") +
                ": use it on a stream that was created, or on CUDA's default stream (1)");
  }
  // NOLINTNEXTLINE(performance-no-int-to-ptr): a stream comes as the number that its handle is.
  lease.use_on({number <= kLegacyDefault ? nullptr : reinterpret_cast<void*>(number)});
}

CudaArrayInterface cuda_array_interface(const Lease& lease) {
  must_be_held(lease, "cuda_array_interface()");
  const TensorView images = lease.images();
  if (images.device != DeviceKind::cuda) {
    throw Error(
        "cuda_array_interface(): the batch is in host memory; set device = \"cuda\", or hand it over with "
        "to_dlpack()");
  }
  CudaArrayInterface described;
  switch (images.dtype) {
    case DType::float32: described.typestr = "<f4"; break;
    case DType::float16: described.typestr = "<f2"; break;
    case DType::uint8: described.typestr = "|u1"; break;
    case DType::int32: described.typestr = "<i4"; break;
    case DType::int64: described.typestr = "<i8"; break;
    case DType::float64: described.typestr = "<f8"; break;
    case DType::bfloat16:
      throw Error(
          "cuda_array_interface(): the interface has no type string for bfloat16; set transform.dtype = \"float16\" "
          "or \"float32\", or hand the batch over with to_dlpack()");
  }
  described.shape = images.shape;
  if (images.elements() != 0) described.data = reinterpret_cast<std::uintptr_t>(images.data);
  // The interface forbids 0 and uses 1 for the legacy default stream, which a null handle means
  // here.
  const auto stream = reinterpret_cast<std::uintptr_t>(lease.stream().handle);
  described.stream = stream == 0 ? 1 : stream;
  return described;
}

}  // namespace forebay
