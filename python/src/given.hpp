#pragma once

#include <memory>

#include <forebay/operation.hpp>
#include <forebay/policy.hpp>
#include <forebay/source_feeder.hpp>

#include "references.hpp"

namespace forebay::python {

// A source of batches that Python keeps (forebay/_reuse.py); the ring holds only the number of
// each, in the field "number". `intake` has begin(), which starts an epoch on the trainer's thread,
// and take(), which advances to the next batch and returns its number, or None at the end of an
// epoch; take() keeps what it raises. REQUIRES: the GIL.
[[nodiscard]] std::shared_ptr<BatchSource> source_of(nb::handle intake, std::shared_ptr<Raised> raised);

// Policies and operations that a program wrote in Python; forebay/policy.py describes the objects.
// What they raise is kept in `raised`. REQUIRES, for all functions below: the GIL.

// `given`: a GivenPolicy or None. decide() is called on the trainer's thread.
void add_policy(PolicyRegistry& policies, const nb::object& given, const std::shared_ptr<Raised>& raised);
// `given`: a sequence of GivenOperation. They are called on decoder threads.
void add_operations(OperationRegistry& operations, const nb::object& given, const std::shared_ptr<Raised>& raised);

void bind_signals(nb::module_& module);

}  // namespace forebay::python
