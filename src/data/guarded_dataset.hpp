#pragma once

#include <memory>

#include <forebay/dataset.hpp>

namespace forebay {

// A program's own dataset behind its contract: whatever its functions throw becomes an error that says which function
// of which sample threw what. In read() that is a SampleError, permanent unless it was one and says otherwise; in the
// others an Error, because the run cannot go on without what they say. Forebay's own datasets keep to the contract and
// stay as they are: the damage that they find in their index must end the run.
[[nodiscard]] std::shared_ptr<const Dataset> guarded(std::shared_ptr<const Dataset> dataset);

// Asks such a dataset what the feeder will ask first, so that an error is one of construction. Throws Error.
void try_out(const Dataset& dataset);

}  // namespace forebay
