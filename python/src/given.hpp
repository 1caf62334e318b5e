#pragma once

#include <memory>

#include <forebay/operation.hpp>
#include <forebay/policy.hpp>

#include "references.hpp"

namespace forebay::python {

// Policies and operations that a program wrote in Python; forebay/policy.py describes what is given. What they raise is
// kept in `raised`. REQUIRES of all: the GIL.

// `given`: a GivenPolicy, or None. decide() is called on the trainer's thread.
void add_policy(PolicyRegistry& policies, const nb::object& given, const std::shared_ptr<Raised>& raised);
// `given`: a sequence of GivenOperation. They are called on decoder threads.
void add_operations(OperationRegistry& operations, const nb::object& given, const std::shared_ptr<Raised>& raised);

void bind_signals(nb::module_& module);

}  // namespace forebay::python
