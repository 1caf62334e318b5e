// Batches in the C interface. A batch is a lease stored in an element ("place") of Batches.
// queue.max_leases places exist from the start, so that next() hardly ever allocates. The caller
// gets a pointer to the place.
//
// The feeder's thread takes places (hold); any thread may release one. They synchronise through
// is_held: the releasing thread stores false when it no longer uses the place, and the feeder's
// thread reads it before it reuses the place. Questions about a released batch are answered with 0,
// and everything else is refused, as long as its place has not been reused.
//
// Once DLPack tensors have been made from a batch, they share its lease, which ends with the last
// of them.

#include "batch.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include <forebay/interop.hpp>

#include "structs.hpp"

namespace forebay::c {

// Places are added at the end and never removed, so pointers to them stay valid.
forebay_batch* Batches::hold(Lease&& lease, const std::shared_ptr<Batches>& self) {
  // Acquire: the thread that released the place no longer uses it. Only the feeder's thread takes
  // places.
  const auto free = std::ranges::find_if(
      places_, [](const forebay_batch& place) { return !place.is_held.load(std::memory_order_acquire); });
  forebay_batch& place = free != places_.end() ? *free : places_.emplace_back();
  place.lease.emplace(std::move(lease));
  place.home = self;
  place.is_held.store(true, std::memory_order_relaxed);
  return &place;
}

namespace {

// The numbers are a permanent part of the C interface; the C++ enumerations must match them.
static_assert(static_cast<int>(DType::float32) == FOREBAY_FLOAT32);
static_assert(static_cast<int>(DType::float16) == FOREBAY_FLOAT16);
static_assert(static_cast<int>(DType::bfloat16) == FOREBAY_BFLOAT16);
static_assert(static_cast<int>(DType::uint8) == FOREBAY_UINT8);
static_assert(static_cast<int>(DType::int32) == FOREBAY_INT32);
static_assert(static_cast<int>(DType::int64) == FOREBAY_INT64);
static_assert(static_cast<int>(DType::float64) == FOREBAY_FLOAT64);
static_assert(static_cast<int>(DeviceKind::host) == FOREBAY_HOST);
static_assert(static_cast<int>(DeviceKind::cuda) == FOREBAY_CUDA_DEVICE);
static_assert(Shape::kMost == FOREBAY_MOST_DIMENSIONS);

// The lease of a held batch, or null. For a const batch, a const lease.
auto find_lease(auto* batch) noexcept -> decltype(&*batch->lease) {
  if (batch == nullptr || !batch->is_held.load(std::memory_order_relaxed)) return nullptr;
  return batch->shared ? &batch->shared->lease : &*batch->lease;
}

auto& lease_of(auto* batch) {
  auto* const lease = find_lease(given(batch, "batch"));
  if (lease == nullptr) refuse("the batch was released");
  return *lease;
}

// get(lease), or 0 if the batch was released.
template <typename Get>
auto fact(const forebay_batch* batch, Get&& get) noexcept -> decltype(get(std::declval<const Lease&>())) {
  const Lease* const lease = find_lease(batch);
  return lease == nullptr ? decltype(get(*lease)){} : get(*lease);
}

// Strides are in elements, in row-major order, as in DLPack.
void describe(const TensorView& view, forebay_tensor* out) {
  forebay_tensor tensor{};
  tensor.data = view.data;
  tensor.bytes = view.bytes();
  tensor.dtype = static_cast<std::int32_t>(view.dtype);
  tensor.rank = static_cast<std::int32_t>(view.shape.size());
  tensor.device = static_cast<std::int32_t>(view.device);
  tensor.device_index = view.device_index;
  std::ranges::copy(view.shape, tensor.shape);
  std::int64_t stride = 1;
  for (std::size_t i = view.shape.size(); i-- > 0; stride *= view.shape[i]) tensor.strides[i] = stride;
  write_struct(out, tensor, "forebay_tensor");
}

// The lease, which the batch shares with tensors from now on.
std::shared_ptr<Lease> shared_lease(forebay_batch* batch) {
  static_cast<void>(lease_of(batch));
  if (!batch->shared) {
    batch->shared = std::make_shared<SharedLease>(*std::move(batch->lease));
    batch->lease.reset();
  }
  return {batch->shared, &batch->shared->lease};
}

// Members are moved out first: once is_held is false, the feeder's thread may reuse the place.
void release(forebay_batch* batch, const StreamView* stream) noexcept {
  if (find_lease(batch) == nullptr) return;
  const std::shared_ptr<Batches> home = std::move(batch->home);  // destroyed last, because it contains the batch
  std::optional<Lease> lease = std::exchange(batch->lease, std::nullopt);
  const std::shared_ptr<SharedLease> shared = std::move(batch->shared);
  // Before the lease ends, so that whoever then finds that another lease may be taken also finds a
  // place for it. Release: this thread's accesses to the place are complete.
  batch->is_held.store(false, std::memory_order_release);
  if (stream == nullptr) return;
  if (lease) lease->release(*stream);
  if (shared) shared->stream = *stream;  // tensors may still be in use
}

}  // namespace
}  // namespace forebay::c

using forebay::Lease;
using forebay::c::fact;
using forebay::c::given;
using forebay::c::guarded;
using forebay::c::lease_of;

uint32_t forebay_batch_size(const forebay_batch* batch) {
  return fact(batch, [](const Lease& lease) { return lease.size(); });
}
uint64_t forebay_batch_epoch(const forebay_batch* batch) {
  return fact(batch, [](const Lease& lease) { return lease.epoch(); });
}
uint64_t forebay_batch_number(const forebay_batch* batch) {
  return fact(batch, [](const Lease& lease) { return lease.batch(); });
}
uint64_t forebay_batch_step(const forebay_batch* batch) {
  return fact(batch, [](const Lease& lease) { return lease.step(); });
}
uint64_t forebay_batch_use_index(const forebay_batch* batch) {
  return fact(batch, [](const Lease& lease) { return lease.use_index(); });
}
bool forebay_batch_is_fresh(const forebay_batch* batch) {
  return fact(batch, [](const Lease& lease) { return lease.is_fresh(); });
}
uint64_t forebay_batch_job_fresh(const forebay_batch* batch) {
  return fact(batch, [](const Lease& lease) { return lease.job_fresh_samples(); });
}
const int64_t* forebay_batch_labels(const forebay_batch* batch) {
  return fact(batch, [](const Lease& lease) { return lease.labels().data(); });
}
const uint64_t* forebay_batch_ids(const forebay_batch* batch) {
  return fact(batch, [](const Lease& lease) { return lease.ids().data(); });
}

forebay_status forebay_batch_tensor(const forebay_batch* batch, size_t field, forebay_tensor* tensor,
                                    forebay_error** error) {
  return guarded(error, [&] { forebay::c::describe(lease_of(batch).field(field), tensor); });
}

forebay_status forebay_batch_tensor_named(const forebay_batch* batch, const char* name, forebay_tensor* tensor,
                                          forebay_error** error) {
  return guarded(error,
                 [&] { forebay::c::describe(lease_of(batch).field(std::string_view(given(name, "name"))), tensor); });
}

forebay_status forebay_batch_counts(const forebay_batch* batch, size_t field, forebay_tensor* tensor,
                                    forebay_error** error) {
  return guarded(error, [&] { forebay::c::describe(lease_of(batch).counts(field), tensor); });
}

forebay_status forebay_batch_counts_on_host(const forebay_batch* batch, size_t field, const int32_t** counts,
                                            forebay_error** error) {
  return guarded(error, [&] { *given(counts, "counts") = lease_of(batch).counts_on_host(field).data(); });
}

// view_size is the caller's sizeof(forebay_view), so that elements are found even if a newer
// header's struct is longer.
forebay_status forebay_batch_views(const forebay_batch* batch, forebay_view* views, size_t view_size, size_t capacity,
                                   forebay_error** error) {
  return guarded(error, [&] {
    const Lease& lease = lease_of(batch);
    if (view_size < sizeof(forebay_view)) {  // nothing was added since version 1.0
      forebay::c::refuse("view_size is " + std::to_string(view_size) + "; give sizeof(forebay_view), which is " +
                         std::to_string(sizeof(forebay_view)));
    }
    if (capacity < lease.rows()) {
      forebay::c::refuse("views has room for " + std::to_string(capacity) + " rows, and the batch has " +
                         std::to_string(lease.rows()));
    }
    if (lease.rows() > 0) static_cast<void>(given(views, "views"));
    auto* at = reinterpret_cast<std::byte*>(views);
    for (const forebay::SampleView& view : lease.views()) {
      const forebay_view described{.left = view.region.left,
                                   .top = view.region.top,
                                   .right = view.region.right,
                                   .bottom = view.region.bottom,
                                   .width = view.width,
                                   .height = view.height,
                                   .mirror = view.mirror ? 1 : 0};
      std::memcpy(at, &described, sizeof(described));
      at += view_size;
    }
  });
}

forebay_status forebay_batch_copy(const forebay_batch* batch, size_t field, void* out, uint64_t bytes,
                                  forebay_error** error) {
  return guarded(error, [&] {
    const Lease& lease = lease_of(batch);
    if (bytes > 0) static_cast<void>(given(out, "out"));
    lease.copy_to_host(lease.field_on_host(field).value_or(lease.field(field)),
                       std::span(static_cast<std::byte*>(out), bytes));
  });
}

// After any failure *tensor is null.
forebay_status forebay_batch_dlpack(forebay_batch* batch, size_t field, DLManagedTensorVersioned** tensor,
                                    forebay_error** error) {
  return guarded(error, [&] {
    *given(tensor, "tensor") = nullptr;
    auto made = forebay::to_dlpack(forebay::c::shared_lease(batch), field);
    *tensor = reinterpret_cast<DLManagedTensorVersioned*>(made.release());
  });
}

forebay_status forebay_batch_dlpack_unversioned(forebay_batch* batch, size_t field, DLManagedTensor** tensor,
                                                forebay_error** error) {
  return guarded(error, [&] {
    *given(tensor, "tensor") = nullptr;
    auto made = forebay::to_dlpack_unversioned(forebay::c::shared_lease(batch), field);
    *tensor = reinterpret_cast<DLManagedTensor*>(made.release());
  });
}

forebay_status forebay_batch_use_on(forebay_batch* batch, void* stream, forebay_error** error) {
  return guarded(error, [&] { lease_of(batch).use_on({stream}); });
}

void forebay_batch_release(forebay_batch* batch) { forebay::c::release(batch, nullptr); }

void forebay_batch_release_on(forebay_batch* batch, void* stream) {
  const forebay::StreamView on{stream};
  forebay::c::release(batch, &on);
}
