#include "allocation_counter.hpp"

#include <cstdlib>
#include <new>

namespace {

thread_local bool counting = false;
thread_local std::size_t allocations = 0;
thread_local bool ended = false;
thread_local std::size_t until_refusal = 0;  // 0: no more refusals

void* allocate(std::size_t bytes, std::size_t alignment) {
  if (counting) ++allocations;
  if (ended) throw std::bad_alloc();
  if (until_refusal > 0 && --until_refusal == 0) throw std::bad_alloc();
  void* const memory = alignment <= alignof(std::max_align_t)
                           ? std::malloc(bytes)
                           : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t bytes) { return allocate(bytes, 0); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
// The library's own calls the first of these, but AddressSanitizer's does not.
void* operator new(std::size_t bytes, const std::nothrow_t& /*tag*/) noexcept {
  try {
    return allocate(bytes, 0);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace forebay::testing {

AllocationCounter::AllocationCounter() noexcept {
  allocations = 0;
  counting = true;
}
AllocationCounter::~AllocationCounter() { counting = false; }
std::size_t AllocationCounter::count() const noexcept { return allocations; }

void end_allocations() noexcept { ended = true; }

RefusedAllocation::RefusedAllocation(std::size_t allowed) noexcept { until_refusal = allowed + 1; }
RefusedAllocation::~RefusedAllocation() { until_refusal = 0; }
bool RefusedAllocation::has_come() const noexcept { return until_refusal == 0; }

}  // namespace forebay::testing
