#pragma once

#include <cstddef>

namespace forebay::testing {

// Counts what `operator new` is asked for by the thread that made it, while it lives. Link ${allocation_counter}, which
// replaces the operators of the whole program; under ThreadSanitizer it counts nothing.
class AllocationCounter {
 public:
  AllocationCounter() noexcept;
  ~AllocationCounter();
  AllocationCounter(const AllocationCounter&) = delete;
  AllocationCounter& operator=(const AllocationCounter&) = delete;

  [[nodiscard]] std::size_t count() const noexcept;
};

// From now on `operator new` throws std::bad_alloc to the calling thread. Under ThreadSanitizer it does not.
void end_allocations() noexcept;

// While it lives, one call of `operator new` of the thread that made it throws std::bad_alloc: the one after so many.
// Not under ThreadSanitizer.
class RefusedAllocation {
 public:
  explicit RefusedAllocation(std::size_t allowed) noexcept;
  ~RefusedAllocation();
  RefusedAllocation(const RefusedAllocation&) = delete;
  RefusedAllocation& operator=(const RefusedAllocation&) = delete;

  [[nodiscard]] bool has_come() const noexcept;
};

}  // namespace forebay::testing
