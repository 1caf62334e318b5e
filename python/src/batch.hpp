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

// One field of a batch for other libraries: DLPack, without a copy. Holds the lease.
class Tensor {
 public:
  // `for_jax`: JAX copies it at once (Leases::lend_copied()).
  Tensor(std::shared_ptr<Lease> lease, std::size_t field, bool for_jax = false)
      : lease_(std::move(lease)), field_(field), for_jax_(for_jax) {}

  [[nodiscard]] TensorView view() const { return lease_->field(field_); }
  // A capsule: "dltensor_versioned", or "dltensor" for consumers that do not know it.
  [[nodiscard]] nb::object capsule(bool is_versioned) const;
  // `stream`: the consumer's, which is ordered with the batch. Raises BufferError for what cannot be had.
  [[nodiscard]] nb::object dlpack(nb::handle stream, nb::handle max_version, nb::handle device, nb::handle copy) const;
  [[nodiscard]] nb::tuple device() const;
  [[nodiscard]] nb::tuple shape() const;
  // Read-only, of host memory; a copy where the host has one of what is on a GPU. bfloat16 needs the module ml_dtypes.
  [[nodiscard]] nb::object numpy() const;
  [[nodiscard]] nb::dict cuda_array_interface() const;

 private:
  void order_consumer(nb::handle stream) const;

  std::shared_ptr<Lease> lease_;
  std::size_t field_;
  bool for_jax_;
};

// What a feeder knows of one of its leases, for as long as it likes. Any thread.
struct LeaseFacts {
  std::atomic<bool> is_held{true};
  std::atomic<std::int64_t> loans{0};  // shares of the lease that another library has
};

// A lease that is counted until it has ended. Any thread ends it.
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

  // The object of a stream lives until the lease has ended. REQUIRES: the GIL.
  void keep(const Held& stream) {
    if (stream) streams_.push_back(stream);
  }
  // The batch is used on another stream, too. REQUIRES: the GIL.
  void use_on(const GivenStream& stream) {
    keep(stream.object);
    Lease::use_on(stream.view);
  }

 private:
  std::shared_ptr<Count> count_;
  std::shared_ptr<LeaseFacts> facts_;  // null until somebody asks
  std::vector<Held> streams_;
};

// The leases of a feeder that have not ended.
//
// JAX computes behind the program's back: what it was given keeps its lease until the computations that read it are
// done, long after the program has dropped the array. Such a lease is one to wait for. REQUIRES, for all members: the
// GIL.
class Leases {
 public:
  [[nodiscard]] std::shared_ptr<CountedLease> add(Lease&& lease) const {
    return std::make_shared<CountedLease>(std::move(lease), count_);
  }
  [[nodiscard]] std::uint32_t count() const noexcept { return count_->load(std::memory_order_acquire); }
  // take(tensor of a field): an array that shares the lease, and can be referred to weakly.
  [[nodiscard]] nb::object lend(const std::shared_ptr<CountedLease>& given, std::size_t field, const nb::object& take);
  // The same on a GPU, where JAX lets go of what it was given when its computations are queued, on streams that it
  // tells nobody: a copy, whose completion ends the share.
  [[nodiscard]] nb::object lend_copied(const std::shared_ptr<CountedLease>& given, std::size_t field,
                                       const nb::object& take);
  // A lease is held by nothing but computations: the program has none of the arrays that were made of it.
  [[nodiscard]] bool is_computing();

 private:
  struct Lent {
    std::shared_ptr<const LeaseFacts> facts;
    std::weak_ptr<CountedLease> lease;
    std::vector<nb::object> arrays;  // weak references
  };
  struct Copied {
    std::shared_ptr<CountedLease> lease;
    nb::object after;  // an array of JAX that is computed from the copy
  };
  void forget_ended();

  std::shared_ptr<CountedLease::Count> count_ = std::make_shared<CountedLease::Count>(0);
  std::vector<Lent> lent_;
  std::vector<Copied> copied_;
};

// A lease as Python sees it. Whatever it hands out shares the lease.
class Batch {
 public:
  // Whether what a program writes to would be served again, to whom it is not read-only.
  struct Reuse {
    bool of_images = true;
    bool of_fields = true;
  };
  Batch(Lease&& lease, std::shared_ptr<const Fields> fields, std::shared_ptr<Leases> leases, Reuse reuse);

  void release() noexcept { lease_.reset(); }
  // After the work that is on this stream, too.
  void release(const GivenStream& stream);
  [[nodiscard]] bool is_released() const noexcept { return !lease_; }
  // Throws Error once the batch was released.
  [[nodiscard]] const std::shared_ptr<CountedLease>& lease() const;

  [[nodiscard]] const Fields& fields() const noexcept { return *fields_; }
  // Throws KeyError that lists the names.
  [[nodiscard]] std::size_t number_of(std::string_view name) const;
  [[nodiscard]] std::optional<std::size_t> find(std::string_view name) const noexcept;

  // A field for Python code: a NumPy array if it is in host memory and NumPy has its type, else a Tensor. Labels are
  // copied.
  [[nodiscard]] nb::object field(std::size_t which) const;
  [[nodiscard]] Tensor tensor(std::size_t which) const { return {lease(), which}; }
  // A reuse may serve the memory of the field again.
  [[nodiscard]] bool may_return(std::size_t which) const noexcept {
    return which == 0 ? reuse_.of_images : reuse_.of_fields;
  }
  // take(tensor): for a library that computes behind the program's back.
  [[nodiscard]] nb::object lend(std::size_t which, const nb::object& take) const {
    return is_on_host() ? leases_->lend(lease(), which, take) : leases_->lend_copied(lease(), which, take);
  }
  // The images, and what comes with them.
  [[nodiscard]] bool is_on_host() const { return lease()->images().device == DeviceKind::host; }
  [[nodiscard]] nb::object ids() const;
  [[nodiscard]] nb::object counts(std::size_t which) const;
  // Of what the host has of a batch on a GPU, too; else no object.
  [[nodiscard]] nb::object copy_on_host(std::size_t which) const;
  // A copy of a field in host memory.
  [[nodiscard]] nb::object copy_of(std::size_t which) const;
  [[nodiscard]] nb::object copy() const;

  // Of the step; valid after release(), too.
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
