// Batches in Python: arrays and tensors that share the batch's memory, and when that memory may be
// reused.
//
// A batch holds a lease. Whatever is made from it (NumPy arrays, DLPack tensors, JAX arrays) shares
// the lease, so the memory is not reused while anything refers to it. JAX computes asynchronously
// and does not tell when it is done. So Leases tracks the arrays lent to it, with weak references
// and counts, and next() can wait for computations that still read a batch.
//
// The GIL is held in all of this except while bytes are copied.

#include "batch.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <span>
#include <typeinfo>
#include <utility>

#include <forebay/error.hpp>
#include <forebay/interop.hpp>

#include <nanobind/ndarray.h>

namespace forebay::python {
namespace {

using Array = nb::ndarray<nb::numpy>;
using ReadOnlyArray = nb::ndarray<nb::numpy, nb::ro>;

// NumPy has no bfloat16, so it is passed as uint16; forebay/_batch.py gives it the type of
// ml_dtypes if that is installed.
nb::dlpack::dtype numpy_type(DType dtype) {
  const auto type = [](nb::dlpack::dtype_code code, std::size_t bytes) {
    return nb::dlpack::dtype{static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(8 * bytes), 1};
  };
  switch (dtype) {
    case DType::uint8: return type(nb::dlpack::dtype_code::UInt, 1);
    case DType::int32:
    case DType::int64: return type(nb::dlpack::dtype_code::Int, size_of(dtype));
    case DType::bfloat16: return type(nb::dlpack::dtype_code::UInt, 2);  // the raw bits
    case DType::float16:
    case DType::float32:
    case DType::float64: break;
  }
  return type(nb::dlpack::dtype_code::Float, size_of(dtype));
}

std::array<std::size_t, Shape::kMost> extents(const Shape& shape) {
  std::array<std::size_t, Shape::kMost> all{};
  std::ranges::transform(shape, all.begin(), [](std::int64_t extent) { return static_cast<std::size_t>(extent); });
  return all;
}

// A NumPy array that owns its memory, filled by fill(span of its bytes). At least one byte, as an
// empty field needs an address, too.
template <typename Fill>
nb::object own_array(const Shape& shape, DType dtype, Fill&& fill) {
  const nb::dlpack::dtype type = numpy_type(dtype);
  const std::size_t bytes = shape.elements() * size_of(dtype);
  auto memory = std::make_unique<std::byte[]>(std::max<std::size_t>(bytes, 1));
  fill(std::span(memory.get(), bytes));
  auto* const data = memory.get();
  const nb::capsule owner(memory.release(), [](void* held) noexcept { delete[] static_cast<std::byte*>(held); });
  const auto sides = extents(shape);
  return nb::cast(Array(data, shape.size(), sides.data(), owner, nullptr, type));
}

nb::object own_copy(const void* from, const Shape& shape, DType dtype) {
  return own_array(shape, dtype, [from](std::span<std::byte> into) {
    if (!into.empty()) std::memcpy(into.data(), from, into.size());
  });
}

// A capsule that frees the tensor unless a consumer has taken it, which renames the capsule.
// DLPack's protocol: the consumer renames the capsule to "used_..." and then owns the tensor.
template <typename Owner>
nb::object capsule_of(Owner tensor, const char* name) {
  using Managed = typename Owner::element_type;
  PyObject* const capsule = PyCapsule_New(tensor.get(), name, [](PyObject* self) {
    const char* const called = PyCapsule_GetName(self);
    if (called == nullptr || std::string_view(called).starts_with("used_")) return;
    auto* const held = static_cast<Managed*>(PyCapsule_GetPointer(self, called));
    held->deleter(held);
  });
  if (capsule == nullptr) throw nb::python_error();
  static_cast<void>(tensor.release());
  return nb::steal(capsule);
}

// A share of a lease that another library holds, counted in `loans`.
class Loan {
 public:
  Loan(std::shared_ptr<CountedLease> lease, std::shared_ptr<LeaseFacts> facts)
      : lease_(std::move(lease)), facts_(std::move(facts)) {
    facts_->loans.fetch_add(1, std::memory_order_relaxed);
  }
  ~Loan() {
    lease_.reset();  // first: see Leases::is_computing()
    facts_->loans.fetch_sub(1, std::memory_order_release);
  }
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;

 private:
  std::shared_ptr<CountedLease> lease_;
  std::shared_ptr<LeaseFacts> facts_;
};

// Whether the caller is JAX, judged by the module of the calling Python code. A program that takes
// a capsule itself gives no stream either, but its module is not JAX's.
bool is_called_by_jax() {
  PyObject* const globals = PyEval_GetGlobals();
  if (globals == nullptr) return false;
  PyObject* const name = PyDict_GetItemString(globals, "__name__");
  if (name == nullptr || PyUnicode_Check(name) == 0) return false;
  const std::string module = utf8_of(name);
  return module == "jax" || module.starts_with("jax.");
}

}  // namespace

nb::object Tensor::capsule(bool is_versioned) const {
  if (is_versioned) return capsule_of(to_dlpack(lease_, field_), "dltensor_versioned");
  return capsule_of(to_dlpack_unversioned(lease_, field_), "dltensor");
}

// Host memory has nothing to order.
void Tensor::order_consumer(nb::handle stream) const {
  if (view().device == DeviceKind::host) return;
  if (!for_jax_ && is_called_by_jax()) {
    throw nb::buffer_error(
        "JAX tells nobody when it has read what it was lent on a GPU, and this memory receives other batches: take the "
        "batch as batch.jax(), which makes copies");
  }
  try {
    forebay::order_consumer(*lease_, stream.is_none() ? std::nullopt : std::optional(nb::cast<std::intptr_t>(stream)));
  } catch (const Error& error) {
    throw nb::buffer_error(error.what());
  }
}

// Returns the versioned form if the consumer supports DLPack 1 or later: only that form can be
// read-only.
nb::object Tensor::dlpack(nb::handle stream, nb::handle max_version, nb::handle device_wanted, nb::handle copy) const
    try {
  if (!copy.is_none() && nb::cast<bool>(copy)) {
    throw nb::buffer_error("a batch is handed over without a copy; batch.copy() makes one");
  }
  if (!device_wanted.is_none() && !nb::tuple(device_wanted).equal(device())) {
    throw nb::buffer_error("a batch is handed over on the device it is on: see __dlpack_device__()");
  }
  order_consumer(stream);
  return capsule(!max_version.is_none() && nb::cast<int>(max_version[0]) >= 1);
} catch (const std::bad_cast&) {
  throw nb::type_error(
      "__dlpack__: stream is None or a whole number, max_version and dl_device are None or a tuple of two whole "
      "numbers, "
      "and copy is None, True or False");
}

nb::tuple Tensor::device() const {
  const TensorView seen = view();
  return nb::make_tuple(seen.device == DeviceKind::cuda ? dlpack::kDLCUDA : dlpack::kDLCPU, seen.device_index);
}

nb::tuple Tensor::shape() const {
  nb::list all;
  const TensorView seen = view();
  for (const std::int64_t extent : seen.shape) all.append(extent);
  return nb::tuple(all);
}

// For a batch on a GPU, labels and similar small fields also have a copy on the host, which is used
// here.
nb::object Tensor::numpy() const {
  const TensorView seen = view();
  if (seen.device != DeviceKind::host) {
    if (const auto copied = lease_->field_on_host(field_)) {
      const nb::object array = own_copy(copied->data, copied->shape, copied->dtype);
      return copied->dtype == DType::bfloat16 ? nb::module_::import_("forebay._batch").attr("bfloat16_of")(array)
                                              : array;
    }
    throw Error(
        "this tensor is on a GPU, where NumPy cannot read it: use batch.torch(), .cupy() or .jax(), or "
        "batch.copy(), which copies it to the host");
  }
  const auto sides = extents(seen.shape);
  const nb::capsule owner(new std::shared_ptr<Lease>(lease_),
                          [](void* held) noexcept { delete static_cast<std::shared_ptr<Lease>*>(held); });
  const nb::object array =
      nb::cast(ReadOnlyArray(seen.data, seen.shape.size(), sides.data(), owner, nullptr, numpy_type(seen.dtype)));
  if (seen.dtype != DType::bfloat16) return array;
  return nb::module_::import_("forebay._batch").attr("bfloat16_of")(array);
}

// Version 3 of the interface, with the stream on which the data is ready.
nb::dict Tensor::cuda_array_interface() const {
  if (field_ != 0) throw nb::attribute_error("only the images have __cuda_array_interface__; use DLPack");
  if (view().device != DeviceKind::cuda) throw nb::attribute_error("this tensor is in memory of the host");
  const CudaArrayInterface described = forebay::cuda_array_interface(*lease_);
  nb::dict all;
  all["data"] = nb::make_tuple(described.data, described.read_only);
  all["shape"] = shape();
  all["typestr"] = nb::str(described.typestr.data(), described.typestr.size());
  all["stream"] = described.stream;
  all["strides"] = nb::none();
  all["version"] = described.version;
  return all;
}

CountedLease::~CountedLease() {
  release();
  // Release, paired with acquire where these are read: whoever sees the lower count also sees that
  // the lease has ended.
  count_->fetch_sub(1, std::memory_order_release);
  if (facts_) facts_->is_held.store(false, std::memory_order_release);
}

const std::shared_ptr<LeaseFacts>& CountedLease::facts() {
  if (!facts_) facts_ = std::make_shared<LeaseFacts>();
  return facts_;
}

nb::object Leases::lend(const std::shared_ptr<CountedLease>& given, std::size_t field, const nb::object& take) {
  forget_ended();
  const std::shared_ptr<CountedLease> lease = given;  // a copy: another thread may release the batch meanwhile
  const std::shared_ptr<LeaseFacts> facts = lease->facts();
  const auto loan = std::make_shared<Loan>(lease, facts);
  nb::object array = take(Tensor(std::shared_ptr<Lease>(loan, lease.get()), field));
  auto lent = std::ranges::find(lent_, facts, &Lent::facts);
  if (lent == lent_.end()) lent = lent_.insert(lent_.end(), {.facts = facts, .lease = lease, .arrays = {}});
  lent->arrays.push_back(nb::module_::import_("weakref").attr("ref")(array));
  return array;
}

// The program may even donate the copy to a computation, which invalidates it. So completion is
// tracked by one element copied out of it: that element is ready only after the whole copy is, and
// the program cannot donate it.
nb::object Leases::lend_copied(const std::shared_ptr<CountedLease>& given, std::size_t field, const nb::object& take) {
  using namespace nb::literals;
  forget_ended();
  const std::shared_ptr<CountedLease> lease = given;
  const nb::module_ numpy = nb::module_::import_("jax.numpy");
  nb::object copy = numpy.attr("array")(take(Tensor(lease, field, true)), "copy"_a = true);
  copied_.push_back({lease, numpy.attr("ravel")(copy).attr("__getitem__")(nb::slice(0, 1))});
  return copy;
}

// A computation holds an array if the program has dropped it while its loan still exists. While a
// share is ending, there may briefly seem to be more loans than shares, but never fewer.
bool Leases::is_computing() {
  forget_ended();
  if (!copied_.empty()) return true;
  const auto is_dropped = [](const nb::object& reference) { return reference().is_none(); };
  return std::ranges::any_of(lent_, [&](const Lent& lent) {
    const std::int64_t loans = lent.facts->loans.load(std::memory_order_acquire);
    return loans > 0 && lent.lease.use_count() <= loans && std::ranges::all_of(lent.arrays, is_dropped);
  });
}

void Leases::forget_ended() {
  std::erase_if(copied_, [](const Copied& copied) { return nb::cast<bool>(copied.after.attr("is_ready")()); });
  std::erase_if(lent_, [](const Lent& lent) { return !lent.facts->is_held.load(std::memory_order_acquire); });
}

// These values are copied, because they may be asked for after the release.
Batch::Batch(Lease&& lease, std::shared_ptr<const Fields> fields, std::shared_ptr<Leases> leases, Reuse reuse)
    : epoch(lease.epoch()),
      number(lease.batch()),
      step(lease.step()),
      use_index(lease.use_index()),
      job_fresh_samples(lease.job_fresh_samples()),
      size(lease.size()),
      leases_(std::move(leases)),
      lease_(leases_->add(std::move(lease))),
      fields_(std::move(fields)),
      reuse_(reuse) {}

const std::shared_ptr<CountedLease>& Batch::lease() const {
  if (lease_) return lease_;
  throw Error("the batch of step " + std::to_string(step) +
              " has been released, by release(), at the end of its with block, or because the loop asked for the next "
              "one: use a batch inside the loop's body, or keep batch.copy()");
}

void Batch::release(const GivenStream& stream) {
  if (lease_) lease_->use_on(stream);
  lease_.reset();
}

std::optional<std::size_t> Batch::find(std::string_view name) const noexcept {
  const auto found = std::ranges::find(*fields_, name, &Field::name);
  if (found == fields_->end()) return std::nullopt;
  return static_cast<std::size_t>(found - fields_->begin());
}

std::size_t Batch::number_of(std::string_view name) const {
  if (const auto found = find(name)) return *found;
  std::string known;
  for (const Field& field : *fields_) known += (known.empty() ? "\"" : ", \"") + field.name + "\"";
  throw nb::key_error(("a batch has no field \"" + std::string(name) + "\"; it has " + known).c_str());
}

// Labels are copied, because they are small and programs keep them.
nb::object Batch::field(std::size_t which) const {
  if (which == 1) return copy_on_host(1);
  const TensorView seen = lease()->field(which);
  if (seen.device != DeviceKind::host || seen.dtype == DType::bfloat16) return nb::cast(tensor(which));
  return tensor(which).numpy();
}

nb::object Batch::copy_on_host(std::size_t which) const {
  const auto seen = lease()->field_on_host(which);
  return seen ? own_copy(seen->data, seen->shape, seen->dtype) : nb::object();
}

nb::object Batch::ids() const {
  const auto all = lease()->ids();
  const std::size_t count = all.size();
  auto* const copy = new std::uint64_t[std::max<std::size_t>(count, 1)];
  std::ranges::copy(all, copy);
  const nb::capsule owner(copy, [](void* held) noexcept { delete[] static_cast<std::uint64_t*>(held); });
  return nb::cast(nb::ndarray<nb::numpy, std::uint64_t>(copy, {count}, owner));
}

nb::object Batch::counts(std::size_t which) const {
  const auto all = lease()->counts_on_host(which);
  return own_copy(all.data(), {static_cast<std::int64_t>(all.size())}, DType::int32);
}

// Copying from a GPU waits, so other threads may run meanwhile.
nb::object Batch::copy_of(std::size_t which) const {
  if (which == 1 || !is_on_host()) {
    if (nb::object copy = copy_on_host(which); copy.is_valid()) return copy;
  }
  const TensorView seen = lease()->field(which);
  return own_array(seen.shape, seen.dtype, [&](std::span<std::byte> into) {
    const nb::gil_scoped_release others_may_run;
    lease()->copy_to_host(seen, into);
  });
}

nb::object Batch::copy() const {
  nb::dict arrays;
  nb::dict rows;
  nb::list bits;
  for (std::size_t i = 0; i < fields_->size(); ++i) {
    const Field& field = (*fields_)[i];
    arrays[field.name.c_str()] = copy_of(i);
    if (field.dtype == DType::bfloat16) bits.append(nb::str(field.name.c_str(), field.name.size()));
    if (i > 1 && is_ragged(field.kind)) rows[field.name.c_str()] = counts(i);
  }
  using namespace nb::literals;
  return nb::module_::import_("forebay._batch")
      .attr("BatchCopy")("fields"_a = arrays, "rows"_a = rows, "bfloat16"_a = nb::tuple(bits), "ids"_a = ids(),
                         "epoch"_a = epoch, "number"_a = number, "step"_a = step, "use_index"_a = use_index,
                         "job_fresh_samples"_a = job_fresh_samples);
}

}  // namespace forebay::python
