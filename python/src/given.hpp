#pragma once

#include <atomic>
#include <memory>

#include <forebay/operation.hpp>
#include <forebay/policy.hpp>

#include "references.hpp"

namespace forebay::python {

// How far a source of batches is whose epochs the library does not see (forebay/_reuse.py). Any thread.
struct SourceState {
  std::atomic<bool> is_at_end{false};   // the epoch's last batch has come: saving the ready ones would gain nothing
  std::atomic<bool> is_waiting{false};  // it is over here, and other ranks still have batches: nothing comes
  std::atomic<double> paused_s{0};      // time between epochs, in which nothing was wanted of the source
};

// Policies and operations that a program wrote in Python; forebay/policy.py describes what is given. What they raise is
// kept in `raised`. REQUIRES of all: the GIL.

// `given`: a GivenPolicy, the SourceState that the library's own policies are to know of, or None. decide() is called
// on the trainer's thread.
void add_policy(PolicyRegistry& policies, const nb::object& given, const std::shared_ptr<Raised>& raised);
// `given`: a sequence of GivenOperation. They are called on decoder threads.
void add_operations(OperationRegistry& operations, const nb::object& given, const std::shared_ptr<Raised>& raised);

void bind_signals(nb::module_& module);

}  // namespace forebay::python
