#include "allocation_counter.hpp"

// ThreadSanitizer has its own operators, so nothing is counted here; other builds count.
namespace forebay::testing {

AllocationCounter::AllocationCounter() noexcept = default;
AllocationCounter::~AllocationCounter() = default;
std::size_t AllocationCounter::count() const noexcept { return 0; }

void end_allocations() noexcept {}

}  // namespace forebay::testing
