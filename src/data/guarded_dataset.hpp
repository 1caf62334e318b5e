#pragma once

#include <memory>

#include <forebay/dataset.hpp>

namespace forebay::data {

// Holds a program's own dataset to its contract: whatever its functions throw becomes an error that says which function
// threw what, and for which sample. In read() it is a SampleError, permanent unless the dataset's own was transient; in
// the others an Error, because the run needs their results. Forebay's own datasets keep the contract and are returned
// unchanged: damage that they find in their index must end the run.
[[nodiscard]] std::shared_ptr<const Dataset> guarded(std::shared_ptr<const Dataset> dataset);

// Calls what the feeder will call first, so that an error appears at construction. Throws Error, and ConfigError where
// its samples are no clips and should be, or are and should not be.
void try_out(const Dataset& dataset, const ClipOptions& clip);

}  // namespace forebay::data
