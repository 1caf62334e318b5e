#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <forebay/field.hpp>
#include <forebay/lease.hpp>

#include <nanobind/nanobind.h>

#include "stream.hpp"

namespace forebay::python {

namespace nb = nanobind;

using Fields = std::vector<Field>;

// One field of a batch, offered to other libraries as DLPack without a copy. Holds the lease.
class Tensor {
 public:
  // `for_jax`: JAX copies it at once (Leases::lend_copied()).
  Tensor(std::shared_ptr<Lease> lease, std::size_t field, bool for_jax = false)
      : lease_(std::move(lease)), field_(field), for_jax_(for_jax) {}

  [[nodiscard]] TensorView view() const { return lease_->field(field_); }
  // A capsule named "dltensor_versioned", or "dltensor" for consumers that do not know it.
  [[nodiscard]] nb::object capsule(bool is_versioned) const;
  // Implements __dlpack__. `stream`: the consumer's stream, which is ordered after the batch.
  // Raises BufferError for requests that cannot be met.
  [[nodiscard]] nb::object dlpack(nb::handle stream, nb::handle max_version, nb::handle device, nb::handle copy) const;
  [[nodiscard]] nb::tuple device() const;
  [[nodiscard]] nb::tuple shape() const;
  // A read-only array of host memory. For a batch on a GPU, the host's copy of the field, if there
  // is one. bfloat16 needs the module ml_dtypes.
  [[nodiscard]] nb::object numpy() const;
  [[nodiscard]] nb::dict cuda_array_interface() const;

 private:
  void order_consumer(nb::handle stream) const;

  std::shared_ptr<Lease> lease_;
  std::size_t field_;
  bool for_jax_;
};

// What a feeder keeps about one of its leases, beyond the lease's end. Any thread.
struct LeaseFacts {
  std::atomic<bool> is_held{true};
  std::atomic<std::int64_t> loans{0};  // shares of the lease held by other libraries
};

// A lease that is counted until it ends. Any thread may end it.
class CountedLease : public Lease {
 public:
  using Count = std::atomic<std::uint32_t>;

  CountedLease(Lease&& lease, std::shared_ptr<Count> count) : Lease(std::move(lease)), count_(std::move(count)) {
    count_->fetch_add(1, std::memory_order_relaxed);
  }
  ~CountedLease();
  CountedLease(const CountedLease&) = delete;
  CountedLease& operator=(const CountedLease&) = delete;

  // REQUIRES: the GIL.
  [[nodiscard]] const std::shared_ptr<LeaseFacts>& facts();

  // Keeps a stream's Python object alive until the lease has ended. REQUIRES: the GIL.
  void keep(const Held& stream) {
    if (stream) streams_.push_back(stream);
  }
  // Notes that the batch is used on another stream, too. REQUIRES: the GIL.
  void use_on(const GivenStream& stream) {
    keep(stream.object);
    Lease::use_on(stream.view);
  }

 private:
  std::shared_ptr<Count> count_;
  std::shared_ptr<LeaseFacts> facts_;  // null until first asked for
  std::vector<Held> streams_;
};

// The leases of a feeder that have not ended.
//
// JAX computes asynchronously: an array that it was given keeps its lease until the computations
// that read it are done, long after the program has dropped the array. next() has to wait for such
// leases. REQUIRES, for all members: the GIL.
class Leases {
 public:
  [[nodiscard]] std::shared_ptr<CountedLease> add(Lease&& lease) const {
    return std::make_shared<CountedLease>(std::move(lease), count_);
  }
  [[nodiscard]] std::uint32_t count() const noexcept { return count_->load(std::memory_order_acquire); }
  // Returns take(tensor of the field): an array that shares the lease and can be referred to
  // weakly.
  [[nodiscard]] nb::object lend(const std::shared_ptr<CountedLease>& given, std::size_t field, const nb::object& take);
  // The same for a batch on a GPU. There JAX drops its reference as soon as its computations are
  // queued, on streams that it does not reveal. So this returns a copy, and the share ends when the
  // copy is complete.
  [[nodiscard]] nb::object lend_copied(const std::shared_ptr<CountedLease>& given, std::size_t field,
                                       const nb::object& take);
  // Whether some lease is held only by computations: the program has dropped all arrays made from
  // it.
  [[nodiscard]] bool is_computing();

 private:
  struct Lent {
    std::shared_ptr<const LeaseFacts> facts;
    std::weak_ptr<CountedLease> lease;
    std::vector<nb::object> arrays;  // weak references
  };
  struct Copied {
    std::shared_ptr<CountedLease> lease;
    nb::object after;  // a JAX array computed from the copy
  };
  void forget_ended();

  std::shared_ptr<CountedLease::Count> count_ = std::make_shared<CountedLease::Count>(0);
  std::vector<Lent> lent_;
  std::vector<Copied> copied_;
};

// A lease as Python sees it. Everything it hands out shares the lease.
class Batch {
 public:
  // Whether a reuse may serve the same memory again, so that a program must not write to it.
  struct Reuse {
    bool of_images = true;
    bool of_fields = true;
  };
  Batch(Lease&& lease, std::shared_ptr<const Fields> fields, std::shared_ptr<Leases> leases, Reuse reuse);

  void release() noexcept { lease_.reset(); }
  // Releases the batch after the work queued on this stream, too.
  void release(const GivenStream& stream);
  [[nodiscard]] bool is_released() const noexcept { return !lease_; }
  // Throws Error once the batch was released.
  [[nodiscard]] const std::shared_ptr<CountedLease>& lease() const;

  [[nodiscard]] const Fields& fields() const noexcept { return *fields_; }
  // Throws KeyError that lists the names.
  [[nodiscard]] std::size_t number_of(std::string_view name) const;
  [[nodiscard]] std::optional<std::size_t> find(std::string_view name) const noexcept;

  // A field for Python code: a NumPy array if it is in host memory and NumPy has its type,
  // otherwise a Tensor. Labels are copied.
  [[nodiscard]] nb::object field(std::size_t which) const;
  [[nodiscard]] Tensor tensor(std::size_t which) const { return {lease(), which}; }
  // Whether a reuse may serve the field's memory again.
  [[nodiscard]] bool may_return(std::size_t which) const noexcept {
    return which == 0 ? reuse_.of_images : reuse_.of_fields;
  }
  // Returns take(tensor), for a library that computes asynchronously (JAX).
  [[nodiscard]] nb::object lend(std::size_t which, const nb::object& take) const {
    return is_on_host() ? leases_->lend(lease(), which, take) : leases_->lend_copied(lease(), which, take);
  }
  // Whether images and fields are in host memory.
  [[nodiscard]] bool is_on_host() const { return lease()->images().device == DeviceKind::host; }
  [[nodiscard]] nb::object ids() const;
  [[nodiscard]] nb::object counts(std::size_t which) const;
  // A copy of a field of which the host has a copy, even if the batch is on a GPU; otherwise a null
  // object.
  [[nodiscard]] nb::object copy_on_host(std::size_t which) const;
  // A copy of a field in host memory.
  [[nodiscard]] nb::object copy_of(std::size_t which) const;
  [[nodiscard]] nb::object copy() const;

  // About the step; valid after release(), too.
  std::uint64_t epoch;
  std::uint64_t number;
  std::uint64_t step;
  std::uint64_t use_index;
  std::uint64_t job_fresh_samples;
  std::uint32_t size;

 private:
  std::shared_ptr<Leases> leases_;
  std::shared_ptr<CountedLease> lease_;
  std::shared_ptr<const Fields> fields_;
  Reuse reuse_;
};

void bind_batch(nb::module_& module);

}  // namespace forebay::python
