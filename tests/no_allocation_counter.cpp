#include "allocation_counter.hpp"

// ThreadSanitizer brings operators of its own: there is nothing to count, and other builds do.
namespace forebay::testing {

AllocationCounter::AllocationCounter() noexcept = default;
AllocationCounter::~AllocationCounter() = default;
std::size_t AllocationCounter::count() const noexcept { return 0; }

void end_allocations() noexcept {}

}  // namespace forebay::testing
