#pragma once

#include <cstdint>
#include <memory>

#include <forebay/dataset.hpp>

namespace forebay::data {

// Enforces the contract of a program's own dataset: whatever its functions throw becomes an error that says which
// function threw what, and for which sample. In read() it is a SampleError, permanent unless the dataset threw a
// transient one; in the others an Error, because the run needs their results. Forebay's own datasets keep the contract
// and are returned unchanged: damage found in their index must end the run.
[[nodiscard]] std::shared_ptr<const Dataset> guarded(std::shared_ptr<const Dataset> dataset);

// Whether it is -1, for none, or a class of the dataset; a program's may give any other to samples that cannot be read.
[[nodiscard]] bool may_be_label(const Dataset& dataset, std::int64_t label);
// Throws Error, as guarded() does, if a label that a program's dataset gives to a sample is none of its classes. Of a
// sample that cannot be read nobody asks.
void require_class(const Dataset& dataset, std::uint64_t id, std::int64_t label);

// Makes the calls that the feeder will make first, so that errors appear at construction. Throws Error, and ConfigError
// if its samples are clips where images are expected, or the other way round.
void try_out(const Dataset& dataset, const ClipOptions& clip);

}  // namespace forebay::data
