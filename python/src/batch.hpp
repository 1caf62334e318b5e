#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <forebay/field.hpp>
#include <forebay/lease.hpp>

#include <nanobind/nanobind.h>

namespace forebay::python {

namespace nb = nanobind;

using Fields = std::vector<Field>;

// One field of a batch for other libraries: DLPack, without a copy. Holds the lease.
class Tensor {
 public:
  Tensor(std::shared_ptr<Lease> lease, std::size_t field) : lease_(std::move(lease)), field_(field) {}

  [[nodiscard]] TensorView view() const { return lease_->field(field_); }
  // A capsule: "dltensor_versioned", or "dltensor" for consumers that do not know it.
  [[nodiscard]] nb::object capsule(bool is_versioned) const;
  // `stream`: the consumer's. Raises BufferError where its work would not be ordered after the batch's.
  [[nodiscard]] nb::object dlpack(nb::handle stream, nb::handle max_version, nb::handle device, nb::handle copy) const;
  [[nodiscard]] nb::tuple device() const;
  [[nodiscard]] nb::tuple shape() const;
  // Read-only, of host memory. bfloat16 needs the module ml_dtypes.
  [[nodiscard]] nb::object numpy() const;
  [[nodiscard]] nb::dict cuda_array_interface() const;

 private:
  void require_stream(nb::handle stream) const;

  std::shared_ptr<Lease> lease_;
  std::size_t field_;
};

// A lease as Python sees it. Whatever it hands out shares the lease.
class Batch {
 public:
  Batch(Lease&& lease, std::shared_ptr<const Fields> fields);

  void release() noexcept { lease_.reset(); }
  [[nodiscard]] bool is_released() const noexcept { return !lease_; }
  // Throws Error once the batch was released.
  [[nodiscard]] const std::shared_ptr<Lease>& lease() const;

  [[nodiscard]] const Fields& fields() const noexcept { return *fields_; }
  // Throws KeyError that lists the names.
  [[nodiscard]] std::size_t number_of(std::string_view name) const;
  [[nodiscard]] std::optional<std::size_t> find(std::string_view name) const noexcept;

  // A field for Python code: a NumPy array if it is in host memory and NumPy has its type, else a Tensor. Labels are
  // copied.
  [[nodiscard]] nb::object field(std::size_t which) const;
  [[nodiscard]] Tensor tensor(std::size_t which) const { return {lease(), which}; }
  [[nodiscard]] nb::object ids() const;
  [[nodiscard]] nb::object counts(std::size_t which) const;
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
  std::shared_ptr<Lease> lease_;
  std::shared_ptr<const Fields> fields_;
};

void bind_batch(nb::module_& module);

}  // namespace forebay::python
