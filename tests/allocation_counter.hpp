#pragma once

#include <cstddef>

namespace forebay::testing {

// Counts calls of `operator new` by the thread that constructed it, during its lifetime. Link
// ${allocation_counter}, which replaces the operators for the whole program; under ThreadSanitizer
// it counts nothing.
class AllocationCounter {
 public:
  AllocationCounter() noexcept;
  ~AllocationCounter();
  AllocationCounter(const AllocationCounter&) = delete;
  AllocationCounter& operator=(const AllocationCounter&) = delete;

  [[nodiscard]] std::size_t count() const noexcept;
};

// From now on `operator new` throws std::bad_alloc on the calling thread (not under
// ThreadSanitizer).
void end_allocations() noexcept;

// During its lifetime, one call of `operator new` by the thread that constructed it throws
// std::bad_alloc: the one after `allowed` successful calls. Not under ThreadSanitizer.
class RefusedAllocation {
 public:
  explicit RefusedAllocation(std::size_t allowed) noexcept;
  ~RefusedAllocation();
  RefusedAllocation(const RefusedAllocation&) = delete;
  RefusedAllocation& operator=(const RefusedAllocation&) = delete;

  [[nodiscard]] bool has_come() const noexcept;
};

}  // namespace forebay::testing
