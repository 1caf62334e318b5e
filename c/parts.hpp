#pragma once

#include <memory>
#include <vector>

#include <forebay/forebay.h>
#include <forebay/communicator.hpp>
#include <forebay/dataset.hpp>
#include <forebay/field.hpp>
#include <forebay/policy.hpp>

// Makes the library's interfaces from callbacks of a program. The structs have been read by
// read_struct() and checked.
namespace forebay::c {

// Throw FOREBAY_ERROR_ARGUMENT if a required member is missing. Ownership is not taken.
void check(const forebay_communicator& communicator);
void check(const forebay_dataset& dataset);
void check(const forebay_policy& policy);

// The caller keeps the context; duplicates own theirs.
[[nodiscard]] std::unique_ptr<Communicator> made_of(const forebay_communicator& communicator);

// A shared owner of a context, which is destroyed when the last owner is gone.
[[nodiscard]] std::shared_ptr<void> owned(void* context, void (*destroy)(void* context));
// `owner` keeps the context alive. `fields`: from fields_of().
[[nodiscard]] std::shared_ptr<const Dataset> made_of(const forebay_dataset& dataset, std::vector<Field> fields,
                                                     std::shared_ptr<void> owner);
// Reads the fields that the struct describes. Throws FOREBAY_ERROR_ARGUMENT.
[[nodiscard]] std::vector<Field> fields_of(const forebay_dataset& dataset);
// Adds the policy under its name. `owner` keeps the context alive.
void add(PolicyRegistry& policies, const forebay_policy& policy, std::shared_ptr<void> owner);

}  // namespace forebay::c
