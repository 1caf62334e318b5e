#pragma once

#include <memory>

#include <forebay/dataset.hpp>

namespace forebay {

// Holds a program's own dataset to its contract: whatever its functions throw becomes an error that says which function
// of which sample threw what. In read() that is a SampleError, permanent unless it was a transient one; in the others
// an Error, because the run needs their results. Forebay's own datasets keep the contract and are returned as they are:
// damage that they find in their index must end the run.
[[nodiscard]] std::shared_ptr<const Dataset> guarded(std::shared_ptr<const Dataset> dataset);

// Calls what the feeder will call first, so that an error shows at construction. Throws Error.
void try_out(const Dataset& dataset);

}  // namespace forebay
